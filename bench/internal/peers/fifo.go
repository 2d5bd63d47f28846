package peers

import (
	"github.com/scalalang2/golang-fifo/s3fifo"
	"github.com/scalalang2/golang-fifo/sieve"
)

// openS3FIFO is golang-fifo with the policy S3-FIFO. A TTL is kept by a goroutine
// that removes expired entries in steps of a hundredth of it.
func openS3FIFO[K Key, V any](c Config) (Cache[K, V], error) {
	return s3FIFO[K, V]{m: s3fifo.New[K, V](c.Capacity, c.TTL)}, nil
}

type s3FIFO[K Key, V any] struct {
	m *s3fifo.S3FIFO[K, V]
}

// Settle implements Cache.
func (s3FIFO[K, V]) Settle() {}

// Close implements Cache.
func (c s3FIFO[K, V]) Close() { c.m.Close() }

// Get implements Cache.
func (c s3FIFO[K, V]) Get(key K) (V, bool) { return c.m.Get(key) }

// Set implements Cache.
func (c s3FIFO[K, V]) Set(key K, value V) { c.m.Set(key, value) }

// Hits implements Cache.
func (c s3FIFO[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c s3FIFO[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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

// openSieve is golang-fifo with the policy SIEVE.
func openSieve[K Key, V any](c Config) (Cache[K, V], error) {
	return sieveCache[K, V]{m: sieve.New[K, V](c.Capacity, c.TTL)}, nil
}

type sieveCache[K Key, V any] struct {
	m *sieve.Sieve[K, V]
}

// Settle implements Cache.
func (sieveCache[K, V]) Settle() {}

// Close implements Cache.
func (c sieveCache[K, V]) Close() { c.m.Close() }

// Get implements Cache.
func (c sieveCache[K, V]) Get(key K) (V, bool) { return c.m.Get(key) }

// Set implements Cache.
func (c sieveCache[K, V]) Set(key K, value V) { c.m.Set(key, value) }

// Hits implements Cache.
func (c sieveCache[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c sieveCache[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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
