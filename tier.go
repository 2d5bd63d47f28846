package strata

import (
	"context"
	"log/slog"
	"time"

	"github.com/strata-cache/strata/internal/envelope"
	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/remote"
)

// askTier looks for the key in L2, and reports whether there is a result. A
// look-up that will most likely find nothing is left to the question for the
// lease, which brings what is held with its answer: so a cold cache saves every
// load a round trip, and a warm one asks nothing but for the value.
func (a *attempt[K, V]) askTier() bool {
	if a.c.retry.Blocks(a.name) {
		a.down = true // a drop of it is pending: what L2 holds is not to be used
		return false
	}
	if a.load != nil && a.suspect == nil && a.c.absence.mostly() {
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

// seen takes what L2 holds. A fresh value is the result; a stale one is kept at
// hand.
func (a *attempt[K, V]) seen(ctx context.Context, h remote.Held) (found bool) {
	v, fresh, ok := a.open(ctx, h)
	found = ok && fresh
	a.c.absence.add(!found)
	switch {
	case a.down: // L2 has failed at a question about tags
		return a.serveSuspect()
	case found:
		a.found(v, endL2)
		a.entry = a.c.entry(a.f.Key, v, min(h.Fresh, h.Left), a.stamps(a.tags), h.ID)
		return true
	}
	a.c.counts.remoteMisses.Add(1)
	if ok {
		stale := v // v itself must not escape: most reads end above
		a.held, a.id = &stale, h.ID
	}
	return false
}

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

// open returns the value that h holds, and whether it is fresh; a.tags are its
// tags. What cannot be read counts as absent; the next store replaces it.
func (a *attempt[K, V]) open(ctx context.Context, h remote.Held) (v V, fresh, ok bool) {
	if h.Absent() || h.Data == nil {
		return v, false, false
	}
	payload, flags, err := envelope.Open(h.Data, a.name, a.c.schema)
	fresh = h.Fresh > 0
	if err == nil && flags&envelope.Tagged != 0 {
		var drops remote.Tag
		var clock uint64
		clock, a.tags, payload, ok = envelope.CutTags(payload)
		if !ok {
			a.c.counts.foreign.Add(1)
			return v, false, false
		}
		if drops, ok = a.askTags(ctx); !ok || drops.Dropped > clock {
			return v, false, false
		}
		fresh = fresh && drops.Expired <= clock
	}
	switch {
	case err != nil:
	case a.suspect != nil && remote.ID(a.suspect.ID) == h.ID:
		a.c.counts.confirmed.Add(1)
		return a.suspect.Value, fresh, true
	default:
		v, err = a.c.o.Remote.Codec.Decode(payload)
	}
	if err != nil {
		a.c.counts.foreign.Add(1)
		return *new(V), false, false
	}
	return v, fresh, true
}

// askTags returns the latest drops of any of a.tags. It reports false if what
// carries them must not be used.
func (a *attempt[K, V]) askTags(ctx context.Context) (latest remote.Tag, ok bool) {
	if a.c.can.tag == nil || a.c.retry.BlocksTags(a.tags) {
		return latest, false
	}
	tags, err := a.c.can.tag.Tags(ctx, a.tags)
	if !a.answered("tags", err) {
		return latest, false
	}
	for _, t := range tags {
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
	if err != nil && over(a.ctx) {
		a.down = true // it was us who hung up
		return false
	}
	a.c.remoteResult(op, err)
	a.down = a.down || err != nil
	return err == nil
}

// remoteResult counts what an operation on L2 came to, and logs when L2 fails
// for the first time and when it is back.
func (c *Cache[K, V]) remoteResult(op string, err error) {
	if err == nil {
		if c.broken.Load() && c.broken.CompareAndSwap(true, false) {
			c.o.Logger.Info("strata: L2 answers again", slog.String("cache", c.o.Name))
		}
		return
	}
	c.counts.remoteErrors.Add(1)
	if c.broken.CompareAndSwap(false, true) {
		c.o.Logger.Warn("strata: L2 does not answer", slog.String("cache", c.o.Name), slog.String("op", op), slog.Any("error", err))
	}
	if hook := c.o.Hooks.RemoteError; hook != nil {
		defer c.contain("Hooks.RemoteError")
		hook(RemoteErrorEvent{Cache: c.o.Name, Op: op, Err: err})
	}
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
)

// found makes v the result.
func (a *attempt[K, V]) found(v V, how end) {
	a.end = how
	a.res = flight.Result[V]{Value: v, Found: true, Note: noteL1}
	if how == endL2 {
		a.res.Note = noteL2
	}
}
