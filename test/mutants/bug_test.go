package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const header = "A drop is lost.\npackage: ./a\ntest: TestDrop\nschedules: 100\n"

func TestEverySeededBugApplies(t *testing.T) {
	t.Chdir("../..")
	all, err := filepath.Glob("testdata/mutants/*")
	if err != nil || len(all) == 0 {
		t.Fatalf("no seeded bugs: %v", err)
	}
	for _, file := range all {
		b, err := read(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := b.apply("."); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// tree makes a folder with files, each given as its path and its text.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		p := filepath.Join(root, files[i])
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	first  = "package a\n\n// T is.\ntype T[K any] struct{ n int }\n\nfunc (t *T[K]) Add() {\n\tif t.n > 0 {\n\t\tt.n++\n\t}\n\tt.n++\n}\n"
	second = "package a\n\nconst (\n\tone = 1\n\ttwo = 2\n)\n\nfunc Add() {\n\tprintln(one)\n}\n"
)

func TestEditIsMadeInTheNamedDeclaration(t *testing.T) {
	root := tree(t, "a/first.go", first, "a/second.go", second, "a/x_test.go", "package a\n\nfunc (t *T[K]) Add() {}\n", "b/script.lua", "return 1\nreturn 2\n")
	b, err := parse(header + "\nin: a T.Add\n \tif t.n > 0 {\n-t.n++\n+\t\tt.n--\n...\n-\tt.n++\n+\tt.n += 2\n\nin: a two\n-\ttwo = 2\n+\ttwo = 3\n\nin: b/script.lua\n-return 2\n")
	if err != nil {
		t.Fatal(err)
	}
	files, err := b.apply(root)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"a/first.go":   strings.Replace(strings.Replace(first, "\t\tt.n++", "\t\tt.n--", 1), "\n\tt.n++", "\n\tt.n += 2", 1),
		"a/second.go":  strings.Replace(second, "two = 2", "two = 3", 1),
		"b/script.lua": "return 1\n",
	}
	for p, text := range want {
		if files[p] != text {
			t.Errorf("%s: %q, want %q", p, files[p], text)
		}
	}
	if len(files) != len(want) {
		t.Errorf("%d files changed, want %d", len(files), len(want))
	}
	if b.effect != "A drop is lost." || b.pkg != "./a" || b.test != "TestDrop" || b.schedules != 100 {
		t.Errorf("%+v", b)
	}
}

func TestEditThatFitsNoPlaceOrTwoIsAnError(t *testing.T) {
	root := tree(t, "a/first.go", first, "a/second.go", second, "a/third.go", "package a\n\nfunc Add() {\n\tprintln(one)\n}\n", "c/bad.go", "package // X")
	for edit, want := range map[string]string{
		"in: a T.Add\n-\tt.n++\n":              "two places",
		"in: a T.Add\n-\tt.n--\n":              "no place",
		"in: a T.Sub\n-\tt.n++\n":              "no such declaration",
		"in: a Add\n-\tprintln(one)\n":         "name the file",
		"in: a\n-\tprintln(one)\n":             "without the name",
		"in: gone T.Add\n-\tt.n++\n":           "no such folder",
		"in: a/second.go T.Add\n-\tt.n++\n":    "no such declaration",
		"in: c X\n-x\n":                        "expected",
		"in: a/second.go\n-\tprintln(one)\n-x": "no place",
	} {
		b, err := parse(header + edit)
		if err != nil {
			t.Errorf("%q: %v", edit, err)
			continue
		}
		if _, err := b.apply(root); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", edit, err, want)
		}
	}
}

func TestSeededBugWithoutEffectTestOrEditIsAnError(t *testing.T) {
	const edit = "in: a Add\n-x\n"
	for _, bad := range []string{
		"", "No stop\n" + header + edit, header, header + "in: a Add\n", "A.\npackage: ./a\n" + edit, "A.\ntest: T\n" + edit,
		header + "-x\n", header + "in: a Add\n+x\n", header + edit + "more\n", header + "schedules: many\n" + edit, header + "-x\n" + edit,
	} {
		if b, err := parse(bad); err == nil {
			t.Errorf("%q is taken for %+v", bad, b)
		}
	}
}

func FuzzSeededBug(f *testing.F) {
	f.Add(header + "in: a T.Add\n \tif t.n > 0 {\n-t.n++\n+t.n--\n...\n-x\n+y\n")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := parse(text)
		if err != nil {
			return
		}
		for _, e := range b.edits {
			for _, c := range e.changes {
				if len(c.old) == 0 {
					t.Error("a change has no place")
				}
			}
		}
	})
}
