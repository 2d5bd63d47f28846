package strata

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/envelope"
	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/internal/l2"
	"github.com/strata-cache/strata/remote"
)

// askTier looks for the key in L2, and reports whether there is a result. A
// look-up that will most likely find nothing is left to the question for the
// lease, which brings what is held with its answer: so a cold cache saves every
// load a round trip, and a warm one asks nothing but for the value.
func (a *attempt[K, V]) askTier() bool {
	if a.l2.PassesBy(a.c.l2) {
		return false
	}
	if !a.l2.Allowed(a.c.l2) {
		return a.serveSuspect()
	}
	if a.load != nil && a.suspect == nil && a.held == nil && a.c.o.Limits.MaxLoads == 0 && a.c.l2.MostlyAbsent() && !a.l2.Probing() && a.c.l2.StoresFreely() {
		a.unasked = true
		return false
	}
	return a.read()
}

// read looks at what L2 holds, and reports whether that is the result.
func (a *attempt[K, V]) read() bool {
	a.unasked = false
	ctx, cancel := a.opContext()
	defer cancel()
	held, err := a.c.l2.Read(ctx, []string{a.l2.Name})
	if !a.answered("get", err) {
		return a.serveSuspect()
	}
	return a.seen(ctx, held[0])
}

// seen takes what L2 holds. A fresh value is the result; a stale one is kept at
// hand.
func (a *attempt[K, V]) seen(ctx context.Context, h remote.Held) (found bool) {
	if a.call.skipRead {
		a.seenBefore(ctx, h)
		return false
	}
	v, state := a.open(ctx, h)
	a.c.l2.LogForeign()
	same := a.call.refresh && a.held != nil && h.ID == a.id // what is to be refreshed
	found = state == freshValue && !same || state == negative
	if a.l2.Down { // L2 has failed at a question about tags
		return a.serveSuspect()
	}
	a.c.l2.LookedUp(state != absent)
	switch {
	case state == negative:
		a.end = endL2
		a.res.Err, a.res.Tags = ErrNotFound, a.tags
		a.memo = a.absent(ErrNotFound, min(h.Fresh, h.Left), a.tags)
		return true
	case found:
		a.found(v, a.tags, endL2)
		a.keepSeen(v, h)
		return true
	case same:
		return false
	}
	a.c.counts.remoteMisses.Add(1)
	if state == absent {
		return false
	}
	return a.seenStale(v, h)
}

// keepSeen makes what L2 holds an entry for L1.
func (a *attempt[K, V]) keepSeen(v V, h remote.Held) {
	fresh := min(h.Fresh, h.Left)
	e := a.c.entry(a.f.Key, v, fresh, h.Left, a.stamps(a.tags), h.ID)
	// L2 does not say how long the value's life was, only what is left of it. If
	// a short one were due at once, instances would take turns at refreshing it.
	a.c.refreshSoon(e, fresh, min(a.c.o.TTL, fresh), 0)
	a.entry = e
}

// seenStale keeps a stale value at hand. It is the result if it may be served
// while it is refreshed.
func (a *attempt[K, V]) seenStale(v V, h remote.Held) bool {
	now, window := a.c.memory.Now(), a.c.o.Stale.window()
	age, soft, loose := a.c.staleSince(h, a.expired, a.tags)
	a.loose = loose
	if a.held == nil || a.id != h.ID { // L1 does not have it as well
		a.heldNote = noteL2
	}
	a.held, a.id, a.heldUntil = &v, h.ID, 0
	if d := a.c.o.Stale.OnError - age; a.c.o.Stale.OnError > 0 && d > 0 {
		a.heldUntil = l1.After(now, d)
		a.offer()
	}
	e := a.c.entry(a.f.Key, v, -age, min(h.Left, window-age), a.stamps(a.tags), h.ID)
	if soft {
		e = a.c.expired(e, now)
	}
	a.fallback = e
	if soft || a.load == nil || a.call.refresh || a.call.skipRead || age >= a.c.o.Stale.WhileRevalidate {
		return false
	}
	a.found(v, a.tags, endL2)
	a.res.Note |= noteStale | noteRevalidate
	a.entry = e
	a.c.stale(a.ctx, a.f.Key, v, nil)
	return true
}

// staleSince returns for how long the time of a stale value of L2 has been over, and
// whether a caller has expired it, so that it is not served while it is refreshed.
// One that was expired with everything is as if its TTL had ended then. byTag says
// that one of tags has expired it; loose, that L2 keeps it for as long as if it had
// not been expired, because nobody knows here when that was.
func (c *Cache[K, V]) staleSince(h remote.Held, byTag bool, tags []string) (age time.Duration, soft, loose bool) {
	window := c.o.Stale.window()
	age, soft = max(0, window-h.Left), h.Soft || byTag
	var since int64
	var known bool
	switch {
	case !soft, h.Soft && !h.All: // the Expire of its key has left it no more than window
		return age, soft, false
	case byTag:
		since, known = c.generation.TagsExpired(tags)
	default:
		since, known = c.generation.Expired()
		soft = !known
	}
	if known {
		age = max(age, time.Duration(c.memory.Now()-since))
	}
	return age, soft, !known && h.Left > window
}

