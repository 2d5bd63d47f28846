package strata

import (
	"context"

	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l2"
)

// batch is the reads that one GetMany leads.
type batch[K comparable, V any] struct {
	*many[K, V]
	flights *flight.Batch[K, V]
	reads   reads[K, V]
	slab    []read[K, V] // has the reads
	again   bool         // the time of the caller ended in the look-up
}

// batch registers the caller with the flights of keys.
func (m *many[K, V]) batch(ctx context.Context, keys []K) *batch[K, V] {
	begun := m.c.stamps(nil, nil)
	b := &batch[K, V]{many: m, flights: m.c.flights.Batch(ctx, keys, m.kind())}
	b.reads = reads[K, V]{c: m.c, call: m.call, batch: b.flights, begun: begun}
	if !m.loadless {
		b.reads.load, b.reads.many = m.one, m.load
	}
	return b
}

// lead leads the batch's own flights: a look at both tiers on the caller's
// goroutine, and the other stages on one of their own.
func (b *batch[K, V]) lead(ctx context.Context, patience flight.Patience) {
	soft := ctx
	if patience.Soft != nil {
		soft = patience.Soft
	}
	b.begin(soft, b.flights.Led)
	led := len(b.flights.Led)
	defer func() { b.flights.Done(led) }() // the rest, if a callback has ended the goroutine
	landed := b.reads.lookUp()
	b.flights.Done(len(landed))
	led -= len(landed)
	for _, r := range landed {
		b.takeLed(r.f.Key, r.outcome.res, nil)
	}
	b.refresh(ctx)
	if len(b.reads.all) == 0 {
		b.release()
		b.flights.Leave()
		return
	}
	fs := make([]*flight.Flight[K, V], len(b.reads.all))
	for i, r := range b.reads.all {
		fs[i] = r.f
	}
	b.again = l2.Over(soft)
	led -= len(fs)
	b.flights.Launch(ctx, patience, fs, b.then)
	for _, f := range fs {
		r, err := b.flights.Wait(ctx, patience, f)
		b.takeLed(f.Key, r, err)
	}
	b.refresh(ctx)
	b.flights.Leave()
}

// begin makes the reads of the batch: one for each of fs, the flights that begin now.
func (b *batch[K, V]) begin(ctx context.Context, fs []*flight.Flight[K, V]) {
	b.slab = b.c.slabs.Take(len(fs))
	b.reads.ctx, b.reads.all = ctx, make([]*read[K, V], len(fs))
	for i, f := range fs {
		b.reads.begin(&b.slab[i], ctx, f)
		b.reads.all[i] = &b.slab[i]
	}
}

// release gives the reads back: all have landed, and from now on only their flights are read.
func (b *batch[K, V]) release() { b.c.slabs.Give(b.slab) }

// takeLed takes the result of a flight that the batch leads. If the result is a stale value
// of L2, served while revalidating, its key becomes due for a refresh.
func (b *batch[K, V]) takeLed(key K, r flight.Result[V], err error) {
	if r.Note&noteRevalidate != 0 && !b.loadless {
		b.due = append(b.due, key)
	}
	b.take(key, r, err)
}

// then takes the reads through the stages that follow the caller's look-up. If the caller's
// time ended during that look-up, the callers that joined get another one.
func (b *batch[K, V]) then() {
	g := &b.reads
	g.ctx = b.flights.Context()
	if b.again {
		fs := make([]*flight.Flight[K, V], len(g.all))
		for i, r := range g.all {
			fs[i] = r.f
		}
		b.begin(g.ctx, fs)
	}
	for _, r := range g.all {
		r.ctx = r.f.Context()
	}
	if b.again {
		g.lookUp()
	}
	if len(g.all) > 0 {
		g.finish()
	}
	b.release()
}

// gathered is the loads of single keys by Options.ManyLoader. A read comes here after its
// look-up, and has no slot and no lease yet.
type gathered[K comparable, V any] struct {
	reads *flight.Gatherer[*read[K, V]]
	one   Loader[K, V] // the ManyLoader with one key; nil if there is none
}

