package rules_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

func sizeRules() []rule {
	long := strings.Repeat("\n", maxFileLines+1)
	many := map[string]string{}
	for i := range maxPackageFiles + 1 {
		many[fmt.Sprintf("redis/f%d.go", i)] = "package redis"
	}
	rootMany := map[string]string{}
	for i := range maxRootFiles + 1 {
		rootMany[fmt.Sprintf("f%d.go", i)] = "package strata"
	}
	crowd := map[string]string{"bench/a.go": "package bench", "test/a/a.go": "package a"}
	for i := range maxPackages + 1 {
		crowd[fmt.Sprintf("p%d/a.go", i)] = "package p"
	}
	heavy := map[string]string{}
	for i := range 6 {
		heavy[fmt.Sprintf("redis/f%d.go", i)] = "package redis" + strings.Repeat("\n", maxFileLines-1)
	}
	var face, interfaces, fields strings.Builder
	for i := range maxExportedTypes + 1 {
		fmt.Fprintf(&face, "type T%d int\n", i)
		fmt.Fprintf(&fields, "F%d, G%d int\n", i, i)
	}
	for i := range maxInterfaces + 1 {
		fmt.Fprintf(&interfaces, "type T%d interface{ M() }\n", i)
	}
	return []rule{{
		name:  "file size",
		check: checkFileSize,
		bad: []map[string]string{
			one("a.go", "package strata"+long),
			one("a_test.go", "package strata"+long+long),
			one("bench/a.go", "package bench"+long),
		},
		good: map[string]string{"a_test.go": "package strata" + long, "b.go": "package strata"},
	}, {
		name:  "function size",
		check: checkFuncSize,
		bad: []map[string]string{
			one("a.go", "package strata\nfunc f() {"+strings.Repeat("\n", maxFuncLines)+"}"),
			one("a.go", "package strata\nvar f = func() {"+strings.Repeat("\n", maxFuncLines)+"}"),
		},
		good: one("a.go", "package strata\nfunc f() {"+strings.Repeat("\n", maxFuncLines-1)+"}"),
	}, {
		name:  "nesting",
		check: checkNesting,
		bad: []map[string]string{
			one("a.go", "package strata; func f() { for { if a { for { switch { default: if b { } } } } } }"),
			one("a.go", "package strata; func f() { if a { if a { if a { if a { } else { if b { } } } } } }"),
			one("a.go", "package strata; func f() { select { default: for range x { if a { for { g(func() { if b { } }) } } } } }"),
		},
		good: one("a.go", "package strata; func f() { for { if a { for { if b { } else if c { } else { } } } } }"),
	}, {
		name:  "package size",
		check: checkPackageSize,
		left:  leftInPackages,
		bad:   []map[string]string{many, rootMany, heavy},
		good:  map[string]string{"a.go": "package strata", "a_test.go": "package strata" + long + long + long + long + long},
	}, {
		name:  "packages of the root module",
		check: checkPackages,
		bad:   []map[string]string{crowd},
		good:  map[string]string{"a.go": "package strata", "a_test.go": "package strata_test", "b/b_test.go": "package b", "bench/c/c.go": "package c"},
	}, {
		name:  "face of the root package",
		check: checkFace,
		bad: []map[string]string{
			one("a.go", "package strata\n"+face.String()),
			one("a.go", "package strata\n"+interfaces.String()),
			one("a.go", "package strata\ntype Options struct {\n"+fields.String()+"}"),
		},
		good: map[string]string{
			"a.go":      "package strata\ntype hidden interface{ M() }",
			"a_test.go": "package strata\n" + face.String(),
			"b/b.go":    "package b\n" + face.String(),
		},
	}}
}

func checkFileSize(files []source) (all []finding) {
	for _, s := range files {
		limit := maxFileLines
		if s.test() {
			limit = maxTestFileLines
		}
		if s.lines > limit {
			all = append(all, found(s.path, "%s: %d lines, at most %d", s.path, s.lines, limit))
		}
	}
	return all
}

func checkFuncSize(files []source) (all []finding) {
	for _, s := range files {
		ast.Inspect(s.file, func(n ast.Node) bool {
			name := "function literal"
			switch f := n.(type) {
			case *ast.FuncDecl:
				name = f.Name.Name
			case *ast.FuncLit:
			default:
				return true
			}
			if lines := s.span(n); lines > maxFuncLines {
				all = append(all, found(s.path+": "+name, "%s: %s has %d lines, at most %d", s.at(n.Pos()), name, lines, maxFuncLines))
			}
			return true
		})
	}
	return all
}

