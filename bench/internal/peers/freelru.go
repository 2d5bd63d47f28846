package peers

import (
	freelru "github.com/elastic/go-freelru"
	"github.com/zeebo/xxh3"
)

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
