package stage

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// guide is the page about the stage.
const guide = "../../../docs/guide/stage.md"

func TestGuideHasEveryActionAndAScriptThatIsPlayed(t *testing.T) {
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, a := range actions() {
		if !strings.Contains(page, "\n| `"+a.name) {
			t.Errorf("%s has no row for %s", guide, a.name)
		}
	}
	quoted := regexp.MustCompile("`[^`\n]+`")
	for row := range strings.Lines(page) {
		if !strings.HasPrefix(row, "| `") {
			continue
		}
		first, _, _ := strings.Cut(row[1:], "|")
		for _, action := range quoted.FindAllString(first, -1) {
			if _, _, err := parse(strings.Trim(action, "`")); err != nil {
				t.Errorf("%s: %s: %v", guide, action, err)
			}
		}
	}
	_, rest, _ := strings.Cut(page, "\n```\n#")
	script, _, ok := strings.Cut(rest, "\n```\n")
	if s, err := ParseScript([]byte("#" + script)); err != nil || !ok || len(s.Steps) != 2 || !s.HasEnd {
		t.Errorf("%s: the script: %+v, %v", guide, s, err)
	}
}
