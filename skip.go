package strata

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/remote"
)

// reload loads key whatever is cached, through a flight whose load begins after
// the call. Callers of normal reads are served what is held meanwhile, or join
// that flight.
func (c *Cache[K, V]) reload(ctx context.Context, key K, load Loader[K, V], o call) (v V, err error) {
	if load == nil {
		load = c.o.Loader
	}
	if load == nil {
		c.counts.turnedAway.Add(1)
		return v, ErrNoLoader
	}
	if n := c.o.Limits.MaxWaiters; n > 0 {
		defer c.waiting.Add(-1)
		if c.waiting.Add(1) > int64(n) {
			c.counts.overloaded.Add(1)
			c.counts.turnedAway.Add(1)
			return v, ErrOverloaded
		}
	}
	o.skipRead = true
	r, err := c.fly(ctx, key, flight.Reload, load, o)
	if err != nil {
		return v, err
	}
	if r.Instead != nil { // a stale value is for those who have joined
		return v, c.wrap(key, r.Instead)
	}
	return c.answer(key, r)
}

// prepareReload leaves L2 to the question for the lease, whose answer brings what
// L2 holds. A reload that follows another load here lets other instances ask
// first, which may have been waiting for that one's lease. It reports false if
// there is a result instead.
func (a *attempt[K, V]) prepareReload() bool {
	if !a.c.l2.HasTier() {
		return true
	}
	if a.f.Queued() {
		turn := time.NewTimer(maxPoll)
		defer turn.Stop()
		select {
		case <-turn.C:
		case <-a.ctx.Done():
		}
	}
	if a.l2.Name, a.res.Err = a.c.nameOf(a.f.Key); a.res.Err != nil {
		return false
	}
	if a.l2.PassesBy(a.c.l2) {
		return true
	}
	a.l2.Allowed(a.c.l2)
	a.unasked = true
	if e, _ := a.c.memory.Peek(a.f.Key); e != nil {
		a.spoilt = remote.ID(e.ID) // most likely what L2 holds
	}
	return true
}

// startReload lets the next who wants a reload have another, and keeps at hand
// what is held: nothing that was dropped since L2 was asked.
func (a *attempt[K, V]) startReload() {
	a.pending = false
	if !a.c.flights.Start(a.f) {
		a.held, a.id, a.tags = nil, 0, nil
	}
	if a.held != nil {
		a.offer()
		return
	}
	a.lookAgain()
	a.suspect = nil
}

// seenBefore keeps at hand what L2 holds of a key that is loaded whatever that is.
func (a *attempt[K, V]) seenBefore(ctx context.Context, h remote.Held) {
	if v, state := a.open(ctx, h); state == staleValue || state == freshValue {
		a.seenStale(v, h)
		a.fallback = nil // if the load fails, L1 keeps what it has
	}
}

// supersede sees to what other instances have of a key that a reload has got an
// answer for, if that has not happened as L2 stored the answer: it is not as
// new.
func (a *attempt[K, V]) supersede() {
	answer := a.res.Err == nil && a.res.Instead == nil || isAnswer(a.res.Err, ErrNotFound)
	if !a.call.skipRead || !answer || a.replaced || a.noKeep || !a.c.l2.Used() {
		return
	}
	if a.l2.Name == "" {
		if a.l2.Name, _ = a.c.nameOf(a.f.Key); a.l2.Name == "" {
			return
		}
	}
	drops := []remote.Drop{{Key: a.l2.Name, Soft: a.res.Err == nil, Left: a.c.o.Stale.window()}}
	switch {
	case a.c.l2.HasTier() && !a.l2.KeyTooLong:
		a.c.l2.DropSoon(drops)
	case a.c.l2.HasBus(): // L2 holds nothing of it
		a.c.l2.Publish(a.ctx, drops)
	}
}
