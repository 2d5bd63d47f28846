package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// unreleased are the modules that no other repository imports.
var unreleased = []string{"bench", "test"} // read-only

// repository is a checkout with a version to release.
type repository struct {
	dir     string // absolute
	version version
	modules []module // to be released, each after the modules that it requires
	others  []module // not released
}

// module is the content of a go.mod file.
type module struct {
	dir      string // in the repository, with slashes; "." for the root module
	path     string
	requires []string // modules of the repository
	replaces []string // modules of the repository
	foreign  []string // other replace and exclude lines
}

// tag is the name that the go command looks for.
func (m module) tag(v version) string { return path.Join(m.dir, v.String()) }

// execute runs a program in a folder, with variables added to the environment, and
// returns its output. An error has the last line of its complaints.
func execute(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(complaints.String()), "\n")
		return "", fmt.Errorf("%s %s: %w: %s", name, args[0], err, lines[len(lines)-1])
	}
	return strings.TrimSpace(string(out)), nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	return execute(ctx, dir, nil, "git", args...)
}

// wantHistory refuses folders outside of a checkout, folders inside one, and shallow
// clones, which may lack the tags of earlier versions.
func (r *repository) wantHistory(ctx context.Context) error {
	top, err := git(ctx, r.dir, "rev-parse", "--show-prefix")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s has no git history", r.dir)
	}
	if top != "" {
		return fmt.Errorf("%s is a folder inside a git checkout, and not the top of one", r.dir)
	}
	if _, err := git(ctx, r.dir, "rev-parse", "--verify", "-q", "HEAD"); err != nil {
		return fmt.Errorf("%s has no git history: no commit", r.dir)
	}
	shallow, err := git(ctx, r.dir, "rev-parse", "--is-shallow-repository")
	if err == nil && shallow != "false" {
		err = fmt.Errorf("%s has a part of its git history only: git fetch --unshallow --tags", r.dir)
	}
	return err
}

// wantClean refuses uncommitted files.
func (r *repository) wantClean(ctx context.Context) error {
	status, err := git(ctx, r.dir, "status", "--porcelain")
	if err == nil && status != "" {
		first, _, _ := strings.Cut(status, "\n")
		err = fmt.Errorf("the tree is dirty: %d files are not committed, the first is %q", strings.Count(status, "\n")+1, first)
	}
	return err
}

// goMod is the output of go mod edit -json.
type goMod struct {
	Module  struct{ Path string }
	Require []struct{ Path, Version string }
	Exclude []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

// readModules reads every go.mod file of the checkout outside of testdata.
func (r *repository) readModules(ctx context.Context) error {
	files, err := git(ctx, r.dir, "ls-files", "--", "go.mod", "*/go.mod", ":!*testdata/*")
	if err != nil {
		return err
	}
	read := map[string]goMod{} // by folder
	paths := map[string]bool{}
	for file := range strings.Lines(files) {
		file = strings.TrimSpace(file)
		text, err := execute(ctx, r.dir, nil, "go", "mod", "edit", "-json", filepath.FromSlash(file))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		var m goMod
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		read[path.Dir(file)], paths[m.Module.Path] = m, true
	}
	root := read["."].Module.Path
	if root == "" {
		return errors.New("the top folder has no go.mod")
	}
	for dir, f := range read {
		m := module{dir: dir, path: f.Module.Path}
		if m.path != path.Join(root, dir) {
			return fmt.Errorf("%s/go.mod names the module %s, which the go command would look for elsewhere", dir, m.path)
		}
		for _, q := range f.Require {
			if paths[q.Path] {
				m.requires = append(m.requires, q.Path)
			}
		}
		for _, q := range f.Replace {
			if paths[q.Old.Path] {
				m.replaces = append(m.replaces, q.Old.Path)
				continue
			}
			m.foreign = append(m.foreign, "replace "+q.Old.Path)
		}
		for _, q := range f.Exclude {
			m.foreign = append(m.foreign, "exclude "+q.Path)
		}
		if slices.Contains(unreleased, dir) {
			r.others = append(r.others, m)
		} else {
			r.modules = append(r.modules, m)
		}
	}
	return r.sort()
}

// sort brings the modules into an order in which each comes after the modules that it
// requires.
func (r *repository) sort() error {
	slices.SortFunc(r.modules, func(a, b module) int { return strings.Compare(a.path, b.path) })
	slices.SortFunc(r.others, func(a, b module) int { return strings.Compare(a.path, b.path) })
	var sorted []module
	done := map[string]bool{}
	for len(sorted) < len(r.modules) {
		n := len(sorted)
		for _, m := range r.modules {
			if !done[m.path] && !slices.ContainsFunc(m.requires, func(p string) bool { return !done[p] }) {
				sorted, done[m.path] = append(sorted, m), true
			}
		}
		if n == len(sorted) {
			i := slices.IndexFunc(r.modules, func(m module) bool { return !done[m.path] })
			return fmt.Errorf("%s requires a module that is not released, or requires itself through others", r.modules[i].path)
		}
	}
	r.modules = sorted
	return nil
}

// tagged returns the highest version with a tag for a module.
func (r *repository) tagged(ctx context.Context, m module) (highest version, ok bool, err error) {
	prefix := strings.TrimSuffix(m.tag(version{}), version{}.String())
	tags, err := git(ctx, r.dir, "tag", "--list", prefix+"v*")
	if err != nil {
		return highest, false, err
	}
	for tag := range strings.Lines(tags) {
		v, err := parseVersion(strings.TrimPrefix(strings.TrimSpace(tag), prefix))
		if err == nil && (!ok || v.above(highest)) {
			highest, ok = v, true
		}
	}
	return highest, ok, nil
}

// wantNewTags refuses versions that a module has already, or that come before one that it
// has.
func (r *repository) wantNewTags(ctx context.Context) error {
	for _, m := range r.modules {
		if _, err := git(ctx, r.dir, "show-ref", "--verify", "-q", "refs/tags/"+m.tag(r.version)); err == nil {
			return fmt.Errorf("the tag %s exists", m.tag(r.version))
		}
		v, ok, err := r.tagged(ctx, m)
		if err != nil {
			return err
		}
		if ok && v.above(r.version) {
			return fmt.Errorf("%v is not above the tag %s", r.version, m.tag(v))
		}
	}
	return nil
}

// wantFetchable refuses lines of go.mod that hold for the module alone and not for its
// importers. The lines that replace modules of the repository are left out by prepare.
func (r *repository) wantFetchable(context.Context) error {
	for _, m := range r.modules {
		if len(m.foreign) > 0 {
			return fmt.Errorf("%s: importers of the module would need the line %q, which the go command does not read for them", path.Join(m.dir, "go.mod"), m.foreign[0])
		}
	}
	return nil
}

// updateRefs makes all of the given changes of references, or none.
func (r *repository) updateRefs(ctx context.Context, changes string) error {
	cmd := exec.CommandContext(ctx, "git", "-C", r.dir, "update-ref", "--stdin")
	cmd.Stdin = strings.NewReader(changes)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git update-ref: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
