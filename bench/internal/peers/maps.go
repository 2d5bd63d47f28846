package peers

import "sync"

func openSyncMap[K Key, V any](Config) (Cache[K, V], error) {
	return syncMap[K, V]{m: new(sync.Map)}, nil
}

type syncMap[K Key, V any] struct {
	idle
	m *sync.Map
}

// Get implements Cache.
func (c syncMap[K, V]) Get(key K) (value V, ok bool) {
	v, ok := c.m.Load(key)
	if ok {
		value, ok = v.(V)
	}
	return value, ok
}

// Set implements Cache.
func (c syncMap[K, V]) Set(key K, value V) { c.m.Store(key, value) }

// Hits implements Cache.
func (c syncMap[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c syncMap[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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

func openMutex[K Key, V any](Config) (Cache[K, V], error) {
	return &mutexMap[K, V]{m: map[K]V{}}, nil
}

// mutexMap is a map with a Mutex.
type mutexMap[K Key, V any] struct {
	idle
	mu sync.Mutex
	m  map[K]V
}

// Get implements Cache.
func (c *mutexMap[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	v, ok := c.m[key]
	c.mu.Unlock()
	return v, ok
}

// Set implements Cache.
func (c *mutexMap[K, V]) Set(key K, value V) {
	c.mu.Lock()
	c.m[key] = value
	c.mu.Unlock()
}

// Hits implements Cache.
func (c *mutexMap[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c *mutexMap[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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

func openRWMutex[K Key, V any](Config) (Cache[K, V], error) {
	return &rwMap[K, V]{m: map[K]V{}}, nil
}

// rwMap is a map with an RWMutex.
type rwMap[K Key, V any] struct {
	idle
	mu sync.RWMutex
	m  map[K]V
}

// Get implements Cache.
func (c *rwMap[K, V]) Get(key K) (V, bool) {
	c.mu.RLock()
	v, ok := c.m[key]
	c.mu.RUnlock()
	return v, ok
}

// Set implements Cache.
func (c *rwMap[K, V]) Set(key K, value V) {
	c.mu.Lock()
	c.m[key] = value
	c.mu.Unlock()
}

// Hits implements Cache.
func (c *rwMap[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c *rwMap[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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
