package peers

import (
	"hash/maphash"
	"sync"
)

// shards is the number of parts of a shardedMap. The top seven bits of a hash
// are the index of a part.
const shards, topBits = 128, 57

func openSharded[K Key, V any](Config) (Cache[K, V], error) {
	c := &shardedMap[K, V]{seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].m = map[K]V{}
	}
	return c, nil
}

// shardedMap is 128 maps, each with an RWMutex on cache lines of its own.
type shardedMap[K Key, V any] struct {
	idle
	seed   maphash.Seed
	shards [shards]struct {
		mu sync.RWMutex
		m  map[K]V
		_  [96]byte
	}
}

// Get implements Cache.
func (c *shardedMap[K, V]) Get(key K) (V, bool) {
	s := &c.shards[hash(c.seed, key)>>topBits]
	s.mu.RLock()
	v, ok := s.m[key]
	s.mu.RUnlock()
	return v, ok
}

// Set implements Cache.
func (c *shardedMap[K, V]) Set(key K, value V) {
	s := &c.shards[hash(c.seed, key)>>topBits]
	s.mu.Lock()
	s.m[key] = value
	s.mu.Unlock()
}

// Hits implements Cache.
func (c *shardedMap[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c *shardedMap[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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

// hash spreads keys: numbers by a multiplication, strings by the hash of maps.
func hash[K Key](seed maphash.Seed, key K) uint64 {
	switch k := any(key).(type) {
	case uint64:
		const golden = 0x9e3779b97f4a7c15
		return k * golden
	case string:
		return maphash.String(seed, k)
	}
	return 0
}

func openBoxed[K Key, V any](c Config) (Cache[K, V], error) {
	m, err := openSharded[K, any](c)
	return boxed[K, V]{m: m.(*shardedMap[K, any])}, err
}

// boxed is a shardedMap of interfaces.
type boxed[K Key, V any] struct {
	idle
	m *shardedMap[K, any]
}

// Get implements Cache.
func (c boxed[K, V]) Get(key K) (value V, ok bool) {
	v, ok := c.m.Get(key)
	if ok {
		value, ok = v.(V)
	}
	return value, ok
}

// Set implements Cache.
func (c boxed[K, V]) Set(key K, value V) { c.m.Set(key, value) }

// Hits implements Cache.
func (c boxed[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c boxed[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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
