package l1

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/testing/kit"
)

// TestConcurrentWritersKeepTheStructure runs all operations from many
// goroutines, then checks the structure, and that every stored entry was
// removed exactly once or is still in the cache.
func TestConcurrentWritersKeepTheStructure(t *testing.T) {
	for _, x := range []struct {
		name            string
		entries, weight int64
		idle            time.Duration
	}{
		{"one shard", 50, 0, 0},
		{"shards", 3000, 0, 0},
		{"by weight", 0, 5000, 0},
		{"both bounds", 2000, 4000, 0},
		{"idle", 6000, 0, 3 * time.Millisecond},
	} {
		t.Run(x.name, func(t *testing.T) {
			var stored, left atomic.Int64
			c := New(Config[int, int]{
				MaxEntries: x.entries, MaxWeight: x.weight, IdleTTL: x.idle,
				Notify: func(*Entry[int, int], Reason) { left.Add(1) },
			})
			var wg sync.WaitGroup
			for g := range uint64(6) {
				wg.Go(func() { stored.Add(hammer(c, rand.New(rand.NewPCG(g, 9)), 2*kit.Rounds(10_000))) })
			}
			wg.Wait()
			// The sweeper may have removed an entry and not called Notify yet.
			n := int64(c.Len())
			c.sweeper.close()
			validate(t, c)
			c.Close()
			if stored.Load() != left.Load() {
				t.Fatalf("%d were stored, %d have left (%d by Close)", stored.Load(), left.Load(), n)
			}
		})
	}
}

// hammer does n random operations and returns the number of entries that it has
// added.
func hammer(c *Cache[int, int], r *rand.Rand, n int) (stored int64) {
	for range n {
		k := r.IntN(6000)
		dead := Forever
		if r.IntN(3) == 0 {
			dead = After(c.Now(), time.Duration(r.IntN(int(50*time.Millisecond))))
		}
		switch r.IntN(20) {
		case 0:
			if e, _ := c.Delete(k); e != nil {
				c.Notify([]Removed[int, int]{{e, Deleted}})
			}
		case 1:
			if e, _ := c.Peek(k); e != nil && c.DeleteEntry(e) {
				c.Notify([]Removed[int, int]{{e, Deleted}})
			}
		case 2:
			if e, _ := c.Peek(k); e != nil {
				c.Swap(e, until(k, e.Value, dead))
			}
		case 3:
			switch r.IntN(500) {
			case 0:
				c.Clear()
			case 1:
				c.Hottest(3)
			}
		case 4, 5, 6:
			removed, o := c.SetIf(nil, until(k, 0, dead), int64(r.IntN(4)))
			c.Notify(removed)
			if o == Stored {
				stored++
			}
		case 7, 8, 9:
			removed, ok := c.Set(until(k, 0, dead), int64(r.IntN(4)))
			c.Notify(removed)
			if ok {
				stored++
			}
		default:
			c.Get(k)
		}
	}
	return stored
}

// TestPresentEntryIsAlwaysFound reads keys that stay while other keys come and
// go, so that slots are reused and tables grow and shrink.
func TestPresentEntryIsAlwaysFound(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 1 << 20})
	defer c.Close()
	const stable = 100
	for k := range stable {
		c.Set(forever(k, 0), 1)
	}
	var done atomic.Bool
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for k := 0; !done.Load(); k++ {
				if e, _ := c.Get(k % stable); e == nil || e.Key != k%stable {
					t.Errorf("key %d: found %v", k%stable, e)
					return
				}
			}
		})
	}
	for g := range 2 {
		writers.Go(func() {
			for round := range kit.Rounds(4) {
				base := (g+1)*1_000_000 + round*100_000
				for k := range 8000 {
					c.Set(forever(base+k, 0), 1)
					c.Set(forever(k%stable, round), 1) // replaced, never absent
				}
				for k := range 8000 {
					c.Delete(base + k)
				}
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	validate(t, c)
}

// TestReadsOwnWrites: below the bound, a goroutine finds the entry that it has
// stored, and never again an older one.
func TestReadsOwnWrites(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 100_000})
	defer c.Close()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 20_000 {
				k := g*10_000 + i%3000
				c.Set(forever(k, i), 1)
				if e, _ := c.Get(k); e == nil || e.Value != i {
					t.Errorf("key %d: stored %d, found %v", k, i, e)
					return
				}
			}
		})
	}
	wg.Wait()
	validate(t, c)
}

