package rules_test

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maxNames bounds the names that each public package exports: types, functions, methods,
// fields, constants and variables, as go doc -all lists them. Fewer names are less to learn and less
// to keep. `go test ./test/rules -run TestExportedNames -v` prints the counts.
var maxNames = map[string]int{ // read-only
	".":               356,
	"admin":           14,
	"admin/api":       231,
	"codec":           47,
	"codec/compact":   2,
	"codec/flate":     1,
	"codec/gob":       2,
	"contrib/goredis": 20,
	"contrib/zstd":    1,
	"memcached":       132,
	"memory":          92,
	"otel":            23,
	"otel/producer":   5,
	"prometheus":      22,
	"redis":           165,
	"remote":          175,
	"remote/castier":  55,
	"snapshot":        82,
	"stratahttp":      1,
	"stratatest":      65,
}

// hidden reports whether an import path is of a package that other modules cannot import.
func hidden(imported string) bool {
	dir, ok := local(imported)
	return ok && strings.Contains("/"+dir+"/", "/internal/")
}

// public reports whether s is part of the face of a package that other modules import.
func (s source) public() bool {
	return !s.test() && !s.main() && !hidden(modulePath+"/"+s.dir()) && !isTestOnly(s.dir()) &&
		!slices.Contains([]string{"bench", "test", "cmd/strata"}, module(s.path)) && !strings.HasPrefix(s.path, "examples/")
}

func nameRules() []rule {
	imports := "package strata\nimport \"github.com/strata-cache/strata/internal/cache/l1\"\n"
	return []rule{{
		name:  "no internal names in public declarations",
		check: checkLeaks,
		bad: []map[string]string{
			one("a.go", imports+"func F(l1.Cache) {}"),
			one("a.go", imports+"func F() (_ []*l1.Cache) { return nil }"),
			one("a.go", imports+"type T struct{}\nfunc (T) M(map[string]l1.Cache) {}"),
			one("a.go", imports+"type T = l1.Cache"),
			one("a.go", imports+"type T l1.Cache"),
			one("a.go", imports+"type T struct { *l1.Cache }"),
			one("a.go", imports+"type T struct { F func() l1.Cache }"),
			one("a.go", imports+"type T interface { M() l1.Cache }"),
			one("a.go", imports+"type T[K l1.Key] struct{}"),
			one("a.go", imports+"var V l1.Cache"),
			one("a.go", imports+"var Err = l1.Err"),
			one("a.go", imports+"const C, D = 1, l1.Size"),
			one("a.go", imports+"type T struct { F [l1.Size]int }"),
			one("a.go", "package strata\nimport x \"github.com/strata-cache/strata/internal/cache/l1\"\nfunc F(x.Cache) {}"),
			one("otel/a.go", strings.Replace(imports, "package strata", "package otel", 1)+"func F(l1.Cache) {}"),
		},
		good: map[string]string{
			"a.go":                   imports + "type T struct { f l1.Cache }\ntype t = l1.Cache\nfunc (T) m(l1.Cache) {}\nfunc (t) M(l1.Cache) {}\nfunc F() { l1.New() }\nvar v = l1.New()",
			"a_test.go":              imports + "func F(l1.Cache) {}",
			"internal/cache/l1/a.go": "package l1\nimport \"github.com/strata-cache/strata/internal/cache/evict\"\nfunc F(evict.Policy) {}",
			"cmd/strata/a.go":        strings.Replace(imports, "package strata", "package main", 1) + "func F(l1.Cache) {}",
		},
	}}
}

// checkLeaks finds names of internal packages in declarations that users read.
func checkLeaks(files []source) (all []finding) {
	for _, s := range files {
		if !s.public() {
			continue
		}
		inside := map[string]bool{}
		for _, spec := range s.file.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			name := path.Base(p)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if hidden(p) {
				inside[name] = true
			}
		}
		for name, of := range exported(s) {
			for _, n := range of {
				ast.Inspect(n, func(n ast.Node) bool {
					sel, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					if id, ok := sel.X.(*ast.Ident); ok && inside[id.Name] {
						all = append(all, found(s.dir()+": "+name, "%s: %s is public and names %s.%s, which users cannot import", s.at(n.Pos()), name, id.Name, sel.Sel.Name))
					}
					return true
				})
			}
		}
	}
	return all
}

