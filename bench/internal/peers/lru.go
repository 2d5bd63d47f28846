package peers

import (
	freelru "github.com/elastic/go-freelru"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/expirable"
	phuslu "github.com/phuslu/lru"
	"github.com/zeebo/xxh3"
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

// openFreeLRU is freelru with as many shards as it chooses. Its users bring the
// hash; its manual recommends xxh3 among others for strings.
func openFreeLRU[K Key, V any](c Config) (Cache[K, V], error) {
	m, err := freelru.NewSharded[K, V](uint32(c.Capacity), hash32[K])
	if err != nil {
		return nil, err
	}
	m.SetLifetime(c.TTL)
	return freeLRU[K, V]{m: m}, nil
}

// hash32 returns a hash of key in 32 bits; of a number by multiplication with
// 2⁶⁴ / φ.
func hash32[K Key](key K) uint32 {
	switch k := any(key).(type) {
	case string:
		return uint32(xxh3.HashString(k))
	case uint64:
		return uint32(k * 0x9e3779b97f4a7c15 >> 32)
	default:
		panic("no other type is a Key")
	}
}

type freeLRU[K Key, V any] struct {
	idle
	m *freelru.ShardedLRU[K, V]
}

// Get implements Cache.
func (c freeLRU[K, V]) Get(key K) (V, bool) { return c.m.Get(key) }

// Set implements Cache.
func (c freeLRU[K, V]) Set(key K, value V) { c.m.Add(key, value) }

// Hits implements Cache.
func (c freeLRU[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c freeLRU[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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

// openPhuslu is phuslu/lru; with a TTL it is its TTLCache, which takes times in
// seconds from a clock that a goroutine keeps.
func openPhuslu[K Key, V any](c Config) (Cache[K, V], error) {
	if c.TTL > 0 {
		return phusluTTL[K, V]{m: phuslu.NewTTLCache[K, V](c.Capacity), config: c}, nil
	}
	return phusluLRU[K, V]{m: phuslu.NewLRUCache[K, V](c.Capacity)}, nil
}

type phusluLRU[K Key, V any] struct {
	idle
	m *phuslu.LRUCache[K, V]
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
	m      *phuslu.TTLCache[K, V]
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
