package strata

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/internal/cache/ledger"
)

// GetOrLoad returns the value of key: from L1, else from L2, else by running
// load once for all callers that ask at the same time. A nil load means
// Options.Loader, else Options.ManyLoader. Callers may pass different Loaders for one key; the one of
// the caller that came first runs.
//
// Late in its TTL a value is refreshed in the background, and for a while after
// it a stale one is returned meanwhile; see Options.RefreshAt and Stale. If a
// load fails callers get a stale value while Stale.OnError allows, else the
// error.
//
// It returns when the value is there, or with ctx's error when ctx ends first: a hit in L1 is returned even if ctx
// has ended. The load goes on then, is stored, and is shared by later callers until it ends, at Limits.HardTimeout
// at the latest; see also Limits.CancelAbandoned. The Loader's error is wrapped with the cache's name, and
// remembered for Options.ErrorTTL; *LoadPanicError if the Loader panicked, ErrLoadExited, ErrRecursiveLoad,
// ErrNoLoader, ErrOverloaded and ErrClosed come as they are. Errors of L2 are counted and never returned.
//
// A hit costs no allocation, no lock and no look at ctx.
func (c *Cache[K, V]) GetOrLoad(ctx context.Context, key K, load Loader[K, V], opts ...CallOption) (V, error) {
	e, now := c.memory.Get(key)
	if e != nil && plain(&e.Value, now, e.Dead, c.generation.Generation.Load()) && (e.Value.State&expiry.Tagged == 0 || c.near.TagsStand(e)) &&
		(len(opts) == 0 || c.sparesHits(opts)) {
		return e.Value.V, nil
	}
	return c.getSlow(ctx, key, e, now, load, opts)
}

// Get returns the value of key if it is fresh in L1 or L2, or with [AllowStale] if it is
// there at all. It never loads. It reports false if there is no value, ctx ends, or the
// cache is closed. Of the options, AllowStale, [NoMemory], [NoRemote] and [ReadInfo] have
// an effect.
func (c *Cache[K, V]) Get(ctx context.Context, key K, opts ...CallOption) (V, bool) {
	e, now := c.memory.Get(key)
	if e != nil && plain(&e.Value, now, e.Dead, c.generation.Generation.Load()) && (e.Value.State&expiry.Tagged == 0 || c.near.TagsStand(e)) &&
		(len(opts) == 0 || c.sparesHits(opts)) {
		return e.Value.V, true
	}
	return c.getOnly(ctx, key, e, now, opts)
}

// getOnly is Get where more than a look at e, which the engine has found, is needed.
func (c *Cache[K, V]) getOnly(ctx context.Context, key K, e *entry[K, V], now int64, opts []CallOption) (V, bool) {
	var o call
	o.add(opts)
	c.tuned.apply(&o)
	if c.o.Memory.Encoded {
		e, now = c.near.Values.Get(key)
	}
	if v, found, known := c.getNear(ctx, key, e, now, &o); known {
		return v, found
	}
	var r flight.Result[V]
	if err := c.fly(ctx, key, flight.Read, nil, &o, &r); err != nil || r.Err != nil || !r.Found {
		return *new(V), false
	}
	if r.Note&noteStale != 0 {
		c.allowed(ctx, key, r.Value)
	}
	return c.own(&r), true
}

// getNear returns the answer to a Get, and whether L1 knows it: else the caller asks
// L2.
func (c *Cache[K, V]) getNear(ctx context.Context, key K, e *entry[K, V], now int64, o *call) (v V, found, known bool) {
	switch {
	case o.noMemory:
		c.counts.lookups.AsMiss(e != nil)
		c.tellMiss(ctx, key)
		return v, false, false
	case e != nil && now < e.Value.FreshUntil(e.Dead) && c.valid(key, e):
		c.informOfEntry(o, e, nil)
		return c.hit(ctx, key, e), true, true
	case c.missed(ctx, key, e) != nil:
		return v, false, true
	case !o.allowStale || c.asks(o):
		return v, false, false
	}
	v, found = c.getStale(ctx, key, o)
	return v, found, true
}

// asks reports whether a read with the options o asks L2.
func (c *core) asks(o *call) bool { return c.l2.HasTier() && !o.noRemote }

// getStale returns the stale value that L1 has of key.
func (c *Cache[K, V]) getStale(ctx context.Context, key K, o *call) (V, bool) {
	e, _ := c.fallback(key)
	if e == nil {
		c.counts.turnedAway.Add(1)
		return *new(V), false
	}
	c.counts.remembered.Add(1)
	c.allowed(ctx, key, e.Value.V)
	c.informOfEntry(o, e, nil)
	return c.shown(key, e), true
}

