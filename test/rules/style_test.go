package rules_test

import (
	"go/ast"
	"go/token"
	"strings"
)

func styleRules() []rule {
	return []rule{{
		name:  "one package comment",
		check: checkPackageComment,
		bad: []map[string]string{
			one("a.go", "package strata"),
			one("a.go", "// Strata is a cache.\npackage strata"),
			{"a.go": "// Package strata is a cache.\npackage strata", "b.go": "// Package strata is one.\npackage strata"},
			one("cmd/strata/a.go", "// Package main runs.\npackage main"),
		},
		good: map[string]string{
			"a.go": "// Package strata is a cache.\npackage strata", "b.go": "package strata",
			"cmd/strata/a.go": "// Command strata is a tool.\npackage main",
		},
	}, {
		name:  "no init",
		check: checkNoInit,
		bad:   []map[string]string{one("a.go", "package strata; func init() {}"), one("test/a_test.go", "package test; func init() {}")},
		good:  one("a.go", "package strata; type t int; func (t) init() {}"),
	}, {
		name:  "no mutable package variable",
		check: checkNoGlobals,
		bad: []map[string]string{
			one("a.go", "package strata; var count int"),
			one("a.go", "package strata; var cache = map[string]int{}"),
			one("a.go", "package strata; var pool = &sync.Pool{}"),
			one("a.go", "package strata; var errs []error"),
			one("a_test.go", "package strata; var last string"),
			one("a.go", "package strata\nvar (\n// a is read-only\na = 1\nb = 2\n)"),
		},
		good: one("a.go", `package strata
			var ErrGone = errors.New("gone")
			var errA, errB = errors.New("a"), fmt.Errorf("b: %w", ErrGone)
			var _ io.Reader = (*T)(nil)
			var update = flag.Bool("update", false, "write golden files")
			//go:embed page.html
			var page string
			// table is read-only.
			var table = [...]int{1, 2}
			var names = map[int]string{ // read-only
				1: "one",
			}`),
	}, {
		name:  "goroutines have owners",
		check: checkGoroutines,
		bad: []map[string]string{
			one("a.go", "package strata; func f() { go g() }"),
			one("redis/a.go", "package redis; func f() { h(func() { go g() }) }"),
		},
		good: map[string]string{
			"a_test.go":  "package strata; func f() { go g() }",
			"bench/a.go": "package bench; func f() { go g() }",
		},
	}, {
		name:  "exported names are documented",
		check: checkDocs,
		bad: []map[string]string{
			one("a.go", "package strata; func F() {}"),
			one("a.go", "package strata; // T is one.\ntype T int\nfunc (T) M() {}"),
			one("a.go", "package strata; type T int"),
			one("a.go", "package strata; const A = 1"),
			one("a.go", "package strata; var ErrA = errors.New(``)"),
			one("a.go", "package strata\n// Stuff.\nfunc F() {}"),
		},
		good: map[string]string{
			"a.go":      "package strata\n// F does.\nfunc F() {}\n// Kinds.\nconst (\nA = 1\nB = 2\n)\ntype t int\nfunc (t) M() {}",
			"b.go":      "package strata\n// A T is one.\ntype T int\n// M does.\nfunc (t *T) M() {}\nconst (\n// X is 1.\nX = 1\n)",
			"a_test.go": "package strata\nfunc TestA() {}",
			"m/m.go":    "package main\nfunc Run() {}",
		},
	}, {
		name:  "nothing left to do",
		check: checkNoTodo,
		bad: []map[string]string{
			one("a.go", "package strata // TO"+"DO: later"),
			one("a_test.go", "package strata /* FIX"+"ME */"),
		},
		good: one("a.go", "package strata // all done"),
	}}
}

func checkPackageComment(files []source) (all []finding) {
	for dir, pkg := range byPackage(files) {
		var have []string
		want := "Package " + pkg[0].file.Name.Name + " "
		if pkg[0].main() {
			want = "Command "
		}
		for _, s := range pkg {
			if s.file.Doc == nil {
				continue
			}
			have = append(have, s.path)
			if text := s.file.Doc.Text(); !strings.HasPrefix(text, want) {
				all = append(all, found(s.path, "%s: the package comment begins with %q", s.path, want))
			}
		}
		if len(have) != 1 {
			all = append(all, found(dir, "package %s: one package comment is wanted, found %d %v", dir, len(have), have))
		}
	}
	return all
}

func checkNoInit(files []source) (all []finding) {
	for _, s := range files {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				all = append(all, found(s.path, "%s: init: importing a package does nothing", s.at(f.Pos())))
			}
		}
	}
	return all
}

func checkNoGlobals(files []source) (all []finding) {
	for _, s := range files {
		marked := readOnlyLines(s)
		for _, d := range s.file.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			whole := hasMark(gen.Doc)
			for _, spec := range gen.Specs {
				v := spec.(*ast.ValueSpec)
				line := s.fset.Position(v.Pos()).Line
				if whole || hasMark(v.Doc) || marked[line] || constant(v) {
					continue
				}
				all = append(all, found(s.path+": "+v.Names[0].Name,
					"%s: package variable %s: make it a field, or mark it with a comment that says read-only", s.at(v.Pos()), v.Names[0].Name))
			}
		}
	}
	return all
}

func hasMark(c *ast.CommentGroup) bool {
	if c == nil {
		return false
	}
	for _, line := range c.List {
		if strings.Contains(line.Text, "read-only") || strings.HasPrefix(line.Text, "//go:embed") {
			return true
		}
	}
	return false
}

func readOnlyLines(s source) map[int]bool {
	lines := map[int]bool{}
	for _, g := range s.file.Comments {
		for _, c := range g.List {
			if strings.Contains(c.Text, "read-only") {
				lines[s.fset.Position(c.Pos()).Line] = true
			}
		}
	}
	return lines
}

// constant reports whether a variable is one that by custom is never set again: an error, a flag of
// a test, or a check that a type implements an interface.
func constant(v *ast.ValueSpec) bool {
	if v.Names[0].Name == "_" {
		return true
	}
	for _, value := range v.Values {
		call, ok := value.(*ast.CallExpr)
		if !ok {
			return false
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, _ := sel.X.(*ast.Ident)
		if !isCall(call, "errors", "New") && !isCall(call, "fmt", "Errorf") && (pkg == nil || pkg.Name != "flag") {
			return false
		}
	}
	return len(v.Values) > 0
}

func checkGoroutines(files []source) (all []finding) {
	starts := map[string]bool{}
	for _, s := range files {
		if m := module(s.path); s.test() || m == "bench" || m == "test" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); !ok {
				return true
			}
			starts[s.path] = true
			if _, ok := goroutines[s.path]; !ok {
				all = append(all, found(s.path, "%s: go statement: add the file to goroutines in test/rules/rules_test.go with the owner that waits, or use sync.WaitGroup.Go", s.at(n.Pos())))
			}
			return true
		})
		if _, ok := goroutines[s.path]; ok && !starts[s.path] {
			all = append(all, found(s.path, "%s: starts no goroutine: remove it from goroutines in test/rules/rules_test.go", s.path))
		}
	}
	return all
}

func checkNoTodo(files []source) (all []finding) {
	for _, s := range files {
		for _, g := range s.file.Comments {
			for _, c := range g.List {
				if strings.Contains(c.Text, "TO"+"DO") || strings.Contains(c.Text, "FIX"+"ME") {
					all = append(all, found(s.path, "%s: do it, or write it into an issue", s.at(c.Pos())))
				}
			}
		}
	}
	return all
}
