package strata

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/internal/trust"
	"github.com/strata-cache/strata/remote"
)

// miss answers a GetOrLoad that L1 could not: it joins the key's flight, or
// starts it, and waits under the caller's own context.
func (c *Cache[K, V]) miss(ctx context.Context, key K, load Loader[K, V], o call) (V, error) {
	if load == nil {
		load = c.o.Loader
	}
	if load == nil {
		c.counts.turnedAway.Add(1)
		var zero V
		return zero, ErrNoLoader
	}
	if n := c.o.Limits.MaxWaiters; n > 0 {
		defer c.waiting.Add(-1)
		if c.waiting.Add(1) > int64(n) {
			return c.overloaded(key, o)
		}
	}
	if d := c.o.Limits.SoftTimeout; d > 0 {
		if e, until := c.fallback(key); e != nil && l1.After(c.memory.Now(), d) < until {
			return c.missSoftly(ctx, key, load, o, e.Value, d)
		}
	}
	r, err := c.fly(ctx, key, flight.Load, load, o)
	if err != nil {
		return r.Value, err
	}
	return c.answer(key, r)
}

// answer is what a caller gets of a flight's result.
func (c *Cache[K, V]) answer(key K, r flight.Result[V]) (V, error) {
	if r.Err != nil {
		return r.Value, c.wrap(key, r.Err)
	}
	return c.clone(r.Value), nil
}

// fallback returns the entry that L1 has for when a load fails, or nil, and
// until when it may be served.
func (c *Cache[K, V]) fallback(key K) (e *l1.Entry[K, V], until int64) {
	e, _ = c.memory.Peek(key)
	if e == nil {
		return nil, 0
	}
	if v, _ := c.judge(key, e); v > trust.Stale {
		return nil, 0
	}
	return e, c.onErrorUntil(e)
}

// overloaded is the answer to a caller who would be one too many.
func (c *Cache[K, V]) overloaded(key K, o call) (V, error) {
	c.counts.overloaded.Add(1)
	if e, until := c.fallback(key); e != nil && c.memory.Now() < until {
		c.counts.remembered.Add(1)
		c.stale(key, ErrOverloaded)
		o.inform(Info{Tier: "L1", Stale: true, Degraded: c.degraded()})
		return c.clone(e.Value), nil
	}
	c.counts.turnedAway.Add(1)
	return *new(V), ErrOverloaded
}

// missSoftly is miss for a caller who waits for d at most, and gets the stale
// value v then. The load goes on.
func (c *Cache[K, V]) missSoftly(ctx context.Context, key K, load Loader[K, V], o call, v V, d time.Duration) (V, error) {
	soft, cancel := context.WithTimeoutCause(ctx, d, errSoftTimeout)
	defer cancel()
	o.keep = true
	r, err := c.fly(soft, key, flight.Load, load, o)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(soft), errSoftTimeout) {
		c.stale(key, errSoftTimeout)
		o.inform(Info{Tier: "L1", Stale: true, Degraded: c.degraded()})
		return c.clone(v), nil
	}
	if err != nil {
		return r.Value, err
	}
	return c.answer(key, r)
}

// fly gets key through a flight of that kind.
func (c *Cache[K, V]) fly(ctx context.Context, key K, kind flight.Kind, load Loader[K, V], o call) (flight.Result[V], error) {
	if err := ctx.Err(); err != nil {
		c.counts.turnedAway.Add(1)
		return flight.Result[V]{}, err
	}
	if kind == flight.Read && c.tier == nil {
		c.counts.turnedAway.Add(1)
		return flight.Result[V]{}, nil
	}
	if o.refresh {
		c.counts.refreshes.Add(1)
	}
	a := &attempt[K, V]{c: c, load: load, call: o}
	r, part, err := c.flights.Do(ctx, key, kind, a)
	switch part {
	case flight.Joined:
		c.counts.joins.Add(1)
	case flight.Led:
		c.counts.flights.Add(1)
	default:
		c.counts.turnedAway.Add(1)
	}
	err = c.flightError(err)
	if err == nil && r.Err == nil {
		if o.info != nil {
			*o.info = infoOf(r.Note, part == flight.Joined)
		}
		if r.Note&noteRevalidate != 0 && part == flight.Led {
			c.refresh(ctx, key, load, o)
		}
	}
	return r, err
}

// flightError returns err in this package's words.
func (c *Cache[K, V]) flightError(err error) error {
	switch {
	case errors.Is(err, flight.ErrClosed):
		return ErrClosed
	case errors.Is(err, flight.ErrRecursive):
		return ErrRecursiveLoad
	}
	return err
}

