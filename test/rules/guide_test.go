package rules_test

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// guide has the pages of the guide, and the names and examples that they may refer to.
type guide struct {
	pages    map[string]string            // path to text
	members  map[string]map[string]string // types of the root package, with the types of their fields
	names    map[string]bool              // names of the root package
	examples map[string]string            // examples and tests, with the text of their files
}

func TestGuideNamesExistingThings(t *testing.T) {
	small := guide{
		members:  map[string]map[string]string{"Options": {"TTL": "", "Limits": "Limits"}, "Limits": {"Lease": ""}},
		names:    map[string]bool{"Options": true, "New": true},
		examples: map[string]string{"ExampleNew": "func ExampleNew() {\n\tc := strata.New(1)\n\tc.Close()\n\tc.Len()\n}"},
	}
	const good = "# Top\n`Options.TTL.Seconds`, `Options.Limits.Lease`, strata.New, `user.TTL`\n```go\nc := strata.New(1)\n\n\tc.Close()\n```\nRuns as `ExampleNew` in [a](../../a_test.go), [top](#top)."
	check := func(page string) []string {
		small.pages = map[string]string{"docs/guide/a.md": page}
		return small.check()
	}
	if errs := check(good); len(errs) > 0 {
		t.Errorf("the rule objects to a good page: %v", errs)
	}
	for _, bad := range []string{
		"`Options.Gone`", "`Options.Limits.Gone`", "strata.Gone", "`ExampleGone`",
		strings.Replace(good, "c.Close()", "c.Open()", 1),
		strings.Replace(good, "c.Close()", "c.Len()", 1),
		strings.Replace(good, "ExampleNew", "no example", 1),
	} {
		if len(check(bad)) == 0 {
			t.Errorf("the rule accepts %q", bad)
		}
	}
	for _, err := range readGuide(t).check() {
		t.Error(err)
	}
}

// runnable finds the names of examples and tests. It is read-only.
var runnable = regexp.MustCompile(`\b(?:Example|Test)\w*`)

// readGuide reads all documents and the tree.
func readGuide(t *testing.T) *guide {
	g := &guide{pages: readPages(t), members: map[string]map[string]string{}, names: map[string]bool{}, examples: map[string]string{}}
	for _, s := range readTree(t) {
		text := ""
		if s.test() {
			text = readText(t, s.path)
		}
		for _, d := range s.file.Decls {
			f, isFunc := d.(*ast.FuncDecl)
			switch {
			case s.test() && isFunc && runnable.MatchString(f.Name.Name):
				g.examples[f.Name.Name] += text
				g.addProgram(t, f.Name.Name, s.dir())
			case !s.test() && s.dir() == ".":
				g.add(d)
			}
		}
	}
	return g
}

// add adds the declarations of d to the names that pages may use.
func (g *guide) add(d ast.Decl) {
	if f, ok := d.(*ast.FuncDecl); ok {
		if f.Recv == nil {
			g.names[f.Name.Name] = true
		} else {
			g.of(receiver(f))[f.Name.Name] = ""
		}
		return
	}
	for _, spec := range d.(*ast.GenDecl).Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, n := range spec.Names {
				g.names[n.Name] = true
			}
		case *ast.TypeSpec:
			g.names[spec.Name.Name] = true
			if st, ok := spec.Type.(*ast.StructType); ok {
				g.addFields(g.of(spec.Name.Name), st)
			}
		}
	}
}

// addProgram adds the files of the program that an example below examples runs.
func (g *guide) addProgram(t *testing.T, example, dir string) {
	if !strings.HasPrefix(dir, "examples/") {
		return
	}
	for _, file := range filesBelow(t, dir, ".go") {
		g.examples[example] += readText(t, file)
	}
}

func (g *guide) addFields(members map[string]string, st *ast.StructType) {
	for _, f := range st.Fields.List {
		for _, n := range f.Names {
			members[n.Name] = receiver(&ast.FuncDecl{Recv: &ast.FieldList{List: []*ast.Field{f}}})
		}
	}
}

// of returns the members of a type.
func (g *guide) of(name string) map[string]string {
	if g.members[name] == nil {
		g.members[name] = map[string]string{}
	}
	return g.members[name]
}

// lacks reports whether dotted begins with a type in members and continues with a
// member that the type does not have.
func (g *guide) lacks(dotted string) bool {
	parts := strings.Split(dotted, ".")
	for at := parts[0]; len(parts) > 1 && g.members[at] != nil; parts = parts[1:] {
		next, ok := g.members[at][parts[1]]
		if !ok {
			return true
		}
		at = next
	}
	return false
}

func (g *guide) check() (errs []string) {
	for p, text := range g.pages {
		for _, err := range g.checkPage(p, text) {
			errs = append(errs, p+": "+err)
		}
	}
	return errs
}

func (g *guide) checkPage(p, text string) (errs []string) {
	if p == "README.md" || path.Dir(p) == "docs/guide" {
		errs = append(errs, g.checkNames(text)...)
	}
	var sources []string
	for _, name := range runnable.FindAllString(text, -1) {
		if source, ok := g.examples[name]; ok {
			sources = append(sources, plain(source))
		} else if strings.HasPrefix(name, "Example") && name != "Example" {
			errs = append(errs, "there is no "+name)
		}
	}
	for _, code := range goBlocks(text) {
		if !isProgram(code) && !slices.ContainsFunc(sources, func(s string) bool { return strings.Contains(s, plain(code)) }) {
			errs = append(errs, "no example or test that the page names has the code\n"+code)
		}
	}
	return errs
}

// checkNames looks for the names of the root package in a text.
func (g *guide) checkNames(text string) (errs []string) {
	for _, m := range regexp.MustCompile(`\bstrata\.([A-Z]\w*)`).FindAllStringSubmatch(text, -1) {
		if !g.names[m[1]] {
			errs = append(errs, "there is no "+m[0])
		}
	}
	for _, m := range regexp.MustCompile("`([A-Z]\\w*(?:\\.\\w+)+)").FindAllStringSubmatch(text, -1) {
		if g.lacks(m[1]) {
			errs = append(errs, "there is no "+m[1])
		}
	}
	return errs
}

// goBlocks returns the blocks of Go code in a page.
func goBlocks(text string) (blocks []string) {
	for _, m := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// isProgram reports whether code is a whole program. Those are run.
func isProgram(code string) bool { return strings.HasPrefix(code, "package main\n") }

// plain returns the lines of code without the spaces around them, and without
// empty ones.
func plain(code string) string {
	var b strings.Builder
	b.WriteString("\n")
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
