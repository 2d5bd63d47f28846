package rules_test

import (
	"go/ast"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// checkDocs wants a comment on every exported name outside tests and commands. The
// comment must have the name in it. One comment may stand for a group of constants or
// variables.
func checkDocs(files []source) (all []finding) {
	for _, s := range files {
		if s.test() || s.main() {
			continue
		}
		for _, d := range s.file.Decls {
			for _, n := range undocumented(d) {
				all = append(all, found(s.path+": "+n.Name, "%s: %s wants a comment that names it in the first sentence", s.at(n.Pos()), n.Name))
			}
		}
	}
	return all
}

func undocumented(d ast.Decl) (names []*ast.Ident) {
	if f, ok := d.(*ast.FuncDecl); ok {
		if (f.Recv == nil || ast.IsExported(receiver(f))) && !documented(f.Name, true, f.Doc) {
			names = append(names, f.Name)
		}
		return names
	}
	gen := d.(*ast.GenDecl)
	for _, spec := range gen.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if !documented(spec.Name, true, spec.Doc, gen.Doc) {
				names = append(names, spec.Name)
			}
		case *ast.ValueSpec:
			for _, n := range spec.Names {
				if !documented(n, false, spec.Doc, spec.Comment, gen.Doc) {
					names = append(names, n)
				}
			}
		}
	}
	return names
}

// documented reports whether n needs no comment, or has one. With named, the comment
// must contain the name.
func documented(n *ast.Ident, named bool, docs ...*ast.CommentGroup) bool {
	if !n.IsExported() {
		return true
	}
	return slices.ContainsFunc(docs, func(d *ast.CommentGroup) bool {
		return d != nil && (!named || slices.Contains(strings.Fields(firstSentence(d)), n.Name))
	})
}

// firstSentence returns the text up to the first full stop, without the marks
// that may stand behind a name.
func firstSentence(c *ast.CommentGroup) string {
	first, _, _ := strings.Cut(c.Text(), ". ")
	return strings.NewReplacer(",", " ", ":", " ", ".", " ", "[", " ", "]", " ").Replace(first)
}

// receiver returns the name of the type that f is a method of.
func receiver(f *ast.FuncDecl) string {
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// testFunctions returns the names of all tests, fuzz targets and examples.
func testFunctions(files []source) map[string]bool {
	names := map[string]bool{}
	for _, s := range files {
		if !s.test() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && testName().FindString(f.Name.Name) == f.Name.Name {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}

func testName() *regexp.Regexp { return regexp.MustCompile(`\b(Test|Fuzz|Example|Benchmark)\w+`) }

// checkMutant returns what is wrong with a seeded bug: its first line says what
// users suffer, and each test it names exists in the package it names. tests
// has the names by folder.
func checkMutant(text string, tests map[string]map[string]bool) (errs []string) {
	field := func(name string) string {
		_, rest, _ := strings.Cut("\n"+text, "\n"+name+": ")
		line, _, _ := strings.Cut(rest, "\n")
		return line
	}
	dir := path.Clean(field("package"))
	if first, _, _ := strings.Cut(text, "\n"); !strings.HasSuffix(first, ".") {
		errs = append(errs, "the first line is no sentence that says what users suffer")
	}
	if field("test") == "" {
		errs = append(errs, "no test is named")
	}
	for name := range strings.SplitSeq(field("test"), "|") {
		if name = strings.Trim(name, "^$()"); !tests[dir][name] {
			errs = append(errs, dir+" has no test "+name)
		}
	}
	return errs
}

func TestEverySeededBugNamesTestsOfItsPackage(t *testing.T) {
	tests := map[string]map[string]bool{}
	for _, s := range readTree(t) {
		if tests[s.dir()] == nil {
			tests[s.dir()] = map[string]bool{}
		}
		maps.Copy(tests[s.dir()], testFunctions([]source{s}))
	}
	known := map[string]map[string]bool{"a": {"TestKept": true}}
	for _, bad := range []string{"No stop\npackage: ./a\ntest: TestKept\n", "A.\npackage: ./a\n", "A.\npackage: .\ntest: TestKept\n"} {
		if len(checkMutant(bad, known)) == 0 {
			t.Errorf("the rule accepts %q", bad)
		}
	}
	bugs, err := filepath.Glob("testdata/mutants/*.bug")
	if err != nil || len(bugs) == 0 {
		t.Fatalf("no seeded bugs: %v", err)
	}
	for _, p := range bugs {
		for _, e := range checkMutant(readText(t, p), tests) {
			t.Errorf("%s: %s", p, e)
		}
	}
}
