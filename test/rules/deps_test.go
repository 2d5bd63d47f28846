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

// room says, for one of the wings below, which other wings or packages its code may import, and
// why. Packages of its own wing, and those of remote and codec, are open to all.
type room struct {
	enter []string
	why   string
}

// wings are the folders of internal, and the packages that users import. A new package
// belongs to the wing that owns it, and needs no row.
var wings = map[string]room{ // read-only
	"internal/observe":   {nil, "everything may tell what happens, so that it knows nothing"},
	"internal/wire":      {[]string{"internal/observe"}, "connections carry any protocol"},
	"internal/redis":     {[]string{"internal/wire", "internal/observe", "internal/cache/entryrules"}, "a tier applies the rules of entries, and knows no cache"},
	"internal/memcached": {[]string{"internal/wire", "internal/observe", "internal/cache/entryrules"}, "a tier applies the rules of entries, and knows no cache"},
	"internal/cache":     {[]string{"internal/observe", "internal/wire/overdue"}, "a cache sees tiers through package remote, and opens no connection"},
	"internal/snapshot":  {[]string{"internal/cache", "internal/observe", "internal/wire/."}, "a snapshot has entries of a cache, and their times"},
	"internal/testing":   {[]string{"."}, "tests may look at everything"},

	"internal/observe/metrics": {[]string{"strata", "internal/observe"}, "the metrics of caches are made of their Stats"},

	".":              {[]string{"memory", "internal/cache", "internal/observe", "internal/snapshot"}, "the cache knows no client: a program without L2 links none"},
	"memory":         {[]string{"internal/cache", "internal/observe"}, "the engine of L1 alone"},
	"remote":         {nil, "what clients and caches agree on"},
	"remote/castier": {[]string{"internal/cache/entryrules", "internal/observe"}, "a tier applies the rules of entries, and knows no cache"},
	"codec":          {[]string{"internal/cache/lossy"}, "codecs know no cache"},
	"redis":          {[]string{"internal/redis", "internal/wire", "internal/observe", "internal/cache/entryrules"}, "each client can be used without a cache"},
	"memcached":      {[]string{"remote/castier", "internal/memcached", "internal/wire", "internal/observe", "internal/cache/entryrules", "internal/cache/limit"}, "each client can be used without a cache; a breaker for each server is the breaker of an L2"},
	"snapshot":       {[]string{"strata", "internal/snapshot", "internal/wire/.", "internal/observe"}, "built around a cache"},
	"admin":          {[]string{"strata", "internal/observe", "internal/snapshot/transfer"}, "built around a cache"},
	"stratahttp":     {[]string{"strata"}, "built around a cache"},
	"stratatest":     {[]string{"strata", "remote/castier", "internal/cache/entryrules", "internal/cache/envelope"}, "what users need for tests links no client"},
	"otel":           {[]string{"strata", "internal/observe"}, "built around a cache and clients"},
	"prometheus":     {[]string{"strata", "internal/observe"}, "built around a cache and clients"},
	"contrib":        {[]string{"internal/redis", "internal/wire", "internal/observe"}, "another client below the tier of Redis"},
	"examples":       {[]string{"strata", "redis", "memcached", "admin", "prometheus", "stratahttp", "stratatest"}, "programs of users: no part of internal"},
	"cmd/strata":     {[]string{"."}, "a program"},
	"bench":          {[]string{"."}, "a program"},
	"test":           {[]string{"."}, "programs of tests"},
}

// open are the packages that every wing may import: the words that all share.
var open = []string{"remote", "codec"} // read-only

