package rules_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// code finds the pieces of code in a cell of a table.
var code = regexp.MustCompile("`([^`]+)`") // read-only

// TestCounterpartsOfOtherLibrariesAreCompiled compares the tables of
// docs/guide/coming-from.md and docs/guide/coming-from-memory.md with the test of their
// code.
func TestCounterpartsOfOtherLibrariesAreCompiled(t *testing.T) {
	const small = "| `Get` | `c.Get(k)`, `x = 1` |\n"
	if errs := checkCounterparts(small, "v := c.Get(k)\nx = 1\n"); len(errs) > 0 {
		t.Errorf("the rule objects to code that is there: %v", errs)
	}
	if errs := checkCounterparts(small, "v := c.Get(k)\n"); len(errs) != 1 {
		t.Errorf("the rule accepts code that is not there: %v", errs)
	}
	test := readText(t, "coming_from_test.go")
	for _, page := range []string{"docs/guide/coming-from.md", "docs/guide/coming-from-memory.md"} {
		text := readText(t, page)
		if n := strings.Count(text, "\n| `"); n < 40 {
			t.Errorf("%s: %d rows, at least 40 expected", page, n)
		}
		for _, err := range checkCounterparts(text, test) {
			t.Errorf("%s: %s", page, err)
		}
	}
}

// checkCounterparts returns an error for each piece of code, in the last cell of a row of a table
// on page, that test does not have. Another rule looks up the names of metrics.
func checkCounterparts(page, test string) (errs []string) {
	for row := range strings.Lines(page) {
		cells := strings.Split(strings.TrimSpace(row), "|")
		if len(cells) != 4 {
			continue
		}
		for _, m := range code.FindAllStringSubmatch(cells[2], -1) {
			if !strings.HasPrefix(m[1], "strata_") && !strings.Contains(test, m[1]) {
				errs = append(errs, fmt.Sprintf("coming_from_test.go: lacks %s", m[1]))
			}
		}
	}
	return errs
}
