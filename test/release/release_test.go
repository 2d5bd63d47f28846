package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// shop is a repository with a library, a module beside it, a program that needs both, and
// a module without releases.
var shop = map[string]string{ // read-only
	"go.mod":           "module github.com/example/shop\n\ngo 1.25.0\n",
	"shop.go":          "// Package shop sells.\npackage shop\n\n// Price is what a thing costs.\nfunc Price(thing string) int { return len(thing) }\n",
	"CHANGELOG.md":     "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- `shop`: prices.\n",
	"extra/go.mod":     "module github.com/example/shop/extra\n\ngo 1.25.0\n\nrequire github.com/example/shop v0.0.0\n\nreplace github.com/example/shop => ..\n",
	"extra/extra.go":   "// Package extra sells more.\npackage extra\n\nimport \"github.com/example/shop\"\n\n// Twice is two prices.\nfunc Twice(thing string) int { return 2 * shop.Price(thing) }\n",
	"cmd/till/go.mod":  "module github.com/example/shop/cmd/till\n\ngo 1.25.0\n\nrequire (\n\tgithub.com/example/shop v0.0.0 // indirect\n\tgithub.com/example/shop/extra v0.0.0\n)\n\nreplace (\n\tgithub.com/example/shop => ../..\n\tgithub.com/example/shop/extra => ../../extra\n)\n",
	"cmd/till/main.go": "package main\n\nimport \"github.com/example/shop/extra\"\n\nfunc main() { println(extra.Twice(\"tea\")) }\n",
	"bench/go.mod":     "module github.com/example/shop/bench\n\ngo 1.25.0\n\nrequire github.com/example/shop v0.0.0\n\nreplace github.com/example/shop => ..\n\nreplace example.org/other => ../other\n",
}

// TestMain gives git a name, and no configuration of the machine.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "release-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		config := filepath.Join(dir, "gitconfig")
		text := "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n"
		if err := errors.Join(os.WriteFile(config, []byte(text), 0o600), os.Setenv("GIT_CONFIG_GLOBAL", config), os.Setenv("GIT_CONFIG_NOSYSTEM", "1")); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

