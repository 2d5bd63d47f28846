package peers

import (
	"time"

	"github.com/maypok86/otter/v2"
)

func openOtter[K Key, V any](c Config) (Cache[K, V], error) {
	return newOtter[K, V](c, nil)
}

// openCoarse is otter with the clock that it offers for quick reads. It ticks
// each millisecond.
func openCoarse[K Key, V any](c Config) (Cache[K, V], error) {
	return newOtter[K, V](c, otter.NewCoarseClock(time.Millisecond))
}

func newOtter[K Key, V any](c Config, clock *otter.CoarseClock) (Cache[K, V], error) {
	o := &otter.Options[K, V]{MaximumSize: c.Capacity}
	if c.TTL > 0 {
		o.ExpiryCalculator = otter.ExpiryWriting[K, V](c.TTL)
	}
	if clock != nil {
		o.Clock = clock
	}
	if c.Synchronous {
		o.Executor = func(f func()) { f() }
	}
	m, err := otter.New(o)
	return otterCache[K, V]{m, clock}, err
}

type otterCache[K Key, V any] struct {
	*otter.Cache[K, V]
	clock *otter.CoarseClock // or nil
}

// Get implements Cache.
func (c otterCache[K, V]) Get(key K) (V, bool) { return c.GetIfPresent(key) }

// Set implements Cache.
func (c otterCache[K, V]) Set(key K, value V) { c.Cache.Set(key, value) }

// Settle implements Cache.
func (c otterCache[K, V]) Settle() { c.CleanUp() }

// Close implements Cache.
func (c otterCache[K, V]) Close() {
	c.StopAllGoroutines()
	if c.clock != nil {
		c.clock.Stop()
	}
}

// Hits implements Cache.
func (c otterCache[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c otterCache[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
	for i, k := range keys {
		if !writes[i] {
			if _, ok := c.Get(k); ok {
				hits++
				continue
			}
		}
		c.Set(k, value)
	}
	return hits
}
