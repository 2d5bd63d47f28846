// Command mutants seeds known bugs into a copy of this repository. Each is a file in
// testdata/mutants: edits of a few declarations, and the test that notices them. An
// edit names a function, and the lines that it replaces there, so that it stays good
// while other code changes, and when the function moves to another file.
//
//	mutants [FILE|NAME]...      try these bugs, or all
//	mutants seed TREE FILE      seed the bug of a file into a tree, print the changed files
//	mutants generic N FOLDER... make N mechanical changes of each package, print those that its tests do not notice
//
// SINCE, a commit, leaves the bugs that edit a file which has changed since, or whose test is
// beside one. SHARD=i/n leaves every n-th bug, from the i-th on. JOBS (default: the number of
// processors) bugs are tried at once. LIMIT (default 300) is the time of a run in seconds: a machine with
// other work needs more. With ALL=1 the named test also runs for a bug that schedules have found.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "seed" {
		if len(args) != 3 {
			return errors.New("say mutants seed TREE FILE")
		}
		b, err := read(args[2])
		if err != nil {
			return err
		}
		files, err := seedInto(args[1], b)
		for _, p := range files {
			fmt.Println(p)
		}
		return err
	}
	n, err := jobs()
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "generic" {
		if len(args) < 3 {
			return errors.New("say mutants generic N FOLDER, and more folders if you like")
		}
		most, err := strconv.Atoi(args[1])
		if err != nil || most < 1 {
			return fmt.Errorf("%s is no number of changes", args[1])
		}
		return generic(args[2:], most, n)
	}
	files, err := chosen(args, os.Getenv("SINCE"), os.Getenv("SHARD"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		fmt.Println("no mutant is to be tried")
		return nil
	}
	s, done, err := newSession()
	if err != nil {
		return err
	}
	defer done()
	return s.try(os.Stdout, files, n)
}

// seedInto puts a bug into tree, and returns the changed files.
func seedInto(tree string, b bug) (changed []string, err error) {
	files, err := b.apply(tree)
	if err != nil {
		return nil, err
	}
	for p, text := range files {
		if err := os.WriteFile(filepath.Join(tree, p), []byte(text), 0o644); err != nil { //nolint:gosec // source code
			return nil, err
		}
		changed = append(changed, p)
	}
	return changed, nil
}

// chosen returns the files of the bugs with some names, or of all, less those that since and shard leave out.
func chosen(names []string, since, shard string) ([]string, error) {
	all, err := filepath.Glob("testdata/mutants/*.bug")
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		all = nil
		for _, n := range names {
			if _, err := os.Stat(n); err != nil {
				n = "testdata/mutants/" + n + ".bug"
			}
			if _, err := os.Stat(n); err != nil {
				return nil, fmt.Errorf("no such mutant: %s", n)
			}
			all = append(all, n)
		}
	}
	if since != "" {
		out, err := exec.CommandContext(context.Background(), "git", "diff", "--name-only", since, "--").Output() //nolint:gosec // the caller's commit
		if err != nil {
			return nil, fmt.Errorf("git diff %s: %w", since, err)
		}
		if all, err = touched(all, strings.Fields(string(out))); err != nil {
			return nil, err
		}
	}
	if shard == "" {
		return all, nil
	}
	var i, n int
	if _, err := fmt.Sscanf(shard, "%d/%d", &i, &n); err != nil || i < 1 || n < i {
		return nil, fmt.Errorf("SHARD=%s is not like 1/8", shard)
	}
	var these []string
	for k := i - 1; k < len(all); k += n {
		these = append(these, all[k])
	}
	return these, nil
}

func read(file string) (bug, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return bug{}, err
	}
	b, err := parse(string(text))
	if err != nil {
		return b, fmt.Errorf("%s: %w", file, err)
	}
	return b, nil
}

// touched returns the seeded bugs of all that a change of some files can affect. It runs in
// the root of the repository.
func touched(all, changed []string) (these []string, err error) {
	for _, file := range all {
		b, err := read(file)
		if err != nil {
			return nil, err
		}
		files, err := b.apply(".")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		tests := path.Clean(b.pkg)
		if slices.ContainsFunc(changed, func(p string) bool {
			_, edited := files[p]
			return edited || p == file || strings.HasSuffix(p, "_test.go") && path.Dir(p) == tests
		}) {
			these = append(these, file)
		}
	}
	return these, nil
}
