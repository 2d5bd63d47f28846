package rules_test

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/strata-cache/strata"

// levels says which packages know which. A package imports packages of lower
// levels only; on level 0 packages may know each other. A new package is added
// here, at the lowest level that its imports allow.
var levels = map[string]int{ // read-only
	// 0: forms and data structures. They know no cache and no network.
	"codec": 0, "codec/compact": 0, "codec/flate": 0, "codec/gob": 0, "remote": 0,
	"internal/atomicfile": 0, "internal/callback": 0, "internal/changes": 0, "internal/download": 0, "internal/dump": 0, "internal/eject": 0, "internal/endpoint": 0, "internal/entryrules": 0, "internal/envelope": 0, "internal/health": 0, "internal/keyname": 0, "internal/journal": 0, "internal/hotkeys": 0, "internal/asking": 0, "internal/lossy": 0, "internal/overdue": 0, "internal/mcmeta": 0, "internal/measure": 0, "internal/panel": 0, "internal/program": 0, "internal/generation": 0, "internal/grace": 0, "internal/inbuf": 0, "internal/resp": 0, "internal/ring": 0, "internal/sizes": 0, "internal/slots": 0, "internal/spool": 0, "internal/pubsub": 0, "internal/traced": 0, "internal/drops": 0,
	// The eviction policy, below the engine.
	"internal/evict": 0,
	// The times of an entry, beside its value.
	"internal/lives": 0,
	// What all pages have in common, without a cache; the JSON of one of them.
	"internal/page": 0, "internal/adminapi": 0,
	// A command for the documents.
	"internal/picture": 0,
	// Simulated eviction policies, beside the engine.
	"internal/sim": 0,
	// 1: machinery that one side of the border uses.
	"internal/explain": 1, "internal/transfer": 1, "internal/lifetime": 0, "internal/l1": 1, "internal/flight": 1, "internal/gather": 0, "internal/retry": 1, "internal/link": 1, "internal/limit": 1, "internal/netpool": 1, "internal/fleet": 1, "internal/roster": 2, "internal/itemtier": 1, "internal/redistier": 1,
	// 2: the cache's side of what instances share, made of the machinery.
	"internal/l2": 2,
	// The state of the origin, beside it.
	"internal/origin": 2,
	// 3: the cache, and beside it the clients. A client knows what a tier is
	// but not what a cache is, so each can be used without the other.
	".": 3, "memory": 3, "redis": 3, "memcached": 3,
	// 4: what is built around a cache.
	"snapshot": 2, "admin": 4, "stratahttp": 4, "stratatest": 4, "otel": 4, "prometheus": 4,
	// 5: programs, most of them in modules of their own.
	"examples/caches": 5, "examples/files": 5, "examples/service": 5, "cmd/strata": 5, "contrib/goredis": 5, "contrib/zstd": 5, "bench": 5, "test": 5,
}

// testOnly are packages that exist for tests, and for commands that simulate.
var testOnly = []string{ // read-only
	"internal/netsim", "internal/fakeredis", "internal/fakememcached", "internal/history", "internal/servers", "internal/servers/newer", "internal/servers/scraper", "internal/pages", "internal/rules", "internal/coherence", "internal/testkit", "internal/itemtier/model", "internal/itemtier/storetest", "internal/mutants",
}

// forbidden are imports that a package must not bring into a program, directly
// or through others, and why.
var forbidden = map[string]map[string]string{ // read-only
	".":      linkedForNothing,
	"memory": linkedForNothing,
	"codec":  linkedForNothing,
	"remote": linkedForNothing,
}

var linkedForNothing = map[string]string{ // read-only
	"net":            "a program with L1 alone opens no sockets; clients live in redis",
	"net/http":       "handlers live in stratahttp",
	"crypto/tls":     "half a megabyte that only clients need",
	"encoding/gob":   "keeps every method of the program in the binary; codec/gob is there for those who ask for it",
	"html/template":  "the cache draws no pages",
	"compress/flate": "20 KB and tables that are made when the program starts; codec/flate is there for those who ask for it",
}

func dependencyRules() []rule {
	return []rule{{
		name:  "imports go down the levels",
		check: checkLevels,
		bad: []map[string]string{
			one("codec/a.go", `package codec; import _ "github.com/strata-cache/strata/internal/l1"`),
			one("redis/a.go", `package redis; import _ "github.com/strata-cache/strata"`),
			one("stratahttp/a.go", `package stratahttp; import _ "github.com/strata-cache/strata/stratatest"`),
			one("internal/l1/a.go", `package l1; import _ "github.com/strata-cache/strata/internal/flight"`),
			one("get.go", `package strata; import _ "github.com/strata-cache/strata/internal/fakeredis"`),
			one("newcomer/a.go", `package newcomer`),
			one("get.go", `package strata; import _ "github.com/strata-cache/strata/newcomer"`),
		},
		good: map[string]string{
			"get.go":                `package strata; import _ "github.com/strata-cache/strata/internal/l1"`,
			"get_test.go":           `package strata_test; import _ "github.com/strata-cache/strata/stratatest"`,
			"internal/l1/ring/a.go": `package ring`,
			"internal/l1/a.go":      `package l1; import _ "github.com/strata-cache/strata/internal/l1/ring"`,
			"cmd/strata/a/a.go":     `package a; import _ "github.com/strata-cache/strata/internal/netsim"`,
		},
	}, {
		name:  "the root module is the standard library's",
		check: checkStandardLibrary,
		bad: []map[string]string{
			one("get.go", `package strata; import _ "example.org/x"`),
			one("get_test.go", `package strata_test; import _ "example.org/x"`),
			one("get.go", `package strata; import _ "github.com/strata-cache/strata/bench"`),
		},
		good: one("bench/a.go", `package bench; import _ "example.org/x"`),
	}}
}

