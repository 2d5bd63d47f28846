package strata

import (
	"context"

	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/internal/trust"
)

// GetOrLoad returns the value of key: from L1, else from L2, else by running
// load once for all callers who ask at the same time. A nil load means
// Options.Loader. Callers may pass different Loaders for one key; the one of
// the caller that came first runs.
//
// It returns when the value is there, or with ctx's error when ctx ends first:
// a hit in L1 is returned whatever ctx says. It returns the Loader's error as
// it is, *LoadPanicError if the Loader panicked, ErrLoadExited,
// ErrRecursiveLoad, ErrNoLoader or ErrClosed. What is wrong with L2 is
// counted and never returned.
//
// A hit costs no allocation, no lock and no look at ctx.
func (c *Cache[K, V]) GetOrLoad(ctx context.Context, key K, load Loader[K, V], opts ...CallOption) (V, error) {
	e, now := c.memory.Get(key)
	if e != nil && now < e.Soon && e.Stamp >= c.trust.Word() && len(opts) == 0 {
		return e.Value, nil
	}
	o := callOf(opts)
	if err := c.callError(o); err != nil {
		c.turnAway(e != nil)
		return *new(V), err
	}
	if c.serves(key, e, now) {
		o.inform(Info{Tier: "L1", Degraded: c.degraded()})
		return e.Value, nil
	}
	return c.miss(ctx, key, load, o)
}

// Get returns the value of key if it is fresh in L1 or L2. It never loads. It
// reports false if there is no value, ctx ends, or the cache is closed.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (V, bool) {
	e, now := c.memory.Get(key)
	if e != nil && now < e.Soon && e.Stamp >= c.trust.Word() {
		return e.Value, true
	}
	if c.serves(key, e, now) {
		return e.Value, true
	}
	r, err := c.fly(ctx, key, flight.Read, nil, call{})
	return r.Value, err == nil && r.Found
}

// serves reports whether e, which the engine has found for key, may be served
// although a hit needs a closer look. One that may not is counted as a miss.
func (c *Cache[K, V]) serves(key K, e *l1.Entry[K, V], now int64) bool {
	if e == nil {
		return false
	}
	if now < e.Fresh {
		if v, _ := c.judge(key, e); v == trust.Trusted {
			return true
		}
	}
	c.counts.overruled.Add(1)
	return false
}

// turnAway counts a read that ends before it began.
func (c *Cache[K, V]) turnAway(hit bool) {
	if hit {
		c.counts.overruled.Add(1)
	}
	c.counts.turnedAway.Add(1)
}
