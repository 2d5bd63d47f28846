package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Options configure Run. URL, In, Out and Err are required.
type Options struct {
	// URL is the address of a page of package admin.
	URL string
	// Once prints the table once. Plain prints it again each Every until the context ends. Without
	// Plain, Out is a terminal. An Every of 0 means 2 s.
	Once, Plain bool
	Every       time.Duration
	// Colours permits colours.
	Colours bool
	// Width is the width of plain tables without their last column. 0 means 80.
	Width int

	In       io.Reader
	Out, Err io.Writer
}

// URLError is the error of an Options.URL that cannot be the URL of a page.
type URLError struct{ error }

// outputError is the error of an output that does not take a table.
type outputError struct{ error }

// Unwrap returns the error of the output.
func (o outputError) Unwrap() error { return o.error }

// Run shows the caches of a page until ctx ends or a key ends it. Without Once it goes on if the
// page does not answer. It ends with the error of an output that takes no table.
func Run(ctx context.Context, o Options) error {
	c, err := newClient(o.URL)
	if err != nil {
		return URLError{err}
	}
	switch {
	case o.Once:
		if err := printTable(ctx, c, &o); ctx.Err() == nil {
			return err
		}
		return nil
	case o.Plain:
		return printTables(ctx, c, &o)
	}
	program := tea.NewProgram(newModel(ctx, c, newStyles(o.Colours)), tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithoutSignalHandler(),
		tea.WithWindowSize(80, 24)) // if the terminal does not tell its size
	if _, err := program.Run(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// printTable prints the table once.
func printTable(ctx context.Context, c *client, o *Options) error {
	overview, err := c.overview(ctx)
	if err == nil {
		width := o.Width
		if width == 0 {
			width = 80
		}
		if _, err = io.WriteString(o.Out, table(&overview, width, -1, false)); err != nil {
			err = outputError{err}
		}
	}
	return err
}

// printTables prints the table again and again, and an error of the page as a line.
func printTables(ctx context.Context, c *client, o *Options) error {
	pause := o.Every
	if pause <= 0 {
		pause = 2 * time.Second
	}
	t := time.NewTicker(pause)
	defer t.Stop()
	for {
		err := printTable(ctx, c, o)
		// The page may answer again. An output without a reader, or on a full disk, stays as it is.
		if _, ok := errors.AsType[outputError](err); ok {
			return err
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(o.Err, "strata: "+clean(err.Error(), 500)+"; trying again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}
