package strata

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/origin"
)

// GetMany is GetOrLoad for several keys. The keys that L1 does not have are looked up in L2, in one
// round trip for each 500 of them. The missing keys of these 500 are loaded in one call of load,
// one 500 after the other. GetMany waits for running loads of its keys, in another batch or
// alone. A nil load means Options.ManyLoader, else Options.Loader, one key after the other, and
// without any of them GetMany is [Cache.Get] for several keys: it loads nothing.
//
// The result has the keys with a value. A key that the origin does not have is absent from
// it, without an error. If other keys fail it returns *PartialError beside the values it
// has found. [ReadInfo] has no effect here. With [SkipRead] load is called for each key by
// itself, for all at once.
func (c *Cache[K, V]) GetMany(ctx context.Context, keys []K, load ManyLoader[K, V], opts ...CallOption) (map[K]V, error) {
	found, plainly := make(map[K]V, len(keys)), !c.o.ContextControls && !c.o.Memory.Encoded && (len(opts) == 0 || c.sparesHits(opts))
	keys, e, now := look(c, plainly, found, envelope.Distinct(keys))
	if plainly && len(keys) == 0 {
		return found, nil
	}
	var o call
	o.add(opts)
	c.tuned.apply(&o)
	o.info = nil
	if err := c.callError(&o); err != nil {
		return nil, err
	}
	load = c.manyLoader(load)
	r := many[K, V]{c: c, load: load, loadless: load == nil, call: o, found: found, ctx: ctx, plainly: plainly}
	r.get(ctx, keys, e, now)
	if len(r.failed) > 0 {
		return r.found, &PartialError[K]{r.failed}
	}
	return r.found, nil
}

// look puts the values of keys into found, as long as L1 serves them plainly, as GetOrLoad does. It
// returns the rest of the keys, and the entry that the engine has found for the first of them. Without
// plainly it does not look.
func look[K comparable, V any](c *Cache[K, V], plainly bool, found map[K]V, keys []K) (rest []K, e *entry[K, V], now int64) {
	for plainly && len(keys) > 0 {
		if e, now = c.memory.Get(keys[0]); e == nil || !plain(&e.Value, now, e.Dead, c.generation.Generation.Load()) ||
			e.Value.State&expiry.Tagged != 0 && !c.near.TagsStand(e) {
			break
		}
		found[keys[0]], keys = e.Value.V, keys[1:]
	}
	return keys, e, now
}

// manyLoader returns load, or else the loader of the Options; nil if there is none.
func (c *Cache[K, V]) manyLoader(load ManyLoader[K, V]) ManyLoader[K, V] {
	if load == nil {
		load = c.o.ManyLoader
	}
	if load == nil {
		load = c.eachOf(c.o.Loader)
	}
	return load
}

// eachOf is load for several keys, one after the other; nil if there is none.
func (c *Cache[K, V]) eachOf(load Loader[K, V]) ManyLoader[K, V] {
	if load == nil {
		return nil
	}
	return func(ctx context.Context, keys []K) (map[K]V, error) {
		absent := func(err error) bool { return isAnswer(c.asNotFound(err), ErrNotFound) }
		one := func(k K) (V, error) { // load speaks of its key alone
			return load(context.WithValue(ctx, loadKey{}, LoadingKey(ctx, k)), k)
		}
		return origin.Each(ctx, keys, one, absent, func(p any) error { return &LoadPanicError{Value: p, Stack: debug.Stack()} })
	}
}

// many is one GetMany on its way.
type many[K comparable, V any] struct {
	c      *Cache[K, V]
	load   ManyLoader[K, V]
	call   call
	found  map[K]V
	failed map[K]error
	loads  []context.Context // shared with other callers, for the span
	soft   context.Context   // ends with Limits.SoftTimeout; nil without it
	due    []K               // to be refreshed
	ctx    context.Context   // of the call, for hooks
	// loadless says that it looks at L2 and loads nothing, plainly that no option concerns hits.
	loadless, plainly bool
}

// fail notes the error of a key. Most batches have no error, and make no map.
func (m *many[K, V]) fail(key K, err error) {
	if m.failed == nil {
		m.failed = make(map[K]error)
	}
	m.failed[key] = err
}

