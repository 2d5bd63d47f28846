package rules_test

import (
	"go/ast"
	"go/token"
	"strings"
)

func testRules() []rule {
	return []rule{{
		name:  "tests do not sleep",
		check: checkSleeps,
		bad: []map[string]string{
			one("a_test.go", "package a\nfunc TestA() { time.Sleep(1) }"),
			one("test/a_test.go", "package a\nfunc TestA() { synctest.Test(t, func() {}); time.Sleep(1) }"),
			one("a_test.go", "package a\nfunc wait() { time.Sleep(1) }\nfunc TestA() { synctest.Test(t, func() { wait() }) }\nfunc TestB() { wait() }"),
			one("a_test.go", "package a\nfunc wait() { time.Sleep(1) }"),
			{
				"a_test.go": "package a\nfunc wait() { time.Sleep(1) }\nfunc TestA() { synctest.Test(t, func() { wait() }) }",
				"b_test.go": "package a\nfunc TestB() { g(wait) }",
			},
		},
		good: map[string]string{
			"a_test.go": `package a
				func wait() { time.Sleep(1) }
				func longer() { wait() }
				func body(t *testing.T) { time.Sleep(1) }
				func bubble(f func()) { synctest.Test(t, f) }
				func TestA() { synctest.Test(t, func(t *testing.T) { time.Sleep(1); longer() }) }
				func TestB() { synctest.Test(t, body) }
				func step() { time.Sleep(1); synctest.Wait() }
				func TestC() { bubble(func() { time.Sleep(1) }) }`,
			"b_test.go": `package a
				// steps run in a bubble.
				func steps() []func() { return []func(){ func() { time.Sleep(1) } } }
				func TestD() { f := func() { time.Sleep(1) } // in a bubble
				}`,
			"b.go": "package a\nfunc Pause() { time.Sleep(1) }",
		},
	}, {
		name:  "tests without the race detector are run",
		check: checkRaceless,
		bad:   []map[string]string{one("a_test.go", "//go:build !race\n\npackage a\nfunc TestSmall() {}")},
		good: map[string]string{
			"a_test.go": "//go:build !race\n\npackage a\nfunc TestAllocates() {}\nfunc helper() {}",
			"b_test.go": "//go:build linux\n\npackage a\nfunc TestSmall() {}",
		},
	}, {
		name:  "no timer runs out before it is waited for",
		check: checkZeroTimers,
		bad: []map[string]string{
			one("a.go", "package a\nvar t = time.NewTimer(0)"),
			one("a_test.go", "package a\nvar c = time.After(0)"),
			one("a.go", "package a\nfunc f(t *time.Timer) { t.Reset(0) }"),
		},
		good: map[string]string{"a.go": "package a\nvar t = time.NewTimer(1)\nvar f = time.AfterFunc(0, g)"},
	}}
}

// checkRaceless finds tests that are not built with the race detector, and that the Makefile does not run without
// it: it runs those with Alloc in their names.
func checkRaceless(files []source) (all []finding) {
	for _, s := range files {
		if c := s.file.Comments; len(c) == 0 || !strings.HasPrefix(c[0].List[0].Text, "//go:build !race") {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") && !strings.Contains(f.Name.Name, "Alloc") {
				all = append(all, found(s.path, "%s: %s is run by no target: name it after what it Allocates", s.at(f.Pos()), f.Name.Name))
			}
		}
	}
	return all
}

// checkZeroTimers finds timers without a duration, if the code receives from their
// channel. Such a timer has run out when a goroutine looks at it, and in a synctest
// bubble two goroutines that look at such timers at once crash the race detector
// (golang/go#78156).
func checkZeroTimers(files []source) (all []finding) {
	for _, s := range files {
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			zero, _ := call.Args[0].(*ast.BasicLit)
			if zero == nil || zero.Value != "0" {
				return true
			}
			f, _ := call.Fun.(*ast.SelectorExpr)
			if f != nil && (f.Sel.Name == "Reset" || isCall(n, "time", "NewTimer") || isCall(n, "time", "After")) {
				all = append(all, found(s.path, "%s: a timer of no duration: do at once what it is for, it crashes the race detector in a bubble", s.at(n.Pos())))
			}
			return true
		})
	}
	return all
}