// exported returns the public declarations of a file by their names, each with the parts
// of it that users read.
func exported(s source) map[string][]ast.Node {
	all := map[string][]ast.Node{}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if of := receiverOf(d); d.Name.IsExported() && (of == "" || ast.IsExported(of)) {
				all[strings.TrimPrefix(of+"."+d.Name.Name, ".")] = []ast.Node{d.Type}
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				maps.Copy(all, exportedOf(spec))
			}
		}
	}
	return all
}

// exportedOf is exported for types, constants and variables.
func exportedOf(spec ast.Spec) map[string][]ast.Node {
	all := map[string][]ast.Node{}
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for i, id := range spec.Names {
			if !id.IsExported() {
				continue
			}
			all[id.Name] = []ast.Node{}
			if spec.Type != nil {
				all[id.Name] = append(all[id.Name], spec.Type)
			} else if i < len(spec.Values) {
				all[id.Name] = append(all[id.Name], spec.Values[i])
			}
		}
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			break
		}
		parts := []ast.Node{}
		if spec.TypeParams != nil {
			parts = append(parts, spec.TypeParams)
		}
		switch t := spec.Type.(type) {
		case *ast.StructType:
			addMembers(all, spec.Name.Name, t.Fields)
		case *ast.InterfaceType:
			addMembers(all, spec.Name.Name, t.Methods)
		default:
			parts = append(parts, t)
		}
		all[spec.Name.Name] = parts
	}
	return all
}

// addMembers adds the public fields of a struct, or the methods of an interface. An embedded
// type belongs to the type itself.
func addMembers(all map[string][]ast.Node, of string, members *ast.FieldList) {
	for i, f := range members.List {
		if len(f.Names) == 0 {
			all[fmt.Sprintf("%s.(embedded %d)", of, i)] = []ast.Node{f.Type}
		}
		for _, id := range f.Names {
			if id.IsExported() {
				all[of+"."+id.Name] = []ast.Node{f.Type}
			}
		}
	}
}

// receiverOf returns the name of the type of a method, or "".
func receiverOf(d *ast.FuncDecl) (name string) {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// countNames counts the names that each public package exports.
func countNames(files []source) map[string]int {
	counts := map[string]int{}
	for _, s := range files {
		if !s.public() {
			continue
		}
		counts[s.dir()] += 0
		for name := range exported(s) {
			if !strings.Contains(name, "embedded") {
				counts[s.dir()]++
			}
		}
	}
	return counts
}

// TestExportedNames keeps the number of exported names from growing unseen.
func TestExportedNames(t *testing.T) {
	example := map[string]string{
		"a.go":          "package strata\ntype T struct { A, B int; c int; x }\ntype u struct { D int }\nfunc (T) M() {}\nfunc (T) m() {}\nfunc (u) N() {}\nfunc F() {}\nconst C, d = 1, 2\nvar V int\ntype I interface { M() }",
		"a_test.go":     "package strata\nfunc F2() {}",
		"internal/b.go": "package internal\nfunc F() {}",
		"b/b.go":        "package b",
	}
	if got := countNames(parseAll(t, example)); got["."] != 9 || len(got) != 2 {
		t.Fatalf("the count is wrong: %v, want 9 in one package, and one without", got)
	}
	counts := countNames(readTree(t))
	sum := 0
	for _, dir := range slices.Sorted(maps.Keys(counts)) {
		n, most := counts[dir], maxNames[dir]
		sum += n
		t.Logf("%4d  %s", n, dir)
		if n > most {
			t.Errorf("%s exports %d names, at most %d", dir, n, most)
		} else if n < most {
			t.Errorf("%s exports %d names: lower its bound, which is %d", dir, n, most)
		}
	}
	t.Logf("%4d  all", sum)
	for dir := range maxNames {
		if _, ok := counts[dir]; !ok {
			t.Errorf("%s has a bound and does not exist", dir)
		}
	}
}