// own skips a test where no release can be made.
func own(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	if runtime.GOOS == "windows" {
		t.Skip("scripts/release needs bash, and URLs of folders that begin with a slash")
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// do runs a program in a folder, and wants it to succeed.
func do(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files to a checkout and commits all of it.
func commit(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	do(t, dir, nil, "git", "add", "-A")
	do(t, dir, nil, "git", "commit", "-q", "-m", "change")
}

// checkout makes a repository of the shop.
func checkout(t *testing.T) string {
	t.Helper()
	own(t)
	dir := t.TempDir()
	do(t, dir, nil, "git", "init", "-q")
	commit(t, dir, shop)
	return dir
}

// all is everything in a checkout that a release may change.
func all(t *testing.T, dir string) string {
	t.Helper()
	return do(t, dir, nil, "git", "for-each-ref") + "\n" + do(t, dir, nil, "git", "status", "--porcelain", "-b")
}

// refused wants a release to be refused with a text in one line, and to change nothing.
func refused(t *testing.T, dir, version, text string) {
	t.Helper()
	before := all(t, dir)
	err := run(t.Context(), dir, version, true, io.Discard)
	if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want %q", err, text)
	}
	if after := all(t, dir); after != before {
		t.Errorf("a release that was refused has changed\n%s\nto\n%s", before, after)
	}
}

func released(t *testing.T, dir, version string) {
	t.Helper()
	if err := run(t.Context(), dir, version, true, io.Discard); err != nil {
		t.Fatal(err)
	}
}

func TestReleaseRefusesADirtyTree(t *testing.T) {
	t.Parallel()
	for what, file := range map[string]string{"changed": "shop.go", "new": "extra/new.go", "ignored by no rule": "notes.txt"} {
		t.Run(what, func(t *testing.T) {
			dir := checkout(t)
			write(t, filepath.Join(dir, file), "package shop\n")
			refused(t, dir, "v0.1.0", "the tree is dirty: 1 files are not committed")
		})
	}
}

func TestReleaseRefusesATagThatExists(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"v0.1.0", "extra/v0.1.0", "cmd/till/v0.1.0"} {
		t.Run(tag, func(t *testing.T) {
			dir := checkout(t)
			do(t, dir, nil, "git", "tag", tag)
			refused(t, dir, "v0.1.0", "the tag "+tag+" exists")
		})
	}
	t.Run("later", func(t *testing.T) {
		dir := checkout(t)
		do(t, dir, nil, "git", "tag", "extra/v0.10.0")
		refused(t, dir, "v0.9.0", "v0.9.0 is not above the tag extra/v0.10.0")
	})
	t.Run("bench/v0.1.0", func(t *testing.T) { // not released
		dir := checkout(t)
		do(t, dir, nil, "git", "tag", "bench/v0.1.0")
		released(t, dir, "v0.1.0")
	})
}

func TestReleaseRefusesACheckoutWithoutHistory(t *testing.T) {
	t.Parallel()
	origin := checkout(t)
	for what, bad := range map[string]struct {
		dir  func(t *testing.T) string
		text string
	}{
		"no git": {func(t *testing.T) string {
			dir := t.TempDir()
			for name, text := range shop {
				write(t, filepath.Join(dir, name), text)
			}
			return dir
		}, "has no git history"},
		"no commit": {func(t *testing.T) string {
			dir := t.TempDir()
			do(t, dir, nil, "git", "init", "-q")
			return dir
		}, "has no git history: no commit"},
		"a part": {func(t *testing.T) string {
			commit(t, origin, map[string]string{"later.go": "package shop\n"})
			dir := filepath.Join(t.TempDir(), "part")
			do(t, origin, nil, "git", "clone", "-q", "--depth", "1", "file://"+filepath.ToSlash(origin), dir)
			return dir
		}, "git fetch --unshallow"},
		"a folder": {func(*testing.T) string { return filepath.Join(origin, "extra") }, "not the top"},
	} {
		t.Run(what, func(t *testing.T) {
			err := run(t.Context(), bad.dir(t), "v0.1.0", true, io.Discard)
			if err == nil || !strings.Contains(err.Error(), bad.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, bad.text)
			}
		})
	}
}

func TestReleaseRefusesLinesThatImportersWouldNeed(t *testing.T) {
	t.Parallel()
	for file, line := range map[string]string{
		"go.mod":          "replace example.org/fork => example.org/mended v1.0.0",
		"extra/go.mod":    "replace example.org/fork v1.0.0 => ../fork",
		"cmd/till/go.mod": "exclude example.org/fork v1.0.0",
	} {
		t.Run(file, func(t *testing.T) {
			dir := checkout(t)
			commit(t, dir, map[string]string{file: shop[file] + "\n" + line + "\n"})
			refused(t, dir, "v0.1.0", file+": importers of the module would need the line")
		})
	}
	t.Run("a module that is not released", func(t *testing.T) {
		dir := checkout(t)
		commit(t, dir, map[string]string{"extra/go.mod": strings.Replace(shop["extra/go.mod"], "v0.0.0\n", "v0.0.0\n\nrequire github.com/example/shop/bench v0.0.0\n", 1)})
		refused(t, dir, "v0.1.0", "requires a module that is not released")
	})
}

