package strata

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/envelope"
	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/remote"
)

// askTier looks for the key in L2, and reports whether there is a result. A
// look-up that will most likely find nothing is left to the question for the
// lease, which brings what is held with its answer: so a cold cache saves every
// load a round trip, and a warm one asks nothing but for the value.
func (a *attempt[K, V]) askTier() bool {
	if a.bypasses() {
		return false
	}
	if !a.c.breaker.Calm() {
		var ok bool
		if ok, a.probe = a.c.breaker.Allow(a.c.memory.Now()); !ok {
			a.down = true
			return a.serveSuspect()
		}
	}
	if a.load != nil && a.suspect == nil && a.held == nil && a.c.o.Limits.MaxLoads == 0 && a.c.absence.mostly() && !a.probe && a.c.storing.Calm() {
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
	held, err := a.c.tier.Get(ctx, []string{a.name})
	if !a.answered("get", err) {
		return a.serveSuspect()
	}
	return a.seen(ctx, held[0])
}

// bypasses reports whether what L2 holds is not to be used: a drop of the key is
// pending.
func (a *attempt[K, V]) bypasses() bool {
	a.sweeps = a.c.retry.Collapses()
	a.down = a.c.retry.Blocks(a.name)
	return a.down
}

// seen takes what L2 holds. A fresh value is the result; a stale one is kept at
// hand.
func (a *attempt[K, V]) seen(ctx context.Context, h remote.Held) (found bool) {
	if a.call.skipRead {
		a.seenBefore(ctx, h)
		return false
	}
	v, state := a.open(ctx, h)
	a.c.logForeign()
	same := a.call.refresh && a.held != nil && h.ID == a.id // what is to be refreshed
	found = state == freshValue && !same || state == negative
	if a.down { // L2 has failed at a question about tags
		return a.serveSuspect()
	}
	a.c.absence.add(state == absent)
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
	age, soft := a.staleSince(h)
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
// One that was expired with everything is as if its TTL had ended then.
func (a *attempt[K, V]) staleSince(h remote.Held) (age time.Duration, soft bool) {
	window := a.c.o.Stale.window()
	age, soft = max(0, window-h.Left), h.Soft || a.expired
	var since int64
	var known bool
	switch {
	case !soft, h.Soft && !h.All: // the Expire of its key has left it no more than window
		return age, soft
	case a.expired:
		since, known = a.c.trust.TagsExpired(a.tags)
	default:
		since, known = a.c.trust.Expired()
		soft = !known
	}
	if a.loose = !known && h.Left > window; known {
		age = max(age, time.Duration(a.c.memory.Now()-since))
	}
	return age, soft
}

// shorten lets L2 keep the value that is held for no longer than if it had been
// expired by its key now: nobody knows here when it was expired.
func (a *attempt[K, V]) shorten() {
	if !a.loose || a.down {
		return
	}
	a.loose = false
	ctx, cancel := a.opContext()
	defer cancel()
	_, err := a.c.tier.Drop(ctx, []remote.Drop{{Key: a.name, Soft: true, Left: a.c.o.Stale.window()}})
	a.answered("drop", err)
}

// serveHeld makes the stale value that the flight has at hand the result instead
// of err, if it may be served on error, and keeps it in L1: as long as the failure is
// remembered, reads find it there, and the next attempt asks L2 again.
func (a *attempt[K, V]) serveHeld(err error) bool {
	if a.held == nil || a.c.memory.Now() >= a.heldUntil {
		return false
	}
	a.shorten()
	a.res = flight.Result[V]{Value: *a.held, Found: true, Note: noteL1 | noteStale, Tags: a.tags, Instead: err}
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
	if e == nil || over(a.ctx) || a.c.memory.Now() >= e.Fresh || !a.c.lasts(a.suspectSince) {
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
	payload, flags, err := envelope.Open(h.Data, a.name, a.c.schema)
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
		a.c.counts.foreign.Add(1)
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
		a.c.counts.foreign.Add(1)
		return nil, nil, absent
	}
	drops, ok := a.askTags(ctx, tags)
	switch {
	case !ok, drops.Dropped > clock:
		return nil, nil, absent
	case drops.Expired > clock:
		a.expired = true
		return payload, tags, staleValue
	}
	return payload, tags, state
}

// askTags returns the latest drops of any of tags. It reports false if what
// carries them must not be used.
func (a *attempt[K, V]) askTags(ctx context.Context, tags []string) (latest remote.Tag, ok bool) {
	if a.c.can.tag == nil || a.c.retry.BlocksTags(tags, a.sweeps) {
		return latest, false
	}
	known, err := a.c.can.tag.Tags(ctx, tags)
	if !a.answered("tags", err) {
		return latest, false
	}
	for _, t := range known {
		latest.Dropped = max(latest.Dropped, t.Dropped)
		latest.Expired = max(latest.Expired, t.Expired)
	}
	return latest, true
}

// opContext bounds one operation on L2.
func (a *attempt[K, V]) opContext() (context.Context, context.CancelFunc) {
	return remote.WithTimeout(a.ctx, a.c.o.Remote.Timeout)
}

// answered reports whether L2 has answered. If it has not, this flight leaves
// L2 alone from now on: a dead L2 costs a miss one timeout, not one per step.
func (a *attempt[K, V]) answered(op string, err error) bool {
	a.unheld = a.unheld || errors.Is(err, remote.ErrKeyTooLong)
	if err != nil && over(a.ctx) {
		a.down, a.hungUp = true, true
		return false
	}
	a.c.remoteResult(a.ctx, op, err, probes{a.probe, a.storeProbe})
	a.down = a.down || err != nil
	a.hungUp = a.hungUp || errors.Is(err, remote.ErrRefused)
	return err == nil
}

// foreignEvery is how often the log says at most that values of L2 cannot be read.
const foreignEvery = time.Minute

// foreignLog is what the log has said of values in L2 that cannot be read.
type foreignLog struct {
	told atomic.Uint64 // how many
	next atomic.Int64  // when it may say so again, in the time of L1
}

// foreign is the number of values in L2 that could not be read.
func (c *Cache[K, V]) foreign() uint64 {
	n := c.counts.foreign.Load()
	if c.can.counter != nil {
		n += c.can.counter.Foreign()
	}
	return n
}

// logForeign logs how many values in L2 could not be read since it last did.
func (c *Cache[K, V]) logForeign() {
	l, n := &c.foreignLog, c.foreign()
	told, now, next := l.told.Load(), c.memory.Now(), l.next.Load()
	if n == told || now < next || !l.next.CompareAndSwap(next, now+int64(foreignEvery)) {
		return
	}
	l.told.Store(n)
	c.o.Logger.Warn("strata: values in L2 cannot be read: they are another program's or version's, or damaged",
		slog.String("cache", c.o.Name), slog.Uint64("count", n-told))
}

// over reports whether ctx has ended or its deadline has passed: a connection
// may notice that first.
func over(ctx context.Context) bool {
	d, bounded := ctx.Deadline()
	return ctx.Err() != nil || bounded && !time.Now().Before(d)
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
