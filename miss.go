package strata

import (
	"cmp"
	"context"
	"errors"

	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/ledger"
)

// miss answers a GetOrLoad that L1 could not: it joins the key's flight, or starts it, and waits under the caller's own context.
func (c *Cache[K, V]) miss(ctx context.Context, key K, load Loader[K, V], o *call) (V, error) {
	if load = c.loader(load, o); load == nil {
		c.counts.turnedAway.Add(1)
		return *new(V), ErrNoLoader
	}
	if !c.waiting.Enter() {
		return c.overloaded(ctx, key, o)
	}
	defer c.waiting.Leave(true)
	var r flight.Result[V]
	if err := c.fly(ctx, key, flight.Load, load, o, &r); err != nil {
		return r.Value, err
	}
	return c.answer(key, &r)
}

// loader returns load, or the loader of the Options if load is nil. It notes in o if the
// result is the ManyLoader.
func (c *Cache[K, V]) loader(load Loader[K, V], o *call) Loader[K, V] {
	if load == nil {
		load = c.o.Loader
	}
	if load == nil && c.o.ManyLoader != nil {
		o.gathers = true
		return c.gathered.one
	}
	return load
}

// answer returns a flight's result as callers get it.
func (c *Cache[K, V]) answer(key K, r *flight.Result[V]) (V, error) {
	if r.Err != nil {
		return *new(V), c.wrap(key, r.Err)
	}
	return c.own(r), nil
}

// fallback returns the entry that L1 has for when a load fails, or nil, and until when it may be served.
func (c *Cache[K, V]) fallback(key K) (e *entry[K, V], until int64) {
	e, _ = c.near.Values.Peek(key)
	if e == nil {
		return nil, 0
	}
	e = c.near.Aged(key, e)
	if v, _ := c.near.Judge(key, e); v > ledger.Stale {
		return nil, 0
	}
	return e, c.near.OnErrorUntil(e)
}

// overloaded is the answer to a caller that would be one too many.
func (c *Cache[K, V]) overloaded(ctx context.Context, key K, o *call) (V, error) {
	c.counts.overloaded.Add(1)
	if e, until := c.fallback(key); e != nil && c.memory.Now() < until && !o.noMemory {
		c.counts.remembered.Add(1)
		c.stale(ctx, key, e.Value.V, ErrOverloaded)
		c.informOfEntry(o, e, ErrOverloaded)
		return c.clone(e.Value.V), nil
	}
	c.counts.turnedAway.Add(1)
	return *new(V), ErrOverloaded
}

// softly is ctx until Limits.SoftTimeout is over, from when on a caller takes the
// stale value of a flight; nil if there is no such limit, or the caller takes none.
func (c *core) softly(ctx context.Context, takes bool) (soft context.Context, cancel context.CancelFunc) {
	if takes && c.settings.Limits.SoftTimeout > 0 {
		return context.WithTimeout(ctx, c.settings.Limits.SoftTimeout)
	}
	return nil, nothing
}

// nothing is not a literal in a method of a generic type, which is allocated.
func nothing() {}

// patience returns the patience of a caller that came at this watermark of tags: it ends
// with soft, unless soft is nil. With noMemory it is for no value of L1.
func (c *core) patience(soft context.Context, watermark uint64, noMemory bool) (p flight.Patience) {
	if soft == nil {
		return p
	}
	p.Soft, p.Good = soft, func(until int64, note uint8, tags []string, read uint64) bool {
		ofL1 := noMemory && note&noteTier == noteL1
		return c.now() < until && !ofL1 && !c.generation.DroppedBetween(tags, read, watermark)
	}
	return p
}

// fly gets key through a flight of that kind, within a span of its own. It writes the result to r.
func (c *Cache[K, V]) fly(ctx context.Context, key K, kind flight.Kind, load Loader[K, V], o *call, r *flight.Result[V]) error {
	if c.o.Tracer == nil {
		_, err := c.flyUntraced(c.callbacks.Within(ctx), key, kind, load, o, r)
		return err
	}
	within, span := c.beginRead(c.callbacks.Within(ctx), o, keyOf(&c.core, key), 1)
	part, err := c.flyUntraced(within, key, kind, load, o, r)
	span.finish(readEnd(ctx, r, part == flight.Joined, err))
	return err
}

