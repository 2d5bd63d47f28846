package strata

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrNotFound is what a Loader returns, alone or wrapped, when the origin
	// has no such key. Callers of that load get the loader's error. An entry
	// that was held for the key is dropped.
	ErrNotFound = errors.New("strata: not found")

	// ErrNotModified is what a Loader returns, alone or wrapped, when the value
	// it can get from [Cache.Previous] still holds. The entry gets a new life
	// without being stored again. Where there is no previous value it is an
	// error like any other.
	ErrNotModified = errors.New("strata: not modified")

	// ErrClosed is returned by calls on a closed Cache, and to callers who wait
	// for a load when it is closed.
	ErrClosed = errors.New("strata: cache is closed")

	// ErrRecursiveLoad is returned to a caller inside a Loader that asks for a
	// key whose load waits, directly or through other loads, for that Loader.
	ErrRecursiveLoad = errors.New("strata: recursive load")

	// ErrLoadExited is returned to all callers of a load whose Loader ended its
	// goroutine with runtime.Goexit, as testing.T.FailNow does.
	ErrLoadExited = errors.New("strata: loader exited its goroutine")

	// ErrNoLoader is returned by GetOrLoad when neither the call nor the
	// Options name a Loader.
	ErrNoLoader = errors.New("strata: no loader")

	// ErrOverloaded is returned to a caller who would be one more than
	// Limits.MaxWaiters allow, if there is no stale value for it.
	ErrOverloaded = errors.New("strata: too many callers wait")

	errSoftTimeout = errors.New("strata: load took longer than Limits.SoftTimeout")
	errBreaker     = errors.New("strata: L2 has failed too often and is left alone")
	errLoadTimeout = fmt.Errorf("strata: load took longer than Limits.HardTimeout: %w", context.DeadlineExceeded)
)

// LoadPanicError is returned to every caller of a load whose Loader panicked.
// Nothing was stored, and the next call loads again.
type LoadPanicError struct {
	// Value is what the Loader panicked with.
	Value any
	// Stack is the stack of the panic, as runtime/debug.Stack formats it.
	Stack []byte
}

// Error names the type of the panic's value. The value itself may hold what
// does not belong in a log.
func (e *LoadPanicError) Error() string {
	return fmt.Sprintf("strata: loader panicked with a value of type %T", e.Value)
}

// Unwrap returns the panic's value if it is an error.
func (e *LoadPanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// A RemoteError says that a call was not confirmed by L2 or the bus. This
// instance has done its part, reads the keys past L2, and tries again in the
// background until L2 confirms or the process ends; until then other instances
// may serve what was to be dropped.
type RemoteError struct {
	// Op is the call: "set", "update", "invalidate", "expire", or one of the
	// last two with "all" or "tags".
	Op string
	// Pending is the number of drops that this cache has yet to carry out, of
	// earlier calls too. A drop of everything counts as one.
	Pending int
	// Err is what the tier or the bus returned.
	Err error
}

// Error names the call, the cause and what is pending.
func (e *RemoteError) Error() string {
	return fmt.Sprintf("strata: %s: not confirmed by L2 and the bus: %v (%d pending)", e.Op, e.Err, e.Pending)
}

// Unwrap returns the cause.
func (e *RemoteError) Unwrap() error { return e.Err }
