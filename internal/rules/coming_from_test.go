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
// docs/guide/coming-from.md with the test that has their code.
func TestCounterpartsOfOtherLibrariesAreCompiled(t *testing.T) {
	const small = "| `Get` | `c.Get(k)`, `x = 1` |\n"
	if errs := checkCounterparts(small, "v := c.Get(k)\nx = 1\n"); len(errs) > 0 {
		t.Errorf("the rule objects to code that is there: %v", errs)
	}
	if errs := checkCounterparts(small, "v := c.Get(k)\n"); len(errs) != 1 {
		t.Errorf("the rule accepts code that is not there: %v", errs)
	}
	page := readPages(t)["docs/guide/coming-from.md"]
	test := readText(t, "coming_from_test.go")
	if n := strings.Count(page, "\n| `"); n < 50 {
		t.Errorf("%d rows, at least 50 expected", n)
	}
	for _, err := range checkCounterparts(page, test) {
		t.Error(err)
	}
}

// checkCounterparts wants each piece of code in the last cell of a row of page in the
// test.
func checkCounterparts(page, test string) (errs []string) {
	for row := range strings.Lines(page) {
		cells := strings.Split(strings.TrimSpace(row), "|")
		if len(cells) != 4 {
			continue
		}
		for _, m := range code.FindAllStringSubmatch(cells[2], -1) {
			if !strings.Contains(test, m[1]) {
				errs = append(errs, fmt.Sprintf("coming_from_test.go: lacks %s", m[1]))
			}
		}
	}
	return errs
}
