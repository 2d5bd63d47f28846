package rules_test

import (
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// acyclic are the packages of which the files can be read in one direction: no
// file uses a name of a file that uses names of it, directly or through others.
var acyclic = []string{"redis", "memcached"} // read-only

func TestFilesFormNoCircle(t *testing.T) {
	bad := parseAll(t, map[string]string{
		"redis/a.go": "package redis\ntype T struct{ f int }\nfunc a() { b() }",
		"redis/b.go": "package redis\nfunc b() { c() }",
		"redis/c.go": "package redis\nfunc c() { println(T{}.f) }",
	})
	if errs := circles("redis", bad); len(errs) != 1 || !strings.Contains(errs[0], "redis/a.go → redis/b.go (b)") {
		t.Errorf("the rule says of a circle: %q", errs)
	}
	good := parseAll(t, map[string]string{
		"redis/a.go":      "package redis\nimport \"io\"\nfunc a(r io.Reader) { b(); r.Read(nil) }",
		"redis/b.go":      "package redis\nfunc b() { _ = T{} }\nfunc (T) a() {}",
		"redis/c.go":      "package redis\ntype T struct{}",
		"redis/c_test.go": "package redis\nfunc c() { a() }",
	})
	if errs := circles("redis", good); len(errs) > 0 {
		t.Errorf("the rule objects to its good example: %q", errs)
	}
	tree := readTree(t)
	for _, dir := range acyclic {
		for _, err := range circles(dir, tree) {
			t.Error(err)
		}
	}
}

// circles returns one line for each circle of files in the package of dir.
func circles(dir string, files []source) (errs []string) {
	uses := usesOf(dir, files)
	done := map[string]bool{}
	var visit func(p string, via []string)
	visit = func(p string, via []string) {
		if i := slices.Index(via, p); i >= 0 {
			errs = append(errs, describe(append(via[i:], p), uses))
			return
		}
		if done[p] {
			return
		}
		for _, next := range slices.Sorted(maps.Keys(uses[p])) {
			visit(next, append(via, p))
		}
		done[p] = true
	}
	for _, s := range files {
		visit(s.path, nil)
	}
	return errs
}

// describe writes a circle with a name that each file uses of the next.
func describe(circle []string, uses map[string]map[string]string) string {
	text := "circle of files: " + circle[0]
	for i, p := range circle[1:] {
		text += fmt.Sprintf(" → %s (%s)", p, uses[circle[i]][p])
	}
	return text
}

// usesOf returns for each file of a package the other files of which it uses a
// name, with one such name. Imported packages are taken to be empty.
func usesOf(dir string, files []source) map[string]map[string]string {
	var parsed []*ast.File
	uses := map[string]map[string]string{}
	for _, s := range files {
		if s.dir() == dir && !s.test() {
			parsed = append(parsed, s.file)
			uses[s.path] = map[string]string{}
		}
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: emptyPackages{}, Error: func(error) {}}
	_, _ = config.Check(dir, files[0].fset, parsed, info)
	home := map[types.Object]string{}
	eachName := func(f func(s source, id *ast.Ident)) {
		for _, s := range files {
			if uses[s.path] != nil {
				ast.Inspect(s.file, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						f(s, id)
					}
					return true
				})
			}
		}
	}
	eachName(func(s source, id *ast.Ident) {
		if o := info.Defs[id]; o != nil {
			home[o] = s.path
		}
	})
	eachName(func(s source, id *ast.Ident) {
		if at := home[info.Uses[id]]; at != "" && at != s.path {
			uses[s.path][at] = id.Name
		}
	})
	return uses
}

// emptyPackages imports packages without names.
type emptyPackages struct{}

// Import implements types.Importer.
func (emptyPackages) Import(p string) (*types.Package, error) {
	pkg := types.NewPackage(p, path.Base(p))
	pkg.MarkComplete()
	return pkg, nil
}
