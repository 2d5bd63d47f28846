package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

const unreleasedHead = "## [Unreleased]\n"

// withSection moves the changes under Unreleased into a section of the version.
func withSection(text string, v version, now time.Time) (string, error) {
	head := fmt.Sprintf("## [%s]", strings.TrimPrefix(v.String(), "v"))
	if strings.Contains(text, "\n"+head) {
		return "", fmt.Errorf("CHANGELOG.md has a section of %v", v)
	}
	before, after, ok := strings.Cut(text, unreleasedHead)
	if !ok {
		return "", errors.New("CHANGELOG.md has no section Unreleased")
	}
	section, _, _ := strings.Cut(after, "\n## ")
	if !strings.Contains(section, "\n- ") {
		return "", fmt.Errorf("CHANGELOG.md lists no change for %v under Unreleased", v)
	}
	return before + unreleasedHead + "\n" + head + now.UTC().Format(" - 2006-01-02") + "\n" + after, nil
}