// flyUntraced is fly without the span. A Get that may not ask L2 is turned away: its caller has
// looked in L1 already.
func (c *Cache[K, V]) flyUntraced(ctx context.Context, key K, kind flight.Kind, load Loader[K, V], o *call, r *flight.Result[V]) (part flight.Part, err error) {
	if kind == flight.Read && !c.asks(o) && ctx.Err() == nil {
		c.counts.turnedAway.Add(1)
		return part, nil
	}
	if err := c.checkKey(key); err != nil {
		c.counts.turnedAway.Add(1)
		return part, err
	}
	if o.refresh {
		c.counts.refreshes.Add(1)
	}
	soft, cancel := c.softly(ctx, kind == flight.Load && !o.refresh)
	defer cancel()
	part, err = c.flyUntilCurrent(ctx, soft, key, kind, load, o, r)
	c.countPart(part)
	err = c.flightError(err)
	if kind == flight.Load && !o.refresh {
		countStale(ctx, c, key, r)
	}
	if kind == flight.Read && r.Note&noteStale != 0 && !o.allowStale && !r.Offered {
		*r = flight.Result[V]{}
		return part, err
	}
	if r.Note&(noteTier|noteDegraded) == noteL1 && (r.Offered || r.Found && r.Err == nil) && c.degraded() {
		c.counts.degraded.Add(1)
		r.Note |= noteDegraded
	}
	if r.Offered {
		c.informOf(o, r, false)
		return part, nil
	}
	if err == nil && r.Err == nil && r.Found && (kind != flight.Reload || r.Instead == nil) {
		c.informOf(o, r, part == flight.Joined)
		if r.Note&noteRevalidate != 0 && part == flight.Led {
			c.refresh(ctx, key, load, o)
		}
	}
	return part, err
}

// countStale counts the value of r if a caller gets it while it is stale.
func countStale[K comparable, V any](ctx context.Context, c *Cache[K, V], key K, r *flight.Result[V]) {
	if r.Offered {
		r.Instead = errSoftTimeout
	}
	if r.Instead != nil || r.Note&noteRevalidate != 0 {
		c.stale(ctx, key, r.Value, r.Instead)
	}
}

// countPart counts the part of a caller in a flight.
func (c *core) countPart(part flight.Part) {
	switch part {
	case flight.Joined:
		c.counts.joins.Add(1)
	case flight.Led:
		c.counts.flights.Add(1)
	default:
		c.counts.turnedAway.Add(1)
	}
}

// flyUntilCurrent leads or joins a flight of key, and another one each time that a joined flight turns out to be outdated.
func (c *Cache[K, V]) flyUntilCurrent(ctx, soft context.Context, key K, kind flight.Kind, load Loader[K, V], o *call, r *flight.Result[V]) (p flight.Part, err error) {
	if kind == flight.Load && c.asks(o) && c.flights.Reloading(key) {
		if p, ok, err := c.readBeside(ctx, soft, key, o, r); ok {
			return p, err
		}
	}
	for {
		*r = flight.Result[V]{}
		if err := ctx.Err(); err != nil {
			return flight.None, err
		}
		watermark := c.generation.TagWatermark()
		patience := c.patience(soft, watermark, o.noMemory)
		patience.Registered = o.registered
		p, err = c.flights.Do(ctx, patience, key, kind, c.leader(load, o), r)
		if p != flight.Joined || err != nil || !c.outdated(o, r, watermark) {
			return p, err
		}
	}
}

// readBeside returns the value that L2 has of a key while a reload loads it: callers that asked for a reload wait for it, others
// are served from the cache. ok is false if L2 has no fresh value, or none before the end of soft: from then on the caller takes
// a stale one. soft may be nil.
func (c *Cache[K, V]) readBeside(ctx, soft context.Context, key K, o *call, r *flight.Result[V]) (p flight.Part, ok bool, err error) {
	l := c.leader(nil, &call{wants: wants{noMemory: o.noMemory}})
	l.beside = true
	since, within := c.generation.TagWatermark(), ctx
	if soft != nil {
		within = soft
	}
	p, err = c.flights.Do(within, flight.Patience{}, key, flight.Read, l, r)
	ok = err == nil && (r.Found && r.Note&noteStale == 0 || isAnswer(r.Err, ErrNotFound)) && (p == flight.Led || !c.outdated(o, r, since))
	if p == flight.Led && l.again {
		if p = flight.Joined; !ok {
			<-within.Done() // its time is over: the connection may have seen that first
			return p, ctx.Err() != nil, cmp.Or(err, ctx.Err())
		}
	}
	return p, ok, nil
}

// flightError converts an error of package flight.
func (c *core) flightError(err error) error {
	switch {
	case errors.Is(err, flight.ErrClosed):
		return ErrClosed
	case errors.Is(err, flight.ErrRecursive):
		return ErrRecursiveLoad
	}
	return err
}