// getSlow is GetOrLoad where more than a look at e, which the engine has found, is
// needed.
func (c *Cache[K, V]) getSlow(ctx context.Context, key K, e *entry[K, V], now int64, load Loader[K, V], opts []CallOption) (V, error) {
	var o call
	o.add(opts)
	c.tuned.apply(&o)
	if c.o.Memory.Encoded {
		e, now = c.near.Values.Get(key)
	}
	if err := c.callError(&o); err != nil {
		c.counts.lookups.AsMiss(e != nil)
		c.counts.turnedAway.Add(1)
		return *new(V), err
	}
	if o.skipRead || c.o.ContextControls && skipsRead(ctx) {
		c.counts.lookups.AsMiss(e != nil)
		return c.reload(ctx, key, load, &o)
	}
	if o.noMemory {
		c.counts.lookups.AsMiss(e != nil)
		c.tellMiss(ctx, key)
		return c.miss(ctx, key, load, &o)
	}
	if a := c.answerL1(ctx, key, e, now); a.entry != nil {
		if a.due {
			c.refresh(ctx, key, load, &o)
		}
		c.informOfEntry(&o, a.entry, a.err)
		return a.value, nil
	}
	if m := c.missed(ctx, key, e); m != nil {
		return *new(V), c.wrap(key, m.Err)
	}
	return c.miss(ctx, key, load, &o)
}

// l1Answer is the answer of L1 to a read that may load.
type l1Answer[K comparable, V any] struct {
	entry *entry[K, V] // nil: L1 has no value to serve
	value V
	err   error // the reason to serve a stale value
	due   bool  // a refresh is due
}

// answerL1 answers a read from e, the entry that the engine has found; nil if none. A stale value
// is served while it is refreshed, or because its load has failed a moment ago.
func (c *Cache[K, V]) answerL1(ctx context.Context, key K, e *entry[K, V], now int64) (a l1Answer[K, V]) {
	if e != nil {
		e = c.near.Aged(key, e)
	}
	if e == nil || !c.valid(key, e) {
		return a
	}
	if now < e.Value.FreshUntil(e.Dead) {
		return l1Answer[K, V]{entry: e, value: c.hit(ctx, key, e), due: now >= e.Value.SoonAt(e.Dead)}
	}
	stale, err := c.servesStale(ctx, key, e, now)
	if !stale {
		return a
	}
	return l1Answer[K, V]{entry: e, value: c.shown(key, e), err: err, due: err == nil}
}

// missed counts a read without a value in L1 to serve. If L1 has a negative entry of
// the key, missed returns it, and it is the answer.
func (c *Cache[K, V]) missed(ctx context.Context, key K, e *entry[K, V]) *local.Negative {
	c.counts.lookups.AsMiss(e != nil)
	if m := c.near.Recall(key); m != nil && m.NotFound {
		c.counts.negative.Add(1)
		c.tellAbsent(ctx, key)
		return m
	}
	c.tellMiss(ctx, key)
	return nil
}

// valid reports whether nothing was dropped that concerns e.
func (c *Cache[K, V]) valid(key K, e *entry[K, V]) bool {
	v, _ := c.near.Judge(key, e)
	return v == ledger.Valid
}

// servesStale reports whether a read gets e, which is stale: either while e is
// refreshed, and then a refresh is due, or because its load has failed a moment ago
// with err.
func (c *Cache[K, V]) servesStale(ctx context.Context, key K, e *entry[K, V], now int64) (stale bool, err error) {
	if !c.near.Revalidates(e, now) {
		if now >= c.near.OnErrorUntil(e) {
			return false, nil
		}
		if err = c.near.Throttled(key); err == nil {
			return false, nil
		}
	}
	c.counts.lookups.AsMiss(true) // before the hook, which may take its time
	c.counts.remembered.Add(1)
	c.stale(ctx, key, e.Value.V, err)
	return true, err
}

// refresh loads key in the background, unless a load of it runs, or has failed a moment
// ago. It reports false if there is no room for a refresh.
func (c *Cache[K, V]) refresh(ctx context.Context, key K, load Loader[K, V], from *call) (room bool) {
	o := *from
	c.tuned.apply(&o)
	load = c.loader(load, &o)
	if _, running := c.flights.Running(key); running || load == nil || c.near.Throttled(key) != nil {
		return true
	}
	o.refresh, o.info = true, nil
	ctx = flight.Apart(context.WithoutCancel(c.callbacks.Within(ctx))) // no load waits for it
	fly := func(found func()) {
		// A refresh that was begun before may have become a flight after the look at flights above.
		if _, running := c.flights.Running(key); running {
			return
		}
		// From then on its flight says that it runs, unless the flight is obsolete.
		o.registered = found
		var r flight.Result[V]
		_ = c.fly(ctx, key, flight.Load, load, &o, &r)
	}
	room = c.background.Run(key, fly)
	if !room {
		c.counts.refreshesDropped.Add(1)
	}
	return room
}

