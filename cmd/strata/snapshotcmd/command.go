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

	"github.com/dustin/go-humanize"
	"github.com/mattn/go-isatty"

	"github.com/strata-cache/strata/internal/snapshot/format"
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
	Stall  time.Duration `default:"10s" help:"Time without a byte after which an instance counts as dead (${default})." placeholder:"TIME"`
	Rate   string        `help:"Largest number of bytes in a second, such as 50MB." placeholder:"BYTES"`
}

// request is the meaning of the flags.
type request struct {
	header http.Header
	flag   string // of the header
	stall  time.Duration
	rate   float64 // in bytes per second, zero for no limit
}

// check returns the meaning of the flags.
func (a *asking) check() (r request, err error) {
	if a.Stall <= 0 {
		return r, UsageError{errors.New("--stall must be positive")}
	}
	if a.Rate != "" {
		n, err := humanize.ParseBytes(a.Rate)
		if err != nil || n == 0 {
			return r, UsageError{fmt.Errorf("--rate: %q is not a number of bytes such as 50MB", a.Rate)}
		}
		r.rate = float64(n)
	}
	r.stall = a.Stall
	r.flag = "--header"
	r.header, err = parseHeader(r.flag, a.Header)
	return r, err
}

// parseHeader parses flags of the form 'Name: value'.
func parseHeader(flag string, lines []string) (http.Header, error) {
	h := make(http.Header)
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok || !isToken(name) || strings.ContainsFunc(value, isControl) {
			return nil, UsageError{fmt.Errorf("%s: want 'NAME: VALUE'", flag)}
		}
		h.Add(name, value)
	}
	return h, nil
}

// isToken reports whether s can be the name of a header.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// walk reads a whole snapshot from r, and calls f with each record.
func walk(ctx context.Context, r io.Reader, header func(format.Header), f func(*format.Record) error) error {
	from := format.NewReader(r, format.Limits{})
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
		// The writer has ended the snapshot itself, and says why.
		case rec.Kind == format.KindAbort:
			return fmt.Errorf("%w: %q", format.ErrAborted, rec.Reason)
		}
		if err := f(&rec); err != nil {
			return err
		}
	}
}

// orInterrupted returns err. After an interruption it returns an error that says so, and that ends
// with the text left, a note about the unfinished result.
func (s *Streams) orInterrupted(err error, left string) error {
	if err == nil || s.Ctx.Err() == nil {
		return err
	}
	return errors.New("interrupted: " + left)
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