// shorten lets L2 keep the value that is held for no longer than if it had been
// expired by its key now: nobody knows here when it was expired.
func (a *attempt[K, V]) shorten() {
	if !a.loose || a.l2.Down {
		return
	}
	a.loose = false
	ctx, cancel := a.opContext()
	defer cancel()
	a.l2.Expire(ctx, a.ctx, a.c.l2, a.c.o.Stale.window())
}

// serveHeld makes the stale value that the flight has at hand the result instead
// of err, if it may be served on error, and keeps it in L1: as long as the failure is
// remembered, reads find it there, and the next attempt asks L2 again.
func (a *attempt[K, V]) serveHeld(err error) bool {
	if a.held == nil || a.c.memory.Now() >= a.heldUntil {
		return false
	}
	a.shorten()
	a.res = flight.Result[V]{Value: *a.held, Found: true, Note: a.heldNote | noteStale, Tags: a.tags, Instead: err}
	if a.fallback != nil && !a.noKeep {
		a.entry = a.fallback
	}
	return true
}

// held says what L2 holds.
type held uint8

const (
	absent held = iota
	staleValue
	freshValue
	negative // that the origin has no such key
)

// serveSuspect makes a suspect entry of L1 the result, if L2 fails to confirm
// it and it may be used all the same.
func (a *attempt[K, V]) serveSuspect() bool {
	e := a.suspect
	if e == nil || l2.Over(a.ctx) || a.c.memory.Now() >= e.Fresh || !a.c.lasts(a.suspectSince) {
		return false
	}
	a.c.counts.degraded.Add(1)
	a.found(e.Value, tagsOf(e), endL1)
	a.res.Note |= noteDegraded
	return true
}

// open returns the value that h holds, and its state; a.tags are then its tags.
// What cannot be read counts as absent; the next store replaces it.
func (a *attempt[K, V]) open(ctx context.Context, h remote.Held) (v V, state held) {
	if h.Absent() || h.Data == nil {
		return v, absent
	}
	payload, flags, err := envelope.Open(h.Data, a.l2.Name, a.c.l2.Schema())
	a.expired = false
	var tags []string
	if state = staleValue; h.Fresh > 0 {
		state = freshValue
	}
	if err == nil && flags&envelope.Tagged != 0 {
		if payload, tags, state = a.openTags(ctx, payload, state); state == absent {
			return v, absent
		}
	}
	switch {
	case err != nil:
	case flags&envelope.NotFound != 0 && state != freshValue:
		return v, absent
	case flags&envelope.NotFound != 0:
		a.tags = tags
		return v, negative
	case a.suspect != nil && remote.ID(a.suspect.ID) == h.ID:
		a.c.counts.confirmed.Add(1)
		a.tags = tags
		return a.suspect.Value, state
	default:
		v, err = a.c.decode(payload)
	}
	if err != nil {
		a.c.l2.Unreadable()
		return *new(V), absent
	}
	a.tags = tags
	return v, state
}

// openTags takes the tags from body, and says what their drops have made of a
// value in that state.
func (a *attempt[K, V]) openTags(ctx context.Context, body []byte, state held) (payload []byte, tags []string, now held) {
	clock, tags, payload, ok := envelope.CutTags(body)
	if !ok {
		a.c.l2.Unreadable()
		return nil, nil, absent
	}
	drops, ok := a.l2.Tags(ctx, a.ctx, a.c.l2, tags)
	switch {
	case !ok, drops.Dropped > clock:
		return nil, nil, absent
	case drops.Expired > clock:
		a.expired = true
		return payload, tags, staleValue
	}
	return payload, tags, state
}

// opContext bounds one operation on L2.
func (a *attempt[K, V]) opContext() (context.Context, context.CancelFunc) {
	return a.c.l2.Bound(a.ctx)
}

// answered reports whether L2 has answered. If it has not, this flight leaves
// L2 alone from now on: a dead L2 costs a miss one timeout, not one per step.
func (a *attempt[K, V]) answered(op string, err error) bool {
	return a.l2.Answered(a.ctx, a.c.l2, op, err)
}

// What a result of a flight says about its value.
const (
	noteTier     = 3 // mask of: noteL1, noteL2, noteOrigin
	noteL1       = 1
	noteL2       = 2
	noteOrigin   = 3
	noteStale    = 4
	noteDegraded = 8
	// noteRevalidate: the leader is to see to a refresh.
	noteRevalidate = 16
)

// found makes v, which has these tags, the result.
func (a *attempt[K, V]) found(v V, tags []string, how end) {
	a.end = how
	a.res = flight.Result[V]{Value: v, Found: true, Note: noteL1, Tags: tags}
	if how == endL2 {
		a.res.Note = noteL2
	}
}
