package peers

import (
	"time"

	"github.com/dgraph-io/ristretto/v2"
)

// openRistretto has the number of counters and the buffers that its manual
// recommends. Entries weigh 1.
func openRistretto[K Key, V any](c Config) (Cache[K, V], error) {
	m, err := ristretto.NewCache(&ristretto.Config[K, V]{
		NumCounters: int64(10 * c.Capacity), MaxCost: int64(c.Capacity), BufferItems: 64, IgnoreInternalCost: true,
	})
	return ristrettoCache[K, V]{m, c.TTL}, err
}

type ristrettoCache[K Key, V any] struct {
	*ristretto.Cache[K, V]
	ttl time.Duration
}

// Set implements Cache.
func (c ristrettoCache[K, V]) Set(key K, value V) { c.SetWithTTL(key, value, 1, c.ttl) }

// Settle implements Cache.
func (c ristrettoCache[K, V]) Settle() { c.Wait() }

// Hits implements Cache.
func (c ristrettoCache[K, V]) Hits(keys []K) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c ristrettoCache[K, V]) Mix(keys []K, writes []bool, value V) (hits int) {
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
