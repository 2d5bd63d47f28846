package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/strata-cache/strata/cmd/strata/ending"
	"github.com/strata-cache/strata/cmd/strata/snapshotcmd"
	"github.com/strata-cache/strata/cmd/strata/top"
)

// environment is the context and the streams of a command.
type environment struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
}

// grammar is the command line.
type grammar struct {
	ShowVersion versionFlag `name:"version" help:"Print the version, as the command version does."`

	Demo     demoCommand         `cmd:"" help:"Run a small service without a cache, with a naive one and with strata, under the same load, and compare."`
	Load     loadCommand         `cmd:"" help:"Send requests to a URL on a schedule and measure how long they take."`
	Top      topCommand          `cmd:"" help:"Show the caches of a program in the terminal, from its page of package admin."`
	Snapshot snapshotcmd.Command `cmd:"" help:"Move the entries of caches between instances and files, and look into them."`
	Version  versionCommand      `cmd:"" help:"Print the version of this command, of Go and of the platform."`
	Help     helpCommand         `cmd:"" help:"Print what the commands do, or the flags of one."`
}

// helpCommand is `strata help`.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Command."`
}

// Run runs the command.
func (h *helpCommand) Run(e *environment) error {
	return execute(e, append(slices.Clone(h.Command), "--help"))
}

// versionCommand is `strata version`.
type versionCommand struct{}

// Run runs the command.
func (versionCommand) Run(e *environment) error {
	info, _ := debug.ReadBuildInfo()
	_, err := fmt.Fprintln(e.stdout, version(info))
	return err
}

// version describes a build, which is nil if it is not known: the version of the module, the
// commit, Go and the platform. Builds by "go run", and builds of folders outside version
// control, have no commit.
func version(info *debug.BuildInfo) string {
	module, commit, changed := "(unknown version)", "no commit known", ""
	if info != nil && info.Main.Version != "" {
		module = info.Main.Version
	}
	if info != nil {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = "commit " + s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = " with changes"
			}
		}
	}
	return fmt.Sprintf("strata %s, %s%s, %s %s/%s", module, commit, changed, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionFlag is --version.
type versionFlag bool

// BeforeReset prints the version.
func (versionFlag) BeforeReset(k *kong.Kong) error {
	info, _ := debug.ReadBuildInfo()
	// The panic of Exit would lose an error.
	if _, err := fmt.Fprintln(k.Stdout, version(info)); err != nil {
		return err
	}
	k.Exit(0)
	return nil
}

// usageError is an error in the arguments of the command.
type usageError struct{ error }

// Unwrap returns the error itself.
func (u usageError) Unwrap() error { return u.error }

// topCommand is `strata top`.
type topCommand struct {
	URL   string        `arg:"" help:"Page of package admin, such as http://127.0.0.1:8080/debug/strata/?token=… (the log of the program has it)."`
	Once  bool          `help:"Print one table and end."`
	Plain bool          `help:"Print a table again and again, as when the output is no terminal."`
	Every time.Duration `default:"2s" help:"Time between two plain tables (${default})." placeholder:"TIME"`
}

// Help is the text above the flags.
func (*topCommand) Help() string {
	return `One row for each cache, once a second: arrow keys choose a cache and the column that sorts, Enter shows its
hottest keys, events and options, and e explains a key on every instance.`
}

// Run runs the command.
func (t *topCommand) Run(e *environment) error {
	if t.Every < 100*time.Millisecond {
		return usageError{errors.New("--every must be 100ms or more")}
	}
	// A table has its next line after a while: without a reader, nothing would end the command until then.
	ctx, end := ending.WhileRead(e.ctx, e.stdout)
	defer end()
	err := top.Run(ctx, top.Options{
		URL: t.URL, Once: t.Once, Plain: t.Plain || !isTerminal(e.stdout) || !isTerminal(e.stdin), Every: t.Every,
		Colours: os.Getenv("NO_COLOR") == "", //nolint:misspell // its name
		In:      e.stdin, Out: e.stdout, Err: e.stderr,
	})
	if _, ok := errors.AsType[top.URLError](err); ok {
		return usageError{err}
	}
	return cmp.Or(ending.Unread(ctx), err)
}

// description is the text of `strata --help` above the commands.
const description = `Shows and measures caches.

Exit status: 0 after success, and after SIGINT, SIGTERM or SIGHUP has ended a demo, a load or a table; 2 after an error in the arguments; 1 after any other error, also if every answer that a load got was one, and if a snapshot was interrupted.`

// withoutTarget returns an error of the parser about words behind the target of a load, without the
// word itself. The word may be a URL with a password or, if the quotes around a command line of
// curl end early, a part of a header.
func withoutTarget(args []string, err error) error {
	if len(args) > 0 && args[0] == "load" && strings.HasPrefix(err.Error(), "unexpected argument") {
		return errors.New("load: want one URL, or a command line of curl: as the last words, or in quotes that it does not have itself")
	}
	return err
}

// finished is the value of the parser's panic after it has printed help.
type finished struct{}

// execute parses the arguments and runs their command.
func execute(e *environment, args []string) (err error) {
	defer func() {
		// The parser ends the process after it has printed help. The panic in its place lets this
		// function return instead, so that deferred calls run.
		if p := recover(); p != nil && p != (finished{}) {
			panic(p)
		}
	}()
	var g grammar
	parser, err := kong.New(&g,
		kong.Name("strata"),
		kong.Description(description),
		kong.Writers(e.stdout, e.stderr),
		kong.Exit(func(int) { panic(finished{}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		return err
	}
	// The parser knows no options of curl.
	args, g.Load.Curl = splitCurl(parser, args)
	parsed, err := parser.Parse(args)
	if err != nil {
		return usageError{withoutTarget(args, err)}
	}
	return parsed.Run(e, &snapshotcmd.Streams{Ctx: e.ctx, In: e.stdin, Out: e.stdout, Err: e.stderr})
}
