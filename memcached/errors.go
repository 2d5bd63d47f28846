package memcached

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/wire/pool"
	"github.com/strata-cache/strata/remote"
)

// Errors that callers tell apart.
var (
	// ErrMiss is returned when the server has no item under the key. An empty
	// value is no error.
	ErrMiss = errors.New("memcached: no such key")
	// ErrConflict is returned by CompareAndSwap when the item has changed since it
	// was read.
	ErrConflict = errors.New("memcached: the item has changed")
	// ErrNotStored is returned by Add when there is an item already, and by
	// Replace, Append and Prepend when there is none.
	ErrNotStored = errors.New("memcached: not stored")
	// ErrTooLarge is in the chain of an error when a value is larger than
	// Options.MaxValue, or than the server takes.
	ErrTooLarge = errors.New("memcached: value too large")
	// ErrBadKey is in the chain of an error when a key cannot be sent, under the
	// Options.Keys of the client. Nothing was sent, also of a batch.
	ErrBadKey = errors.New("memcached: bad key")
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("memcached: closed")
	// ErrProtocol is in the chain of an error when the server broke the protocol
	// or a limit of Options, or answered another command. The connection was
	// closed.
	ErrProtocol = errors.New("memcached: protocol broken")
	// ErrClassic is returned by a call that needs meta commands, if the server has none.
	ErrClassic = errors.New("memcached: the server has no meta commands")
)

// ServerError is an error that the server answered with.
type ServerError struct {
	// Code is ERROR, CLIENT_ERROR or SERVER_ERROR. After the first two the
	// connection is closed, unless a command that counts found a value that is
	// no number.
	Code string
	// Message is the rest, at most 512 bytes of it.
	Message string
}

// Error implements error.
func (e *ServerError) Error() string {
	return strings.TrimSuffix("memcached: "+e.Code+" "+e.Message, " ")
}

// Is makes it a [remote.ErrRefused], and an [ErrTooLarge] if it says so.
func (e *ServerError) Is(target error) bool {
	return target == remote.ErrRefused || target == ErrTooLarge && strings.HasPrefix(e.Message, "object too large")
}

// serverError is the error of an error reply.
func serverError(r meta.Reply) *ServerError {
	const longest = 512
	return &ServerError{Code: r.Code, Message: string(r.Text[:min(len(r.Text), longest)])}
}

// noNumber reports whether err says that the value of a counted item is no number.
func noNumber(err error) bool {
	var e *ServerError
	return errors.As(err, &e) && e.Code == "CLIENT_ERROR" && strings.HasSuffix(e.Message, "non-numeric value")
}

// ConnError says that a connection failed, could not be opened, or could not
// be had in time. It wraps the reason, such as context.Canceled, io.EOF or
// [ErrProtocol]. The connection is gone.
type ConnError struct {
	// Op is the operation: wait, dial, greet, write or read; or ejected, if the
	// server was not asked because it has not answered lately.
	Op string
	// Sent says that the server may have carried out the command.
	Sent bool
	// Err is the reason.
	Err error
	// cut says that the connection was lost before the server had answered the
	// greeting.
	cut bool
}

// Error implements error.
func (e *ConnError) Error() string {
	return "memcached: " + e.Op + ": " + strings.TrimPrefix(e.Err.Error(), "memcached: ")
}

// Unwrap returns the reason.
func (e *ConnError) Unwrap() error { return e.Err }

// faults are the errors of this package for its connections.
var faults = &pool.Errors{ // read-only
	Fail: func(f pool.Failure) error { return &ConnError{Op: f.Op, Sent: f.Sent, Err: f.Err, cut: f.Cut} },
	Inside: func(err error) (f pool.Failure, ok bool) {
		ce, ok := err.(*ConnError) //nolint:errorlint // within another error it may be of another client, as of a reader
		if !ok {
			return f, false
		}
		return pool.Failure{Op: ce.Op, Sent: ce.Sent, Err: ce.Err, Cut: ce.cut}, true
	},
	Package: "memcached", Protocol: ErrProtocol, Closed: ErrClosed, TooLarge: ErrTooLarge,
}

// SafeToRetry reports whether the call that returned err certainly had no effect on
// the server: nothing was sent whole.
func SafeToRetry(err error) bool {
	var ce *ConnError
	return errors.As(err, &ce) && !ce.Sent && !errors.Is(err, ErrClosed)
}

// PartialError is returned by calls for many keys, beside the results of the
// keys that succeeded.
type PartialError struct {
	// Failed has the error of each key that failed. An item of SetMany whose
	// error is a [*ServerError] or a [*ConnError] may have been stored.
	Failed map[string]error
}

// Error implements error.
func (e *PartialError) Error() string {
	for _, err := range e.Failed {
		return "memcached: " + strconv.Itoa(len(e.Failed)) + " keys failed, one of them: " + strings.TrimPrefix(err.Error(), "memcached: ")
	}
	return "memcached: no key failed"
}

// Unwrap returns the errors of the keys.
func (e *PartialError) Unwrap() []error {
	all := make([]error, 0, len(e.Failed))
	for _, err := range e.Failed {
		all = append(all, err)
	}
	return all
}

// fail notes the error of a key.
func (e *PartialError) fail(key string, err error) {
	if e.Failed == nil {
		e.Failed = map[string]error{}
	}
	e.Failed[key] = err
}

// orNil is e, if a key has failed.
func (e *PartialError) orNil() error {
	if len(e.Failed) == 0 {
		return nil
	}
	return e
}

func readError(err error) error { return &ConnError{Op: "read", Sent: true, Err: err} }

// errForeign is the error for a reply that belongs to another command.
func errForeign() error { return readError(pool.ErrForeign) }

// dead reports whether err says that a server does not answer. An error of the server
// or of the protocol does not say so, nor does the end of the client or of a
// cancelled call.
func dead(err error) bool {
	var ce *ConnError
	if !errors.As(err, &ce) {
		return false
	}
	for _, other := range []error{context.Canceled, ErrClosed, ErrProtocol, ErrClassic, remote.ErrRefused} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}
