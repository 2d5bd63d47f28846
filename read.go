package strata

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/generation"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/internal/l2"
	"github.com/strata-cache/strata/internal/limit"
	"github.com/strata-cache/strata/remote"
)

// attempt is one flight on its way: L1 again → L2 → lease → loader → store →
// land.
type attempt[K comparable, V any] struct {
	c      *Cache[K, V]
	f      *flight.Flight[K, V]
	ctx    context.Context // the caller's in First, the flight's in Then
	load   Loader[K, V]
	call   call
	l2     l2.Session
	again  bool // the first look was cut short
	beside bool // the caller goes on to a reload if L2 has nothing

	// tagGeneration is the word of trust in tags from before anything was read.
	tagGeneration uint64
	unasked       bool         // L2 was not looked at
	lease         remote.Lease // the right to store in L2, if its Token is set
	spoilt        remote.ID    // of what L2 takes for fresh and nobody can use
	noKeep        bool         // the value must not be kept anywhere
	replaced      bool         // L2 has answered what the load brought
	pending       bool         // a reload whose load has not begun

	held      *V        // a stale value, for Previous and for when the load fails
	heldNote  uint8     // which tier it is from
	heldUntil int64     // until when held may be served if it does
	id        remote.ID // of held, if L2 holds it
	// loose says that held was expired in L2, which keeps it for as long as if it
	// had not been.
	loose bool
	// fallback is an entry for held if that is from L2. It is kept in L1 if held is
	// served, and L1 has nothing fresh by then.
	fallback *l1.Entry[K, V]
	tags     []string // of what L2 or L1 holds
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
	late    bool // a tag of entry was dropped meanwhile
	end     end
	res     flight.Result[V]
}

// end says how a flight got its result.
type end uint8

const (
	endAbandoned end = iota // the flight was cancelled
	endL1                   // L1 had it by then
	endL2                   // L2 had it
	endAbsent               // L2 did not have it, and there was no loader
	endLoad                 // the loader ran
	endThrottled            // it would have, but has failed too lately, or got no slot
)

// First goes through the steps that need no more than the caller has: a look
// at the tiers. A caller whose context ends meanwhile leaves the rest, and
// those who have joined it, to Then.
func (a *attempt[K, V]) First(ctx context.Context, f *flight.Flight[K, V]) (landed bool) {
	a.f, a.ctx, a.tagGeneration = f, ctx, a.c.generation.TagWatermark()
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
	if l2.Over(ctx) && !landed {
		*a = attempt[K, V]{c: a.c, load: a.load, call: a.call, again: true}
	}
	return landed
}

// Then goes through all other steps.
func (a *attempt[K, V]) Then(f *flight.Flight[K, V]) {
	a.f, a.ctx = f, f.Context()
	if a.again || a.call.skipRead {
		a.tagGeneration = a.c.generation.TagWatermark()
	}
	defer a.land() // also when the Loader ends the goroutine
	defer a.recovered()
	if a.pending = a.call.skipRead; a.pending && !a.prepareReload() || a.again && a.look() {
		return
	}
	a.finish()
}

// finish does what a look has left to do: slot, lease, loader, store.
func (a *attempt[K, V]) finish() {
	if a.over() {
		return
	}
	var urgent <-chan struct{}
	var gone <-chan bool
	if a.c.o.Limits.MaxLoads > 0 { // else there is no queue
		urgent, gone = a.c.flights.Urgent(a.f), a.c.flights.Gone(a.f)
	}
	release, err := a.c.loads.Acquire(a.ctx, a.call.refresh, urgent, gone)
	if err != nil {
		a.noSlot(err)
		return
	}
	defer release()
	if a.c.l2.HasTier() && !a.l2.Down && a.takeLease() || a.over() || a.spent() {
		return
	}
	if a.call.skipRead {
		a.startReload()
	}
	if a.runLoader(); !a.landed {
		a.label()
		a.store()
		a.supersede()
	}
}

