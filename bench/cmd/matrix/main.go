// Command matrix plays the conformance scenarios against strata and its peers
// and prints the table in Markdown, or with -text line by line with all
// details. It takes about ten seconds, most of it waiting.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/strata-cache/strata/bench/conformance"
)

func main() {
	conformance.Child(conformance.All())
	text := flag.Bool("text", false, "print a line for each library and scenario")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, text bool) error {
	t, err := conformance.Matrix(ctx, conformance.All())
	if err != nil {
		return err
	}
	if text {
		return t.Text(os.Stdout)
	}
	return t.Markdown(os.Stdout)
}
