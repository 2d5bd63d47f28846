package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// copied makes a repository with the files of this one on disk, uncommitted changes
// included. The tags of a test then belong to the copy and not to this repository.
func copied(t *testing.T) string {
	t.Helper()
	own(t)
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files, err := git(t.Context(), top, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	dir := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(files, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(top, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(text))
	}
	do(t, dir, nil, "git", "init", "-q")
	commit(t, dir, nil)
	return dir
}

// program is a whole program in a document.
var program = regexp.MustCompile("(?ms)^```go\n(package main\n.*?)^```$") // read-only

// imports returns a program that imports the packages of modules that others may import.
func imports(t *testing.T, dir string, modules ...module) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("package main\n\nimport (\n")
	for _, m := range modules {
		list := do(t, filepath.Join(dir, m.dir), []string{"GOWORK=off", "GOFLAGS="}, "go", "list", "-f", `{{if ne .Name "main"}}{{.ImportPath}}{{end}}`, "./...")
		for p := range strings.FieldsSeq(list) {
			if !strings.Contains(p+"/", "/internal/") {
				text.WriteString("\t_ \"" + p + "\"\n")
			}
		}
	}
	text.WriteString(")\n\nfunc main() {}\n")
	return text.String()
}

// TestModulesAreFetchedAndBuiltByStrangers releases a copy of this repository, and fetches
// each module, alone and with all others, from an empty module.
func TestModulesAreFetchedAndBuiltByStrangers(t *testing.T) {
	if testing.Short() {
		t.Skip("fetches and compiles the libraries of all modules")
	}
	dir := copied(t)
	v := version{0, 999, 0} // above all versions that come before version 1
	released(t, dir, v.String())
	proxy, modules := proxyOf(t, dir, v)
	if len(modules) < 6 {
		t.Fatalf("%d modules", len(modules))
	}
	cache := do(t, dir, nil, "go", "env", "GOMODCACHE")
	env := []string{
		"GOWORK=off", "GOFLAGS=-modcacherw -trimpath -buildvcs=false", "GONOSUMDB=" + modules[0].path, "GOMODCACHE=" + filepath.Join(t.TempDir(), "modules"),
		// Libraries that this machine has need not be fetched again.
		"GOPROXY=" + proxy + ",file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download")) + "," + do(t, dir, nil, "go", "env", "GOPROXY"),
	}
	stranger := func(t *testing.T, text string, modules ...module) {
		t.Helper()
		at := t.TempDir()
		do(t, at, env, "go", "mod", "init", "example.org/stranger")
		get := []string{"get"}
		for _, m := range modules {
			get = append(get, m.path)
		}
		do(t, at, env, "go", get...)
		write(t, filepath.Join(at, "main.go"), text)
		do(t, at, env, "go", "get", ".") // the sums of the modules that its packages import
		do(t, at, env, "go", "build", "-o", os.DevNull, ".")
		if mod, err := os.ReadFile(filepath.Join(at, "go.mod")); err != nil || strings.Contains(string(mod), "replace") || !strings.Contains(string(mod), modules[0].path+" "+v.String()) {
			t.Errorf("%v: go.mod of the stranger:\n%s", err, mod)
		}
	}
	programs := 0
	for _, m := range modules {
		t.Run(m.path, func(t *testing.T) {
			if strings.HasPrefix(m.dir, "cmd/") {
				do(t, dir, append(env, "GOBIN="+t.TempDir()), "go", "install", m.path+"@"+v.String())
			}
			stranger(t, imports(t, dir, m), m)
			readme, err := os.ReadFile(filepath.Join(dir, m.dir, "README.md"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			for _, p := range program.FindAllStringSubmatch(string(readme), -1) {
				programs++
				stranger(t, p[1], m)
			}
		})
	}
	guide, err := filepath.Glob(filepath.Join(dir, "docs/guide/*.md"))
	if err != nil || len(guide) == 0 {
		t.Fatalf("%d pages: %v", len(guide), err)
	}
	for _, page := range guide {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range program.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(p[1], `"testing"`) {
				continue // beside a program
			}
			t.Run(fmt.Sprint(filepath.Base(page), " ", i), func(t *testing.T) { stranger(t, p[1], modules...) })
		}
	}
	t.Run("together", func(t *testing.T) { stranger(t, imports(t, dir, modules...), modules...) })
	if programs == 0 {
		t.Error("no README has a whole program")
	}
}