// testOnly are the folders that exist for tests.
var testOnly = []string{"internal/testing"} // read-only

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
		name:  "each wing enters the wings of its row",
		check: checkWings,
		bad: []map[string]string{
			one("codec/a.go", `package codec; import _ "github.com/strata-cache/strata/internal/cache/l1"`),
			one("redis/a.go", `package redis; import _ "github.com/strata-cache/strata"`),
			one("redis/a.go", `package redis; import _ "github.com/strata-cache/strata/internal/memcached/roster"`),
			one("stratahttp/a.go", `package stratahttp; import _ "github.com/strata-cache/strata/stratatest"`),
			one("internal/wire/a/a.go", `package a; import _ "github.com/strata-cache/strata/internal/cache/flight"`),
			one("internal/cache/l2/a.go", `package l2; import _ "github.com/strata-cache/strata/internal/wire/pool"`),
			one("snapshot/a.go", `package snapshot; import _ "github.com/strata-cache/strata/internal/wire/pool"`),
			one("internal/observe/a/a.go", `package a; import _ "github.com/strata-cache/strata/internal/wire"`),
			one("internal/redis/tier/a.go", `package tier; import _ "github.com/strata-cache/strata/internal/cache/l2"`),
			one("get.go", `package strata; import _ "github.com/strata-cache/strata/redis"`),
			one("get.go", `package strata; import _ "github.com/strata-cache/strata/internal/testing/fakes"`),
			one("newcomer/a.go", `package newcomer`),
			one("internal/newcomer/a.go", `package newcomer`),
			one("get.go", `package strata; import _ "github.com/strata-cache/strata/newcomer"`),
		},
		good: map[string]string{
			"get.go":                          `package strata; import _ "github.com/strata-cache/strata/internal/cache/l1"`,
			"get_test.go":                     `package strata_test; import _ "github.com/strata-cache/strata/stratatest"`,
			"internal/cache/newcomer/a.go":    `package newcomer; import _ "github.com/strata-cache/strata/internal/observe"`,
			"internal/cache/l1/a.go":          `package l1; import _ "github.com/strata-cache/strata/internal/cache/newcomer"`,
			"internal/redis/tier/a.go":        `package tier; import _ "github.com/strata-cache/strata/internal/cache/entryrules"`,
			"internal/redis/tier/b.go":        `package tier; import _ "github.com/strata-cache/strata/remote"`,
			"stratatest/internal/newcomer.go": `package newcomer; import _ "github.com/strata-cache/strata"`,
			"test/a/a.go":                     `package a; import _ "github.com/strata-cache/strata/internal/testing/netsim"`,
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

// wingOf returns the row that the package in dir belongs to.
func wingOf(dir string) (name string, r room, ok bool) {
	for p := dir; ; p = path.Dir(p) {
		if r, ok := wings[p]; ok && (p != "." || dir == ".") {
			return p, r, true
		}
		if p == "." || p == "/" {
			return "", room{}, false
		}
	}
}

// within reports that dir is folder or lies below it. Everything lies in ".", of the folder "strata"
// only the package of the cache itself does, and of "a/." only the package a.
func within(dir, folder string) bool {
	if folder == "strata" {
		return dir == "."
	}
	if one, alone := strings.CutSuffix(folder, "/."); alone {
		return dir == one
	}
	return folder == "." || dir == folder || strings.HasPrefix(dir, folder+"/")
}

// local returns the folder of an import of this repository.
func local(imported string) (dir string, ok bool) {
	if imported == modulePath {
		return ".", true
	}
	return strings.CutPrefix(imported, modulePath+"/")
}

func isTestOnly(dir string) bool {
	return slices.ContainsFunc(testOnly, func(p string) bool { return within(dir, p) })
}

func imports(s source) []string {
	var all []string
	for _, spec := range s.file.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		all = append(all, p)
	}
	return all
}

func checkWings(files []source) (all []finding) {
	for _, s := range files {
		if s.test() {
			continue
		}
		wing, row, ok := wingOf(s.dir())
		if !ok {
			all = append(all, found(s.dir(), "%s: the package is in no wing: move it, or add a row to wings in test/rules/deps_test.go", s.path))
			continue
		}
		for _, p := range imports(s) {
			dir, ok := local(p)
			if !ok || slices.Contains(open, dir) {
				continue
			}
			theirs, _, known := wingOf(dir)
			may := theirs == wing || slices.ContainsFunc(row.enter, func(w string) bool { return within(dir, w) })
			if !known || !may {
				all = append(all, found(s.path, "%s: %s may not enter %s: %s", s.path, wing, dir, row.why))
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
	named := slices.Concat(slices.Collect(maps.Keys(wings)), testOnly, nestedModules())
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