// level returns the level of the package in dir. A package below one in the
// table belongs to it.
func level(dir string) (n int, parent string, ok bool) {
	for p := dir; ; p = path.Dir(p) {
		if n, ok := levels[p]; ok && (p != "." || dir == ".") {
			return n, p, true
		}
		if p == "." || p == "/" {
			return 0, "", false
		}
	}
}

// local returns the folder of an import of this repository.
func local(imported string) (dir string, ok bool) {
	if imported == modulePath {
		return ".", true
	}
	return strings.CutPrefix(imported, modulePath+"/")
}

func isTestOnly(dir string) bool {
	return slices.ContainsFunc(testOnly, func(p string) bool { return dir == p || strings.HasPrefix(dir, p+"/") })
}

func imports(s source) []string {
	var all []string
	for _, spec := range s.file.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		all = append(all, p)
	}
	return all
}

func checkLevels(files []source) (all []finding) {
	for _, s := range files {
		if s.test() || isTestOnly(s.dir()) {
			continue
		}
		mine, owner, ok := level(s.dir())
		if !ok {
			all = append(all, found(s.dir(), "%s: package has no level: add it to levels in internal/rules/deps_test.go", s.path))
			continue
		}
		for _, p := range imports(s) {
			dir, ok := local(p)
			if !ok {
				continue
			}
			theirs, other, known := level(dir)
			switch {
			case isTestOnly(dir):
				if mine < 5 {
					all = append(all, found(s.path, "%s: imports %s, which is for tests", s.path, dir))
				}
			case !known:
				all = append(all, found(s.path, "%s: imports %s, which has no level: add it to levels in internal/rules/deps_test.go", s.path, dir))
			case theirs > mine || theirs == mine && mine > 0 && other != owner:
				all = append(all, found(s.path, "%s: level %d imports %s of level %d", s.path, mine, dir, theirs))
			}
		}
	}
	return all
}

func checkStandardLibrary(files []source) (all []finding) {
	for _, s := range files {
		if s.nested() {
			continue
		}
		for _, p := range imports(s) {
			dir, ours := local(p)
			first, _, _ := strings.Cut(p, "/")
			if !ours && strings.Contains(first, ".") {
				all = append(all, found(s.path, "%s: imports %s: the root module needs nothing but the standard library; put it in a nested module", s.path, p))
			}
			if ours && module(dir+"/") != "" {
				all = append(all, found(s.path, "%s: imports %s, a module of its own", s.path, p))
			}
		}
	}
	return all
}

func TestPackagesLinkOnlyTheirAllowedImports(t *testing.T) {
	for dir, banned := range forbidden {
		t.Run(dir, func(t *testing.T) {
			deps := dependencies(t, dir)
			if !slices.Contains(deps, "errors") {
				t.Fatalf("the list of dependencies looks wrong: %v", deps)
			}
			for _, d := range deps {
				if why, ok := banned[d]; ok {
					t.Errorf("%s brings %s into every program: %s", dir, d, why)
				}
			}
		})
	}
	for dir, dep := range map[string]string{"codec/gob": "encoding/gob", "codec/flate": "compress/flate"} {
		if !slices.Contains(dependencies(t, dir), dep) {
			t.Errorf("dependencies are not followed: %s was expected to bring %s", dir, dep)
		}
	}
}

// TestRulesNameExistingPackages finds packages that the tables name and the tree does
// not have.
func TestRulesNameExistingPackages(t *testing.T) {
	exists := map[string]bool{}
	for _, s := range readTree(t) {
		for d := s.dir(); ; d = path.Dir(d) {
			if exists[d] = true; d == "." {
				break
			}
		}
	}
	named := slices.Concat(slices.Collect(maps.Keys(levels)), testOnly, nestedModules())
	if exists["nowhere"] || len(named) < 10 {
		t.Fatalf("the rule checks nothing: %v", named)
	}
	for _, p := range named {
		if !exists[p] {
			t.Errorf("%s: the rules name a package that does not exist", p)
		}
	}
}

func dependencies(t *testing.T, dir string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "./"+dir).Output()
	if err != nil {
		t.Fatalf("go list ./%s: %v", dir, err)
	}
	return strings.Fields(string(out))
}

func TestModuleFiles(t *testing.T) {
	needs := regexp.MustCompile(`(?m)^\s*(require|replace|tool|toolchain)\b`)
	for _, bad := range []string{"require example.org/x v1.0.0", "module a\n\nreplace (\n"} {
		if !needs.MatchString(bad) {
			t.Fatalf("the rule accepts %q", bad)
		}
	}
	root := readText(t, "go.mod")
	if line := needs.FindString(root); line != "" {
		t.Errorf("go.mod: %q: the root module needs nothing", line)
	}
	if _, err := os.Stat("go.sum"); err == nil {
		t.Error("go.sum: the root module has nothing to sum")
	}
	for _, m := range append(nestedModules(), ".") {
		file := path.Join(m, "go.mod")
		if !strings.Contains(readText(t, file), "\ngo 1.26.0\n") {
			t.Errorf("%s: all modules state go 1.26.0", file)
		}
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	atRoot(t)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), "\r\n", "\n")
}
