package peers

import "github.com/phuslu/lru"

// openPhuslu is phuslu/lru; with a TTL it is its TTLCache, whose entries have
// times in seconds of a clock that a goroutine keeps.
func openPhuslu[K Key, V any](c Config) (Cache[K, V], error) {
	if c.TTL > 0 {
		return phusluTTL[K, V]{m: lru.NewTTLCache[K, V](c.Capacity), config: c}, nil
	}
	return phusluLRU[K, V]{m: lru.NewLRUCache[K, V](c.Capacity)}, nil
}

type phusluLRU[K Key, V any] struct {
	idle
	m *lru.LRUCache[K, V]
}

// Get implements Cache.
func (c phusluLRU[K, V]) Get(key K) (V, bool) { return c.m.Get(key) }

// Set implements Cache.
func (c phusluLRU[K, V]) Set(key K, value V) { c.m.Set(key, value) }

// Hits implements Cache.
func (c phusluLRU[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c phusluLRU[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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

type phusluTTL[K Key, V any] struct {
	idle
	m      *lru.TTLCache[K, V]
	config Config
}

// Get implements Cache.
func (c phusluTTL[K, V]) Get(key K) (V, bool) { return c.m.Get(key) }

// Set implements Cache.
func (c phusluTTL[K, V]) Set(key K, value V) { c.m.Set(key, value, c.config.TTL) }

// Hits implements Cache.
func (c phusluTTL[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c phusluTTL[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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
