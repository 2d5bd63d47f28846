package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// prepared are the two commits of a release, in a clone.
type prepared struct {
	clone   string
	tagged  string // the commit with the tags
	next    string // the commit after it, with the replace lines of development
	changes string // the log of the two commits, with the files that they change
}

// prepare makes the commits of the release in a clone.
func (r *repository) prepare(ctx context.Context, scratch string, now time.Time) (*prepared, error) {
	p := &prepared{clone: filepath.Join(scratch, "clone")}
	if err := r.clone(ctx, p.clone); err != nil {
		return nil, err
	}
	log := filepath.Join(p.clone, "CHANGELOG.md")
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, fmt.Errorf("CHANGELOG.md: %w", err)
	}
	released, err := withSection(string(text), r.version, now)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(log, []byte(released), 0o600); err != nil {
		return nil, err
	}
	for _, m := range slices.Concat(r.modules, r.others) {
		if err := r.edit(ctx, p.clone, m, m.requires, "-require=%s@"+r.version.String()); err != nil {
			return nil, err
		}
	}
	developed, err := r.files(p.clone)
	if err != nil {
		return nil, err
	}
	for _, m := range r.modules {
		if err := r.edit(ctx, p.clone, m, m.replaces, "-dropreplace=%s"); err != nil {
			return nil, err
		}
	}
	if _, err := git(ctx, p.clone, "commit", "-q", "-a", "-m", "release "+r.version.String()); err != nil {
		return nil, err
	}
	if err := r.sum(ctx, p.clone, filepath.Join(scratch, "cache")); err != nil {
		return nil, err
	}
	if p.tagged, err = git(ctx, p.clone, "rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	for file, text := range developed {
		if err := writeOrRemove(file, text); err != nil {
			return nil, err
		}
	}
	if p.next, err = r.commitNext(ctx, p.clone); err != nil {
		return nil, err
	}
	p.changes, err = git(ctx, p.clone, "log", "--reverse", "--stat", "--format=commit %s", p.next, "-2")
	return p, err
}

// clone copies the checkout with its history, and the name of its committer.
func (r *repository) clone(ctx context.Context, to string) error {
	if _, err := git(ctx, r.dir, "clone", "-q", "--shared", r.dir, to); err != nil {
		return err
	}
	for _, key := range []string{"user.name", "user.email"} {
		if value, err := git(ctx, r.dir, "config", key); err == nil {
			if _, err := git(ctx, to, "config", key, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// edit applies an edit to the go.mod file of a module, for each of some modules.
func (r *repository) edit(ctx context.Context, tree string, m module, paths []string, form string) error {
	if len(paths) == 0 {
		return nil
	}
	args := []string{"mod", "edit"}
	for _, p := range paths {
		args = append(args, fmt.Sprintf(form, p))
	}
	_, err := execute(ctx, filepath.Join(tree, filepath.FromSlash(m.dir)), nil, "go", args...)
	return err
}

// files returns the go.mod and go.sum files of the modules to be released by their names.
// A file that does not exist is nil.
func (r *repository) files(tree string) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, m := range r.modules {
		for _, name := range []string{"go.mod", "go.sum"} {
			file := filepath.Join(tree, filepath.FromSlash(m.dir), name)
			text, err := os.ReadFile(file)
			if err != nil && !os.IsNotExist(err) {
				return nil, err
			}
			all[file] = text
		}
	}
	return all, nil
}

// writeOrRemove writes a file, or removes it if the text is nil.
func writeOrRemove(file string, text []byte) error {
	if text != nil {
		return os.WriteFile(file, text, 0o600)
	}
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// sum brings into the go.sum of each module the sums of the modules that it requires.
// Then it tags the module in the clone, because the go command computes a sum from a
// tag. Later amendments change other folders only, so earlier sums stay right;
// publish tags the last commit for all modules.
func (r *repository) sum(ctx context.Context, clone, cache string) error {
	sums := map[string]string{}
	for _, m := range r.modules {
		file := filepath.Join(clone, filepath.FromSlash(m.dir), "go.sum")
		text, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		lines := strings.SplitAfter(string(text), "\n")
		for _, p := range m.requires {
			lines = append(lines, sums[p])
		}
		if len(m.requires) > 0 {
			slices.SortStableFunc(lines, func(a, b string) int {
				pathA, _, _ := strings.Cut(a, " ")
				pathB, _, _ := strings.Cut(b, " ")
				return strings.Compare(pathA, pathB)
			})
			if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600); err != nil {
				return err
			}
			if _, err := git(ctx, clone, "add", file); err != nil {
				return err
			}
			if _, err := git(ctx, clone, "commit", "-q", "--amend", "--no-edit"); err != nil {
				return err
			}
		}
		if _, err := git(ctx, clone, "tag", "--no-sign", m.tag(r.version)); err != nil {
			return err
		}
		if sums[m.path], err = r.download(ctx, m, clone, cache); err != nil {
			return err
		}
	}
	return nil
}

// download fetches a module by its tag into a cache of modules, as the go command does
// from the real repository, and returns its lines in go.sum. The folder cache/download of
// the cache is a module proxy.
func (r *repository) download(ctx context.Context, m module, from, cache string) (string, error) {
	root := r.modules[slices.IndexFunc(r.modules, func(m module) bool { return m.dir == "." })].path
	env := []string{
		"GOMODCACHE=" + cache, "GOFLAGS=-modcacherw", "GOPROXY=direct", "GONOSUMDB=" + root, "GOWORK=off",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + filepath.ToSlash(from) + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + root,
	}
	text, err := execute(ctx, filepath.Dir(cache), env, "go", "mod", "download", "-json", m.path+"@"+r.version.String())
	if err != nil {
		return "", err
	}
	var got struct{ Sum, GoModSum string }
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %v %s\n%[1]s %[2]v/go.mod %[4]s\n", m.path, r.version, got.Sum, got.GoModSum), nil
}

// commitNext commits the tree after the release, and returns the commit.
func (r *repository) commitNext(ctx context.Context, clone string) (string, error) {
	if _, err := git(ctx, clone, "add", "-A"); err != nil {
		return "", err
	}
	if _, err := git(ctx, clone, "commit", "-q", "--allow-empty", "-m", "replace modules by folders again, after "+r.version.String()); err != nil {
		return "", err
	}
	return git(ctx, clone, "rev-parse", "HEAD")
}

// publish brings the commits into the repository: all tags or none, and then the branch.
func (r *repository) publish(ctx context.Context, p *prepared) error {
	if _, err := git(ctx, r.dir, "fetch", "-q", "--no-tags", p.clone, "HEAD"); err != nil {
		return err
	}
	var create, remove strings.Builder
	for _, m := range r.modules {
		fmt.Fprintf(&create, "create refs/tags/%s %s\n", m.tag(r.version), p.tagged)
		fmt.Fprintf(&remove, "delete refs/tags/%s %s\n", m.tag(r.version), p.tagged)
	}
	if err := r.updateRefs(ctx, create.String()); err != nil {
		return err
	}
	_, err := git(ctx, r.dir, "merge", "-q", "--ff-only", p.next)
	if err != nil {
		if undo := r.updateRefs(context.WithoutCancel(ctx), remove.String()); undo != nil {
			return fmt.Errorf("%w; and the tags are there: %w", err, undo)
		}
	}
	return err
}
