package strata

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/remote"
)

// reload loads key although it may be cached, through a flight with a load that begins after the call. Callers
// of normal reads are served from the cache meanwhile, or join that flight.
func (c *Cache[K, V]) reload(ctx context.Context, key K, load Loader[K, V], from *call) (v V, err error) {
	o := *from
	if load = c.loader(load, &o); load == nil {
		c.counts.turnedAway.Add(1)
		return v, ErrNoLoader
	}
	o.skipRead = true
	room := c.waiting.Enter()
	defer c.waiting.Leave(room)
	var r flight.Result[V]
	if err := reloadInto(ctx, c, key, load, &o, room, &r); err != nil {
		return v, err
	}
	return c.answer(key, &r)
}

// reloadInto is reload for a caller that has room, or is one too many. It writes the result to r.
func reloadInto[K comparable, V any](ctx context.Context, c *Cache[K, V], key K, load Loader[K, V], o *call, room bool, r *flight.Result[V]) error {
	if !room {
		c.counts.overloaded.Add(1)
		c.counts.turnedAway.Add(1)
		return ErrOverloaded
	}
	err := c.fly(ctx, key, flight.Reload, load, o, r)
	if r.Instead != nil { // a stale value is for callers that joined
		*r = flight.Result[V]{Err: r.Instead}
	}
	return err
}

// prepareReload leaves the look-up in L2 to the question for the lease: the answer brings the value that L2 holds. A reload that
// follows another load here lets other instances ask first, which may have been waiting for the lease of that load.
func (r *read[K, V]) prepareReload() {
	r.lookAgain() // for callers that join: a drop before the load begins ends the offer
	r.candidate, r.suspect = candidate[K, V]{}, suspect[K, V]{}
	if !r.c.l2.HasTier() {
		return
	}
	if r.f.Queued() {
		turn := time.NewTimer(maxPoll)
		defer turn.Stop()
		select {
		case <-turn.C:
		case <-r.ctx.Done():
		}
	}
	if r.call.noRemote {
		r.l2.Down = true
		return
	}
	if !r.named() || r.l2.PassesBy(r.c.l2) {
		return
	}
	r.l2.Allowed(r.c.l2)
	r.skippedGet = true
	if e, _ := r.c.near.Values.Glance(r.f.Key); e != nil {
		r.right.replaces = local.RecordOf(e).ID // most likely the value that L2 holds
	}
}

// startReload lets the next caller that wants a reload have another, and looks for a
// candidate not dropped since L2 was asked.
func (r *read[K, V]) startReload() {
	r.pending = false
	if !r.c.flights.Start(r.f) {
		r.candidate = candidate[K, V]{}
	}
	if r.candidate.value != nil {
		r.offer()
		return
	}
	r.lookAgain()
	r.suspect = suspect[K, V]{}
}

// useHeldBefore makes the value that L2 holds the candidate of a read that loads in any case.
func (r *read[K, V]) useHeldBefore(box *sealed, drops map[string]remote.Tag) {
	if o := r.open(box, drops); o.state == stale || o.state == fresh {
		r.useStale(o, &box.held)
		r.sumUp(box)
		r.candidate.entry = nil // if the load fails, L1 keeps its own
	}
}

// supersede drops the older values of other instances after a reload, unless L2 dropped
// them as it stored the answer of the load.
func (r *read[K, V]) supersede() {
	res := &r.outcome.res
	answer := res.Err == nil && res.Instead == nil || isAnswer(res.Err, ErrNotFound)
	if !r.call.skipRead || !answer || r.right.used || r.right.noStore || !r.c.l2.Used() || r.call.noRemote {
		return
	}
	if r.l2.Name == "" {
		if r.l2.Name, _ = r.c.nameOf(r.f.Key); r.l2.Name == "" {
			return
		}
	}
	drops := []remote.Drop{{Key: r.l2.Name, Soft: res.Err == nil, Left: r.c.tuned.stale().window()}}
	switch {
	case r.c.l2.HasTier() && !r.l2.KeyTooLong:
		r.c.l2.DropSoon(drops)
	case r.c.l2.HasBus(): // L2 holds nothing of it
		r.c.l2.Publish(r.ctx, drops)
	}
}
