package strata

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/strata-cache/strata/internal/cache/l2"
	"github.com/strata-cache/strata/internal/cache/origin"
)

var (
	// ErrNotFound is returned by a Loader, alone or wrapped, if the origin has no
	// such key; see also Options.IsNotFound. Callers of that load get the Loader's
	// error, and it wraps ErrNotFound. An entry of the key is dropped.
	ErrNotFound = errors.New("strata: not found")

	// ErrNotModified is returned by a Loader, alone or wrapped, if the value of
	// [Cache.Previous] is still current. The entry gets a new life without being
	// stored again. Without a previous value it is an error like any other.
	ErrNotModified = errors.New("strata: not modified")

	// ErrClosed is returned by calls on a closed Cache, and to callers that wait
	// for a load when the Cache is closed.
	ErrClosed = errors.New("strata: cache is closed")

	// ErrRecursiveLoad is returned to a caller inside a Loader that asks for a key while
	// the load of this key waits, directly or through other loads, for that Loader.
	ErrRecursiveLoad = errors.New("strata: recursive load")

	// ErrLoadExited is returned to all callers of a load if its Loader ended its
	// goroutine with runtime.Goexit, as testing.T.FailNow does.
	ErrLoadExited = errors.New("strata: loader exited its goroutine")

	// ErrNoLoader is returned by GetOrLoad, Refresh and a Warm that loads, when neither the
	// call nor the Options name a Loader.
	ErrNoLoader = errors.New("strata: no loader")

	// ErrOverloaded is returned to a caller beyond Limits.MaxWaiters, if L1 has
	// no stale value for it.
	ErrOverloaded = errors.New("strata: too many callers wait")

	// ErrKeyTooLong is returned for a key longer than Limits.MaxKeyBytes, or with a longer
	// name in L2. Nothing was done. The error for a key too long for the Tier alone is
	// remote.ErrKeyTooLong.
	ErrKeyTooLong = errors.New("strata: key is longer than Limits.MaxKeyBytes")

	errCodecPanicked = errors.New("strata: Remote.Codec panicked")
	errKeyPanicked   = errors.New("strata: Remote.Key, or a method of the key, panicked")

	errSoftTimeout = errors.New("strata: load took longer than Limits.SoftTimeout")
	errLoadTimeout = fmt.Errorf("strata: load took longer than Limits.HardTimeout: %w", context.DeadlineExceeded)
	errNoSlot      = fmt.Errorf("strata: no slot of Limits.MaxLoads came free within Limits.HardTimeout: %w", context.DeadlineExceeded)
)

// LoadPanicError is returned to every caller of a load in which the Loader panicked.
// Nothing was stored, and the next call loads again.
type LoadPanicError struct {
	// Value is the value of the panic.
	Value any
	// Stack is the stack of the panic, as runtime/debug.Stack formats it.
	Stack []byte
}

// Error shows the panic's value, 512 bytes of it at most, if it is an error, a
// string, a number or a fmt.Stringer, and its type otherwise.
func (e *LoadPanicError) Error() string {
	text, ok := origin.PanicText(e.Value)
	if !ok {
		return fmt.Sprintf("strata: loader panicked with a value of type %T", e.Value)
	}
	return "strata: loader panicked: " + text
}

// Unwrap returns the panic's value if it is an error.
func (e *LoadPanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// A RemoteError says that L2 or the bus did not confirm a call. The call has taken
// effect on this instance, which reads the keys past L2 and tries again in the
// background until L2 confirms or the cache is closed. Until then other instances
// may serve the entries under these drops. A RemoteError of [Cache.Close] is about lost
// drops: nothing is tried again.
type RemoteError struct {
	// Op is the call: "set", "add", "take", "update", "invalidate", "expire", one of the
	// last two with "all" or "tags", or "close".
	Op string
	// Pending is the number of drops that L2 or the bus has yet to confirm to this cache, those
	// of earlier calls included; with "close" the number of lost drops. A drop of
	// everything counts as one.
	Pending int
	// Dropped says that the old values were dropped everywhere, and that the new ones of a
	// "set" or "update" are stored in no tier: the next read loads. Then nothing of this call
	// is tried again.
	Dropped bool
	// Err is the error of the tier or the bus. It wraps [ErrClosed] if the cache was
	// closed meanwhile, so that the call's drop is not tried again, and the error of the
	// caller's context if it has ended.
	Err error
}

const opClose = "close"

// remoteError converts err, of a call with the name op, for the caller.
func remoteError(op string, err error) error {
	var u *l2.Unconfirmed
	if !errors.As(err, &u) {
		return err
	}
	return &RemoteError{Op: op, Pending: u.Pending, Dropped: u.Dropped, Err: u.Err}
}

// Error names the call, the cause and the number of pending drops.
func (e *RemoteError) Error() string {
	if e.Op == opClose {
		return fmt.Sprintf("strata: close: invalidations are lost, not confirmed by L2 and the bus: %v (%d lost)", e.Err, e.Pending)
	}
	return "strata: " + e.Op + ": " + (&l2.Unconfirmed{Pending: e.Pending, Dropped: e.Dropped, Err: e.Err}).Describe()
}

// Unwrap returns the cause.
func (e *RemoteError) Unwrap() error { return e.Err }

// wrap adds the names of the cache and the key to the error of a load. Errors of
// this package itself have none.
func (c *core) wrap(key any, err error) error {
	for _, own := range []error{ErrClosed, ErrRecursiveLoad, ErrLoadExited, ErrNoLoader, ErrOverloaded, ErrKeyTooLong} {
		if errors.Is(err, own) {
			return err
		}
	}
	if err == nil || isPanic(err) {
		return err
	}
	e := &origin.LoadError{Cache: c.settings.Name, Err: err}
	if c.settings.ShowKeys {
		e.Key = fmt.Sprintf("%q", fmt.Sprint(key))
	}
	return e
}

// PartialError is returned by GetMany, beside the values found, and by Refresh, if some
// keys failed.
type PartialError[K comparable] struct {
	// Failed has the error of each of these keys: in GetMany as GetOrLoad would return it.
	Failed map[K]error
}

// Error names the number of keys and one of the errors.
func (e *PartialError[K]) Error() string {
	for _, err := range e.Failed {
		return fmt.Sprintf("strata: %d keys failed: %v", len(e.Failed), err)
	}
	return "strata: no keys failed"
}

// Unwrap returns the errors of all keys.
func (e *PartialError[K]) Unwrap() []error { return slices.Collect(maps.Values(e.Failed)) }
