package rules_test

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// Limits on figures of the product's code. Tests and the modules bench and test
// are left out.
const (
	maxMedianFunc   = 8
	maxProductFunc  = 70
	maxProductFile  = 500
	maxStructFields = 16
	maxCacheFields  = 24
	maxRiddles      = 15 // of comment lines in a thousand
)

// wide are structs that may have more fields: options and counters are lists.
var wide = regexp.MustCompile(`^(Options|Limits|Stats|.*Stats|counts|Config|Info)$`) // read-only

// riddle finds words that stand in the place of a named subject.
var riddle = regexp.MustCompile(`(?i)\b(who|whoever|whom|whose|what|whatever)\b`) // read-only

func figureRules() []rule {
	long := "package strata\nfunc f() {" + strings.Repeat("\n", maxProductFunc) + "}"
	var medium strings.Builder
	medium.WriteString("package strata\n")
	for i := range 3 {
		fmt.Fprintf(&medium, "func f%d() {%s}\n", i, strings.Repeat("\n", maxMedianFunc))
	}
	var fields strings.Builder
	for i := range maxStructFields + 1 {
		fmt.Fprintf(&fields, "f%d int\n", i)
	}
	return []rule{{
		name:  "figures of the code",
		check: checkFigures,
		bad: []map[string]string{
			one("a.go", long),
			one("a.go", medium.String()),
			one("a.go", "package strata\n"+strings.Repeat("\n", maxProductFile)),
			one("a.go", "package strata\ntype s struct {\n"+fields.String()+"}"),
			one("a.go", "package strata\n\n// f tells whoever asks.\nfunc f() {}"),
		},
		good: map[string]string{
			"a.go":       "package strata\ntype counts struct {\n" + fields.String() + "}\nfunc g() {}\nfunc h() {}",
			"a_test.go":  long,
			"bench/a.go": long,
		},
	}}
}

// product reports whether s is code that users run.
func (s source) product() bool {
	m := module(s.path)
	return !s.test() && m != "bench" && m != "test" && !isTestOnly(s.dir())
}

func checkFigures(files []source) (all []finding) {
	var lengths []int
	comments, riddles := 0, 0
	for _, s := range files {
		if !s.product() {
			continue
		}
		if s.lines > maxProductFile {
			all = append(all, found(s.path, "%s: %d lines, at most %d", s.path, s.lines, maxProductFile))
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				lines := s.span(n)
				lengths = append(lengths, lines)
				if lines > maxProductFunc {
					all = append(all, found(s.path+": "+n.Name.Name, "%s: %s has %d lines, at most %d", s.at(n.Pos()), n.Name.Name, lines, maxProductFunc))
				}
			case *ast.TypeSpec:
				all = append(all, checkFields(s, n)...)
			}
			return true
		})
		c, r := countRiddles(s)
		comments, riddles = comments+c, riddles+r
	}
	if slices.Sort(lengths); len(lengths) > 0 && lengths[len(lengths)/2] > maxMedianFunc {
		all = append(all, found("median", "half of all functions have more than %d lines", lengths[len(lengths)/2]))
	}
	if riddles*1000 > maxRiddles*comments {
		all = append(all, found("riddles", "%d of %d comment lines say who or what(ever), at most %d of 1000: name the subject", riddles, comments, maxRiddles))
	}
	return all
}

func checkFields(s source, t *ast.TypeSpec) (all []finding) {
	st, ok := t.Type.(*ast.StructType)
	if !ok || wide.MatchString(t.Name.Name) {
		return nil
	}
	most := maxStructFields
	if t.Name.Name == "Cache" {
		most = maxCacheFields
	}
	if n := st.Fields.NumFields(); n > most {
		all = append(all, found(s.path+": "+t.Name.Name, "%s: %s has %d fields, at most %d", s.at(t.Pos()), t.Name.Name, n, most))
	}
	return all
}

// countRiddles counts the lines of comments, and the lines with a word in the place of
// a named subject.
func countRiddles(s source) (lines, riddles int) {
	for _, g := range s.file.Comments {
		for line := range strings.Lines(g.Text()) {
			if strings.TrimSpace(line) == "" {
				continue
			}
			lines++
			if riddle.MatchString(line) {
				riddles++
			}
		}
	}
	return lines, riddles
}