// take takes the result of one key.
func (m *many[K, V]) take(key K, r flight.Result[V], err error) {
	if err == nil {
		err = r.Err
	}
	if !m.loadless && !m.call.refresh {
		countStale(m.ctx, m.c, key, &r)
	}
	switch {
	case m.loadless:
		if err != nil || !r.Found || r.Note&noteStale != 0 && !m.call.allowStale {
			return
		}
		if m.found[key] = m.c.own(&r); r.Note&noteStale != 0 {
			m.c.allowed(m.ctx, key, r.Value)
		}
	case err == nil:
		m.found[key] = m.c.own(&r)
	case !isAnswer(err, ErrNotFound):
		m.fail(key, m.c.wrap(key, m.c.flightError(err)))
	}
}

// one is the loader for one of the keys.
func (m *many[K, V]) one(ctx context.Context, key K) (v V, err error) {
	values, err := m.load(ctx, []K{key})
	return origin.Of(values, err, key, ErrNotFound)
}

// get gets some keys, all different. If no option concerns hits, e is the entry that the engine has
// found for the first key.
func (m *many[K, V]) get(ctx context.Context, keys []K, e *entry[K, V], now int64) {
	c := m.c
	if !m.loadless && (m.call.skipRead || c.o.ContextControls && skipsRead(ctx)) {
		for part := range slices.Chunk(keys, maxBatch) {
			m.reload(ctx, part)
		}
		return
	}
	missing := make([]K, 0, len(keys))
	for ; len(keys) > 0; keys, e, now = look(c, m.plainly, m.found, keys[1:]) {
		k := keys[0]
		if !m.plainly {
			e, now = c.memory.Get(k)
		}
		if m.have(k, e, now) {
			continue
		}
		if err := c.checkKey(k); err != nil {
			c.counts.turnedAway.Add(1)
			m.fail(k, err)
			continue
		}
		missing = append(missing, k)
	}
	m.refresh(ctx)
	var cancel context.CancelFunc
	m.soft, cancel = c.softly(ctx, !m.loadless && len(missing) > 0)
	defer cancel()
	for part := range slices.Chunk(missing, maxBatch) {
		m.flyTraced(ctx, part)
	}
}

// flyTraced is fly within a span.
func (m *many[K, V]) flyTraced(ctx context.Context, keys []K) {
	ctx, s := m.c.beginRead(m.c.callbacks.Within(ctx), &m.call, nil, len(keys))
	m.fly(ctx, keys)
	s.finish(m.end(ctx))
}

// end describes the end of the span of a GetMany under ctx.
func (m *many[K, V]) end(ctx context.Context) SpanEnd {
	e := SpanEnd{Result: "many", Loads: m.loads}
	for _, err := range m.failed {
		if e.Err = failure(ctx, err); e.Err != nil {
			e.Result = "error"
			break
		}
	}
	return e
}

// reload loads some keys although they may be cached, each by itself and all at once.
func (m *many[K, V]) reload(ctx context.Context, keys []K) {
	results, errs := make([]flight.Result[V], len(keys)), make([]error, len(keys))
	var all sync.WaitGroup
	m.call.skipRead = true
	room := m.c.waiting.Enter()
	defer m.c.waiting.Leave(room)
	for i, k := range keys {
		m.c.counts.lookups.AsMiss(m.reads(k))
		all.Go(func() { errs[i] = reloadInto(ctx, m.c, k, m.one, &m.call, room, &results[i]) })
	}
	all.Wait()
	for i, k := range keys {
		m.take(k, results[i], errs[i])
	}
}

// reads counts a read of key, and reports whether L1 has an entry of it.
func (m *many[K, V]) reads(key K) bool {
	e, _ := m.c.memory.Get(key)
	if m.c.o.Memory.Encoded {
		e, _ = m.c.near.Values.Get(key)
	}
	return e != nil
}

// refresh loads the due keys in the background, in a batch for each maxBatch of them. It
// returns the keys for which there is no room.
func (m *many[K, V]) refresh(ctx context.Context) (left []K) {
	due := slices.DeleteFunc(m.due, func(k K) bool {
		_, running := m.c.flights.Running(k)
		return running || m.c.near.Throttled(k) != nil
	})
	m.due = nil
	if len(due) == 0 {
		return nil
	}
	ctx = flight.Apart(context.WithoutCancel(m.c.callbacks.Within(ctx))) // no load waits for it
	for part := range slices.Chunk(due, maxBatch) {
		r := many[K, V]{c: m.c, load: m.load, call: m.call, found: make(map[K]V), ctx: ctx}
		r.call.refresh = true
		if !m.c.background.Run(&r, func(func()) { r.flyTraced(ctx, part) }) {
			m.c.counts.refreshesDropped.Add(uint64(len(part)))
			left = append(left, part...)
		}
	}
	return left
}

