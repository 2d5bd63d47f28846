// Landing is the last stage of a read: its lease is released if it was not used,
// its entry goes into L1 if the flight still has the right to store, and the
// callers of the flight get the result.
// Invariant: an entry goes into L1 under the lock of its key's flights, so that it undoes
// no Set or Invalidate that ended before.

package strata

import (
	"errors"

	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/remote"
)

// landRest lands the remaining reads, and returns them. The reads without a result get an
// error: p, unless nil, is the value of a panic; else a callback has ended the goroutine.
func (g *reads[K, V]) landRest(p any) (landed []*read[K, V]) {
	landed = flight.Where(g.all, func(r *read[K, V]) bool { return !r.outcome.landed })
	for _, r := range landed {
		switch o := &r.outcome; {
		case o.settled:
		case p != nil:
			r.panicked(p)
		case !o.res.Found && o.res.Err == nil:
			r.settle(flight.Result[V]{Err: ErrLoadExited})
		}
	}
	landAll(landed)
	g.all = nil
	return landed
}

// landAll lands reads. L2 is asked at once to end their unused leases.
func landAll[K comparable, V any](all []*read[K, V]) {
	leased := flight.Where(all, func(r *read[K, V]) bool { return r.right.lease.Token != 0 })
	if len(leased) > 0 { // or the function of AtOnce would take memory
		flight.AtOnce(leased, (*read[K, V]).giveBack)
	}
	flight.Each(all, (*read[K, V]).land)
}

// land ends the flight of the read, unless it ended while the Loader ran.
func (r *read[K, V]) land() {
	c, o := r.c, &r.outcome
	if o.landed {
		return
	}
	o.landed = true
	var removed []removal[K, V]
	var insert func()
	o.res.TagWatermark, o.res.Load, o.res.Beside = r.tagGeneration, o.load, o.beside
	o.res.Newer = o.res.Instead == nil && (o.how == endLoad || o.how == endL2 && r.call.refresh)
	var told V
	defer func() { // also when a callback panics or ends the goroutine; so it calls none before the flight lands
		stored, callers := c.flights.Land(r.f, &o.res, insert)
		o.res.Shared = callers > 1 // for a batch, which takes it from here
		defer r.count(stored, callers)
		c.callbacks.Resume(r.ctx, func() { c.near.Values.Notify(removed) })
		if o.kept {
			c.stored(r.ctx, r.f.Key, told, "L1")
		}
	}()
	r.giveBack()
	if c.passesMemory(&r.call) {
		o.entry, o.negative = nil, nil
	}
	switch {
	case o.entry != nil:
		insert = r.insertNothing(&removed) // unless it can be weighed
		if o.late = c.near.TagsDropped(o.entry); o.late {
			break
		}
		if weight, ok := c.weigh(r.f.Key, o.entry.Value.V); ok && c.mark(o.entry, nil) {
			if c.o.Hooks.Store != nil {
				told = c.near.Values.Copy(o.entry.Value.V) // before a caller may change it
			}
			insert = r.insertEntry(weight, &removed)
		}
	case o.negative != nil:
		insert = func() {
			removed = c.near.ForgetValue(r.f.Key)
			c.near.Negatives.Set(o.negative, 1)
		}
	case o.loaded, isAnswer(o.res.Err, ErrNotFound):
		// The answer of the origin is newer than the entry of L1, and not to be kept.
		insert = r.insertNothing(&removed)
	}
}

// insertEntry returns an insert that stores the entry in L1, unless it is a stale
// one and L1 has got a fresh one since the flight began.
func (r *read[K, V]) insertEntry(weight int64, removed *[]removal[K, V]) (insert func()) {
	c, e := r.c, r.outcome.entry
	return func() {
		if e == r.candidate.entry {
			if newer, now := c.near.Values.Glance(r.f.Key); newer != nil && now < newer.Value.FreshUntil(newer.Dead) && newer.Value.Stamp() >= r.f.Stamp {
				return
			}
		}
		var kept bool
		if r.call.ahead {
			*removed, kept = c.near.Values.Renew(e, weight)
		} else {
			*removed, kept = c.near.Values.Offer(e, weight, r.outcome.ended)
		}
		if r.outcome.kept = kept; !kept {
			notKept(r)
		}
		c.near.Unremember(e)
	}
}

// insertNothing returns an insert that removes the key from L1, and keeps batches begun
// before from storing it as an extra key.
func (r *read[K, V]) insertNothing(removed *[]removal[K, V]) (insert func()) {
	return func() {
		*removed = r.c.near.Forget(r.f.Key)
		notKept(r)
	}
}

// notKept notes that L1 keeps nothing of the result. Its callers learn that it is not fresh here, unless L2 has it.
func notKept[K comparable, V any](r *read[K, V]) {
	if o := &r.outcome; o.late || o.how == endLoad && !r.right.used {
		o.res.Times.Fresh = 0
	}
	r.c.flights.NotKept(r.f)
}

// isAnswer reports whether err is the Loader's answer target. A panic is no answer, even if it wraps target.
func isAnswer(err, target error) bool {
	return errors.Is(err, target) && !isPanic(err)
}

// isPanic reports whether err is the panic of a Loader.
func isPanic(err error) bool {
	var p *LoadPanicError
	return errors.As(err, &p)
}

// count adds the flight to the numbers.
func (r *read[K, V]) count(stored bool, callers int) {
	n, o := &r.c.counts, &r.outcome
	if r.beside && (r.f.Context() != nil || (!o.res.Found || o.res.Note&noteStale != 0) && !isAnswer(o.res.Err, ErrNotFound)) {
		return // its caller counts as joining the reload, also if it has not waited for the end
	}
	switch o.how {
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
		if callers > 1 {
			n.waiters.Add(uint64(callers - 1))
			observe.RaiseTo(&n.maxWaiters, uint64(callers-1))
		}
	}
	if o.entry != nil && (!stored || o.late) {
		n.refused.Add(1)
		if hook := r.c.o.Hooks.Refused; hook != nil {
			r.c.tell(hook, Event{Context: r.ctx, Key: r.f.Key, Tier: "L1"})
		}
	}
}

// giveBack releases the lease, if it was not used.
func (r *read[K, V]) giveBack() {
	r.release(r.right.lease)
	r.right.lease.Token = 0
}

// release releases an unused lease, so that no instance waits for it.
func (r *read[K, V]) release(l remote.Lease) {
	defer r.c.contain("Tier.Release")
	r.l2.Release(r.ctx, r.c.l2, l)
}
