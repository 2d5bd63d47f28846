package strata

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/strata-cache/strata/internal/flight"
)

// ManyLoader gets the values of several keys from the origin at once. A key
// that is absent from its result is one that the origin does not have. What it
// returns beyond the keys it was asked for is kept in L1 where nothing is held.
// It runs as a [Loader] does; its error, or panic, is that of all its keys.
type ManyLoader[K comparable, V any] func(ctx context.Context, keys []K) (map[K]V, error)

// PartialError is returned by GetMany, beside what was found, when some keys
// could not be had.
type PartialError[K comparable] struct {
	// Failed has the error of each such key, as GetOrLoad would return it.
	Failed map[K]error
}

// Error names the number of keys and one of the errors.
func (e *PartialError[K]) Error() string {
	for _, err := range e.Failed {
		return fmt.Sprintf("strata: %d keys failed: %v", len(e.Failed), err)
	}
	return "strata: no keys failed"
}

// Unwrap returns the errors of all keys.
func (e *PartialError[K]) Unwrap() []error { return slices.Collect(maps.Values(e.Failed)) }

// GetMany is GetOrLoad for several keys: what L1 does not have is looked up in
// L2 in one round trip, and what is missing there is loaded in one call of load.
// Keys whose load is under way, in another batch or alone, are waited for. A nil
// load means Options.Loader, one key after the other.
//
// The result has the keys that have a value: those that the origin does not have
// are absent from it, and no error. If other keys fail it returns *PartialError
// beside what was found. [ReadInfo] says nothing here. With [SkipRead] each key
// is loaded by itself.
func (c *Cache[K, V]) GetMany(ctx context.Context, keys []K, load ManyLoader[K, V], opts ...CallOption) (map[K]V, error) {
	o := callOf(opts)
	o.info = nil
	if err := c.callError(o); err != nil {
		return nil, err
	}
	if load == nil {
		load = c.eachOf(c.o.Loader)
	}
	if load == nil {
		return nil, ErrNoLoader
	}
	r := many[K, V]{c: c, load: load, call: o, found: make(map[K]V, len(keys))}
	for part := range slices.Chunk(distinct(keys), maxBatch) {
		r.get(ctx, part)
	}
	if len(r.failed) > 0 {
		return r.found, &PartialError[K]{r.failed}
	}
	return r.found, nil
}

// distinct returns keys without repetitions, and without those that are not
// equal to themselves.
func distinct[K comparable](keys []K) []K {
	seen := make(map[K]struct{}, len(keys))
	all := make([]K, 0, len(keys))
	for _, k := range keys {
		if _, again := seen[k]; !again && k == k { // a NaN cannot be found again
			seen[k] = struct{}{}
			all = append(all, k)
		}
	}
	return all
}

// eachOf is load for several keys, one after the other; nil if there is none.
func (c *Cache[K, V]) eachOf(load Loader[K, V]) ManyLoader[K, V] {
	if load == nil {
		return nil
	}
	return func(ctx context.Context, keys []K) (map[K]V, error) {
		found := make(map[K]V, len(keys))
		for _, k := range keys {
			v, err := load(ctx, k)
			switch {
			case err == nil:
				found[k] = v
			case !errors.Is(err, ErrNotFound):
				return found, err
			}
		}
		return found, nil
	}
}

// many is one GetMany on its way.
type many[K comparable, V any] struct {
	c      *Cache[K, V]
	load   ManyLoader[K, V]
	call   call
	found  map[K]V
	failed map[K]error
	due    []K // to be refreshed
}

func (m *many[K, V]) fail(key K, err error) {
	if m.failed == nil {
		m.failed = make(map[K]error)
	}
	m.failed[key] = err
}

// take takes what became of one key.
func (m *many[K, V]) take(key K, r flight.Result[V], err error) {
	if err == nil {
		err = r.Err
	}
	switch {
	case err == nil:
		m.found[key] = m.c.clone(r.Value)
	case !isAnswer(err, ErrNotFound):
		m.fail(key, m.c.wrap(key, m.c.flightError(err)))
	}
}

