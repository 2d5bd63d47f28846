package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// program has a function of each form that a bug may edit. It prints 5 1 6 9.
const program = `package main

import "fmt"

type list[T any] struct{ all []T }

func (l *list[T]) add(v ...T) (n int) {
	defer func() { n++ }()
	l.all = append(l.all, v...)
	return len(l.all)
}

func last[T any](l *list[T], back int) (T, bool) {
	return l.all[len(l.all)-1-back], true
}

var total int

func count(n int) {
	total += n
}

const nine = 9

func main() {
	l := &list[int]{}
	fmt.Print(l.add(1, 2, 3, 5)-0)
	v, _ := last(l, 3)
	count(2)
	count(4)
	fmt.Println("", v, total, nine)
}
`

func TestEachVariantIsTheBugOfItsNumber(t *testing.T) {
	root := tree(t, "go.mod", "module m\n\ngo 1.26\n", "main.go", program)
	v := &variants{root: root, put: map[string][]insertion{}}
	want := map[int]string{0: "5 1 6 9"}
	for n, edit := range []string{
		"in: . list.add\n-\tdefer func() { n++ }()\n+\tdefer func() { n += 2 }()\n",
		"in: main.go last\n-\treturn l.all[len(l.all)-1-back], true\n+\tv, ok := last(&list[T]{all: l.all[1:]}, 0)\n+\treturn v, ok\n",
		"in: . count\n-\ttotal += n\n",
		"in: . list.add\n-\tdefer func() { n++ }()\n\nin: . count\n-\ttotal += n\n+\ttotal -= n\n",
		"in: . count\n-\ttotal += n\n+\tunused := n\n",
	} {
		b, err := parse(header + edit)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.add(n+1, b); err != nil {
			t.Fatalf("%q: %v", edit, err)
		}
	}
	want[1], want[3], want[4] = "6 1 6 9", "5 1 0 9", "4 1 -6 9"
	if err := v.write(); err != nil {
		t.Fatal(err)
	}
	for p, these := range v.put {
		for _, i := range these {
			if i.bug == 5 {
				t.Errorf("%s still has the bug that does not compile", p)
			}
		}
	}
	binary := filepath.Join(root, "m")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for n, want := range want {
		run := exec.CommandContext(t.Context(), binary)
		run.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, n))
		out, err := run.CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("bug %d: %s, %v; want %s", n, out, err, want)
		}
	}
}

func TestBugThatIsNoVariantNeedsATreeOfItsOwn(t *testing.T) {
	root := tree(t, "a/a.go", `package a

const one = 1

func init() {
	println(one)
}

func unnamed(int, bool) {
	println(one)
}

func blank(_ int) {
	println(one)
}

func saved() {
	println(recover())
}

func (T) method() {
	println(one)
}

type T struct{}

func signed(n int) {
	println(n)
}
`, "a/script.lua", "return 1\n")
	for _, edit := range []string{
		"in: a one\n-const one = 1\n+const one = 2\n",
		"in: a init\n-\tprintln(one)\n",
		"in: a unnamed\n-\tprintln(one)\n",
		"in: a blank\n-\tprintln(one)\n",
		"in: a saved\n-\tprintln(recover())\n",
		"in: a T.method\n-\tprintln(one)\n",
		"in: a signed\n-func signed(n int) {\n+func signed(n int64) {\n",
		"in: a/script.lua\n-return 1\n+return 2\n",
	} {
		b, err := parse(header + edit)
		if err != nil {
			t.Fatal(err)
		}
		v := &variants{root: root, put: map[string][]insertion{}}
		if err := v.add(1, b); !errors.Is(err, errNoVariant) || len(v.put) > 0 {
			t.Errorf("%q: %v and %v, want an error and no variant", edit, err, v.put)
		}
	}
}

