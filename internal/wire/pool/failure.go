package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/strata-cache/strata/internal/wire"
	"github.com/strata-cache/strata/internal/wire/overdue"
)

// A failure of a connection becomes an error of the client that owns the connection, in
// the words of this client, or the reason for a second attempt. The rules about both are
// the same for all clients. Invariant: a call is repeated only if its connection was found
// dead before a byte of the reply came.

// Failure says why a connection failed, could not be opened, or could not be had in
// time.
type Failure struct {
	// Op is wait, dial, greet, read or write, or "dial held back" after a failed dial.
	Op string
	// Sent says that the server may have received the command.
	Sent bool
	// Cut says that the connection was lost before the server had answered the
	// greeting. The server may well answer the next greeting.
	Cut bool
	// Err is the reason.
	Err error
}

// Errors are the errors of a client for its connections. All fields are required.
type Errors struct {
	// Fail makes the error for a failure.
	Fail func(Failure) error
	// Inside returns the failure in an error made by Fail; ok is false for any other error,
	// also for one that wraps such an error.
	Inside func(err error) (f Failure, ok bool)
	// Package is the name of the client's package, at the beginning of its errors.
	Package string
	// Protocol is in the chain of an error if the server has broken the protocol,
	// Closed is the error after Close, TooLarge for a value that is not sent.
	Protocol, Closed, TooLarge error
}

// Reason returns the reason behind an error of a connection, in the words of the
// client.
func (e *Errors) Reason(err error) error {
	var broken *wire.ProtocolError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
	case errors.Is(err, os.ErrDeadlineExceeded):
		return os.ErrDeadlineExceeded
	case errors.As(err, &broken):
		return fmt.Errorf("%w: %s", e.Protocol, broken.Reason)
	case errors.Is(err, ErrForeign):
		return fmt.Errorf("%w: reply to another command", e.Protocol)
	case errors.Is(err, ErrUnasked):
		return fmt.Errorf("%w: reply that no call has asked for", e.Protocol)
	case errors.Is(err, net.ErrClosed):
		return e.Closed
	}
	return err
}

// Explain returns the error of an operation under ctx with its cause in place of the symptom.
// bounded says that the deadline of ctx was set on the connection. err stays as it is: a
// trace may have it.
func (e *Errors) Explain(ctx context.Context, bounded bool, err error) error {
	f, ok := e.Inside(err)
	if !ok {
		return err
	}
	if bounded && errors.Is(f.Err, os.ErrDeadlineExceeded) {
		f.Err = context.DeadlineExceeded // the clock may have been set back
	}
	f.Err = e.Reason(overdue.Reason(ctx, f.Err))
	return e.Fail(f)
}

// Gone reports whether a reason says that the peer has gone without a farewell. It is
// neither a passed deadline, nor a broken protocol, nor a Close of this side.
func (e *Errors) Gone(err error) bool {
	for _, other := range []error{
		context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded,
		ErrUnasked, ErrForeign, ErrRefused, net.ErrClosed, io.ErrUnexpectedEOF, e.Protocol, e.Closed,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	return !errors.As(err, new(*wire.ProtocolError))
}

// Lost is Gone for the reason inside an error made by Fail.
func (e *Errors) Lost(err error) bool {
	f, ok := e.Inside(err)
	return ok && e.Gone(f.Err)
}

// cut reports whether the server may well answer the next greeting.
func (e *Errors) cut(err error) bool {
	f, _ := e.Inside(err)
	return f.Cut
}

// Written returns the error of a write that has written n bytes out of total. single
// says that they are one command, which a server carries out only if it has all of it.
func (e *Errors) Written(err error, n, total int64, single bool) error {
	if err == nil {
		return nil
	}
	return e.Fail(Failure{Op: "write", Sent: n == total || n > 0 && !single, Err: err})
}

// Source returns the error for a reader of a value that gives no more.
func (e *Errors) Source(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%s: reading the value: %w", e.Package, err)
}

// spoolPieces is the part of a value of unknown size held in memory before a file is used,
// in pieces of 64 KiB.
const spoolPieces = 16

// Spool reads a value of unknown size to its end, as [wire.ReadSpool] does. most is the
// largest size.
func (e *Errors) Spool(ctx context.Context, r io.Reader, steps *wire.Steps, most int64) (*wire.Spool, error) {
	s, err := wire.ReadSpool(ctx, r, steps, wire.SpoolLimits{Pieces: spoolPieces, Size: most})
	switch {
	case err == nil:
		return s, nil
	case err == wire.ErrTooLarge:
		return nil, e.TooLarge
	case err == ctx.Err():
		return nil, e.Fail(Failure{Op: "wait", Err: err})
	}
	return nil, e.Source(err)
}

// Greet runs f, which greets the server of a new connection. If f does not succeed,
// or panics, Greet closes the connection. calm is as in [Exchange].
func Greet[C Conn](ctx context.Context, e *Errors, cn C, f func(C) (calm bool, err error)) error {
	greeted := false
	defer func() {
		if !greeted {
			cn.Close()
		}
	}()
	calm, err := f(cn)
	if err == nil && !calm {
		err = ctx.Err()
	}
	if greeted = err == nil; greeted {
		return nil
	}
	cut := false
	if f, ok := e.Inside(err); ok {
		err, cut = f.Err, e.Gone(f.Err) || errors.Is(f.Err, io.ErrUnexpectedEOF)
	}
	return e.Fail(Failure{Op: "greet", Cut: cut, Err: err})
}

// Listener is a connection that counts the received bytes.
type Listener interface {
	Conn
	Received() uint64
}

// Attempt gives f a connection. If the connection was found dead before any byte of
// a reply came, and repeat permits it by the error of f, f runs once more on another
// one. An error of f is about the connection, which is closed if f
// does not return; calm is as in [Exchange]. The caller must put back the
// connection that it gets.
func Attempt[C Listener](ctx context.Context, p *Pool[C], now time.Time, f func(C) (calm bool, err error), repeat func(error) bool) (cn C, calm bool, err error) {
	var none C
	for again := false; ; again = true {
		if cn, err = p.Get(ctx, now); err != nil {
			return none, false, err
		}
		before := cn.Received()
		calm, err = guarded(p, now, cn, f)
		if err == nil || !cn.slot().reused || cn.Received() != before || !p.o.Lost(err) {
			return cn, calm, err
		}
		p.Lost(cn)
		if again || !repeat(err) {
			return cn, calm, err
		}
		p.Retry(cn, now)
	}
}

// guarded calls f, and closes the connection if f does not return.
func guarded[C Conn](p *Pool[C], now time.Time, cn C, f func(C) (bool, error)) (calm bool, err error) {
	returned := false
	defer func() {
		if !returned {
			p.Put(cn, false, now)
		}
	}()
	calm, err = f(cn)
	returned = true
	return calm, err
}
