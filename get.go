package strata

import (
	"context"

	"github.com/strata-cache/strata/internal/flight"
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
	if e != nil && now < e.Soon && e.Stamp >= c.trust.Load() {
		return e.Value, nil
	}
	return c.miss(ctx, key, e != nil, load, opts)
}

// Get returns the value of key if it is fresh in L1 or L2. It never loads. It
// reports false if there is no value, ctx ends, or the cache is closed.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (V, bool) {
	e, now := c.memory.Get(key)
	if e != nil && now < e.Soon && e.Stamp >= c.trust.Load() {
		return e.Value, true
	}
	c.overrule(e != nil)
	r, err := c.fly(ctx, key, flight.Read, nil, call{})
	return r.Value, err == nil && r.Found
}
