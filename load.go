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
// deferred calls of the flight still run. If the load's context ends first the
// flight has landed without it.
func (a *attempt[K, V]) runLoader() {
	a.begins()
	within := &loadContext{Context: a.ctx, cache: a.c, previous: a.held}
	ctx, cancel := a.c.loadContext(within)
	defer cancel()
	defer a.keepLease(ctx)()
	start := time.Now()
	within.late.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer within.late.Done()
		defer a.handBack(a.lease)
		a.cutShort(ctx, time.Since(start))
	})
	v, err := *new(V), ErrLoadExited // stands if the Loader never comes back
	defer func() {
		if p := recover(); p != nil {
			err = &LoadPanicError{Value: p, Stack: debug.Stack()}
		}
		if !within.inTime(stop) {
			return
		}
		if a.res.Value, a.res.Err = v, err; err != nil {
			a.res.Value = *new(V) // no caller sees a value beside an error
		}
		applyLoad(&within.load, &a.call, a.f.Key)
		a.took = time.Since(start)
		a.c.loaded(ctx, a.f.Key, v, outcomeOf(err, a.held != nil), a.took, err)
	}()
	v, err = a.load(ctx, a.f.Key)
}

// begins notes that the Loader is about to run. Its value is read from now
// on; the value that is held, if there is one, was read before.
func (a *attempt[K, V]) begins() {
	a.end = endLoad
	if a.held == nil {
		a.tagGeneration = a.c.generation.TagWatermark()
	}
}

// loadContext bounds the context that the Loader runs under.
func (c *Cache[K, V]) loadContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if d := c.o.Limits.HardTimeout; d > 0 {
		return context.WithTimeoutCause(ctx, d, errLoadTimeout)
	}
	return ctx, func() {}
}

// inTime reports whether a Loader has returned before the load's context ended.
// stop is from the context.AfterFunc that is to land what the load is for if not.
// If it has run, inTime waits until that is done: so what both use, each has to
// itself.
func (l *loadContext) inTime(stop func() bool) bool {
	if stop() {
		return true
	}
	l.late.Wait()
	return false
}

// cutShort lands the flight of a Loader that has not returned when ctx, the
// load's, has ended: at Limits.HardTimeout, or because the flight is cancelled.
// A Loader that looks at its context is as late as one that does not.
func (a *attempt[K, V]) cutShort(ctx context.Context, took time.Duration) {
	defer a.land() // also when a hook ends the goroutine
	defer a.recovered()
	a.took = took
	a.res = flight.Result[V]{Err: a.c.ended(ctx, a.f)}
	a.lease.Token = 0 // callers do not wait until it is given back
	a.c.loaded(ctx, a.f.Key, a.res.Value, LoadError, took, a.res.Err)
	a.store()
}

// ended is the error of a load of f whose context, ctx, has ended.
func (c *Cache[K, V]) ended(ctx context.Context, f *flight.Flight[K, V]) error {
	err := context.Cause(ctx)
	if !errors.Is(err, errLoadTimeout) {
		return c.flightError(err)
	}
	_, endless := c.flights.Waiting(f)
	return &timeoutError{after: c.o.Limits.HardTimeout, circular: endless}
}

// loaded counts a load and tells of it.
func (c *Cache[K, V]) loaded(ctx context.Context, key K, v V, out Outcome, took time.Duration, err error) {
	c.counts.loads[out].Add(1)
	c.counts.latency.add(took)
	if out == LoadPanic {
		c.logPanic(key, err)
	}
	if hook := c.o.Hooks.Load; hook != nil {
		e := Event{Context: ctx, Key: key, Tier: "origin", Outcome: out, Took: took, Err: err}
		if err == nil {
			e.Value = v
		}
		c.tell(hook, e)
	}
}
