package main

import (
	"context"
	"io"

	"github.com/alecthomas/kong"
)

// environment is the context and the streams of a command.
type environment struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
}

// grammar is the command line.
type grammar struct {
	Demo demoCommand `cmd:"" help:"Run a small service without a cache, with a naive one and with strata, under the same load, and compare."`
	Load loadCommand `cmd:"" help:"Send requests to a URL on a schedule and measure how long they take."`
}

// usageError is an error in the arguments of the command.
type usageError struct{ error }

// Unwrap returns the error itself.
func (u usageError) Unwrap() error { return u.error }

// finished is the value of the parser's panic after it has printed help.
type finished struct{}

// execute parses the arguments and runs their command.
func execute(e *environment, args []string) (err error) {
	defer func() {
		if p := recover(); p != nil && p != (finished{}) {
			panic(p)
		}
	}()
	var g grammar
	parser, err := kong.New(&g,
		kong.Name("strata"),
		kong.Description("Shows and measures caches."),
		kong.Writers(e.stdout, e.stderr),
		kong.Exit(func(int) { panic(finished{}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return usageError{err}
	}
	return parsed.Run(e)
}