// attempt is one flight on its way: L1 again → L2 → lease → loader → store →
// land.
type attempt[K comparable, V any] struct {
	c     *Cache[K, V]
	f     *flight.Flight[K, V]
	ctx   context.Context // the caller's in First, the flight's in Then
	load  Loader[K, V]
	call  call
	name  string // of the key in L2
	again bool   // the first look was cut short

	// tagTrust is the word of trust in tags from before anything was read.
	tagTrust uint64
	sweeps   uint64       // of pending drops, from before L2 was asked
	unasked  bool         // L2 was not looked at
	probe    bool         // what L2 answers to this flight decides on the breaker
	down     bool         // L2 has failed in this flight and is left alone
	unheld   bool         // L2 cannot hold the key
	hungUp   bool         // it was not L2 that failed: the flight was cancelled
	lease    remote.Lease // the right to store in L2, if its Token is set
	spoilt   remote.ID    // of what L2 takes for fresh and nobody can use
	noKeep   bool         // the value must not be kept anywhere

	held      *V        // a stale value, for Previous and for when the load fails
	heldUntil int64     // until when held may be served if it does
	id        remote.ID // of held, if L2 holds it
	tags      []string  // of what L2 or L1 holds
	// expired says that what L2 holds was expired by one of its tags.
	expired bool
	entry   *l1.Entry[K, V]
	memo    *l1.Entry[K, memo]
	took    time.Duration // by the Loader
	left    time.Duration // for which a value of a batch is fresh
	// landed is set when the flight has ended, apart when somebody else than
	// its batch sees to that.
	landed, apart bool
	// suspect is what L1 holds and L2 has to confirm, suspectSince since when.
	suspect      *l1.Entry[K, V]
	suspectSince int64

	brought bool // the Loader has brought a value
	end     end
	res     flight.Result[V]
}

// end says how a flight got its result.
type end uint8

const (
	endAbandoned end = iota // nobody waited any more, or the cache was closed
	endL1                   // L1 had it by then
	endL2                   // L2 had it
	endAbsent               // L2 did not have it, and there was no loader
	endLoad                 // the loader ran
	endThrottled            // it would have, but has failed too lately
)

// First goes through the steps that need no more than the caller has: a look
// at the tiers. A caller whose context ends meanwhile leaves the rest, and
// those who have joined it, to Then.
func (a *attempt[K, V]) First(ctx context.Context, f *flight.Flight[K, V]) (landed bool) {
	a.f, a.ctx, a.tagTrust = f, ctx, a.c.trust.TagWord()
	if a.call.keep {
		a.c.flights.Keep(f)
	}
	ended := true // by a panic or exit of the user's Key or Codec
	defer func() {
		if ended && a.res.Err == nil {
			a.res.Err = ErrLoadExited
		}
		if landed = landed || ended; landed {
			a.land()
		}
	}()
	defer a.recovered()
	landed = a.look()
	ended = false
	if over(ctx) && !landed {
		*a = attempt[K, V]{c: a.c, load: a.load, call: a.call, again: true}
	}
	return landed
}

// Then goes through all other steps.
func (a *attempt[K, V]) Then(f *flight.Flight[K, V]) {
	a.f, a.ctx = f, f.Context()
	if a.again {
		a.tagTrust = a.c.trust.TagWord()
	}
	defer a.land() // also when the Loader ends the goroutine
	defer a.recovered()
	if a.again && a.look() {
		return
	}
	a.finish()
}

// finish does what a look has left to do: slot, lease, loader, store.
func (a *attempt[K, V]) finish() {
	if a.over() {
		return
	}
	release, err := a.c.loads.Acquire(a.ctx, a.call.refresh, a.c.flights.Urgent(a.f))
	if err != nil {
		a.res.Err = a.c.flightError(err)
		return
	}
	defer release()
	if a.c.tier != nil && !a.down && a.takeLease() || a.over() || a.spent() {
		return
	}
	a.runLoader()
	a.store()
}

// spent reports whether the load would be one more attempt at what has failed,
// and there have been enough of those lately. The last failure is the result.
func (a *attempt[K, V]) spent() bool {
	if a.c.failing.Load() < failingFrom || a.c.failures(a.f.Key) == 0 || a.c.budget.Retry(a.c.memory.Now()) {
		return false
	}
	a.c.counts.budgetSpent.Add(1)
	a.fail(a.lastFailure())
	return true
}

// failingFrom is the number of loads that have to fail in a row for the origin
// to count as failing, so that attempts at what has failed are rationed. One
// success ends that.
const failingFrom = 10

func (a *attempt[K, V]) lastFailure() error {
	if e, _ := a.c.memos.Peek(a.f.Key); e != nil && e.Value.err != nil {
		return e.Value.err
	}
	return ErrOverloaded
}

