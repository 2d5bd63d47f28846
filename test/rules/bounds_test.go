package rules_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// boundsPage has a row for each number of this package that limits the repository.
const boundsPage = "docs/decisions/bounds.md"

// minTried is the number of words that say what was tried to stay below a bound.
const minTried = 8

// TestBoundsAreRaisedForADatedReason compares the numbers of the rules with the page of
// bounds. A bound that follows the code bounds nothing, so the page is the place where a
// raise has to be defended.
func TestBoundsAreRaisedForADatedReason(t *testing.T) {
	const head = "# Bounds\n\n| bound | value | since | tried to stay below |\n|---|---|---|---|\n"
	const tried = "moved the parser out, and still two files were missing"
	good := head + "| `maxA` | 3 | 2026-11-22 | first bound |\n| `maxB` | 5, was 4 | 2026-11-23 | " + tried + " |\n"
	have := map[string]string{"maxA": "3", "maxB": "5"}
	if errs := checkBounds(good, have); len(errs) > 0 {
		t.Errorf("the rule objects to a good page: %v", errs)
	}
	for bad, want := range map[string]string{
		strings.Replace(good, "| 3 |", "| 2 |", 1):           "maxA is 3 in the rules and 2",
		strings.Replace(good, tried, "no time", 1):           "was raised: say",
		strings.Replace(good, "2026-11-23", "yesterday", 1):  "no date",
		strings.Replace(good, "`maxA`", "`maxC`", 1):         "maxA has no row",
		good + "| `maxC` | 3 | 2026-11-22 | first bound |\n": "maxC is no bound",
	} {
		if errs := checkBounds(bad, have); !slices.ContainsFunc(errs, func(e string) bool { return strings.Contains(e, want) }) {
			t.Errorf("%q: the rule says %q, not %q", bad, errs, want)
		}
	}
	bounds := boundsOf(readTree(t))
	if len(bounds) < 20 {
		t.Fatalf("only %d bounds were found", len(bounds))
	}
	for _, err := range checkBounds(readText(t, boundsPage), bounds) {
		t.Errorf("%s: %s", boundsPage, err)
	}
}

// boundsOf returns the constants of this package whose names say that they are bounds,
// and their values as the code has them.
func boundsOf(files []source) map[string]string {
	bounds := map[string]string{}
	name := regexp.MustCompile(`^(max|min)[A-Z]`)
	for _, s := range files {
		if s.dir() != "test/rules" {
			continue
		}
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				if lit, ok := slices.Concat(v.Values, []ast.Expr{nil})[0].(*ast.BasicLit); ok && name.MatchString(v.Names[0].Name) {
					bounds[v.Names[0].Name] = lit.Value
				}
			}
		}
	}
	return bounds
}

// checkBounds compares a page with the bounds of the rules.
func checkBounds(page string, bounds map[string]string) (errs []string) {
	missing := maps.Clone(bounds)
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$")
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		name, since, why := m[1], m[3], m[4]
		value, before, raised := strings.Cut(m[2], ", was ")
		have, ok := bounds[name]
		delete(missing, name)
		switch _, err := time.Parse(time.DateOnly, since); {
		case !ok:
			errs = append(errs, name+" is no bound of the rules: remove its row")
		case have != value:
			errs = append(errs, fmt.Sprintf("%s is %s in the rules and %s on the page: a bound is raised by a row that says why", name, have, value))
		case err != nil:
			errs = append(errs, name+" has no date, as 2026-01-31")
		case raised && len(strings.Fields(why)) < minTried:
			errs = append(errs, fmt.Sprintf("%s was raised: say in %d words or more what was tried to keep it at %s", name, minTried, before))
		}
	}
	for name := range missing {
		errs = append(errs, name+" has no row")
	}
	slices.Sort(errs)
	return errs
}
