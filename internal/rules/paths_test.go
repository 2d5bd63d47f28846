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
