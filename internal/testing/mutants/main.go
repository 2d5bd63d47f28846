// Command mutants seeds known bugs into a copy of this repository. Each is a file in
// testdata/mutants: edits of a few declarations, and the test that notices them. An
// edit names a function, and the lines that it replaces there, so that it stays good
// while other code changes, and when the function moves to another file.
//
//	mutants seed TREE FILE      seed the bug of a file into a tree, print the changed files
//	mutants touch FILE...       print the bugs that edit one of these files, or have a test beside it
//
// scripts/mutants calls it, and runs the tests.
package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "seed":
		return seed(args[1], args[2])
	case len(args) >= 1 && args[0] == "touch":
		return touch(args[1:])
	}
	return errors.New("say mutants seed TREE FILE, or mutants touch FILE with any number of files")
}

// seed puts the bug of a file into tree.
func seed(tree, file string) error {
	b, err := read(file)
	if err != nil {
		return err
	}
	files, err := b.apply(tree)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for p, text := range files {
		if err := os.WriteFile(filepath.Join(tree, p), []byte(text), 0o644); err != nil { //nolint:gosec // source code
			return err
		}
		fmt.Println(p)
	}
	return nil
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

// touch prints the seeded bugs that a change of some files can affect. It runs in
// the root of the repository.
func touch(changed []string) error {
	all, err := filepath.Glob("testdata/mutants/*.bug")
	if err != nil {
		return err
	}
	for _, file := range all {
		b, err := read(file)
		if err != nil {
			return err
		}
		files, err := b.apply(".")
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		tests := path.Clean(b.pkg)
		if slices.ContainsFunc(changed, func(p string) bool {
			_, edited := files[p]
			return edited || p == file || strings.HasSuffix(p, "_test.go") && path.Dir(p) == tests
		}) {
			fmt.Println(file)
		}
	}
	return nil
}