func TestOutcomeOfABug(t *testing.T) {
	failed := errors.New("exit status 1")
	for _, c := range []struct {
		out  string
		err  error
		want string
	}{
		{"PASS\n", nil, "SURVIVED"},
		{"--- FAIL: TestDrop (0.00s)\n", failed, "caught"},
		{"x\npanic: test timed out\n", failed, "caught"},
		{"runtime: goroutine stack exceeds 1000000000-byte limit\nfatal error: stack overflow\n", failed, "caught"},
		{"fatal error: runtime: out of memory\n", failed, "BROKEN"}, // perhaps of the machine
		{"a.go:1: undefined: x\n", failed, "BROKEN"},
	} {
		if got := judge(c.out, c.err); got.result != c.want {
			t.Errorf("%q: %s, want %s", c.out, got.result, c.want)
		}
	}
	// Schedules find a bug if they name a seed. The named test runs only if they do not belong to the bug, or for all.
	for _, c := range []struct {
		all       bool
		schedules string
		want      outcome
		runs      int
	}{
		{false, "--- FAIL\nseed=77\nseed 12", outcome{"caught", "seed 12 of 100 schedules"}, 1},
		{false, "panic: test timed out", outcome{"TIMEOUT", "seed 0 of 100 schedules"}, 1},
		{true, "--- FAIL\nseed=77", outcome{"caught", "seed 77 of 100 schedules, TestDrop"}, 2},
	} {
		runs := 0
		s := &session{all: c.all}
		got := s.test(bug{pkg: "./a", test: "TestDrop", schedules: 100}, func(pkg, test string, args ...string) (string, error) {
			if runs++; test == checker && len(args) == 2 && args[1] == "100" {
				return c.schedules, failed
			}
			return "--- FAIL: " + pkg, failed
		})
		if got != c.want || runs != c.runs {
			t.Errorf("%+v after %d runs, want %+v after %d", got, runs, c.want, c.runs)
		}
	}
}

func TestChosenBugs(t *testing.T) {
	root := tree(t, "testdata/mutants/1-a.bug", header+"in: a Add\n-\tprintln(one)\n", "testdata/mutants/2-b.bug", header+"in: a two\n-\ttwo = 2\n",
		"a/second.go", second, "a/first_test.go", "package a\n", "b/b_test.go", "package b\n")
	t.Chdir(root)
	one, two := "testdata/mutants/1-a.bug", "testdata/mutants/2-b.bug"
	for _, c := range []struct {
		names []string
		shard string
		want  string
	}{
		{nil, "", one + " " + two}, {[]string{"2-b"}, "", two}, {nil, "2/2", two}, {nil, "1/1", one + " " + two}, {nil, "3/3", ""},
	} {
		got, err := chosen(c.names, "", c.shard)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%v, shard %q: %v, %v; want %s", c.names, c.shard, got, err, c.want)
		}
	}
	for _, c := range []struct{ name, shard string }{{"3-c", ""}, {"2-b", "0/2"}, {"2-b", "3/2"}, {"2-b", "half"}} {
		if got, err := chosen([]string{c.name}, "", c.shard); err == nil {
			t.Errorf("%v: %v, want an error", c, got)
		}
	}
	for changed, want := range map[string]int{"a/second.go": 2, one: 1, "a/first_test.go": 2, "b/b_test.go": 0, "a/first.go": 0} {
		if got, err := touched([]string{one, two}, []string{changed}); err != nil || len(got) != want {
			t.Errorf("a change of %s: %v, %v; want %d", changed, got, err, want)
		}
	}
}

