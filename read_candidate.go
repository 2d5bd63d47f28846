// The candidate of a read is a stale value that L1 or L2 has. It is served while it
// is refreshed, or to callers that wait no longer than Limits.SoftTimeout, or if
// the load fails; the load may also confirm it ("not modified").
// Invariant: a candidate is served no longer than Stale allows, counted from the
// time at which its TTL has ended or a caller has expired it.

package strata

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/cache/l1/local"
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
			born = c.births.Before(now, -age)
		}
	}
	k.value, k.id, k.tags, k.own, k.until, k.unbounded, k.here = &o.value, h.ID, o.tags, o.own, 0, unbounded, nil
	left := min(h.Left, windows.window()-age)
	if k.kept = l1.After(now, left); !h.Soft && !o.byTag {
		k.kept = l1.After(now, h.Left) // as in L1, however short the windows are by now
	}
	e := c.near.New(now, r.f.Key, o.value, -age, left, r.stamps(o.tags, o.own), record{ID: h.ID, Born: born})
	if expired {
		e = c.near.Expired(e, now)
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
	return true
}

// known is the ID of the value that the read has, so that L2 need not send it; zero for
// none. The clock of tags is part of the bytes that L2 sends.
func (r *read[K, V]) known() remote.ID {
	switch k, s := &r.candidate, r.suspect.entry; {
	case r.call.skipRead, r.c.o.Memory.DetectMutation: // or the value may have been changed
	case k.value != nil && len(k.tags) == 0:
		return k.id
	case k.value == nil && s != nil && len(local.RecordOf(s).Traits.Tags()) == 0:
		return local.RecordOf(s).ID
	}
	return 0
}

// staleSince returns the time since a stale value of L2 ended, and whether a caller
// has expired it, so that it is not served while it is refreshed. A value expired with
// everything ended at the expiry, as by its TTL. byTag says that one of tags
// has expired it. unbounded says that L2 keeps it for longer than the windows of this instance,
// and that the time of the expiry is unknown here.
func (c *core) staleSince(h *remote.Held, byTag bool, tags []string, own *expiry.Own) (age time.Duration, expired, unbounded bool) {
	window := c.windows(own).window()
	if unbounded = h.Left > window; h.Soft && !h.All {
		window = c.tuned.stale().window() // the Expire of its key has left it no more
		unbounded = unbounded && h.Left > window
	}
	if age, expired = max(0, -h.Fresh), h.Soft || byTag; window < maxRemoteLife/2 { // else L2 has cut it short
		age = max(age, window-h.Left)
	}
	var since int64
	var known bool
	switch {
	case !expired, h.Soft && !h.All:
		return age, expired, expired && unbounded
	case byTag:
		since, known = c.generation.TagsExpired(tags)
	default:
		since, known = c.generation.Expired()
		expired = !known
	}
	if known {
		age = max(age, time.Duration(c.now()-since))
	}
	return age, expired, unbounded && !known
}

// expiredRemote makes the entry of key stale in L1 if L2 holds the same value, and a
// caller has expired that: the message about it may be late or lost.
func (c *Cache[K, V]) expiredRemote(key K, o *opened[V], h *remote.Held) {
	if _, expired, _ := c.staleSince(h, o.byTag, o.tags, o.own); expired {
		c.near.ExpireValue(key, h.ID)
	}
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

// relive gives the previous value the windows that a failing load has set: first in L1, and
// then in L2, if L2 still holds the candidate.
func (r *read[K, V]) relive() {
	c, k := r.c, &r.candidate
	if r.call.own == nil {
		return
	}
	e, was := r.reliveHere(), k.id
	if k.value == nil {
		return
	}
	r.reliveCandidate(r.call.own)
	if r.reliveRemote(); k.entry != nil {
		k.entry = r.relived(k.entry, k.own, k.id)
	}
	if e != nil && k.id != was && local.RecordOf(e).ID == was {
		c.near.Values.Swap(e, r.relived(e, k.own, k.id))
	}
}

// reliveCandidate gives the candidate the windows that a failed load has set.
func (r *read[K, V]) reliveCandidate(own *expiry.Own) {
	k := &r.candidate
	if own == nil || k.value == nil {
		return
	}
	k.own = k.own.With(own)
	window := r.c.windows(k.own).OnError
	if k.until = min(k.until, l1.After(k.times.Fresh, window)); window == 0 {
		k.until = 0
	}
	if k.entry != nil {
		k.entry = r.relived(k.entry, k.own, k.id)
		k.until = r.c.near.OnErrorUntil(k.entry)
	}
}

// reliveHere is relive in L1, unless the value there came after the load began. It returns
// the entry; nil if there is none.
func (r *read[K, V]) reliveHere() *entry[K, V] {
	c, o := r.c, &r.outcome
	for {
		e, _ := c.near.Values.Glance(r.f.Key)
		if e == nil || c.near.Born(e) > o.ended-int64(o.took) {
			return nil
		}
		about := local.RecordOf(e)
		s := r.relived(e, about.Traits.Lives().With(r.call.own), about.ID)
		if !c.near.Values.Swap(e, s) {
			continue
		}
		if c.near.Values.Same(e, r.candidate.here) {
			r.candidate.until = c.near.OnErrorUntil(s)
		}
		return s
	}
}

// relived returns a copy of e with these lives of its own and this ID of its value.
func (r *read[K, V]) relived(e *entry[K, V], own *expiry.Own, id remote.ID) *entry[K, V] {
	c, about := r.c, local.RecordOf(e)
	about.Born = c.near.Born(e)
	about.ID, about.Traits = id, local.NewTraits(about.Traits.Tags(), about.Traits.SeenAt(), own)
	s := c.near.NewEntry(e.Key, e.Value, e.Dead, about)
	if fresh := e.Value.FreshUntil(e.Dead); !e.Value.Expired() {
		soon := e.Value.SoonAt(e.Dead)
		s.Dead = s.Value.End(fresh, min(e.Dead, l1.After(fresh, c.windows(own).window())))
		s.Value.SetSoon(soon, s.Dead)
	}
	return s
}

// reliveRemote is relive in L2: a fresh value is kept until the end of its new windows, and
// a stale value without windows is dropped.
func (r *read[K, V]) reliveRemote() {
	defer r.c.contain("Tier.Extend")
	k, lease := &r.candidate, r.right.lease
	if r.call.own == nil || lease.Token == 0 || k.id == 0 || r.right.noStore || r.l2.Lost() {
		return
	}
	window, ctx := r.c.windows(k.own).window(), context.WithoutCancel(r.ctx) // the flight may be over, at HardTimeout
	switch fresh := time.Duration(k.times.Fresh - r.c.memory.Now()); {
	case fresh > 0 && k.times.Fresh != l1.Forever:
		there, kept := r.c.remoteLives(fresh, k.own)
		if refused, answered := r.l2.Extend(ctx, r.c.l2, there, kept, lease, k.id); answered && !refused {
			k.id, r.right.lease.Token, r.right.used = remote.ID(lease.Token), 0, true
		}
	case fresh <= 0 && window == 0:
		op, cancel := r.c.l2.Bound(ctx)
		defer cancel()
		_, err := r.c.l2.Put(op, []remote.Put{{Key: r.l2.Name, Lease: lease}})
		if r.answered("put", err) {
			r.right.lease.Token, r.right.used = 0, true
		}
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
