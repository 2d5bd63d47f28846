package main

import (
	"errors"
	"os"
	"time"

	"github.com/strata-cache/strata/cmd/strata/top"
)

// topCommand is `strata top`.
type topCommand struct {
	URL   string        `arg:"" help:"Page of package admin, such as http://127.0.0.1:8080/debug/strata/."`
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
	err := top.Run(e.ctx, top.Options{
		URL: t.URL, Once: t.Once, Plain: t.Plain || !isTerminal(e.stdout) || !isTerminal(e.stdin), Every: t.Every,
		Colours: os.Getenv("NO_COLOR") == "",
		In:      e.stdin, Out: e.stdout, Err: e.stderr,
	})
	if _, ok := errors.AsType[top.URLError](err); ok {
		return usageError{err}
	}
	return err
}
