package rules_test

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var write = flag.Bool("write", false, "write the files of the tests into docs/promises.md")

func TestEveryPromiseHasATest(t *testing.T) {
	tests := testFiles(parseAll(t, map[string]string{
		"a_test.go": "package a; func TestKept() {}; func helper() {}; type s int; func (s) TestNot() {}",
		"b_test.go": "package a; func TestKept() {}; func FuzzKept() {}",
	}))
	if len(tests) != 2 || !slices.Equal(tests["TestKept"], []string{"a_test.go", "b_test.go"}) {
		t.Fatalf("found tests %v", tests)
	}
	const head = "# Promises\n\n| id | promise | test | in |\n|---|---|---|---|\n"
	for _, bad := range []string{
		"no table",
		head + "| A1 | says so | | |\n",
		head + "| A1 | says so | `TestBroken` | |\n",
		head + "| A1 | says so | `TestKept`, `TestBroken` | a_test.go, b_test.go |\n",
		head + "| A1 | says so | `FuzzKept` | b_test.go |\n| A1 | twice | `FuzzKept` | b_test.go |\n",
		head + "| A1 | `FuzzKept` | b_test.go |\n",
		head + "| A1 | says so | `FuzzKept` |\n",
		head + "| A1 | says so | `FuzzKept` | a_test.go |\n",
		head + "| A1 | says so | `TestKept` | a_test.go |\n",
	} {
		if errs := checkPromises(bad, tests); len(errs) == 0 {
			t.Errorf("the rule accepts %q", bad)
		}
	}
	good := head + "| A1 | either a\\|b | `TestKept/case` in redis, FuzzKept | a_test.go, b_test.go |\n\n| other | table |\n|---|---|\n| x | y |\n"
	if errs := checkPromises(good, tests); len(errs) > 0 {
		t.Errorf("the rule objects to a good table: %v", errs)
	}
	old := strings.NewReplacer(" in |", " |", "| a_test.go, b_test.go |", "|", "---|---|---|---|", "---|---|---|").Replace(good)
	if got := namePlaces(old, tests); got != good || namePlaces(good, tests) != good {
		t.Errorf("-write makes %q of %q", got, old)
	}

	text, tests := readText(t, "docs/promises.md"), testFiles(readTree(t))
	if *write {
		text = namePlaces(text, tests)
		if err := os.WriteFile("docs/promises.md", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range checkPromises(text, tests) {
		t.Error("docs/promises.md: " + err)
	}
}

// testFiles returns the files that have a test, a fuzz target or an example of each name.
func testFiles(files []source) map[string][]string {
	names := map[string][]string{}
	for _, s := range files {
		for name := range testFunctions([]source{s}) {
			names[name] = append(names[name], s.path)
		}
	}
	return names
}

// placesOf returns the last cell of a promise with these tests.
func placesOf(cell string, tests map[string][]string) string {
	var all []string
	for _, name := range testName().FindAllString(cell, -1) {
		all = append(all, tests[name]...)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// promiseCells returns the cells of a row of a table.
func promiseCells(line string) []string {
	cells := strings.Split(strings.Trim(strings.TrimSpace(strings.ReplaceAll(line, `\|`, "/")), "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// namePlaces returns text with the files of all tests in the last column.
func namePlaces(text string, tests map[string][]string) string {
	row := regexp.MustCompile(`^(\|(?:\\\||[^|])*\|(?:\\\||[^|])*\|(?:\\\||[^|])*\|).*`)
	var out strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		cells := promiseCells(line)
		first := ""
		if m := row.FindStringSubmatch(line); m != nil {
			first = m[1]
		}
		switch {
		case strings.HasPrefix(line, "| id | promise | test |"):
			inside = true
			line = first + " in |\n"
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside && strings.Trim(line, "|-: \n") == "":
			line = first + "---|\n"
		case inside && len(cells) >= 3:
			line = first + " " + placesOf(cells[2], tests) + " |\n"
		}
		out.WriteString(line)
	}
	return out.String()
}

// checkPromises reads the tables with the columns id, promise, test and in: the files of
// the tests.
func checkPromises(text string, tests map[string][]string) (errs []string) {
	seen := map[string]bool{}
	inside, tables := false, 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		cells := promiseCells(line)
		switch {
		case slices.Equal(cells, []string{"id", "promise", "test", "in"}):
			inside = true
			tables++
			continue
		case !inside || strings.Trim(line, "|-: ") == "":
			continue
		case len(cells) != 4:
			errs = append(errs, line+": four columns are wanted; go test ./test/rules -run Promise -write fills the last")
			continue
		}
		if id := cells[0]; id == "" || seen[id] {
			errs = append(errs, line+": the id is missing or used twice")
		}
		seen[cells[0]] = true
		named := testName().FindAllString(cells[2], -1)
		if len(named) == 0 {
			errs = append(errs, cells[0]+": no test is named")
		}
		for _, name := range named {
			if len(tests[name]) == 0 {
				errs = append(errs, cells[0]+": there is no "+name)
			}
		}
		if want := placesOf(cells[2], tests); cells[3] != want {
			errs = append(errs, cells[0]+": the tests are in "+want+"; go test ./test/rules -run Promise -write says so")
		}
	}
	if tables == 0 {
		errs = append(errs, "there is no table with the columns id, promise, test, in")
	}
	return errs
}