// checkSleeps finds calls of time.Sleep in tests that may run outside a
// bubble. It judges by the text: inside a function literal given to
// synctest.Test (or to a function that calls it), in a function which is used
// from such places only or calls synctest.Wait, or beside a comment with the
// word bubble.
func checkSleeps(files []source) (all []finding) {
	packages := map[string][]source{}
	for _, s := range files {
		if s.test() {
			packages[s.dir()] = append(packages[s.dir()], s)
		}
	}
	for _, pkg := range packages {
		b := &bubbles{pkg: pkg, openers: map[string]bool{}, verdicts: map[string]bool{}}
		b.findOpeners()
		for _, s := range pkg {
			all = append(all, b.sleeps(s)...)
		}
	}
	return all
}

// bubbles knows which functions of a package's tests run in a bubble.
type bubbles struct {
	pkg      []source
	openers  map[string]bool // functions that call synctest.Test
	verdicts map[string]bool
}

func (b *bubbles) findOpeners() {
	for _, s := range b.pkg {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && contains(f, "synctest", "Test") {
				b.openers[f.Name.Name] = true
			}
		}
	}
}

// contains reports whether pkg.name is called anywhere in n.
func contains(n ast.Node, pkg, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		found = found || n != nil && isCall(n, pkg, name)
		return !found
	})
	return found
}

// opens reports whether n is a call that runs its arguments in a bubble.
func (b *bubbles) opens(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	id, ok := call.Fun.(*ast.Ident)
	return isCall(n, "synctest", "Test") || ok && b.openers[id.Name]
}

func (b *bubbles) sleeps(s source) (all []finding) {
	marked := map[int]bool{}
	for _, g := range s.file.Comments {
		for _, c := range g.List {
			if strings.Contains(c.Text, "bubble") {
				line := s.fset.Position(c.Pos()).Line
				marked[line], marked[line+1] = true, true
			}
		}
	}
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && (strings.Contains(f.Doc.Text(), "bubble") || contains(f, "synctest", "Wait")) {
			continue
		}
		b.outside(d, func(n ast.Node) {
			if !isCall(n, "time", "Sleep") || marked[s.fset.Position(n.Pos()).Line] || ok && b.inBubble(f.Name.Name) {
				return
			}
			all = append(all, found(s.path, "%s: time.Sleep: sleep in a synctest bubble, or wait for what is to happen (a comment that says bubble excuses a place the check cannot follow)", s.at(n.Pos())))
		})
	}
	return all
}

// outside calls f for every node of d, except calls that open a bubble and their
// arguments.
func (b *bubbles) outside(d ast.Node, f func(ast.Node)) {
	ast.Inspect(d, func(n ast.Node) bool {
		if n == nil {
			return false
		}
		if b.opens(n) {
			return false
		}
		f(n)
		return true
	})
}

// inBubble reports whether the function is used, and from inside bubbles only.
func (b *bubbles) inBubble(name string) bool {
	if v, ok := b.verdicts[name]; ok {
		return v
	}
	b.verdicts[name] = true // while it is being judged, for recursion
	used, escapes := false, false
	for _, s := range b.pkg {
		for _, d := range s.file.Decls {
			f, isFunc := d.(*ast.FuncDecl)
			if isFunc && f.Name.Name == name {
				continue
			}
			mentions := func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				return ok && id.Name == name && id.Pos() != token.NoPos
			}
			ast.Inspect(d, func(n ast.Node) bool {
				used = used || n != nil && mentions(n)
				return true
			})
			b.outside(d, func(n ast.Node) {
				if mentions(n) && !(isFunc && b.inBubble(f.Name.Name)) {
					escapes = true
				}
			})
		}
	}
	b.verdicts[name] = used && !escapes
	return b.verdicts[name]
}
