package rules_test

import (
	"go/ast"
	"strings"
)

// lockRules keep a mutex in one place: a function with "mu is held" in its doc neither
// locks nor unlocks mu. The function that locks also unlocks.
func lockRules() []rule {
	return []rule{{
		name:  "the caller's mutex",
		check: checkHeldLocks,
		bad: []map[string]string{
			one("a.go", "package strata\n// end ends it. mu is held, and released.\nfunc (c *c) end() { c.mu.Unlock() }"),
			one("a.go", "package strata\n// end ends it. s.mu is held.\nfunc (c *c) end(s *s) { if a { s.mu.Unlock(); s.mu.Lock() } }"),
			one("a.go", "package strata\n// end ends it. mu is\n// held.\nfunc (c *c) end() { defer c.mu.RUnlock() }"),
		},
		good: one("a.go", `package strata
			// end ends it. mu is held.
			func (c *c) end() { c.wg.Go(func() { c.mu.Lock(); c.mu.Unlock() }) }
			// close closes it.
			func (c *c) close() { c.mu.Lock(); c.end(); c.mu.Unlock() }`),
	}}
}

func checkHeldLocks(files []source) (all []finding) {
	for _, s := range files {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil || !strings.Contains(strings.Join(strings.Fields(f.Doc.Text()), " "), "mu is held") {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if _, later := n.(*ast.FuncLit); later {
					return false
				}
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !strings.HasSuffix(sel.Sel.Name, "ock") {
					return true
				}
				if mu, ok := sel.X.(*ast.SelectorExpr); ok && mu.Sel.Name == "mu" {
					all = append(all, found(s.path+": "+f.Name.Name, "%s: %s says that mu is held, and calls %s: leave that to the function that locked it", s.at(call.Pos()), f.Name.Name, sel.Sel.Name))
				}
				return true
			})
		}
	}
	return all
}