// startGathering makes c.gathered, if the Options have a ManyLoader.
func (c *Cache[K, V]) startGathering() {
	if c.o.ManyLoader == nil {
		return
	}
	c.gathered.one = (&many[K, V]{load: c.o.ManyLoader}).one
	c.gathered.reads = flight.NewGatherer(c.o.BatchSize, c.o.BatchWait, c.open.Done(), c.together)
}

// gather takes r through the stages after its look-up, together with others. A load
// inside a load goes alone: so loads wait for each other in a circle only if they ask
// for their own keys.
func (c *Cache[K, V]) gather(r *read[K, V]) {
	if r.f.Inside() {
		c.together([]*read[K, V]{r})
		return
	}
	c.gathered.reads.Join(r)
}

// together takes reads of single keys through the stages after their look-ups, as one
// batch: it is a refresh if all are.
func (c *Cache[K, V]) together(all []*read[K, V]) {
	g := &reads[K, V]{c: c, load: c.gathered.one, many: c.o.ManyLoader, all: all, begun: c.stamps(nil, nil)}
	fs := make([]*flight.Flight[K, V], len(all))
	g.call.refresh, g.call.gathers = true, true
	for i, r := range all {
		fs[i] = r.f
		g.call.refresh = g.call.refresh && r.call.refresh
		g.call.noMemory = g.call.noMemory || r.call.noMemory // for extra keys
	}
	g.batch = c.flights.Gather(fs)
	defer g.batch.Context().Finish()
	g.ctx = g.batch.Context()
	g.finish()
}

// keepExtras keeps in L1 the values that a ManyLoader has brought unasked, where L1
// has nothing, and nothing was written, dropped or put on hold since the batch
// began. L2 was not asked whether a key is on hold, and has nothing to confirm the
// value by after a message was lost, so that with an L2 it lives as without a bus.
// said has the settings of the Loader.
func (g *reads[K, V]) keepExtras(values map[K]V, said *Load) {
	if g.c.passesMemory(&g.call) {
		return
	}
	asked := make(map[K]bool, len(g.all))
	for _, r := range g.all {
		asked[r.f.Key] = true
	}
	for k, v := range values {
		if !asked[k] {
			g.keepExtra(k, v, said)
		}
	}
}

// keepExtra keeps the value of an extra key in L1, if L1 has no entry of the key. With a Tier it
// lives for UnconfirmedTTL at most: the batch has no lease of the key, so L2 does not have the
// value and cannot confirm it.
func (g *reads[K, V]) keepExtra(key K, v V, said *Load) {
	c, o := g.c, g.call
	applyLoad(said, &o, key)
	c.nameTags(&o, key, v)
	left := c.life(&o)
	if c.l2.HasTier() {
		left = min(left, c.births.Jittered(UnconfirmedTTL))
	}
	weight, ok := c.weigh(key, v)
	if !ok || c.checkKey(key) != nil || left <= 0 || c.callError(&o) != nil {
		return
	}
	from := g.begun
	from.Tags, from.Own = o.tags, o.own
	now := c.memory.Now()
	e := c.near.New(now, key, v, left, left, from, record{Born: now})
	if c.near.TagsDropped(e) {
		return
	}
	if !c.mark(e, nil) {
		return
	}
	var removed []removal[K, V]
	kept := false
	g.batch.Fill(key, func() {
		old, _ := c.near.Values.Glance(key)
		known, _ := c.near.Negatives.Peek(key)
		if old == nil && (known == nil || !known.Value.NotFound) {
			removed, kept = c.near.Values.Offer(e, weight, 0)
			c.near.Negatives.Delete(key)
		}
	})
	c.callbacks.Resume(g.ctx, func() { c.near.Values.Notify(removed) })
	if kept {
		c.stored(g.ctx, key, v, "L1")
	}
}
