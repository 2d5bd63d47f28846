package peers

import "github.com/puzpuzpuz/xsync/v4"

func openXsync[K Key, V any](Config) (Cache[K, V], error) {
	return xsyncMap[K, V]{m: xsync.NewMap[K, V]()}, nil
}

type xsyncMap[K Key, V any] struct {
	idle
	m *xsync.Map[K, V]
}

// Get implements Cache.
func (c xsyncMap[K, V]) Get(key K) (V, bool) { return c.m.Load(key) }

// Set implements Cache.
func (c xsyncMap[K, V]) Set(key K, value V) { c.m.Store(key, value) }

// Hits implements Cache.
func (c xsyncMap[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c xsyncMap[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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
