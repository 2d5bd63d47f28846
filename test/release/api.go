package main

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// apidiff is the program that compares APIs.
const apidiff = "golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4"

// wantCompatible refuses a break of the API of a module since its last version, unless the
// step of the version permits one. Modules in the folder cmd are programs and have no API.
func (r *repository) wantCompatible(ctx context.Context, scratch string) error {
	var program string
	for _, m := range r.modules {
		old, ok, err := r.tagged(ctx, m)
		if err != nil {
			return err
		}
		if !ok || r.version.mayBreak(old) || strings.HasPrefix(m.dir, "cmd/") {
			continue
		}
		if program == "" {
			env := []string{"GOBIN=" + filepath.Join(scratch, "bin"), "GOFLAGS=", "GOWORK=off"}
			if _, err := execute(ctx, r.dir, env, "go", "install", apidiff); err != nil {
				return fmt.Errorf("the API cannot be compared: %w", err)
			}
			program = filepath.Join(scratch, "bin", "apidiff")
		}
		breaks, err := r.breaks(ctx, program, m, m.tag(old), filepath.Join(scratch, "api", path.Base(m.path)))
		if err != nil {
			return fmt.Errorf("the API of %s cannot be compared with %s: %w", m.path, m.tag(old), err)
		}
		if breaks != "" {
			first, _, _ := strings.Cut(breaks, "\n")
			return fmt.Errorf("%s breaks the API of %s, and %v may not: %d changes, the first is %q",
				m.path, m.tag(old), r.version, strings.Count(breaks, "\n")+1, strings.TrimPrefix(first, "- "))
		}
	}
	return nil
}

// breaks returns a line for each incompatible change of a module since a tag.
func (r *repository) breaks(ctx context.Context, program string, m module, tag, scratch string) (string, error) {
	files := []string{scratch + ".old", scratch + ".new"}
	for i, commit := range []string{tag, "HEAD"} {
		tree := files[i] + ".tree"
		if err := r.clone(ctx, tree); err != nil {
			return "", err
		}
		if _, err := git(ctx, tree, "checkout", "-q", commit); err != nil {
			return "", err
		}
		if err := r.replaceAll(ctx, tree, m); err != nil {
			return "", err
		}
		env := []string{"GOWORK=off", "GOFLAGS=-mod=mod"}
		if _, err := execute(ctx, filepath.Join(tree, filepath.FromSlash(m.dir)), env, program, "-m", "-w", files[i], m.path); err != nil {
			return "", err
		}
	}
	return execute(ctx, r.dir, nil, program, "-m", "-incompatible", files[0], files[1])
}

// replaceAll makes a module of a tree find the modules of its repository in the tree. A
// tagged tree has no such lines.
func (r *repository) replaceAll(ctx context.Context, tree string, m module) error {
	args := []string{"mod", "edit"}
	for _, other := range r.modules {
		if slices.Contains(m.requires, other.path) {
			args = append(args, "-replace="+other.path+"="+filepath.Join(tree, filepath.FromSlash(other.dir)))
		}
	}
	if len(args) == 2 {
		return nil
	}
	_, err := execute(ctx, filepath.Join(tree, filepath.FromSlash(m.dir)), nil, "go", args...)
	return err
}
