package snapshotcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/carrier"
	"github.com/strata-cache/strata/internal/wire"
)

// source is a snapshot as input.
type source struct {
	io.Reader
	io.Closer
	// bytes and entries are the lengths, zero if they are not known.
	bytes, entries int64
}

// isURL reports whether a source is an instance.
func isURL(from string) bool {
	return strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://")
}

// open opens a file, "-" for the standard input, or the URL of a handler.
func open(s *Streams, from string, r request) (*source, error) {
	of, err := openAny(s, from, r)
	if err == nil && r.rate > 0 {
		of.Reader = &paced{Reader: of.Reader, ctx: s.Ctx, rate: r.rate}
	}
	return of, err
}

// openAny is open without the limit of the rate.
func openAny(s *Streams, from string, r request) (*source, error) {
	switch {
	case len(r.header) > 0 && !isURL(from):
		return nil, UsageError{fmt.Errorf("%s is for the request to an instance, and the source is no URL", r.flag)}
	case from == "-" && isTerminal(s.In):
		return nil, UsageError{errors.New("the standard input is a terminal: name a file or a URL")}
	case from == "-":
		in := interruptible(s.Ctx, func() (io.ReadCloser, error) { return io.NopCloser(s.In), nil })
		return &source{Reader: in, Closer: in}, nil
	// A handler tells the number of entries, but not of bytes, which it does not know before the
	// last one.
	case isURL(from):
		at, err := wire.ParseHTTP(from)
		if err != nil {
			return nil, UsageError{err}
		}
		a, err := carrier.Pull(s.Ctx, carrier.Request{Client: carrier.NewClient(), URL: at, Header: r.header, Stall: r.stall})
		if err != nil {
			return nil, err
		}
		return &source{Reader: a, Closer: a, entries: a.Entries}, nil
	}
	about, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	// A pipe or a device may keep a reader waiting for ever. A file does not, and has a length.
	if !about.Mode().IsRegular() {
		in := interruptible(s.Ctx, func() (io.ReadCloser, error) { return os.Open(from) })
		return &source{Reader: in, Closer: in}, nil
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	return &source{Reader: f, Closer: f, bytes: about.Size()}, nil
}

// interruptible is the standard input, a pipe or a device, with an opening and reads that end with
// the context. The calls of the operating system do not.
func interruptible(ctx context.Context, open func() (io.ReadCloser, error)) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		from, err := open()
		if err == nil {
			_, err = io.Copy(in, from)
			_ = from.Close() // it is read
		}
		_ = in.CloseWithError(err) // it returns nil
	}()
	context.AfterFunc(ctx, func() { _ = out.CloseWithError(context.Cause(ctx)) })
	return out
}

// paced is a reader with a limit of its rate.
type paced struct {
	io.Reader
	ctx  context.Context //nolint:containedctx // the life of the reader
	rate float64
	due  time.Time // when the bytes so far are through
}

// Read reads as much as is due in a tenth of a second, and waits until it is.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b[:min(len(b), 1+int(min(p.rate/10, 1<<30)))])
	if now := time.Now(); p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	t := time.NewTimer(time.Until(p.due))
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.ctx.Done():
		return n, context.Cause(p.ctx)
	}
	return n, err
}