func TestReleaseRefusesAnAPIBreakWithoutAMajorStep(t *testing.T) {
	t.Parallel()
	dir := checkout(t)
	if _, err := execute(t.Context(), t.TempDir(), []string{"GOBIN=" + t.TempDir(), "GOFLAGS=", "GOWORK=off"}, "go", "install", apidiff); err != nil {
		t.Skipf("the comparison of APIs cannot be fetched: %v", err)
	}
	released(t, dir, "v0.1.0")
	change := func(line string, changes map[string]string) {
		log, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
		if err != nil {
			t.Fatal(err)
		}
		changes["CHANGELOG.md"] = strings.Replace(string(log), unreleasedHead, unreleasedHead+"\n- "+line+"\n", 1)
		commit(t, dir, changes)
	}
	change("more", map[string]string{"more.go": "package shop\n\n// More is new.\nfunc More() {}\n", "internal/a/a.go": "package a\n\nfunc A() {}\n"})
	released(t, dir, "v0.1.1")
	change("inside", map[string]string{"internal/a/a.go": "package a\n"})
	released(t, dir, "v0.1.2")

	change("less", map[string]string{
		"extra/extra.go":   "// Package extra sells more.\npackage extra\n\nimport \"github.com/example/shop\"\n\n// Double is two prices.\nfunc Double(thing string) int { return 2 * shop.Price(thing) }\n",
		"cmd/till/main.go": "package main\n\nimport \"github.com/example/shop/extra\"\n\nfunc main() { println(extra.Double(\"tea\")) }\n",
	})
	refused(t, dir, "v0.1.3", `github.com/example/shop/extra breaks the API of extra/v0.1.2, and v0.1.3 may not: 1 changes, the first is "Twice: removed"`)
	released(t, dir, "v0.2.0")
	change("one", map[string]string{"shop.go": shop["shop.go"]})
	released(t, dir, "v1.0.0")
	change("another", map[string]string{
		"shop.go":          "// Package shop sells.\npackage shop\n\n// Price is what a thing costs.\nfunc Price(thing string) (int, error) { return len(thing), nil }\n",
		"extra/extra.go":   "// Package extra sells more.\npackage extra\n\n// Double is two prices.\nfunc Double(thing string) int { return 2 * len(thing) }\n",
		"cmd/till/main.go": "package main\n\nfunc main() { }\n",
	})
	refused(t, dir, "v1.1.0", "github.com/example/shop breaks the API of v1.0.0, and v1.1.0 may not")
	refused(t, dir, "v2.0.0", "modules of major version 2 need paths that end in /v2")
}

func TestReleaseRefusesWhatItCannotName(t *testing.T) {
	t.Parallel()
	dir := checkout(t)
	for _, v := range []string{"", "0.1.0", "v0.1", "v0.1.0-rc.1", "v01.0.0", "v0.1.0\n", "-write"} {
		refused(t, dir, v, "is not a version of the form v1.2.3")
	}
	for text, log := range map[string]string{
		"has a section of v0.1.0":    shop["CHANGELOG.md"] + "\n## [0.1.0] - 2026-01-02\n",
		"has no section Unreleased":  "# Changelog\n\n## [0.0.1]\n\n- a\n",
		"lists no change for v0.1.0": "# Changelog\n\n## [Unreleased]\n\n### Added\n\n## [0.0.1]\n\n- a\n",
	} {
		commit(t, dir, map[string]string{"CHANGELOG.md": log})
		refused(t, dir, "v0.1.0", text)
	}
}

