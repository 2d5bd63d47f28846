package rules_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// Limits of headers: a file of more lines than minHeaderFile has one, of at most
// maxHeaderLines lines.
const (
	minHeaderFile  = 100
	maxHeaderLines = 10
)

// guarded are the packages that guard a promise, with the packages below them, and
// guardedRoot the files of the root package that do.
var (
	guarded = []string{ // read-only
		"internal/cache/flight", "internal/cache/limit", "internal/cache/ledger", "internal/cache/l2", "internal/wire/pool", "internal/redis/bus", "internal/redis/layout", "internal/redis/tier", "internal/cache/retry",
	}
	guardedRoot = regexp.MustCompile(`^read(_[a-z]+)?\.go$`) // read-only
)

func headerRules() []rule {
	long := strings.Repeat("\n", minHeaderFile)
	header := "// Reads, in their order.\n//\n// States: begun, ended.\n//\n// Invariant: each ends once.\n"
	return []rule{{
		name:  "headers of files that guard a promise",
		check: checkHeaders,
		bad: []map[string]string{
			one("internal/cache/ledger/a.go", "package generation"+long),
			one("internal/cache/ledger/a.go", "package ledger\n\ntype t int\n\n"+header+"type u int"+long),
			one("internal/cache/retry/mux/a.go", "// Package mux shares.\npackage mux"+long),
			one("internal/cache/flight/a.go", "// Invariants hold.\n\npackage flight"+long),
			one("internal/cache/retry/a.go", strings.Repeat("// More.\n", maxHeaderLines)+header+"\npackage retry"+long),
		},
		good: map[string]string{
			"read.go":                         header + "\npackage strata" + long,
			"internal/cache/ledger/a.go":      "// Package ledger is one.\n//\n" + header + "package ledger" + long,
			"internal/cache/ledger/b.go":      "package ledger",
			"internal/cache/ledger/d.go":      "package ledger\n\nimport \"time\"\n\n" + header + "\nvar t time.Time" + long,
			"internal/cache/ledger/c_test.go": "package ledger" + long,
			"set.go":                          "package strata" + long,
			"redis/a.go":                      "package redis" + long,
		},
	}}
}

// checkHeaders looks for a comment above the first declaration, imports aside, that
// tells the invariant of the file. Such a comment also tells the states, if the file
// has any.
func checkHeaders(files []source) (all []finding) {
	for _, s := range files {
		if s.test() || s.lines < minHeaderFile || !s.guards() {
			continue
		}
		if !hasHeader(s) {
			all = append(all, found(s.path, "%s: a comment of at most %d lines above the first declaration tells the purpose of the file, its states, and \"Invariant: …\"", s.path, maxHeaderLines))
		}
	}
	return all
}

// guards reports whether the file guards a promise.
func (s source) guards() bool {
	dir := s.dir()
	if dir == "." {
		return guardedRoot.MatchString(s.path)
	}
	return slices.ContainsFunc(guarded, func(g string) bool { return dir == g || strings.HasPrefix(dir, g+"/") })
}

func hasHeader(s source) bool {
	first := s.file.FileEnd
	for _, d := range s.file.Decls {
		if gen, ok := d.(*ast.GenDecl); !ok || gen.Tok != token.IMPORT {
			first = d.Pos()
			break
		}
	}
	return slices.ContainsFunc(s.file.Comments, func(g *ast.CommentGroup) bool {
		return g.End() < first && s.span(g) <= maxHeaderLines && strings.Contains(g.Text(), "Invariant:")
	})
}