func TestAlterationsOfAFunction(t *testing.T) {
	const text = "package a\n\nfunc f(n int) (m int) {\n\tif n > 0 && n != 7 {\n\t\tm = n + 1\n\t\tm++\n\t\tprintln(m)\n\t}\n\tk := m\n\treturn k\n}\n"
	all, err := alterations("a/a.go", text)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, a := range all {
		if a.name != "f" || a.file != "a/a.go" || a.line < 4 || a.line > 7 {
			t.Errorf("%+v", a)
		}
		got[a.old+" -> "+a.text] = true
	}
	want := []string{"n > 0 && n != 7 -> !(n > 0 && n != 7)", "&& -> ||", "> -> >=", "m = n + 1 -> ", "+ -> -", "m++ -> ", "println(m) -> "}
	for _, w := range want {
		if !got[w] {
			t.Errorf("%q is missing in %v", w, got)
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d alterations, want %d", len(all), len(want))
	}
}

// TestAlterationThatNoTestNoticesIsFound has a package whose test looks at one of two functions.
func TestAlterationThatNoTestNoticesIsFound(t *testing.T) {
	root := tree(t, "go.mod", "module m\n\ngo 1.26\n",
		"a/a.go", "package a\n\nfunc Two(n int) int {\n\tn++\n\treturn n + 1\n}\n\nfunc Three(n int) int {\n\tn += 3\n\treturn n\n}\n",
		"a/a_test.go", "package a\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {\n\tif Two(0) != 2 {\n\t\tt.Fatal()\n\t}\n}\n")
	s := &session{source: root, dir: t.TempDir(), files: []string{"go.mod", "a/a.go", "a/a_test.go"}, limit: "60"}
	var out strings.Builder
	if err := s.alter(&out, "a", 100, 2); err != nil {
		t.Fatal(err)
	}
	const want = "a/a.go:9: Three: n += 3 became nothing\na: 2 of 3 alterations noticed\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
	if err := os.WriteFile(filepath.Join(root, "a/a_test.go"), []byte("package a\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) { t.Fatal() }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.alter(&out, "a", 100, 2); err == nil || !strings.Contains(err.Error(), "TestTwo") {
		t.Errorf("%v, want an error that names the test that fails", err)
	}
}

// TestBugsOfAFewPackagesAreTried has a bug for each outcome, as a variant and in a tree of its own.
func TestBugsOfAFewPackagesAreTried(t *testing.T) {
	const edit = "package: ./a\ntest: TestTwo\n\nin: a "
	root := tree(t, "go.mod", "module m\n\ngo 1.26\n",
		"a/a.go", "package a\n\nconst one = 1\n\nfunc Two(n int) int {\n\treturn n + one + 1\n}\n\nfunc Three(n int) int {\n\treturn n + 3\n}\n",
		"a/a_test.go", "package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestTwo(t *testing.T) {\n\tif Two(0) != 2 {\n\t\tt.Fatal()\n\t}\n}\n"+
			"\nfunc TestAlone(t *testing.T) {\n\tif os.Getenv(\""+variable+"\") != \"0\" || Two(0) != 2 {\n\t\tt.Fatal()\n\t}\n\tif _, err := os.Stat(\"seeded_bug.go\"); err == nil {\n\t\tt.Fatal()\n\t}\n}\n",
		"5.bug", "E.\npackage: ./a\ntest: TestAlone\n\nin: a Two\n-\treturn n + one + 1\n+\treturn n + one + 1 + 0\n",
		"1.bug", "A.\n"+edit+"Two\n-\treturn n + one + 1\n+\treturn n + one - 1\n",
		"2.bug", "B.\n"+edit+"one\n-const one = 1\n+const one = 2\n",
		"3.bug", "C.\n"+edit+"Three\n-\treturn n + 3\n+\treturn n + 4\n",
		"4.bug", "D.\n"+edit+"Two\n-\treturn n + one + 1\n+\treturn three\n")
	s := &session{source: root, dir: t.TempDir(), files: []string{"go.mod", "a/a.go", "a/a_test.go"}, limit: "60", numbers: map[string]int{}, binaries: map[string]string{}, failing: map[string]*regexp.Regexp{}}
	var out strings.Builder
	t.Chdir(root)
	err := s.try(&out, []string{"1.bug", "2.bug", "3.bug", "4.bug", "5.bug"}, 1)
	if err == nil || err.Error() != "3 of 5 not caught" {
		t.Errorf("%v, want three that are not caught", err)
	}
	for _, want := range []string{"1 caught TestTwo", "2 caught TestTwo", "3 SURVIVED TestTwo", "4 BROKEN TestTwo", "./a alone --- FAIL: TestAlone", "5 SURVIVED TestAlone"} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " ")+" ", want+" ") {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