// TestReleaseThatFailsAtTheEndLeavesNoTag: another process has made a tag or a
// commit in between.
func TestReleaseThatFailsAtTheEndLeavesNoTag(t *testing.T) {
	t.Parallel()
	for what, meanwhile := range map[string]func(t *testing.T, dir string){
		"a tag":    func(t *testing.T, dir string) { do(t, dir, nil, "git", "tag", "cmd/till/v0.1.0") },
		"a commit": func(t *testing.T, dir string) { commit(t, dir, map[string]string{"more.go": "package shop\n"}) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := checkout(t)
			r := &repository{dir: dir, version: version{0, 1, 0}}
			if err := r.readModules(t.Context()); err != nil {
				t.Fatal(err)
			}
			p, err := r.prepare(t.Context(), t.TempDir(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			meanwhile(t, dir)
			before := all(t, dir)
			if err := r.publish(t.Context(), p); err == nil {
				t.Error("published")
			}
			if after := all(t, dir); after != before {
				t.Errorf("a release that failed has changed\n%s\nto\n%s", before, after)
			}
		})
	}
}

// proxyOf returns the URL of a module proxy with the tagged modules of a checkout, and the
// modules.
func proxyOf(t *testing.T, dir string, v version) (url string, modules []module) {
	t.Helper()
	r := &repository{dir: dir, version: v}
	if err := r.readModules(t.Context()); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(t.TempDir(), "cache")
	for _, m := range r.modules {
		if _, err := r.download(t.Context(), m, dir, cache); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download")), r.modules
}

func TestReleasedModulesAreFetchedFromTheirTags(t *testing.T) {
	t.Parallel()
	dir := checkout(t)
	before := all(t, dir)
	var told strings.Builder
	if err := run(t.Context(), dir, "v0.1.0", false, &told); err != nil {
		t.Fatal(err)
	}
	if after := all(t, dir); after != before || !strings.Contains(told.String(), "tag cmd/till/v0.1.0") {
		t.Errorf("a dry run has changed\n%s\nto\n%s\nand told:\n%s", before, after, told.String())
	}
	released(t, dir, "v0.1.0")
	at := do(t, dir, nil, "git", "rev-parse", "HEAD~1")
	if got := strings.Fields(do(t, dir, nil, "git", "for-each-ref", "--format=%(refname:strip=2) %(objectname)", "refs/tags")); strings.Join(got, " ") !=
		strings.Join([]string{"cmd/till/v0.1.0", at, "extra/v0.1.0", at, "v0.1.0", at}, " ") {
		t.Errorf("tags: %q", got)
	}
	if log := do(t, dir, nil, "git", "show", "HEAD:CHANGELOG.md"); !strings.Contains(log, "## [Unreleased]\n\n## [0.1.0] - 2") {
		t.Errorf("changelog:\n%s", log)
	}
	// Development goes on, with folders in the place of versions.
	for m := range map[string]bool{"extra": true, "cmd/till": true} {
		do(t, filepath.Join(dir, m), []string{"GOWORK=off", "GOFLAGS=", "GOPROXY=off"}, "go", "build", "./...")
	}
	if text := do(t, dir, nil, "git", "show", "HEAD:bench/go.mod"); !strings.Contains(text, "shop v0.1.0") || !strings.Contains(text, "=> ..") {
		t.Errorf("bench/go.mod:\n%s", text)
	}
	// A checkout of the tag has right sums, and no folder in the place of a version.
	proxy, _ := proxyOf(t, dir, version{0, 1, 0})
	env := []string{"GOWORK=off", "GOFLAGS=-modcacherw", "GOPROXY=" + proxy, "GONOSUMDB=*", "GOMODCACHE=" + filepath.Join(t.TempDir(), "modules")}
	do(t, dir, nil, "git", "checkout", "-q", "v0.1.0")
	if text := do(t, dir, nil, "git", "grep", "-c", "v0.1.0 h1:", "--", "*go.sum"); text != "cmd/till/go.sum:2\nextra/go.sum:1" {
		t.Errorf("sums of modules: %q", text)
	}
	do(t, filepath.Join(dir, "cmd", "till"), env, "go", "build", "-o", os.DevNull, ".")
	// A stranger's program, and the command.
	stranger := t.TempDir()
	do(t, stranger, env, "go", "mod", "init", "example.org/stranger")
	do(t, stranger, env, "go", "get", "github.com/example/shop/extra")
	write(t, filepath.Join(stranger, "main.go"), "package main\n\nimport \"github.com/example/shop/extra\"\n\nfunc main() { print(extra.Twice(\"tea\")) }\n")
	if got := do(t, stranger, env, "go", "run", "."); got != "6" {
		t.Errorf("the stranger's program prints %q", got)
	}
	do(t, stranger, append(env, "GOBIN="+t.TempDir()), "go", "install", "github.com/example/shop/cmd/till@v0.1.0")
}

func TestReleaseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := checkout(t)
	before := all(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, dir, "v0.1.0", true, io.Discard); err == nil {
		t.Error("released")
	}
	if after := all(t, dir); after != before {
		t.Errorf("changed\n%s\nto\n%s", before, after)
	}
}
