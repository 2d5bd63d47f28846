// The load is the third stage of a read: the Loader, or the ManyLoader of several
// reads, runs once, under a context that ends at Limits.HardTimeout or when the
// flight is cancelled. The reads then have its answer; or, if the context ends
// first, they land without it, and the stage of the store is left out.
// Invariant: a panic, an exit of the goroutine and a Loader that never returns
// each give every read an error. An answer that comes late has no effect.

package strata

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/origin"
	"github.com/strata-cache/strata/remote"
)

// runLoader runs the Loader for all unsettled reads. It reports whether the
// Loader has returned before the context of the load ended. It does not return if
// the Loader ends the goroutine.
func (g *reads[K, V]) runLoader() (inTime bool) {
	run := &g.run
	ctx := run.prepare(g)
	for _, r := range run.reads {
		r.loadBegins()
	}
	g.c.counts.running.Add(int64(len(run.reads)))
	defer g.c.counts.running.Add(-int64(len(run.reads)))
	var one [1]heldLease
	held := run.leases(one[:0])
	ctx.Begin(g.scope(), run, g.c.deadlines, g.c.memory.Now())
	defer ctx.End()
	defer g.c.keepLeases(ctx, held)()
	run.err = ErrLoadExited // stands if the Loader never comes back
	defer func() {
		if p := recover(); p != nil {
			run.err = &LoadPanicError{Value: p, Stack: debug.Stack()}
		}
		if inTime = ctx.InTime(); inTime {
			run.answer(g.c.memory.Now())
		}
		run.endLoad(inTime)
	}()
	run.call(run.beginLoad())
	return inTime
}

// prepare makes l the run of the Loader for the unsettled reads of g, and returns the
// context for it.
func (l *loaderRun[K, V]) prepare(g *reads[K, V]) *loadContext {
	l.g, l.reads = g, g.unsettled()
	if l.within = g.within; l.within == nil {
		l.within = new(loadContext)
	}
	l.within.cache = &g.c.core
	if g.many == nil {
		l.within.previous = l.reads[0].candidate.value
	}
	return l.within
}

// loaderRun is one run of the Loader.
type loaderRun[K comparable, V any] struct {
	g      *reads[K, V]
	reads  []*read[K, V]
	within *loadContext

	value  V       // of the Loader of a single read
	values map[K]V // of a ManyLoader
	err    error
	span   *span
}

// call calls the Loader.
func (l *loaderRun[K, V]) call(ctx context.Context) {
	if l.g.many == nil {
		l.value, l.err = l.g.load(ctx, l.reads[0].f.Key)
		return
	}
	keys := make([]K, len(l.reads))
	for i, r := range l.reads {
		keys[i] = r.f.Key
	}
	if l.g.call.gathers && len(keys) > 1 {
		keys = envelope.Distinct(keys) // a fence has come between two reads of one key
	}
	l.values, l.err = l.g.many(ctx, keys)
}

// of returns the Loader's answer for one key.
func (l *loaderRun[K, V]) of(key K) (v V, err error) {
	switch {
	case l.g.many != nil:
		return origin.Of(l.values, l.err, key, ErrNotFound)
	case l.err != nil:
		return v, l.err // no caller sees a value beside an error
	}
	return l.value, nil
}

// answer gives each read the Loader's answer, which has come at some time.
func (l *loaderRun[K, V]) answer(at int64) {
	ctx, took := l.within, l.took(at)
	said, found := ctx.load.Load(), 0
	for _, r := range l.reads {
		o := &r.outcome
		o.res.Value, o.res.Err = l.of(r.f.Key)
		o.res.Err = r.c.asNotFound(o.res.Err)
		o.res.Found, o.took, o.ended = o.res.Err == nil, took, at
		if o.res.Found {
			found++
		}
		applyLoad(said, &r.call, r.f.Key)
	}
	l.judge(at, took)
	for _, r := range l.reads {
		o := &r.outcome
		r.c.loaded(ctx, r.f.Key, o.res.Value, r.loadOutcome(), took, o.res.Err)
	}
	if l.g.many != nil && l.err == nil && found < len(l.values) {
		l.g.keepExtras(l.values, said)
	}
}

// loadOutcome is the outcome of the load for the key of r.
func (r *read[K, V]) loadOutcome() Outcome {
	return outcomeOf(r.outcome.res.Err, r.candidate.value != nil)
}

