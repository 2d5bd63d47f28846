package rules_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The tables in this file are the repository's own rules. Each rule is checked
// against the whole tree, nested modules included, and against small bad
// examples, so that a rule which can no longer fail is noticed.

// exceptions are findings that a rule permits: "rule: path" or "rule: path: name", in
// the words of the rule, with the reason. Keep the list short.
var exceptions = map[string]string{ // read-only
	"no internal names in public declarations: .: Inside":     "it has no fields and methods: packages of this module convert it to a transfer.Parts, and programs only pass it on",
	"no internal names in public declarations: memory: Guard": "it has no fields that programs see: package strata converts it to a guard.Guard",
	"package size: redis": "one server and a cluster, over one connection and many, behind one face: code that needs neither face is in internal/wire and the rooms of internal/redis",
}

// goroutines names every file that may start goroutines, and their owner: the owner's
// Close or end waits for them. Tests, and the modules bench and test, need no entry.
var goroutines = map[string]string{ // read-only
	"internal/observe/callback.go":        "Runner: a caller waits for its function; Wait waits for those that were left, for a bounded time",
	"snapshot/warm.go":                    "reading.end, which waits for it",
	"snapshot/pace.go":                    "awaited.Read waits until the end of its context; a read of the source that goes on is left behind",
	"internal/cache/flight/group.go":      "flight.Group: Close waits for running loads",
	"internal/cache/ledger/link.go":       "ledger.Link: Stop waits for it within its context; it ends when the Bus has stopped",
	"contrib/goredis/link.go":             "goredis.link: ends with its call of go-redis, as many as that has connections; closing the client ends them",
	"stratatest/bus.go":                   "stratatest.Bus: stop waits for the follower's goroutine",
	"internal/wire/pool/open.go":          "Open: waits until 0.1 s after the context; a function of the program that goes on is left behind, and what it opens is closed",
	"internal/testing/servers/process.go": "servers.Process: Kill waits until the process has ended",
	"cmd/strata/hello/restart.go":         "warmByTransfer receives from the server before it returns",
	"cmd/strata/snapshotcmd/source.go":    "a read of the standard input has no other end than that of the process",
	"cmd/strata/demo.go":                  "demoCommand.serve receives from the server before it returns",
	"cmd/strata/loadcmd.go":               "readFile: the opening of a pipe, like a read of it, has no other end than that of the process",
}

// Size limits. A file, function or package that outgrows its limit wants to be
// two.
const (
	maxFileLines     = 600
	maxTestFileLines = 900
	maxFuncLines     = 110
	maxNesting       = 4
	maxPackageFiles  = 12
	maxRootFiles     = 33
	maxPackageLines  = 3260
	maxPackages      = 71   // of the root module
	maxRootLines     = 8200 // it may have twice the files, and is the product
	maxExportedTypes = 34   // of the root package
	maxInterfaces    = 6    // of the root package
	maxOptionsFields = 25
)

// source is one parsed file of the tree.
type source struct {
	path  string // from the root, with slashes
	lines int
	fset  *token.FileSet
	file  *ast.File
}

func (s source) dir() string  { return path.Dir(s.path) }
func (s source) test() bool   { return strings.HasSuffix(s.path, "_test.go") }
func (s source) main() bool   { return s.file.Name.Name == "main" }
func (s source) nested() bool { return slices.Contains(nestedModules(), module(s.path)) }

func (s source) at(p token.Pos) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(p).Line)
}

func (s source) span(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

// nestedModules are the folders with a go.mod of their own. They may require other
// modules. The root module imports none of them.
func nestedModules() []string {
	return []string{"cmd/strata", "contrib/goredis", "contrib/zstd", "otel", "prometheus", "bench", "test"}
}

// module returns the nested module that p lies in, or "" for the root module.
func module(p string) string {
	for _, m := range nestedModules() {
		if strings.HasPrefix(p, m+"/") {
			return m
		}
	}
	return ""
}

// finding is one break of a rule. The key names it in exceptions.
type finding struct{ key, text string }

func found(key, format string, args ...any) finding {
	return finding{key, fmt.Sprintf(format, args...)}
}

// rule is a checker with examples that it must object to, and one that it must
// not. An example is a set of files.
type rule struct {
	name  string
	check func([]source) []finding
	bad   []map[string]string
	good  map[string]string
	left  func([]source) []string // what -v prints about the bounds; nil: nothing
}

func TestRules(t *testing.T) {
	tree := readTree(t)
	used := map[string]bool{}
	for _, r := range slices.Concat(dependencyRules(), sizeRules(), figureRules(), headerRules(), styleRules(), lockRules(), testRules(), urlRules(), nameRules()) {
		t.Run(r.name, func(t *testing.T) {
			for i, bad := range r.bad {
				if len(r.check(parseAll(t, bad))) == 0 {
					t.Errorf("the rule accepts bad example %d: it checks nothing", i)
				}
			}
			if r.good != nil {
				for _, f := range r.check(parseAll(t, r.good)) {
					t.Errorf("the rule objects to its good example: %s", f.text)
				}
			}
			if r.left != nil {
				t.Log("\n" + strings.Join(r.left(tree), "\n"))
			}
			for _, f := range r.check(tree) {
				key := r.name + ": " + f.key
				if _, ok := exceptions[key]; ok {
					used[key] = true
					continue
				}
				t.Error(f.text)
			}
		})
	}
	for key := range exceptions {
		if !used[key] && !t.Failed() {
			t.Errorf("exception %q excuses nothing: remove it", key)
		}
	}
}

// readTree returns every Go file of the repository. Each is parsed once for all rules,
// so that rules must not change the trees.
func readTree(t *testing.T) []source {
	t.Helper()
	atRoot(t)
	all, err := parseTree()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(all)
}

// parseTree is read-only.
var parseTree = sync.OnceValues(func() ([]source, error) {
	files := map[string]string{}
	err := filepath.WalkDir(".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() && p != "." && (name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
			return filepath.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		data, err := os.ReadFile(p)
		files[filepath.ToSlash(p)] = string(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	return parseFiles(files)
})

func parseAll(t *testing.T, files map[string]string) []source {
	t.Helper()
	all, err := parseFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func parseFiles(files map[string]string) (all []source, err error) {
	fset := token.NewFileSet()
	for p, text := range files {
		f, err := parser.ParseFile(fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		all = append(all, source{path: p, lines: strings.Count(text, "\n"), fset: fset, file: f})
	}
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// byPackage groups the files by folder, without tests.
func byPackage(files []source) map[string][]source {
	m := map[string][]source{}
	for _, s := range files {
		if !s.test() {
			m[s.dir()] = append(m[s.dir()], s)
		}
	}
	return m
}

// isCall reports whether n calls pkg.name.
func isCall(n ast.Node, pkg, name string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg && sel.Sel.Name == name
}

// one is an example of one file.
func one(p, text string) map[string]string { return map[string]string{p: text} }
