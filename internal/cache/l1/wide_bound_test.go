package l1

import (
	"math/rand/v2"
	"testing"

	"github.com/strata-cache/strata/internal/testing/kit"
)

// TestGuardedCacheWithAGenerousBoundKeepsWhatIsUsed has keys that come back between keys that are read once, under the wide bounds of
// docs/guide/how-much-memory.md.
func TestGuardedCacheWithAGenerousBoundKeepsWhatIsUsed(t *testing.T) {
	kit.Alone(t)
	const size = 20_000
	n, bounds := 20*size, []int64{1 << 16, 1 << 30, 10_000_000}
	if testing.Short() {
		n, bounds = n/2, bounds[:2]
	}
	ratio := func(c *Cache[int, int], owe func()) float64 {
		defer c.Close()
		r, hits := rand.New(rand.NewPCG(1, 2)), 0
		for i := range n {
			key := 1_000_000_000 + i
			if r.IntN(4) == 0 {
				key = r.IntN(2 * size)
			}
			if e, _ := c.Get(key); e != nil {
				hits++
			} else {
				c.Set(NewEntry(c, key, i, Forever), 1)
			}
			owe()
		}
		return float64(hits) / float64(n)
	}
	bounded := ratio(New(Config[int, int]{MaxEntries: size}), func() {})
	for _, bound := range bounds {
		c := New(Config[int, int]{MaxEntries: bound})
		guarded := ratio(c, func() {
			if n := c.Len(); n > size {
				WardOf(c).Owe(int64(n - size*19/20))
			}
		})
		if t.Logf("bound %d: %.3f", bound, guarded); guarded < 0.8*bounded {
			t.Errorf("hit ratio %.3f with a guard and a bound of %d, %.3f with a bound of %d", guarded, bound, bounded, size)
		}
	}
}