// TestSwapLosesNoUpdate counts in an entry from many goroutines.
func TestSwapLosesNoUpdate(t *testing.T) {
	c := New(Config[string, int]{MaxEntries: 10})
	defer c.Close()
	c.Set(forever("n", 0), 1)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5000 {
				for {
					e, _ := c.Get("n")
					if c.Swap(e, forever("n", e.Value+1)) {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	if e, _ := c.Get("n"); e.Value != 20_000 {
		t.Fatalf("%d, want 20000", e.Value)
	}
}

// TestBoundHoldsAfterConcurrentInserts: after a storm of inserts, the cache is
// full but for one entry per writer, since each writer may evict one too many.
// That the bound holds at every moment is checked by
// TestBoundsHoldAtEveryMoment.
func TestBoundHoldsAfterConcurrentInserts(t *testing.T) {
	const bound, writers = 1000, 8
	c := New(Config[int, int]{MaxEntries: bound})
	defer c.Close()
	var wg sync.WaitGroup
	for g := range writers {
		wg.Go(func() {
			for i := range 5000 {
				c.Set(forever(g*5000+i, 0), 1)
				if n := c.Len(); n > bound+writers {
					t.Errorf("%d entries", n)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := c.Len(); n > bound || n < bound-writers {
		t.Fatalf("%d entries, want %d", n, bound)
	}
	validate(t, c)
}

func TestMissesAreCountedExactly(t *testing.T) {
	s := newStriped(false)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 10_000 {
				s.add(countMisses)
			}
		})
	}
	wg.Wait()
	if s.sum(countMisses) != 160_000 || s.sum(countHits) != 0 {
		t.Fatalf("%d misses, %d hits", s.sum(countMisses), s.sum(countHits))
	}
}

func TestHitsOfOneGoroutineAreCountedExactly(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 10})
	defer c.Close()
	c.Set(forever(1, 1), 1)
	for range 100_000 {
		c.Get(1)
	}
	if n := c.Stats().Hits; n != 100_000 {
		t.Fatalf("%d hits", n)
	}
}

// TestBoundsHoldAtEveryMoment watches the totals while sixteen writers insert,
// replace and delete entries of very different weights.
func TestBoundsHoldAtEveryMoment(t *testing.T) {
	for _, p := range policies {
		for _, share := range []float64{0, 0.1} {
			t.Run(fmt.Sprint(p, " ", share), func(t *testing.T) { watchBounds(t, p, share) })
		}
	}
}

func watchBounds(t *testing.T, p evict.Policy, share float64) {
	const entries, weight = 2000, 20_000
	rounds := 2 * kit.Rounds(1000)
	c := New(Config[int, int]{MaxEntries: entries, MaxWeight: weight, Policy: p, EvictShare: share})
	defer c.Close()
	var writers, watcher sync.WaitGroup
	done := make(chan struct{})
	watcher.Go(func() {
		for {
			if n, w := c.Len(), c.Weight(); n > entries || w > weight {
				t.Errorf("%d entries of weight %d", n, w)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for i := range 16 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(i)))
			for range rounds {
				k := r.IntN(4000)
				switch {
				case r.IntN(3) == 0:
					c.Get(k)
				case r.IntN(20) == 0:
					c.Delete(k)
				case r.IntN(500) == 0:
					c.Set(forever(k, 0), weight-r.Int64N(10))
				case r.IntN(50) == 0:
					c.Set(forever(k, 0), evict.Pinned)
				default:
					c.Set(forever(k, 0), 1+r.Int64N(40))
				}
			}
		})
	}
	writers.Wait()
	close(done)
	watcher.Wait()
	validate(t, c)
}

// TestStoreThatNeverFindsRoomEnds stores while the room is reserved for an entry that never
// comes: that store gives up, and later ones find the room.
func TestStoreThatNeverFindsRoomEnds(t *testing.T) {
	kit.Watch(t, time.Minute)
	for _, p := range policies {
		c := New(Config[int, int]{MaxEntries: 2, Policy: p})
		c.Set(forever(1, 0), evict.Pinned)
		c.entries.Add(1)
		if _, o := c.SetIf(nil, forever(2, 0), 1); o != TooHeavy {
			t.Errorf("%v: outcome %d, want that of an entry without room", p, o)
		}
		if gone, ok := c.Set(forever(1, 0), 1); !ok || len(gone) > 0 {
			t.Errorf("%v: a store that needs no room: %v", p, ok)
		}
		c.entries.Add(-1)
		if _, ok := c.Set(forever(2, 0), 1); !ok {
			t.Errorf("%v: not stored although there is room", p)
		}
		validate(t, c)
		c.Close()
	}
}