// judge tells the state of the origin the outcome of the run. A run counts as one load,
// however many keys it has: an answer for any of them, or else the first error.
func (l *loaderRun[K, V]) judge(at int64, took time.Duration) {
	for _, r := range l.reads {
		if out := r.loadOutcome(); out != LoadError && out != LoadPanic {
			r.c.origin.Succeeded(at, took)
			return
		}
	}
	r := l.reads[0]
	if err := r.outcome.res.Err; r.loadOutcome() == LoadPanic || r.remembers(err) {
		r.c.origin.Failed(at, took, r.f.Key, err)
	}
}

// took returns the time since the Loader began.
func (l *loaderRun[K, V]) took(now int64) time.Duration { return time.Duration(now - l.within.Begun()) }

// CutShort lands the reads if the context of the Loader ends before the Loader returns. It
// tells L2 of the windows that the Loader has said, and releases their leases, afterwards: callers do not wait for L2. A Loader that looks at its
// context is as late as one that does not.
func (l *loaderRun[K, V]) CutShort() {
	now := l.g.c.memory.Now()
	took := l.took(now)
	first := l.reads[0]
	if err := first.c.endedLoad(l.within, first.f); first.remembers(err) {
		first.c.origin.Failed(now, took, first.f.Key, err)
	}
	leases := make([]remote.Lease, len(l.reads))
	for i, r := range l.reads {
		leases[i], r.right.lease.Token = r.right.lease, 0
	}
	defer func() {
		for i, r := range l.reads {
			r.right.lease = leases[i]
			r.reliveRemote()
			if r.release(r.right.lease); r.l2.Down {
				return // L2 does not answer: they run out
			}
		}
	}()
	for _, r := range l.reads {
		defer r.cutShort(l.within, now, took) // a hook that ends the goroutine holds up no other read
	}
}

// cutShort lands a read after its load, with ctx, has not ended in time.
func (r *read[K, V]) cutShort(ctx *loadContext, now int64, took time.Duration) {
	defer r.land() // also when a hook ends the goroutine
	defer func() {
		if p := recover(); p != nil {
			r.panicked(p)
		}
	}()
	err := r.c.endedLoad(ctx, r.f)
	r.outcome.took, r.outcome.ended = took, now
	r.outcome.res = flight.Result[V]{Err: err}
	applyLoad(ctx.load.Load(), &r.call, r.f.Key) // the words of the Loader until now
	r.c.loaded(ctx, r.f.Key, *new(V), LoadError, took, err)
	r.loadFailed(err)
}

// loadBegins notes that the Loader is about to run. The value is read from now
// on; the candidate, if there is one, was read before.
func (r *read[K, V]) loadBegins() {
	r.outcome.how = endLoad
	if r.candidate.value == nil {
		r.tagGeneration = r.c.generation.TagWatermark()
	}
}

// endedLoad is the error of a load of f after its context, ctx, has ended.
func (c *Cache[K, V]) endedLoad(ctx context.Context, f *flight.Flight[K, V]) error {
	err := context.Cause(ctx)
	if !errors.Is(err, errLoadTimeout) {
		return c.flightError(err)
	}
	_, endless := c.flights.Waiting(f)
	return &origin.TimeoutError{After: c.o.Limits.HardTimeout, Circular: endless}
}

// loaded counts a load and calls the hook for loads.
func (c *Cache[K, V]) loaded(ctx context.Context, key K, v V, out Outcome, took time.Duration, err error) {
	c.counts.loads[out].Add(1)
	c.counts.latency.Add(took)
	c.hot.Load(key, took)
	if out == LoadPanic {
		c.logPanic(key, err)
	}
	if hook := c.o.Hooks.Load; hook != nil {
		e := Event{Context: ctx, Key: key, Tier: "origin", Outcome: out, Took: took, Err: err}
		if err == nil {
			e.Value = c.near.Values.Copy(v)
		}
		c.tell(hook, e)
	}
}

// logPanic logs that a Loader has panicked, or has ended its goroutine. A refresh
// has no caller that would get the error.
func (c *core) logPanic(key any, err error) {
	var stack []byte
	var p *LoadPanicError
	if errors.As(err, &p) {
		stack = p.Stack
	}
	c.origin.Panicked(c.now(), key, err, stack)
}
