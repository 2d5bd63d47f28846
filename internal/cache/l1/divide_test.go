package l1

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/testing/kit"
)

// TestShardsOfWeighedEntriesFollowTheirNumber fills caches of the same bound with entries
// of different weights.
func TestShardsOfWeighedEntriesFollowTheirNumber(t *testing.T) {
	kit.Alone(t)
	const bound = 1 << 24
	for _, p := range evict.Policies() {
		for _, x := range []struct {
			name    string
			entries int
			several bool
		}{{"few heavy", 1000, false}, {"many light", manyLight(), true}} {
			t.Run(fmt.Sprint(p, " ", x.name), func(t *testing.T) {
				c := New(Config[int, int]{MaxWeight: bound, Policy: p})
				defer c.Close()
				most := len(c.shards)
				for k := range 3 * x.entries {
					weight := bound / int64(x.entries)
					if k%1000 == 7 {
						weight = evict.Pinned
					}
					e := forever(k, k)
					c.Set(e, weight)
					mustHold(t, c, k, e)
				}
				if n := c.inUse(); x.several && n != min(most, x.entries/shardEntries) && n != most || !x.several && n != 1 {
					t.Errorf("%d of %d shards for %d entries", n, most, c.Len())
				}
				validate(t, c)
			})
		}
	}
}

// manyLight is a number of entries for more than one shard, less with -short.
func manyLight() int { return max(8000, kit.Rounds(20_000)) }

// TestDivisionHidesNoEntry reads, replaces and removes entries while others are stored
// until the shards are divided, walks over all, lists the hottest, and changes the bound.
// One processor would run one goroutine at a time, for milliseconds: it seldom shows a fault.
func TestDivisionHidesNoEntry(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0))))
	for _, p := range evict.Policies() {
		t.Run(p.String(), func(t *testing.T) {
			for range kit.Rounds(8) {
				divideBeside(t, p)
			}
		})
	}
}

func divideBeside(t *testing.T, p evict.Policy) {
	const kept, others = 300, 6000
	c := New(Config[int, int]{MaxWeight: 1 << 30, Policy: p})
	defer c.Close()
	for k := range kept {
		c.Set(forever(k, k), 100)
	}
	var wg, writers sync.WaitGroup
	var done atomic.Bool
	beside := func(f func(i int)) {
		wg.Go(func() {
			for i := 0; !done.Load() && !t.Failed(); i++ {
				f(i)
			}
		})
	}
	beside(func(i int) {
		if e, _ := c.Get(i % kept); e == nil {
			t.Errorf("key %d is not found", i%kept)
		}
	})
	beside(func(i int) { // its own keys: -1 to -50
		k := -1 - i%50
		e := forever(k, i)
		c.Set(e, 100)
		if i%3 == 0 && !c.DeleteEntry(e) {
			t.Errorf("key %d was not removed", k)
		}
		if i%3 == 1 && !c.Swap(e, forever(k, i)) {
			t.Errorf("key %d was not replaced", k)
		}
	})
	beside(func(int) {
		seen := map[int]int{}
		for e := range c.All() {
			seen[e.Key]++
		}
		for k := range kept {
			if seen[k] != 1 {
				t.Errorf("a walk sees key %d %d times", k, seen[k])
			}
		}
	})
	beside(func(i int) {
		if gone := c.Resize(0, 1<<30+int64(i%3)<<20); len(gone) > 0 {
			t.Errorf("a bound above the weight of all evicts %d", len(gone))
		}
		if i%50 != 0 {
			return // lists of all take long
		}
		seen := map[int]int{}
		for _, e := range c.Hottest(kept + 3*others) {
			seen[e.Key]++
		}
		for k := range kept {
			if seen[k] != 1 {
				t.Errorf("key %d is %d times among the hottest of all", k, seen[k])
			}
		}
	})
	for w := range 2 {
		writers.Go(func() {
			for i := range others {
				c.Set(forever(1000+2*i+w, i), 100)
			}
		})
	}
	writers.Wait()
	done.Store(true)
	wg.Wait()
	if c.inUse() < min(4, len(c.shards)) || c.Len() < kept+2*others {
		t.Errorf("%d entries in %d shards", c.Len(), c.inUse())
	}
	validate(t, c)
}