// one is the loader for one of the keys.
func (m *many[K, V]) one(ctx context.Context, key K) (v V, err error) {
	values, err := m.load(ctx, []K{key})
	if err != nil {
		return v, err
	}
	v, ok := values[key]
	if !ok {
		return v, ErrNotFound
	}
	return v, nil
}

// get gets some keys, all different.
func (m *many[K, V]) get(ctx context.Context, keys []K) {
	c := m.c
	if m.call.skipRead || c.o.ContextControls && skipsRead(ctx) {
		for _, k := range keys {
			v, err := c.reload(ctx, k, m.one, m.call)
			m.take(k, flight.Result[V]{Value: v}, err)
		}
		return
	}
	var missing []K
	for _, k := range keys {
		if !m.have(k) {
			missing = append(missing, k)
		}
	}
	m.refresh(ctx)
	if len(missing) == 0 {
		return
	}
	if err := ctx.Err(); err != nil {
		c.counts.turnedAway.Add(uint64(len(missing)))
		for _, k := range missing {
			m.fail(k, err)
		}
		return
	}
	m.fly(ctx, missing)
}

// refresh loads in the background, as one batch, what is due.
func (m *many[K, V]) refresh(ctx context.Context) {
	due := slices.DeleteFunc(m.due, func(k K) bool {
		_, running := m.c.flights.Running(k)
		return running || m.c.throttled(k) != nil
	})
	m.due = nil
	if len(due) == 0 {
		return
	}
	r := many[K, V]{c: m.c, load: m.load, call: m.call, found: make(map[K]V)}
	r.call.refresh = true
	ctx = flight.Apart(context.WithoutCancel(ctx)) // no load waits for it
	if !m.c.background.run(&r, func() { r.fly(ctx, due) }) {
		m.c.counts.refreshesDropped.Add(uint64(len(due)))
	}
}

// have takes key from L1, if it is there.
func (m *many[K, V]) have(key K) bool {
	c := m.c
	e, now := c.memory.Get(key)
	if e != nil && c.trusts(key, e) {
		if now < e.Fresh {
			if now >= e.Soon {
				m.due = append(m.due, key)
			}
			m.found[key] = c.hit(key, e)
			return true
		}
		if due, stale := c.servesStale(key, e, now); stale {
			if due {
				m.due = append(m.due, key)
			}
			c.counts.overruled.Add(1)
			c.counts.remembered.Add(1)
			m.found[key] = c.shown(key, e)
			return true
		}
	}
	c.overrule(e != nil)
	if k := c.recall(key); k != nil && k.notFound {
		c.counts.remembered.Add(1)
		return true
	}
	return false
}

// fly gets keys through their flights: those that are under way, and a batch of
// all others.
func (m *many[K, V]) fly(ctx context.Context, keys []K) {
	c := m.c
	if m.call.refresh {
		c.counts.refreshes.Add(uint64(len(keys)))
	} else if n := c.o.Limits.MaxWaiters; n > 0 {
		defer c.waiting.Add(-1)
		if c.waiting.Add(1) > int64(n) {
			for _, k := range keys {
				v, err := c.overloaded(k, m.call)
				m.take(k, flight.Result[V]{Value: v}, err)
			}
			return
		}
	}
	b := &batch[K, V]{many: m, trust: c.trust.Word(), drops: c.drops.Load()}
	b.flights = c.flights.Batch(ctx, keys, flight.Load)
	c.counts.turnedAway.Add(uint64(len(b.flights.Refused)))
	for k, err := range b.flights.Refused {
		m.take(k, flight.Result[V]{}, err)
	}
	c.counts.flights.Add(uint64(len(b.flights.Led)))
	c.counts.joins.Add(uint64(len(b.flights.Joined)))
	b.lead(ctx)
	for _, f := range b.flights.Joined {
		r, err := b.flights.Wait(ctx, f)
		m.take(f.Key, r, err)
	}
}
