package rules_test

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestArchitectureNamesFunctionsThatExist(t *testing.T) {
	tree := parseAll(t, map[string]string{
		"get.go":      "package strata\nfunc (c *Cache) Get() {}",
		"flight/a.go": "package flight\nfunc Do() {}",
	})
	exists := func(p string) bool { return p == "a.lua" || p == "get.go" || p == "flight" }
	const good = "## Life of a read\n\n| L1 | `get.go` `Get` → `flight` `Do` → `a.lua` |\n\n## Other\n`get.go` `Gone`\n"
	if errs := checkFunctions(good, tree, exists); len(errs) > 0 {
		t.Errorf("the rule objects to good paths: %v", errs)
	}
	for _, bad := range []string{
		strings.Replace(good, "`Get`", "`Put`", 1),
		strings.Replace(good, "`Do`", "`Get`", 1),
		strings.Replace(good, "`a.lua`", "`b.lua`", 1),
		strings.Replace(good, "`flight`", "", 1),
		"## Other\n",
	} {
		if len(checkFunctions(bad, tree, exists)) == 0 {
			t.Errorf("the rule accepts %q", bad)
		}
	}
	onDisk := func(p string) bool { _, err := os.Stat(p); return err == nil }
	for _, err := range checkFunctions(readText(t, "docs/architecture.md"), readTree(t), onDisk) {
		t.Error("docs/architecture.md: " + err)
	}
}

// ways are the sections that list the functions of one call in their order, and the
// largest numbers of files of the root and of packages in them.
var ways = map[string]struct{ files, packages int }{ // read-only
	"### A cold GetOrLoad that L2 answers": {7, 10},
	"### An Invalidate of one key":         {4, 10},
}

func TestWaysOfCallsAreShort(t *testing.T) {
	folder := func(p string) bool { return !strings.Contains(p, ".") }
	limits := map[string]struct{ files, packages int }{"### A call": {1, 2}}
	for text, good := range map[string]bool{
		"### A call\n\n1. `get.go` `Get` → `internal/cache/l1` `Get`\n":                      true,
		"### A call\n\n`get.go` `internal/cache/l1` `memory` `Get`\n":                        false,
		"### A call\n\n`get.go` `miss.go`\n":                                                 false,
		"### A call\n\n`get.go` `internal/cache/l1/cache.go` `internal/cache/l1/write.go`\n": true,
		"### A call\n\n`get.go` `Get`\n\n### Another\n\n`miss.go` `set.go`\n":                true,
		"### Another\n\n`get.go` `Get`\n":                                                    false,
		"### A call\n\nIt runs.\n":                                                           false,
	} {
		if errs := checkWays(text, limits, folder); len(errs) == 0 != good {
			t.Errorf("%q: %v", text, errs)
		}
	}
	onDisk := func(p string) bool { i, err := os.Stat(p); return err == nil && i.IsDir() }
	for _, err := range checkWays(readText(t, "docs/architecture.md"), ways, onDisk) {
		t.Error("docs/architecture.md: " + err)
	}
}

// checkWays counts the files of the root and the packages that sections of a page
// name. The root counts as a package.
func checkWays(text string, limits map[string]struct{ files, packages int }, folder func(string) bool) (errs []string) {
	for title, most := range limits {
		_, section, _ := strings.Cut("\n"+text, "\n"+title+"\n")
		section, _, _ = strings.Cut(section, "\n#")
		files, packages := map[string]bool{}, map[string]bool{}
		for _, m := range regexp.MustCompile("`([\\w./]+)`").FindAllStringSubmatch(section, -1) {
			switch name := m[1]; {
			case strings.HasSuffix(name, ".go"):
				packages[path.Dir(name)] = true
				if path.Dir(name) == "." {
					files[name] = true
				}
			case strings.ToLower(name) == name && folder(name):
				packages[name] = true
			}
		}
		if len(files) == 0 || len(files) > most.files || len(packages) > most.packages {
			errs = append(errs, fmt.Sprintf("%q names %d files of the root and %d packages, at least 1 and at most %d and %d",
				title, len(files), len(packages), most.files, most.packages))
		}
	}
	return errs
}

// checkFunctions reads the sections "Life of …" of a page, in which a file or
// folder is followed by the functions in it, all between backquotes.
func checkFunctions(text string, files []source, exists func(string) bool) (errs []string) {
	declared, checked := functionsOf(files), 0
	for _, section := range strings.Split("\n"+text, "\n## ")[1:] {
		if !strings.HasPrefix(section, "Life of ") {
			continue
		}
		where := ""
		for _, m := range regexp.MustCompile("`([\\w./]+)`").FindAllStringSubmatch(section, -1) {
			switch name := m[1]; {
			case exists(name):
				where = name
			case strings.ContainsAny(name, "./"):
				errs = append(errs, fmt.Sprintf("there is no %s", name))
			case ofTheFace(name):
			case !slices.Contains(declared[where], name):
				errs = append(errs, fmt.Sprintf("%q does not declare the function %s: name the one that took its place", where, name))
			default:
				checked++
			}
		}
	}
	if checked == 0 {
		errs = append(errs, "no function is named under \"Life of …\"")
	}
	return errs
}

// ofTheFace reports whether a name is one of the public face, which the text uses
// beside the functions.
func ofTheFace(name string) bool {
	return slices.Contains([]string{"ErrNotModified", "Set"}, name)
}

// functionsOf returns the functions and methods of each file, and of each
// folder.
func functionsOf(files []source) map[string][]string {
	all := map[string][]string{}
	for _, s := range files {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				all[s.path] = append(all[s.path], f.Name.Name)
				all[path.Dir(s.path)] = append(all[path.Dir(s.path)], f.Name.Name)
			}
		}
	}
	return all
}