// fail makes the stale value the result of a flight that may not load, or cannot,
// or err if there is none.
func (a *attempt[K, V]) fail(err error) {
	a.end = endThrottled
	if a.held != nil && a.c.memory.Now() < a.heldUntil {
		a.res = flight.Result[V]{Value: *a.held, Found: true, Note: noteL1 | noteStale}
		a.c.stale(a.f.Key, err)
		return
	}
	a.res.Err = err
}

// over reports whether nobody waits any more, and makes that the result.
func (a *attempt[K, V]) over() bool {
	err := context.Cause(a.ctx)
	if err == nil {
		return false
	}
	a.res.Err = a.c.flightError(err)
	return true
}

// look looks at L1 and L2, and reports whether there is a result: a value, or
// that there is none and no loader.
func (a *attempt[K, V]) look() bool {
	if a.lookAgain() {
		return true
	}
	if a.c.tier != nil {
		a.name = a.c.o.Remote.Key(a.f.Key)
		if a.askTier() {
			return true
		}
	}
	switch {
	case over(a.ctx):
	case a.load == nil:
		a.end = endAbsent
		return true
	default:
		if err := a.c.throttled(a.f.Key); err != nil {
			a.fail(err)
			return true
		}
	}
	return false
}

// lookAgain looks for an entry that came to L1 after the caller had looked,
// and keeps a stale one at hand.
func (a *attempt[K, V]) lookAgain() bool {
	e, now := a.c.memory.Peek(a.f.Key)
	if e == nil {
		return false
	}
	v, since := a.c.judge(a.f.Key, e)
	switch {
	case v == trust.Disowned, v == trust.Suspect && a.c.tier == nil:
		return false
	case v == trust.Suspect:
		a.suspect, a.suspectSince = e, since
		return false
	case v == trust.Stale, now >= e.Fresh, a.call.refresh && now >= e.Soon:
		a.held, a.id, a.heldUntil = &e.Value, remote.ID(e.ID), a.c.onErrorUntil(e)
		if e.Tags != nil {
			a.tags = e.Tags.Names
		}
		return false
	}
	a.found(e.Value, endL1)
	return true
}

// stamps are what an entry with these tags is judged by later.
func (a *attempt[K, V]) stamps(tags []string) stamps {
	return stamps{trust: a.f.Stamp, tagTrust: a.tagTrust, tags: tags}
}

// recovered makes a panic of the user's Key or Codec the result. The Loader's
// own panics do not come this far.
func (a *attempt[K, V]) recovered() {
	if p := recover(); p != nil {
		a.entry = nil
		a.res = flight.Result[V]{Err: &LoadPanicError{Value: p, Stack: debug.Stack()}}
	}
}

// land ends the flight: it puts the entry into L1 if that is still allowed,
// wakes the callers, and tells whoever wants to know.
func (a *attempt[K, V]) land() {
	c := a.c
	a.landed = true
	var removed []l1.Removed[K, V]
	var insert func()
	defer func() { // also when a callback panics or ends the goroutine
		stored, callers := c.flights.Land(a.f, a.res, insert)
		defer a.count(stored, callers)
		c.memory.Notify(removed)
	}()
	defer c.contain("Tier.Release")
	a.giveBack()
	switch {
	case a.entry != nil:
		insert = func() { c.forget(a.f.Key) } // unless it can be weighed
		if weight, ok := c.weigh(a.f.Key, a.entry.Value); ok {
			c.mark(a.entry)
			insert = func() {
				removed, _ = c.memory.Set(a.entry, weight)
				c.memos.Delete(a.f.Key)
			}
		}
	case a.memo != nil:
		insert = func() {
			c.memory.Delete(a.f.Key)
			c.memos.Set(a.memo, 1)
		}
	case a.brought, isAnswer(a.res.Err, ErrNotFound):
		// The origin's word is newer than what is held, and not to be kept.
		insert = func() { c.forget(a.f.Key) }
	}
}

// isAnswer reports whether err is the Loader's answer target. A panic is no
// answer, whatever it wraps.
func isAnswer(err, target error) bool {
	var p *LoadPanicError
	return errors.Is(err, target) && !errors.As(err, &p)
}

// count adds the flight to the numbers.
func (a *attempt[K, V]) count(stored bool, callers int) {
	n := &a.c.counts
	switch a.end {
	case endAbandoned:
		n.abandoned.Add(1)
	case endL1:
		n.rechecked.Add(1)
	case endL2:
		n.remoteHits.Add(1)
	case endAbsent:
		n.absent.Add(1)
	case endThrottled:
		n.throttled.Add(1)
	case endLoad:
		n.waiters.Add(uint64(callers - 1))
		n.mostWaiters(uint64(callers - 1))
	}
	if a.entry != nil && !stored {
		n.refused.Add(1)
		if hook := a.c.o.Hooks.Refused; hook != nil {
			a.c.tell(hook, Event{Key: a.f.Key, Tier: "L1"})
		}
	}
}
