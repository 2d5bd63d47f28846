package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/strata-cache/strata/internal/testing/kit"
)

// documents returns the paths of all documents in the repository.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all, err := kit.Read("../..")
	if err != nil || len(all) < 30 {
		t.Fatalf("%d documents: %v", len(all), err)
	}
	return all
}

// parser returns the parser of the command line. Files that pages name need not exist.
func parser(t *testing.T) *kong.Kong {
	t.Helper()
	p, err := kong.New(&grammar{}, kong.Name("strata"),
		kong.NamedMapper("existingfile", kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
			return ctx.Scan.PopValueInto("file", target.Addr().Interface())
		})))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCommandsOfPagesAreParsed parses each call of strata on each page, and looks for each
// flag that stands alone.
func TestCommandsOfPagesAreParsed(t *testing.T) {
	p := parser(t)
	for _, good := range []string{"demo --ui", "demo --script FILE", "snapshot", "load URL --plain", "load --rate 5 curl -k URL", "top --once", "help", "--help"} {
		if err := parses(p, strings.Fields(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"demo --iu", "advise", "snapshot send", "load URL --rate fast", "load -k URL", "load --rate curl -k URL", "top --none", "--none"} {
		if parses(p, strings.Fields(bad)) == nil {
			t.Errorf("strata %s is accepted", bad)
		}
	}
	calls, flags := 0, 0
	for name, text := range documents(t) {
		for _, line := range kit.Commands(text, []string{"strata", "go"}) {
			for _, words := range kit.Steps(strings.Replace(line, "go run ./cmd/strata ", "strata ", 1)) {
				if words[0] != "strata" || len(words) == 1 {
					continue
				}
				calls++
				if err := parses(p, words[1:]); err != nil {
					t.Errorf("%s: %s: %v", name, line, err)
				}
			}
		}
		for _, m := range regexp.MustCompile("`(--[^`\n]+)`").FindAllStringSubmatch(text, -1) {
			flags++
			if !hasFlags(p.Model.Node, kit.Steps(m[1])[0]) {
				t.Errorf("%s: no command of strata has %s", name, m[1])
			}
		}
	}
	if calls < 20 || flags < 10 {
		t.Errorf("found %d calls of strata and %d flags", calls, flags)
	}
	if hasFlags(p.Model.Node, []string{"--ui", "--none"}) {
		t.Error("the flag --none is accepted")
	}
}

// parses parses the words behind strata. The name of a command, or of strata itself, may stand
// alone or with flags, as in a text about a flag.
func parses(p *kong.Kong, words []string) error {
	node, rest := p.Model.Node, words
	for len(rest) > 0 {
		i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == rest[0] })
		if i < 0 {
			break
		}
		node, rest = node.Children[i], rest[1:]
	}
	argument := func(word string) bool { return !strings.HasPrefix(word, "--") }
	if !slices.ContainsFunc(rest, argument) && hasFlags(node, rest) {
		return nil
	}
	own, _ := splitCurl(p, words)
	_, err := p.Parse(own)
	return err
}

// hasFlags reports whether one command has all flags among the words.
func hasFlags(node *kong.Node, words []string) bool {
	all := true
	for _, word := range words {
		name, isFlag := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		all = all && (!isFlag || slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == name }))
	}
	return all || slices.ContainsFunc(node.Children, func(n *kong.Node) bool { return hasFlags(n, words) })
}

// TestProgramsOfPagesCompile compiles each file of a program on each page. This module has
// the libraries that they use.
func TestProgramsOfPagesCompile(t *testing.T) {
	n := 0
	for name, text := range documents(t) {
		options := "" // of a cache, which a test file takes from its program
		for i, program := range kit.Programs(text) {
			n++
			t.Run(fmt.Sprint(name, " ", i), func(t *testing.T) {
				dir := t.TempDir()
				files := []string{filepath.Join(dir, program.Name)}
				write(t, files[0], program.Text)
				if strings.HasSuffix(program.Name, "_test.go") {
					files = append(files, filepath.Join(dir, "main.go"))
					write(t, files[1], options)
				} else {
					options = program.Text
				}
				if out, err := exec.Command("go", append([]string{"vet"}, files...)...).CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
	if n < 4 {
		t.Errorf("found %d files of programs", n)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