// checkNesting counts statements that hold blocks. An else-if stands beside
// its if; a function literal stands where it is written.
func checkNesting(files []source) (all []finding) {
	for _, s := range files {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if n := nesting(f.Body, 0); n > maxNesting {
				all = append(all, found(s.path+": "+f.Name.Name, "%s: %s is nested %d deep, at most %d", s.at(f.Pos()), f.Name.Name, n, maxNesting))
			}
		}
	}
	return all
}

func nesting(root ast.Node, depth int) int {
	deepest := depth
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil || n == root {
			return true
		}
		switch n := n.(type) {
		case *ast.IfStmt:
			deepest = max(deepest, nesting(n.Body, depth+1))
			if n.Else != nil {
				below := depth + 1
				if _, ok := n.Else.(*ast.IfStmt); ok {
					below = depth
				}
				deepest = max(deepest, nesting(&ast.BlockStmt{List: []ast.Stmt{n.Else}}, below))
			}
			return false
		case *ast.ForStmt:
			deepest = max(deepest, nesting(n.Body, depth+1))
		case *ast.RangeStmt:
			deepest = max(deepest, nesting(n.Body, depth+1))
		case *ast.SwitchStmt:
			deepest = max(deepest, nesting(n.Body, depth+1))
		case *ast.TypeSwitchStmt:
			deepest = max(deepest, nesting(n.Body, depth+1))
		case *ast.SelectStmt:
			deepest = max(deepest, nesting(n.Body, depth+1))
		default:
			return true
		}
		return false
	})
	return deepest
}

// packageSize is the size of a package, and how large it may be.
type packageSize struct {
	dir                                string
	files, mostFiles, lines, mostLines int
}

// packageSizes returns the sizes of all packages: first the one with the fewest lines left.
func packageSizes(files []source) (all []packageSize) {
	for dir, pkg := range byPackage(files) {
		p := packageSize{dir, len(pkg), maxPackageFiles, 0, maxPackageLines}
		if dir == "." {
			p.mostFiles, p.mostLines = maxRootFiles, maxRootLines
		}
		for _, s := range pkg {
			p.lines += s.lines
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b packageSize) int {
		return cmp.Or(cmp.Compare(a.mostLines-a.lines, b.mostLines-b.lines), cmp.Compare(a.dir, b.dir))
	})
	return all
}

func checkPackageSize(files []source) (all []finding) {
	for _, p := range packageSizes(files) {
		if p.files > p.mostFiles {
			all = append(all, found(p.dir, "package %s: %d files, at most %d", p.dir, p.files, p.mostFiles))
		}
		if p.lines > p.mostLines {
			all = append(all, found(p.dir, "package %s: %d lines, at most %d", p.dir, p.lines, p.mostLines))
		}
	}
	return all
}

// checkPackages counts the packages of the root module, with the packages that only tests use.
func checkPackages(files []source) []finding {
	packages := map[string]bool{}
	for _, s := range files {
		if module(s.path) == "" {
			packages[s.dir()] = true
		}
	}
	if len(packages) <= maxPackages {
		return nil
	}
	return []finding{found(".", "%d packages in the root module, at most %d: a new one needs an owner whose package it cannot be a file of", len(packages), maxPackages)}
}

// leftInPackages says how many files and lines each package may have more.
func leftInPackages(files []source) (lines []string) {
	for _, p := range packageSizes(files) {
		lines = append(lines, fmt.Sprintf("%3d files and %5d lines are left in %s", p.mostFiles-p.files, p.mostLines-p.lines, p.dir))
	}
	return lines
}

func checkFace(files []source) (all []finding) {
	types, interfaces := 0, 0
	for _, s := range byPackage(files)["."] {
		for _, d := range s.file.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				t, ok := spec.(*ast.TypeSpec)
				if !ok || !t.Name.IsExported() {
					continue
				}
				types++
				if _, ok := t.Type.(*ast.InterfaceType); ok {
					interfaces++
				}
				if st, ok := t.Type.(*ast.StructType); ok && t.Name.Name == "Options" && st.Fields.NumFields() > maxOptionsFields {
					all = append(all, found("Options", "%s: Options has %d fields, at most %d", s.at(t.Pos()), st.Fields.NumFields(), maxOptionsFields))
				}
			}
		}
	}
	if types > maxExportedTypes {
		all = append(all, found("types", "the root package exports %d types, at most %d", types, maxExportedTypes))
	}
	if interfaces > maxInterfaces {
		all = append(all, found("interfaces", "the root package exports %d interfaces, at most %d", interfaces, maxInterfaces))
	}
	return all
}
