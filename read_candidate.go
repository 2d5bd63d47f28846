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
	"github.com/strata-cache/strata/remote"
)

// useStale makes a stale value of L2 the candidate. It settles the read if it may
// be served while it is refreshed.
func (r *read[K, V]) useStale(o opened[V], h *remote.Held) (settled bool) {
	c, now, window := r.c, r.c.memory.Now(), r.c.tuned.stale().window()
	age, expired, unbounded := c.staleSince(h, o.byTag, o.tags)
	k := &r.candidate
	born := k.times.Born
	if k.value == nil || k.id != h.ID { // L1 does not have it as well
		k.note = noteL2
		if born = 0; !expired {
			born = c.bornBefore(now, -age)
		}
	}
	k.value, k.id, k.tags, k.until, k.unbounded = &o.value, h.ID, o.tags, 0, unbounded
	k.kept = l1.After(now, min(h.Left, window-age))
	e := c.entry(now, r.f.Key, o.value, -age, min(h.Left, window-age), r.stamps(o.tags), record{id: h.ID, born: born})
	if expired {
		e = c.expired(e, now)
	}
	k.entry, k.times = e, c.timesOf(e)
	if d := c.tuned.stale().OnError - age; c.tuned.stale().OnError > 0 && d > 0 {
		k.until = l1.After(now, d)
		r.offer()
	}
	if expired || !r.loads || r.call.refresh || r.call.skipRead || age >= c.tuned.stale().WhileRevalidate {
		return false
	}
	r.found(o.value, o.tags, endL2)
	r.outcome.res.Note |= noteStale | noteRevalidate
	r.outcome.res.Times = k.times
	r.outcome.entry = e
	c.stale(r.ctx, r.f.Key, o.value, nil)
	return true
}

// known is the ID of the value that the read has, so that L2 need not send it; zero for
// none. The clock of tags is part of the bytes that L2 sends.
func (r *read[K, V]) known() remote.ID {
	switch k, s := &r.candidate, r.suspect.entry; {
	case r.call.skipRead, r.c.o.Memory.DetectMutation: // or the value may have been changed
	case k.value != nil && len(k.tags) == 0:
		return k.id
	case k.value == nil && s != nil && recordOf(s).tags == nil:
		return recordOf(s).id
	}
	return 0
}

// staleSince returns the time since a stale value of L2 ended, and whether a caller
// has expired it, so that it is not served while it is refreshed. A value that was
// expired with everything ended then, as by its TTL. byTag says that one of tags
// has expired it. unbounded says that L2 keeps it for as long as if it had not been
// expired, because the time of that is not known here.
func (c *core) staleSince(h *remote.Held, byTag bool, tags []string) (age time.Duration, expired, unbounded bool) {
	window := c.tuned.stale().window()
	age, expired = max(0, window-h.Left), h.Soft || byTag
	var since int64
	var known bool
	switch {
	case !expired, h.Soft && !h.All: // the Expire of its key has left it no more than window
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
	r.l2.Expire(ctx, r.ctx, r.c.l2, r.c.tuned.stale().window())
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