// Refresh loads keys in the background, by Options.ManyLoader in calls for up to 500
// keys, else by Options.Loader for each key, although L1 may have fresh entries of them.
// It returns before the loads end: its error is about the request. A failed load is a
// failed refresh: Stats and Hooks.Load tell of it, and Options.ErrorTTL remembers it. The
// loads are like early refreshes, which reads start late in a TTL: reads that miss join
// them, entries are served meanwhile, and with an L2 one instance loads. A value of L2 that
// differs from the value of L1 is taken instead of a load. For Options.IdleTTL and the
// eviction policy the loads are not reads. [SkipRead] brings a value loaded after the call.
//
// A key with a running load, or with a failed one a moment ago, is left alone. If
// Limits.MaxRefreshes leaves no room for some keys, or they are too long, the others are
// loaded, and the error is a *PartialError with ErrOverloaded or ErrKeyTooLong for them.
// Other errors are ErrNoLoader, ErrClosed, and the error of ctx. The loads have the values
// of ctx.
func (c *Cache[K, V]) Refresh(ctx context.Context, keys ...K) error {
	switch {
	case c.closed.Load():
		return ErrClosed
	case c.o.Loader == nil && c.o.ManyLoader == nil:
		return ErrNoLoader
	case ctx.Err() != nil:
		return ctx.Err()
	}
	failed := make(map[K]error)
	fit := make([]K, 0, len(keys))
	for _, k := range envelope.Distinct(keys) {
		err := c.checkKey(k)
		if err == nil && c.l2.Used() {
			_, err = c.nameOf(k)
		}
		if errors.Is(err, ErrKeyTooLong) {
			failed[k] = err
			continue
		}
		fit = append(fit, k)
	}
	for _, k := range c.refreshNow(ctx, fit) {
		failed[k] = ErrOverloaded
	}
	if len(failed) > 0 {
		return &PartialError[K]{failed}
	}
	return nil
}

// refreshNow starts refreshes of keys, which need not be due, by a loader of the
// Options. It returns those for which there is no room.
func (c *Cache[K, V]) refreshNow(ctx context.Context, keys []K) (left []K) {
	if c.o.ManyLoader != nil {
		m := many[K, V]{c: c, load: c.o.ManyLoader, call: call{mode: mode{ahead: true}}, due: slices.Clone(keys)}
		c.tuned.apply(&m.call)
		return m.refresh(ctx)
	}
	for _, k := range keys {
		if !c.refresh(ctx, k, nil, &call{mode: mode{ahead: true}}) {
			left = append(left, k)
		}
	}
	return left
}

// keepHot refreshes the hottest entries of L1 again and again, until Close.
func (c *Cache[K, V]) keepHot() {
	every := c.o.RefreshEvery
	for {
		t := time.NewTimer(every - rand.N(every/10))
		select {
		case <-c.open.Done():
			t.Stop()
			return
		case <-t.C:
			c.refreshNow(c.open, c.hotAndDue())
		}
	}
}

// hotAndDue returns the hottest keys of L1 that fall due before the next time, and have a
// use left: each time costs an entry one of its uses. An entry that L1 ends before it is
// due in L2 is read from there again.
func (c *Cache[K, V]) hotAndDue() (due []K) {
	next := c.memory.Now() + int64(c.o.RefreshEvery)
	tells := c.o.RefreshAt > 0 || c.tuned.stale().window() > 0 // else it is due at its end
	for _, e := range c.near.Values.Hottest(c.o.Limits.MaxRefreshes) {
		soon := e.Value.SoonAt(e.Dead)
		if capped := tells && soon == e.Dead && c.l2.HasTier(); !capped && soon <= next && c.near.Values.Cool(e) {
			due = append(due, e.Key)
		}
	}
	return due
}

// stale counts v, a stale value served because of err, or with a nil err while it is
// refreshed.
func (c *Cache[K, V]) stale(ctx context.Context, key K, v V, err error) {
	if err != nil {
		c.counts.staleOnError.Add(1)
	} else {
		c.counts.staleRevalidating.Add(1)
	}
	if hook := c.o.Hooks.Stale; hook != nil {
		c.tellL1(ctx, hook, key, c.near.Values.Copy(v), err)
	}
}

// allowed counts v, a stale value served because the caller allows it.
func (c *Cache[K, V]) allowed(ctx context.Context, key K, v V) {
	c.counts.staleAllowed.Add(1)
	if hook := c.o.Hooks.Stale; hook != nil {
		c.tellL1(ctx, hook, key, c.near.Values.Copy(v), nil)
	}
}

// hit returns the fresh value of e for a caller.
func (c *Cache[K, V]) hit(ctx context.Context, key K, e *entry[K, V]) V {
	if hook := c.o.Hooks.Hit; hook != nil {
		c.tellL1(ctx, hook, key, c.near.Values.Copy(e.Value.V), nil)
	}
	return c.shown(key, e)
}

// shown returns e's value for a caller.
func (c *Cache[K, V]) shown(key K, e *entry[K, V]) V {
	if c.o.Memory.DetectMutation {
		c.inspect(key, e)
	}
	return c.clone(e.Value.V)
}

// tellMiss calls the hook for a read that L1 does not answer.
func (c *Cache[K, V]) tellMiss(ctx context.Context, key K) {
	c.hot.Read(key)
	if hook := c.o.Hooks.Miss; hook != nil {
		c.tell(hook, Event{Context: ctx, Key: key})
	}
}

// tellAbsent calls the hook for a read that L1 answers with a negative entry.
func (c *Cache[K, V]) tellAbsent(ctx context.Context, key K) {
	if hook := c.o.Hooks.Hit; hook != nil {
		c.tell(hook, Event{Context: ctx, Key: key, Tier: "L1", Outcome: LoadNotFound})
	}
}
