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
	// Of a thousand lines of comments, in all modules, and of documents.
	maxRiddles  = 8  // say who or what(ever) in the place of a subject
	maxPronouns = 2  // say "that of" in the place of a noun
	maxClauses  = 25 // say "that is" where an adjective does
	// maxMethods is the number of methods of one type.
	maxMethods = 70
)

// wide are structs that may have more fields: options and counters are lists.
var wide = regexp.MustCompile(`^(Options|Limits|Stats|.*Stats|counts|Config|Info)$`) // read-only

// crowded are the types with more methods than maxMethods. Their numbers may only fall.
var crowded = map[string]int{ // read-only
	". Cache": 127, ". read": 78, "internal/cache/l2 Store": 107, "internal/redis/tier Tier": 81, "test/chaos run": 76,
}

// riddle finds words that stand in the place of a named subject.
var riddle = regexp.MustCompile(`(?i)\b(who|whoever|whom|whose|what|whatever)\b`) // read-only

// wordy finds words that make a sentence hard to read, with their bounds.
var wordy = []struct { // read-only
	name  string
	words *regexp.Regexp
	most  int
}{
	{"who or what(ever): name the subject", riddle, maxRiddles},
	{"that of: repeat the noun", regexp.MustCompile(`(?i)\b(that|those) of\b`), maxPronouns},
	{"that is: say it by an adjective", regexp.MustCompile(`(?i)\bthat (is|are|was|were|has|have|had)\b`), maxClauses},
}

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
	var methods strings.Builder
	for i := range maxMethods + 1 {
		fmt.Fprintf(&methods, "func (t *t) f%d() {}\n", i)
	}
	return []rule{{
		name:  "figures of the code",
		check: checkFigures,
		bad: []map[string]string{
			one("a.go", long),
			one("a.go", medium.String()),
			one("a.go", "package strata\n"+strings.Repeat("\n", maxProductFile)),
			one("a.go", "package strata\ntype s struct {\n"+fields.String()+"}"),
		},
		good: map[string]string{
			"a.go":       "package strata\ntype counts struct {\n" + fields.String() + "}\nfunc g() {}\nfunc h() {}",
			"a_test.go":  long,
			"bench/a.go": long,
		},
	}, {
		name:  "plain words in comments",
		check: checkPlain,
		bad: []map[string]string{
			one("a.go", "package strata\n\n// f tells whoever asks.\nfunc f() {}"),
			one("bench/a.go", "package bench\n\n// f is that of g.\nfunc f() {}"),
			one("a_test.go", "package strata\n\n// f has a value that is stale.\nfunc f() {}"),
		},
		good: one("a.go", "package strata\n\n// f has a stale value of g.\nfunc f() {}"),
	}, {
		name:  "methods of a type",
		check: checkMethods,
		bad: []map[string]string{
			one("a.go", "package strata\n"+methods.String()),
			one("a.go", "package strata\nfunc (c *Cache[K]) f() {}"),
		},
	}}
}

// checkPlain counts words in all comments, tests included.
func checkPlain(files []source) (all []finding) {
	for _, p := range wordy {
		lines, hits := 0, 0
		for _, s := range files {
			l, h := countWords(s, p.words)
			lines, hits = lines+l, hits+h
		}
		if hits*1000 > p.most*lines {
			all = append(all, found(p.name, "%d of %d comment lines say %s; at most %d of 1000", hits, lines, p.name, p.most))
		}
	}
	return all
}

// checkMethods counts the methods of each type.
func checkMethods(files []source) (all []finding) {
	n := map[string]int{}
	for _, s := range files {
		if s.test() {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				n[s.dir()+" "+receiver(f)]++
			}
		}
	}
	for t, have := range n {
		switch most, known := crowded[t]; {
		case known && have < most:
			all = append(all, found(t, "%s has %d methods now: say so in crowded, which held it at %d", t, have, most))
		case have > max(most, maxMethods):
			all = append(all, found(t, "%s has %d methods, at most %d", t, have, max(most, maxMethods)))
		}
	}
	return all
}

// product reports whether s is code that users run.
func (s source) product() bool {
	m := module(s.path)
	return !s.test() && m != "bench" && m != "test" && !isTestOnly(s.dir())
}

func checkFigures(files []source) (all []finding) {
	var lengths []int
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
	}
	if slices.Sort(lengths); len(lengths) > 0 && lengths[len(lengths)/2] > maxMedianFunc {
		all = append(all, found("median", "half of all functions have more than %d lines", lengths[len(lengths)/2]))
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

// countWords counts the lines of comments, and the lines with some words.
func countWords(s source, words *regexp.Regexp) (lines, hits int) {
	for _, g := range s.file.Comments {
		for line := range strings.Lines(g.Text()) {
			if strings.TrimSpace(line) == "" {
				continue
			}
			lines++
			if words.MatchString(line) {
				hits++
			}
		}
	}
	return lines, hits
}
