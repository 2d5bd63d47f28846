package peers

import (
	"time"

	"github.com/Yiling-J/theine-go"
)

func openTheine[K Key, V any](c Config) (Cache[K, V], error) {
	m, err := theine.NewBuilder[K, V](int64(c.Capacity)).Build()
	return theineCache[K, V]{m, c.TTL}, err
}

type theineCache[K Key, V any] struct {
	*theine.Cache[K, V]
	ttl time.Duration
}

// Set implements Cache.
func (c theineCache[K, V]) Set(key K, value V) { c.SetWithTTL(key, value, 1, c.ttl) }

// Settle implements Cache.
func (c theineCache[K, V]) Settle() { c.Wait() }

// Hits implements Cache.
func (c theineCache[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c theineCache[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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
