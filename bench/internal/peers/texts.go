package peers

import (
	"math"
	"time"

	gocache "github.com/patrickmn/go-cache"
	"github.com/viccon/sturdyc"
)

func openGoCache[V any](c Config) (Cache[string, V], error) {
	ttl := c.TTL
	if ttl == 0 {
		ttl = gocache.NoExpiration
	}
	return patrickmn[V]{m: gocache.New(ttl, time.Minute)}, nil
}

// patrickmn is go-cache: without a bound, with values in interfaces.
type patrickmn[V any] struct {
	idle
	m *gocache.Cache
}

// Get implements Cache.
func (c patrickmn[V]) Get(key string) (value V, ok bool) {
	v, ok := c.m.Get(key)
	if ok {
		value, ok = v.(V)
	}
	return value, ok
}

// Set implements Cache.
func (c patrickmn[V]) Set(key string, value V) { c.m.SetDefault(key, value) }

// Hits implements Cache.
func (c patrickmn[V]) Hits(keys []string) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c patrickmn[V]) Mix(keys []string, writes []bool, value V) (hits int) {
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

// openSturdyc has 64 shards. A full shard evicts a tenth of its entries.
func openSturdyc[V any](c Config) (Cache[string, V], error) {
	ttl := c.TTL
	if ttl == 0 {
		ttl = math.MaxInt64 / 4 * time.Nanosecond
	}
	const shards, tenth = 64, 10
	return sturdycCache[V]{m: sturdyc.New[V](c.Capacity, shards, ttl, tenth)}, nil
}

type sturdycCache[V any] struct {
	idle
	m *sturdyc.Client[V]
}

// Get implements Cache.
func (c sturdycCache[V]) Get(key string) (V, bool) { return c.m.Get(key) }

// Set implements Cache.
func (c sturdycCache[V]) Set(key string, value V) { c.m.Set(key, value) }

// Hits implements Cache.
func (c sturdycCache[V]) Hits(keys []string) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c sturdycCache[V]) Mix(keys []string, writes []bool, value V) (hits int) {
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
