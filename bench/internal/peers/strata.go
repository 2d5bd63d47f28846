package peers

import (
	"context"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/memory"
)

func openMemory[K Key, V any](c Config) (Cache[K, V], error) {
	m, err := memory.New(memory.Options[K, V]{MaxEntries: c.Capacity, TTL: c.TTL})
	return engine[K, V]{m}, err
}

// engine is package memory.
type engine[K Key, V any] struct{ *memory.Cache[K, V] }

// Set implements Cache.
func (c engine[K, V]) Set(key K, value V) { c.Cache.Set(key, value) }

// Settle implements Cache: nothing is buffered.
func (engine[K, V]) Settle() {}

// Hits implements Cache.
func (c engine[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c engine[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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

func openCache[K Key, V any](c Config) (Cache[K, V], error) {
	o := strata.Options[K, V]{TTL: c.TTL, Memory: strata.Memory[K, V]{MaxEntries: int64(c.Capacity)}}
	if c.TTL == 0 {
		o.TTL = strata.NoExpiry
	}
	s, err := strata.New(o)
	return whole[K, V]{s}, err
}

// whole is strata.Cache without L2.
type whole[K Key, V any] struct{ *strata.Cache[K, V] }

// Get implements Cache.
func (c whole[K, V]) Get(key K) (V, bool) { return c.Cache.Get(context.Background(), key) }

// Set implements Cache.
func (c whole[K, V]) Set(key K, value V) {
	if err := c.Cache.Set(context.Background(), key, value); err != nil {
		panic(err) // without L2 nothing can fail
	}
}

// Settle implements Cache: nothing is buffered.
func (whole[K, V]) Settle() {}

// Close implements Cache.
func (c whole[K, V]) Close() { _ = c.Cache.Close(context.Background()) }

// Hits implements Cache.
func (c whole[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c whole[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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
