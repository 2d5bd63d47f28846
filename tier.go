package strata

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/strata-cache/strata/internal/envelope"
	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/internal/limit"
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
	if a.load != nil && a.suspect == nil && a.held == nil && a.c.o.Limits.MaxLoads == 0 && a.c.absence.mostly() {
		a.unasked = true
		return false
	}
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
	a.sweeps = a.c.retry.Sweeps()
	a.down = a.c.retry.Blocks(a.name)
	return a.down
}

// seen takes what L2 holds. A fresh value is the result; a stale one is kept at
// hand.
func (a *attempt[K, V]) seen(ctx context.Context, h remote.Held) (found bool) {
	v, state := a.open(ctx, h)
	same := a.call.refresh && a.held != nil && h.ID == a.id // what is to be refreshed
	found = state == freshValue && !same || state == negative
	a.c.absence.add(!found)
	switch {
	case a.down: // L2 has failed at a question about tags
		return a.serveSuspect()
	case state == negative:
		a.end = endL2
		a.res.Err = ErrNotFound
		a.memo = a.absent(ErrNotFound, min(h.Fresh, h.Left))
		return true
	case found:
		a.found(v, endL2)
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
	age := max(0, window-h.Left) // since its time was over
	a.held, a.id, a.heldUntil = &v, h.ID, 0
	if d := a.c.o.Stale.OnError - age; a.c.o.Stale.OnError > 0 && d > 0 {
		a.heldUntil = l1.After(now, d)
	}
	if h.Soft || a.expired || a.load == nil || a.call.refresh || age >= a.c.o.Stale.WhileRevalidate || a.lease.Token != 0 {
		return false
	}
	a.found(v, endL2)
	a.res.Note |= noteStale | noteRevalidate
	a.entry = a.c.entry(a.f.Key, v, -age, h.Left, a.stamps(a.tags), h.ID)
	a.c.stale(a.f.Key, nil)
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
	a.found(e.Value, endL1)
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
	var tags []string
	if state = staleValue; h.Fresh > 0 {
		state = freshValue
	}
	if err == nil && flags&envelope.NotFound != 0 {
		if state == freshValue {
			return v, negative
		}
		return v, absent
	}
	if err == nil && flags&envelope.Tagged != 0 {
		if payload, tags, state = a.openTags(ctx, payload, state); state == absent {
			return v, absent
		}
	}
	switch {
	case err != nil:
	case a.suspect != nil && remote.ID(a.suspect.ID) == h.ID:
		a.c.counts.confirmed.Add(1)
		a.tags = tags
		return a.suspect.Value, state
	default:
		v, err = a.c.o.Remote.Codec.Decode(payload)
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
	a.c.remoteResult(op, err, a.probe)
	a.down = a.down || err != nil
	return err == nil
}

// brokenFor is how long no operation has to fail until the log says that L2
// answers again: a server that refuses writes only answers between its failures.
const brokenFor = time.Second

// remoteResult counts what an operation on L2 came to, and logs when L2 fails
// for the first time and when it is back. probe is what the breaker said of it.
func (c *Cache[K, V]) remoteResult(op string, err error, probe bool) {
	if errors.Is(err, remote.ErrKeyTooLong) || errors.Is(err, remote.ErrValueTooLarge) {
		return // nothing was sent
	}
	c.reported(err != nil, probe)
	if err == nil {
		at := c.broken.Load()
		if at != 0 && c.memory.Now() >= at+int64(brokenFor) && c.broken.CompareAndSwap(at, 0) {
			c.o.Logger.Info("strata: L2 answers again", slog.String("cache", c.o.Name))
		}
		return
	}
	c.counts.remoteErrors.Add(1)
	if c.broken.Swap(max(1, c.memory.Now())) == 0 {
		c.o.Logger.Warn("strata: L2 does not answer", slog.String("cache", c.o.Name), slog.String("op", op), slog.Any("error", err))
	}
	c.tell(c.o.Hooks.RemoteError, Event{Tier: "L2", Op: op, Err: err})
}

// reported tells the breaker what an operation on L2 came to. While it is open
// nothing that others drop is certain to be told here.
func (c *Cache[K, V]) reported(failed, probe bool) {
	if !failed && c.breaker.Calm() || !c.breaker.Report(c.memory.Now(), probe, failed) {
		return
	}
	c.breaking.Lock() // so that the link is told last what is true at last
	open := c.breaker.State() != limit.Closed
	c.link.Suspend(open)
	c.breaking.Unlock()
	c.o.Logger.Warn("strata: breaker of L2", slog.String("cache", c.o.Name), slog.Bool("open", open))
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

// found makes v the result.
func (a *attempt[K, V]) found(v V, how end) {
	a.end = how
	a.res = flight.Result[V]{Value: v, Found: true, Note: noteL1}
	if how == endL2 {
		a.res.Note = noteL2
	}
}