// spent reports whether the load would be one more attempt at what has failed,
// and there have been enough of those lately. The last failure is the result.
func (a *attempt[K, V]) spent() bool {
	if a.call.skipRead || a.c.failing.Load() < failingFrom || a.c.failures(a.f.Key) == 0 || a.c.budget.Retry(a.c.memory.Now()) {
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
	if a.serveHeld(err) {
		a.c.stale(a.ctx, a.f.Key, a.res.Value, err)
		return
	}
	a.res.Err = err
}

// noSlot makes the result what is left if no slot was to be had: the flight was
// cancelled in the queue, or it has waited there for Limits.HardTimeout.
func (a *attempt[K, V]) noSlot(err error) {
	if errors.Is(err, limit.ErrNoSlot) {
		a.fail(errNoSlot)
		return
	}
	a.res.Err = a.c.flightError(err)
}

// over reports whether the flight was cancelled, and makes that the result.
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
	if a.c.l2.HasTier() {
		var err error
		if a.l2.Name, err = a.c.nameOf(a.f.Key); err != nil {
			a.res.Err = err
			return true
		}
		if a.askTier() {
			return true
		}
	}
	switch {
	case l2.Over(a.ctx):
	case a.load == nil:
		a.end = endAbsent
		return true
	default:
		if err := a.c.throttled(a.f.Key); err != nil {
			// What L2 has is newer than the failure, or stale and better than that.
			if a.unasked && a.read() {
				return true
			}
			if l2.Over(a.ctx) {
				return false
			}
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
	e = a.c.aged(a.f.Key, e)
	v, since := a.c.judge(a.f.Key, e)
	switch {
	case v == generation.Invalid, v == generation.Suspect && !a.c.l2.HasTier():
		return false
	case v == generation.Suspect:
		a.suspect, a.suspectSince = e, since
		return false
	case v == generation.Stale, now >= e.Fresh, a.call.refresh && now >= e.Soon, a.call.skipRead:
		a.held, a.id, a.heldUntil, a.tags, a.heldNote = &e.Value, remote.ID(e.ID), a.c.onErrorUntil(e), tagsOf(e), noteL1
		a.offer()
		return false
	}
	a.found(e.Value, tagsOf(e), endL1)
	return true
}

// stamps are what an entry with these tags is judged by later.
func (a *attempt[K, V]) stamps(tags []string) stamps {
	return stamps{generation: a.f.Stamp, tagGeneration: a.tagGeneration, tags: tags}
}

// recovered makes a panic of the user's Key or Codec the result. The Loader's
// own panics do not come this far.
func (a *attempt[K, V]) recovered() {
	if p := recover(); p != nil {
		a.entry = nil
		a.res = flight.Result[V]{Err: &LoadPanicError{Value: p, Stack: debug.Stack()}}
	}
}

// land ends the flight, unless that was done while the Loader ran: it puts the
// entry into L1 if that is still allowed, wakes the callers, and tells whoever
// wants to know.
func (a *attempt[K, V]) land() {
	c := a.c
	if a.landed {
		return
	}
	a.landed = true
	var removed []l1.Removed[K, V]
	var insert func()
	a.res.TagWatermark = a.tagGeneration
	defer func() { // also when a callback panics or ends the goroutine
		stored, callers := c.flights.Land(a.f, a.res, insert)
		defer a.count(stored, callers)
		c.memory.Notify(removed)
	}()
	defer c.contain("Tier.Release")
	a.giveBack()
	switch {
	case a.entry != nil:
		insert = a.keepsNothing(&removed) // unless it can be weighed
		if a.late = c.tagsDropped(a.entry); a.late {
			break
		}
		if weight, ok := c.weigh(a.f.Key, a.entry.Value); ok {
			c.mark(a.entry)
			insert = func() {
				if a.outdated() {
					return
				}
				var kept bool
				if removed, kept = c.memory.Set(a.entry, weight); !kept {
					c.flights.NotKept(a.f)
				}
				c.unremember(a.entry)
			}
		}
	case a.memo != nil:
		insert = func() {
			removed = c.forgetValue(a.f.Key)
			c.memos.Set(a.memo, 1)
		}
	case a.brought, isAnswer(a.res.Err, ErrNotFound):
		// The origin's word is newer than what is held, and not to be kept.
		insert = a.keepsNothing(&removed)
	}
}

// keepsNothing returns an insert that keeps nothing of the key, here or of what
// batches bring.
func (a *attempt[K, V]) keepsNothing(removed *[]l1.Removed[K, V]) (insert func()) {
	return func() {
		*removed = a.c.forget(a.f.Key)
		a.c.flights.NotKept(a.f)
	}
}

// outdated reports whether the entry to store is a stale one, and L1 has got a
// fresh one since the flight began.
func (a *attempt[K, V]) outdated() bool {
	if a.entry != a.fallback {
		return false
	}
	e, now := a.c.memory.Peek(a.f.Key)
	return e != nil && now < e.Fresh && e.Stamp >= a.f.Stamp
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
	if a.beside && !a.res.Found && !isAnswer(a.res.Err, ErrNotFound) {
		return // its caller counts as one who joins the reload
	}
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
	if a.entry != nil && (!stored || a.late) {
		n.refused.Add(1)
		if hook := a.c.o.Hooks.Refused; hook != nil {
			a.c.tell(hook, Event{Context: a.ctx, Key: a.f.Key, Tier: "L1"})
		}
	}
}
