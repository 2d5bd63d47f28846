package peers

import (
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/expirable"
)

// openLRU is golang-lru; with a TTL it is its package expirable, which is
// another cache.
func openLRU[K Key, V any](c Config) (Cache[K, V], error) {
	if c.TTL > 0 {
		return expirableLRU[K, V]{m: expirable.NewLRU[K, V](c.Capacity, nil, c.TTL)}, nil
	}
	m, err := lru.New[K, V](c.Capacity)
	return plainLRU[K, V]{m: m}, err
}

type plainLRU[K Key, V any] struct {
	idle
	m *lru.Cache[K, V]
}

// Get implements Cache.
func (c plainLRU[K, V]) Get(key K) (V, bool) { return c.m.Get(key) }

// Set implements Cache.
func (c plainLRU[K, V]) Set(key K, value V) { c.m.Add(key, value) }

// Hits implements Cache.
func (c plainLRU[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c plainLRU[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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

type expirableLRU[K Key, V any] struct {
	idle
	m *expirable.LRU[K, V]
}

// Get implements Cache.
func (c expirableLRU[K, V]) Get(key K) (V, bool) { return c.m.Get(key) }

// Set implements Cache.
func (c expirableLRU[K, V]) Set(key K, value V) { c.m.Add(key, value) }

// Hits implements Cache.
func (c expirableLRU[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c expirableLRU[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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

func openTwoQueue[K Key, V any](c Config) (Cache[K, V], error) {
	m, err := lru.New2Q[K, V](c.Capacity)
	return twoQueue[K, V]{m: m}, err
}

// twoQueue is the policy 2Q of golang-lru.
type twoQueue[K Key, V any] struct {
	idle
	m *lru.TwoQueueCache[K, V]
}

// Get implements Cache.
func (c twoQueue[K, V]) Get(key K) (V, bool) { return c.m.Get(key) }

// Set implements Cache.
func (c twoQueue[K, V]) Set(key K, value V) { c.m.Add(key, value) }

// Hits implements Cache.
func (c twoQueue[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c twoQueue[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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
