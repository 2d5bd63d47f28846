// The candidate of a read is a stale value that L1 or L2 has. It is served while it
// is refreshed, or to callers that wait no longer than Limits.SoftTimeout, or if
// the load fails; the load may also confirm it ("not modified").
// Invariant: a candidate is served no longer than Stale allows, counted from the
// time at which its TTL has ended or a caller has expired it.

package strata

import (
	"time"

	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/internal/lives"
	"github.com/strata-cache/strata/remote"
)

// useStale makes a stale value of L2 the candidate. It settles the read if it may
// be served while it is refreshed.
func (r *read[K, V]) useStale(o opened[V], h *remote.Held) (settled bool) {
	c, now, windows := r.c, r.c.memory.Now(), r.c.windows(o.own)
	age, expired, unbounded := c.staleSince(h, o.byTag, o.tags, o.own)
	k := &r.candidate
	born := k.times.Born
	if k.value == nil || k.id != h.ID { // L1 does not have it as well
		k.note = noteL2
		if born = 0; !expired {
			born = c.bornBefore(now, -age)
		}
	}
	k.value, k.id, k.tags, k.own, k.until, k.unbounded = &o.value, h.ID, o.tags, o.own, 0, unbounded
	left := min(h.Left, windows.window()-age)
	k.kept = l1.After(now, left)
	e := c.entry(now, r.f.Key, o.value, -age, left, r.stamps(o.tags, o.own), record{id: h.ID, born: born})
	if expired {
		e = c.expired(e, now)
	}
	k.entry, k.times = e, c.timesOf(e)
	if d := windows.OnError - age; windows.OnError > 0 && d > 0 {
		k.until = l1.After(now, d)
		r.offer()
	}
	if expired || !r.loads || r.call.refresh || r.call.skipRead || age >= windows.WhileRevalidate {
		return false
	}
	r.found(o.value, o.tags, endL2)
	r.outcome.res.Note |= noteStale | noteRevalidate
	r.outcome.res.Times = k.times
	r.outcome.entry = e
	c.stale(r.ctx, r.f.Key, o.value, nil)
	return true
}

// staleSince returns the time since a stale value of L2 ended, and whether a caller
// has expired it, so that it is not served while it is refreshed. A value that was
// expired with everything ended then, as by its TTL. byTag says that one of tags
// has expired it. unbounded says that L2 keeps it for as long as if it had not been
// expired, because the time of that is not known here.
func (c *core) staleSince(h *remote.Held, byTag bool, tags []string, own *lives.Own) (age time.Duration, expired, unbounded bool) {
	window := c.windows(own).window()
	if h.Soft && !h.All {
		window = c.tuned.stale().window() // the Expire of its key has left it no more
	}
	age, expired = max(0, window-h.Left), h.Soft || byTag
	var since int64
	var known bool
	switch {
	case !expired, h.Soft && !h.All:
		return age, expired, false
	case byTag:
		since, known = c.generation.TagsExpired(tags)
	default:
		since, known = c.generation.Expired()
		expired = !known
	}
	if known {
		age = max(age, time.Duration(c.now()-since))
	}
	return age, expired, !known && h.Left > window
}

// bound lets L2 keep the candidate for no longer than if it had been expired by
// its key now, if the time of its expiry is not known here.
func (r *read[K, V]) bound() {
	if !r.candidate.unbounded || r.l2.Down {
		return
	}
	r.candidate.unbounded = false
	ctx, cancel := r.opContext()
	defer cancel()
	r.l2.Expire(ctx, r.ctx, r.c.l2, r.c.windows(r.candidate.own).window())
}

// relive gives the values that L1 and L2 have for a load that fails the lives that the load
// has said: in L1 only, and as far as they are kept there.
func (r *read[K, V]) relive() {
	c, own := r.c, r.call.own
	if own == nil || r.candidate.value == nil {
		return
	}
	own = r.candidate.own.With(own)
	with := func(e *entry[K, V]) *entry[K, V] {
		about := recordOf(e)
		about.born, about.traits = c.born(e), newTraits(about.traits.tags(), about.traits.seenAt(), own)
		s := newEntry(c.memory, e.Key, e.Value, e.Dead, about)
		if fresh := e.Value.FreshUntil(e.Dead); fresh > 0 {
			soon := e.Value.SoonAt(e.Dead)
			s.Dead = s.Value.End(fresh, min(e.Dead, l1.After(fresh, c.windows(own).window())))
			s.Value.SetSoon(soon, s.Dead)
		}
		r.candidate.until = c.onErrorUntil(s)
		return s
	}
	if e, _ := c.memory.Peek(r.f.Key); e != nil && !r.call.noMemory {
		c.memory.Swap(e, with(e))
	}
	if r.candidate.entry != nil {
		r.candidate.entry = with(r.candidate.entry)
	}
}

// serveCandidate makes the candidate the result instead of err, if it may be served
// on error, and an entry for L1: as long as the failure is remembered, reads find
// it there, and the next attempt asks L2 again.
func (r *read[K, V]) serveCandidate(err error) bool {
	k := &r.candidate
	if k.value == nil || r.c.memory.Now() >= k.until {
		return false
	}
	r.bound()
	r.outcome.res = r.stale()
	r.outcome.res.Instead = err
	if k.entry != nil && !r.right.noStore {
		r.outcome.entry = k.entry
	}
	return true
}

// offer makes the candidate the value for callers that wait for no longer than
// Limits.SoftTimeout.
func (r *read[K, V]) offer() {
	k := &r.candidate
	if r.pending {
		return // it may have been dropped by the time that the load begins
	}
	if r.c.o.Limits.SoftTimeout > 0 && r.loads && k.until != 0 {
		res := r.stale()
		res.TagWatermark = r.tagGeneration
		r.c.flights.Offer(r.f, res, k.until)
	}
}

// stale returns the candidate as a result.
func (r *read[K, V]) stale() flight.Result[V] {
	k := &r.candidate
	return flight.Result[V]{Value: *k.value, Found: true, Note: k.note | noteStale, Tags: k.tags, Times: k.times}
}
