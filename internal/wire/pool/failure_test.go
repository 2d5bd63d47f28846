package pool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/strata-cache/strata/internal/wire"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// failed is the error of a client for a failure.
type failed struct{ pool.Failure }

func (f *failed) Error() string { return f.Op + ": " + f.Err.Error() }
func (f *failed) Unwrap() error { return f.Err }

var errProtocol = errors.New("protocol broken")

// words are the errors of a client.
func words() *pool.Errors {
	return &pool.Errors{
		Fail: func(f pool.Failure) error { return &failed{f} },
		Inside: func(err error) (f pool.Failure, ok bool) {
			is, ok := err.(*failed) //nolint:errorlint // as the clients do
			if !ok {
				return f, false
			}
			return is.Failure, true
		},
		Package: "client", Protocol: errProtocol, Closed: errClosed, TooLarge: wire.ErrTooLarge,
	}
}

func TestReasonOfAFailureIsInTheWordsOfItsClient(t *testing.T) {
	other := errors.New("no route to the host")
	for name, c := range map[string]struct {
		err, want error
		gone      bool
	}{
		"format":    {&wire.ProtocolError{Reason: "bad length"}, errProtocol, false},
		"foreign":   {pool.ErrForeign, errProtocol, false},
		"unasked":   {pool.ErrUnasked, errProtocol, false},
		"closed":    {net.ErrClosed, errClosed, false},
		"timeout":   {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, os.ErrDeadlineExceeded, false},
		"context":   {context.Canceled, context.Canceled, false},
		"truncated": {io.ErrUnexpectedEOF, io.ErrUnexpectedEOF, false},
		"end":       {io.EOF, io.EOF, true},
		"reset":     {syscall.ECONNRESET, syscall.ECONNRESET, true},
		"other":     {other, other, true},
	} {
		e := words()
		if got := e.Reason(fmt.Errorf("outside: %w", c.err)); !errors.Is(got, c.want) || c.want == os.ErrDeadlineExceeded && got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if err := e.Fail(pool.Failure{Op: "read", Err: c.err}); e.Gone(c.err) != c.gone || e.Lost(err) != c.gone || e.Lost(c.err) {
			t.Errorf("%s: gone %v, lost %v", name, e.Gone(c.err), e.Lost(err))
		}
	}
	if err := words().Reason(&wire.ProtocolError{Reason: "bad length"}); !strings.HasSuffix(err.Error(), ": bad length") {
		t.Error(err)
	}
}

// TestExplainedErrorIsAnother guards the readers of an error, as a trace, against a change of it.
func TestExplainedErrorIsAnother(t *testing.T) {
	e, ended := words(), t.Context()
	ended, cancel := context.WithCancel(ended)
	cancel()
	symptom := e.Fail(pool.Failure{Op: "read", Sent: true, Err: os.ErrDeadlineExceeded})
	cause := e.Explain(ended, true, symptom)
	if !errors.Is(symptom, os.ErrDeadlineExceeded) || !errors.Is(cause, context.Canceled) {
		t.Errorf("%v became %v", symptom, cause)
	}
	if f, ok := e.Inside(cause); !ok || f.Op != "read" || !f.Sent {
		t.Errorf("explained: %+v", f)
	}
	if err := e.Explain(ended, true, nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// TestFailureOfAReaderIsNoFailureOfTheConnection reads a value from another connection of the
// same client, which fails.
func TestFailureOfAReaderIsNoFailureOfTheConnection(t *testing.T) {
	e := words()
	theirs := e.Fail(pool.Failure{Op: "read", Err: io.EOF})
	err := e.Source(theirs)
	if e.Lost(err) || !e.Lost(theirs) {
		t.Errorf("%v is a lost connection: %v", err, e.Lost(err))
	}
	if got := e.Explain(t.Context(), true, err); got != err || !errors.Is(got, io.EOF) {
		t.Errorf("%v became %v", err, got)
	}
}

func TestHalfACommandWasNotSent(t *testing.T) {
	for _, c := range []struct {
		n      int64
		single bool
		sent   bool
	}{{0, true, false}, {5, true, false}, {10, true, true}, {0, false, false}, {5, false, true}} {
		err := words().Written(io.EOF, c.n, 10, c.single)
		if f, _ := words().Inside(err); f.Sent != c.sent || f.Op != "write" {
			t.Errorf("%+v: %+v", c, f)
		}
	}
	if err := words().Written(nil, 10, 10, true); err != nil {
		t.Error(err)
	}
}

func TestConnectionWithoutGreetingIsClosed(t *testing.T) {
	read := func(err error) error { return &failed{pool.Failure{Op: "read", Sent: true, Err: err}} }
	for name, c := range map[string]struct {
		calm     bool
		err      error
		cut, bad bool
	}{
		"greeted": {true, nil, false, false},
		"refused": {true, errRefused, false, true},
		"lost":    {true, read(io.EOF), true, true},
		"in part": {true, read(io.ErrUnexpectedEOF), true, true},
		"late":    {true, read(os.ErrDeadlineExceeded), false, true},
		"left":    {false, nil, false, true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if cancel(); name != "left" {
			ctx = t.Context()
		}
		cn := &conn{}
		err := pool.Greet(ctx, words(), cn, func(*conn) (bool, error) { return c.calm, c.err })
		if f, _ := words().Inside(err); (err != nil) != c.bad || f.Cut != c.cut || f.Sent || cn.shut.Load() != c.bad {
			t.Errorf("%s: %v, %+v, closed %v", name, err, f, cn.shut.Load())
		}
	}
	cn := &conn{}
	func() {
		defer func() { _ = recover() }()
		_ = pool.Greet(t.Context(), words(), cn, func(*conn) (bool, error) { panic("a callback") })
	}()
	if !cn.shut.Load() {
		t.Error("a panic leaves the connection open")
	}
}