// have takes key from L1, where the engine has found e, if L1 has an answer.
func (m *many[K, V]) have(key K, e *entry[K, V], now int64) bool {
	if m.c.o.Memory.Encoded {
		e, now = m.c.near.Values.Get(key)
	}
	if m.loadless {
		v, found, known := m.c.getNear(m.ctx, key, e, now, &m.call)
		if found {
			m.found[key] = v
		}
		return known
	}
	if m.call.noMemory {
		m.c.counts.lookups.AsMiss(e != nil)
		m.c.tellMiss(m.ctx, key)
		return false
	}
	if a := m.c.answerL1(m.ctx, key, e, now); a.entry != nil {
		if a.due {
			m.due = append(m.due, key)
		}
		m.found[key] = a.value
		return true
	}
	return m.c.missed(m.ctx, key, e) != nil
}

// fly gets keys through their flights: running ones, and a batch of new ones for the rest.
func (m *many[K, V]) fly(ctx context.Context, keys []K) {
	c := m.c
	if m.call.refresh {
		c.counts.refreshes.Add(uint64(len(keys)))
	} else if !m.loadless {
		if !c.waiting.Enter() {
			for _, k := range keys {
				v, err := c.overloaded(m.ctx, k, &m.call)
				m.take(k, flight.Result[V]{Value: v}, err)
			}
			return
		}
		defer c.waiting.Leave(true)
	}
	if !m.call.refresh {
		keys = m.besideReloads(ctx, m.soft, keys)
	}
	for len(keys) > 0 {
		if err := ctx.Err(); err != nil {
			c.counts.turnedAway.Add(uint64(len(keys)))
			for _, k := range keys {
				m.fail(k, err)
			}
			return
		}
		keys = m.flyOnce(ctx, m.soft, keys)
	}
}

// besideReloads gets from L2 the keys that SkipReads are loading. It returns the rest: the
// other keys, and the keys without a fresh value in L2, which wait for the load.
func (m *many[K, V]) besideReloads(ctx, soft context.Context, keys []K) (rest []K) {
	c := m.c
	if !c.asks(&m.call) || !slices.ContainsFunc(keys, c.flights.Reloading) {
		return keys
	}
	type read struct {
		r   flight.Result[V]
		p   flight.Part
		ok  bool
		err error
	}
	reads := make([]read, len(keys))
	var all sync.WaitGroup
	for i, k := range keys {
		if c.flights.Reloading(k) {
			all.Go(func() { reads[i].p, reads[i].ok, reads[i].err = c.readBeside(ctx, soft, k, &m.call, &reads[i].r) })
		}
	}
	all.Wait()
	for i, k := range keys {
		if !reads[i].ok {
			rest = append(rest, k)
			continue
		}
		c.countPart(reads[i].p)
		m.take(k, reads[i].r, reads[i].err)
	}
	return rest
}

// flyOnce is fly, but it returns the keys that need other flights, because theirs
// have turned out to be outdated.
func (m *many[K, V]) flyOnce(ctx, soft context.Context, keys []K) (again []K) {
	c := m.c
	b := m.batch(ctx, keys)
	c.counts.turnedAway.Add(uint64(len(b.flights.Refused)))
	for k, err := range b.flights.Refused {
		m.take(k, flight.Result[V]{}, err)
	}
	c.counts.flights.Add(uint64(len(b.flights.Led)))
	patience := c.patience(soft, b.reads.begun.TagGeneration, m.call.noMemory)
	b.lead(ctx, patience)
	for _, f := range b.flights.Joined {
		r, err := b.flights.Wait(ctx, patience, f)
		if err == nil && c.outdated(&m.call, &r, b.reads.begun.TagGeneration) {
			again = append(again, f.Key)
			continue
		}
		c.counts.joins.Add(1)
		if r.Load != nil && len(m.loads) < maxLoadLinks && !slices.Contains(m.loads, r.Load) {
			m.loads = append(m.loads, r.Load)
		}
		m.take(f.Key, r, err)
	}
	return again
}
