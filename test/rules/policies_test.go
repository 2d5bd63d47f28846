package rules_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPoliciesAreTheSameEverywhere compares the eviction policies of the engine with the
// constants of package memory, and these with the table in its package comment.
func TestPoliciesAreTheSameEverywhere(t *testing.T) {
	const engine = "package evict\nconst (\nA Policy = iota\nB\npolicies\n)"
	const face = "package memory\nconst (\n// A is one.\nA Policy = iota\nB\n)\nconst Pinned = -1"
	const table = "// Package memory has\n//\n//\tA   no lock  any\n//\tB   a lock   the last\npackage memory"
	check := func(engine, face, table string) []string {
		return checkPolicies(parseAll(t, map[string]string{
			"internal/cache/evict/a.go": engine, "memory/policy.go": face, "memory/doc.go": table,
		}))
	}
	if errs := check(engine, face, table); len(errs) > 0 {
		t.Errorf("the rule objects to the same policies: %v", errs)
	}
	for _, bad := range [][]string{
		check(strings.Replace(engine, "B\n", "B\nC\n", 1), face, table),
		check(engine, strings.Replace(face, "B\n", "C\n", 1), table),
		check(engine, face, strings.Replace(table, "//\tB", "//\tC", 1)),
		check("package evict", "package memory", table),
	} {
		if len(bad) == 0 {
			t.Error("the rule accepts different policies")
		}
	}
	for _, err := range checkPolicies(readTree(t)) {
		t.Error(err)
	}
}

func checkPolicies(files []source) (errs []string) {
	engine, face := policiesOf(files, "internal/cache/evict"), policiesOf(files, "memory")
	if len(engine) == 0 || !slices.Equal(engine, face) {
		errs = append(errs, fmt.Sprintf("internal/cache/evict has the policies %v, and memory %v", engine, face))
	}
	for _, s := range files {
		if s.dir() != "memory" || s.test() || s.file.Doc == nil {
			continue
		}
		for _, p := range face {
			if row := regexp.MustCompile(`(?m)^\t` + p + ` +(a|no) lock +\w`); !row.MatchString(s.file.Doc.Text()) {
				errs = append(errs, fmt.Sprintf("%s: the table of policies has no row for %s", s.path, p))
			}
		}
	}
	return errs
}

// policiesOf returns the exported constants of the type Policy in a folder, in their order.
func policiesOf(files []source, dir string) (names []string) {
	for _, s := range files {
		if s.dir() != dir || s.test() {
			continue
		}
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			if of, ok := g.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); !ok || of.Name != "Policy" {
				continue
			}
			for _, spec := range g.Specs {
				if n := spec.(*ast.ValueSpec).Names[0]; n.IsExported() {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}
