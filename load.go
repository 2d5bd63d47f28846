package strata

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/strata-cache/strata/internal/flight"
)

// runLoader runs the Loader and makes what it does the result. It returns
// normally unless the Loader ends the goroutine, in which case only the
// deferred calls of the flight still run.
func (a *attempt[K, V]) runLoader() {
	a.end = endLoad
	a.res.Err = ErrLoadExited // stands if the Loader never comes back
	within := &loadContext{Context: a.ctx, cache: a.c, previous: a.held}
	ctx, cancel := a.c.loadContext(within)
	defer cancel()
	defer a.keepLease(ctx)()
	defer within.load.apply(&a.call)
	start := time.Now()
	defer func() { a.loaded(time.Since(start)) }()
	defer func() {
		if p := recover(); p != nil {
			a.res.Err = &LoadPanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	v, err := a.load(ctx, a.f.Key)
	if err != nil && errors.Is(context.Cause(a.ctx), flight.ErrClosed) {
		err = ErrClosed // what callers get who notice the end themselves
	}
	a.res.Value, a.res.Err = v, err
}

// loadContext bounds the context that the Loader runs under.
func (c *Cache[K, V]) loadContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if d := c.o.Limits.HardTimeout; d > 0 {
		return context.WithTimeoutCause(ctx, d, errLoadTimeout)
	}
	return ctx, func() {}
}

// loaded counts the load and reports it. It runs before anything is stored.
func (a *attempt[K, V]) loaded(took time.Duration) {
	c, out := a.c, outcomeOf(a.res.Err, a.held != nil)
	a.took = took
	c.loaded(a.f.Key, out, took, a.res.Err)
}

// loaded counts a load and tells of it.
func (c *Cache[K, V]) loaded(key K, out Outcome, took time.Duration, err error) {
	c.counts.loads[out].Add(1)
	c.counts.latency.add(took)
	if hook := c.o.Hooks.Load; hook != nil {
		c.tell(hook, Event{Key: key, Tier: "origin", Outcome: out, Took: took, Err: err})
	}
}

// Outcome is how a load ended.
type Outcome uint8

// The outcomes of a load.
const (
	LoadOK Outcome = iota
	LoadNotFound
	LoadNotModified
	LoadError
	LoadPanic
	outcomes
)

// String returns the outcome's name as metrics label it.
func (o Outcome) String() string {
	switch o {
	case LoadOK:
		return "ok"
	case LoadNotFound:
		return "not found"
	case LoadNotModified:
		return "not modified"
	case LoadPanic:
		return "panic"
	default:
		return "error"
	}
}

func outcomeOf(err error, held bool) Outcome {
	if err == nil {
		return LoadOK
	}
	var p *LoadPanicError
	switch {
	case errors.Is(err, ErrLoadExited), errors.As(err, &p):
		return LoadPanic
	case errors.Is(err, ErrNotFound):
		return LoadNotFound
	case held && errors.Is(err, ErrNotModified):
		return LoadNotModified
	default:
		return LoadError
	}
}
