// Package snapshotcmd is the command "strata snapshot": it moves the entries of caches
// between instances and files, and shows them without the types of their values.
package snapshotcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/strata-cache/strata/internal/download"
	"github.com/strata-cache/strata/internal/dump"
)

// Streams are the context and the streams of the command.
type Streams struct {
	Ctx      context.Context
	In       io.Reader
	Out, Err io.Writer
}

// Command is `strata snapshot`.
type Command struct {
	Get     getCommand     `cmd:"" help:"Download the entries of an instance into a file."`
	Put     putCommand     `cmd:"" help:"Send entries, from a file or another instance, to an instance."`
	Inspect inspectCommand `cmd:"" help:"Show what a snapshot holds: caches, counts, ages, the largest and the hottest entries."`
	JSONL   jsonlCommand   `cmd:"" name:"jsonl" help:"Print a snapshot as one JSON object for each entry."`
}

// UsageError is an error in the arguments of the command.
type UsageError struct{ error }

// Unwrap returns the error itself.
func (u UsageError) Unwrap() error { return u.error }

// asking are the flags of commands that send requests.
type asking struct {
	Header []string      `help:"Header of the request, for example to authorise it. It can be repeated." placeholder:"'NAME: VALUE'" sep:"none"`
	Stall  time.Duration `default:"10s" help:"Time without a byte after which the source counts as dead (${default})." placeholder:"TIME"`
}

// check returns the header of the flags.
func (a *asking) check() (http.Header, error) {
	if a.Stall <= 0 {
		return nil, UsageError{errors.New("--stall must be positive")}
	}
	return parseHeader("--header", a.Header)
}

// parseHeader parses flags of the form 'Name: value'.
func parseHeader(flag string, lines []string) (http.Header, error) {
	h := make(http.Header)
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(line, "\r\n") {
			return nil, UsageError{fmt.Errorf("%s: want 'NAME: VALUE'", flag)}
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h, nil
}

// isURL reports whether a source is an instance.
func isURL(from string) bool {
	return strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://")
}

// source is a snapshot that is read.
type source struct {
	io.Reader
	io.Closer
	// bytes and entries are the lengths, zero if they are not known.
	bytes, entries int64
}

// open opens a file, "-" for the standard input, or the URL of a handler.
func open(s *Streams, from string, h http.Header, stall time.Duration) (*source, error) {
	switch {
	case from == "-":
		return &source{Reader: s.In, Closer: io.NopCloser(nil)}, nil
	case isURL(from):
		at, err := download.Parse(from)
		if err != nil {
			return nil, UsageError{err}
		}
		a, err := download.Begin(s.Ctx, download.Request{Client: download.NewClient(), URL: at, Header: h, Stall: stall})
		if err != nil {
			return nil, err
		}
		return &source{Reader: a, Closer: a, entries: a.Entries}, nil
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	about, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &source{Reader: f, Closer: f, bytes: about.Size()}, nil
}

// walk reads a whole snapshot from r, and calls f with each record.
func walk(ctx context.Context, r io.Reader, header func(dump.Header), f func(*dump.Record) error) error {
	from := dump.NewReader(r, dump.Limits{})
	h, err := from.Header()
	if err != nil {
		return err
	}
	header(h)
	for {
		rec, err := from.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case rec.Kind == dump.KindAbort:
			return fmt.Errorf("%w: %q", dump.ErrAborted, rec.Reason)
		}
		if err := f(&rec); err != nil {
			return err
		}
	}
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
