package kit_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/testing/kit"
)

// code makes a page of a text in which ”' stands for the quotes around code.
func code(text string) string { return strings.ReplaceAll(text, "'''", "```") }

func TestCommandsAreFoundInBlocksAndInTheText(t *testing.T) {
	page := code("Run `make test` or `go\nvet ./...`, not `go`, `go f(x)`, `gone` or `redo`.\n\n" +
		"'''sh\n# all\ncd bench && go run . # prints\n\nother \\\n  --flag\n'''\n\n" +
		"'''\nmake real\nstrata 5,000 6.30 ms\nresult 1\n'''\n\n    scripts/run -all   # slow\n    at 8s break l2\n")
	commands := kit.Commands(page, []string{"go", "make", "strata", "scripts/"})
	want := []string{"cd bench && go run .", "other    --flag", "make real", "scripts/run -all", "make test", "go vet ./..."}
	if !slices.Equal(commands, want) {
		t.Errorf("found %q, want %q", commands, want)
	}
	got := kit.Steps(`A=1 go test -run '^A B|$' -H "x: y" ./wire 2>err >out || echo no \| head &`)
	if want := [][]string{{"go", "test", "-run", "^A B|$", "-H", "x: y", "./wire"}, {"echo", "no"}, {"head"}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("steps %q, want %q", got, want)
	}
}

func TestProgramsHaveTheNamesThatThePageSays(t *testing.T) {
	page := code("Save this as `main_test.go`:\n\n'''go\npackage main\n'''\n\nText.\n\n'''go\npackage main\n// 2\n'''\n\n'''go\nx := 1\n'''\n")
	got := kit.Programs(page)
	want := []kit.Program{{Name: "main_test.go", Text: "package main\n"}, {Name: "main.go", Text: "package main\n// 2\n"}}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestDocumentsAreRead(t *testing.T) {
	all, err := kit.Read("../../..")
	if err != nil || all["README.md"] == "" || all["docs/guide/README.md"] == "" {
		t.Errorf("%d documents: %v", len(all), err)
	}
}

// failures is a test.TB that collects errors, for a test that expects them.
type failures struct {
	testing.TB
	texts []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

func TestReaderSavesRunsAndCompares(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	page := code("'''sh\ngit clone https://example.org/some/strata\nmkdir hello\ncd hello\ntest -f ../strata/go.mod\n'''\n\n" +
		"Save this as `a.go`:\n\n'''go\npackage main // HOST\n'''\n\n'''sh\ncat a.go\n'''\n\nIt prints:\n\n'''\npackage main // here\n'''\n")
	reader := kit.Reader{Tree: root, Replace: []string{"HOST", "here"}}
	reader.Follow(t, page)

	wrong := failures{TB: t}
	reader.Follow(&wrong, strings.Replace(page, "// here", "// there", 1))
	if len(wrong.texts) != 1 || !strings.Contains(wrong.texts[0], "// there") {
		t.Errorf("wrong output is reported as %q", wrong.texts)
	}
}
