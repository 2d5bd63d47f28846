package l1

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/testing/kit"
)

var policies = evict.Policies() // read-only

// TestAgreesWithReferenceInEveryCombination runs random operations of all kinds on a
// cache of each kind: bounds, weights, lives, idle lives, policy, shards, pinned entries,
// and the share evicted at once. With -short every seventh kind has its turn: 7 divides the
// number of values of nothing, so that each pair of values comes up.
func TestAgreesWithReferenceInEveryCombination(t *testing.T) {
	kit.Alone(t)
	kind := func(n *int, kinds int) (k int) {
		*n, k = *n/kinds, *n%kinds
		return k
	}
	all := 3 * len(policies) * 2 * 2 * 2 * 2 * 2 * 3
	step := 1
	if testing.Short() {
		step = 7
	}
	for seed := 0; seed < all; seed += step {
		n := seed
		x := combination{
			bound:   []kinds{{true, false}, {false, true}, {true, true}}[kind(&n, 3)],
			policy:  policies[kind(&n, len(policies))],
			share:   []float64{0, 0.1}[kind(&n, 2)],
			several: kind(&n, 2) == 1,
			equal:   kind(&n, 2) == 1,
			undying: kind(&n, 2) == 1,
			pins:    kind(&n, 2) == 1,
			idle:    []time.Duration{0, 100 * time.Millisecond, 5 * time.Second}[kind(&n, 3)],
		}
		t.Run(fmt.Sprintf("%+v", x), func(t *testing.T) {
			kit.Watch(t, time.Minute)
			synctest.Test(t, func(t *testing.T) { x.run(t, rand.New(rand.NewPCG(uint64(seed), 0))) })
		})
	}
}

// combination is a kind of cache.
type combination struct {
	bound          kinds
	policy         evict.Policy
	several        bool
	share          float64
	equal, undying bool
	pins           bool
	idle           time.Duration
}

func (x combination) run(t *testing.T, r *rand.Rand) {
	o := Config[uint8, int]{Policy: x.policy, EvictShare: x.share, IdleTTL: x.idle}
	entries, weight := int64(0), int64(0)
	if x.bound.entries {
		entries, o.MaxEntries = 40, 2048 // four shards
	}
	if x.bound.weight {
		weight, o.MaxWeight = 90, 2048
	}
	if !x.several {
		o.MaxEntries, o.MaxWeight = entries, weight
	}
	m := newMachine(t, o)
	defer m.c.Close()
	if (len(m.c.shards) > 1) != x.several {
		t.Fatalf("%d shards", len(m.c.shards))
	}
	m.bound, m.equal, m.undying, m.pins = x.bound, x.equal, x.undying, x.pins
	m.c.use(len(m.c.shards)) // as if it had held many entries
	m.c.Resize(entries, weight)
	for k := range byte(100) {
		m.set(m.entry(k, byte(r.Uint32())), 1)
	}
	for range 200 {
		x := r.Uint32()
		m.step(byte(x), byte(x>>8), byte(x>>16))
	}
	if evicted := m.c.Stats().Evicted; evicted == 0 {
		t.Error("nothing was evicted")
	}
}

// TestSmallCachesAgreeWithReference runs random operations on caches of a few entries, of
// each policy: often all entries but one are pinned, or weigh nothing, or become one of
// these while they are replaced.
func TestSmallCachesAgreeWithReference(t *testing.T) {
	for _, p := range policies {
		for seed := range uint64(kit.Rounds(60)) {
			t.Run(fmt.Sprint(p, " ", seed), func(t *testing.T) {
				kit.Watch(t, time.Minute)
				synctest.Test(t, func(t *testing.T) {
					r := rand.New(rand.NewPCG(seed, uint64(p)))
					m := newMachine(t, Config[uint8, int]{
						MaxWeight: 1 + r.Int64N(6), MaxEntries: r.Int64N(5), Policy: p,
						EvictShare: []float64{0, 0.5}[seed%2], IdleTTL: []time.Duration{0, 0, 5 * time.Second}[seed%3],
					})
					defer m.c.Close()
					m.pins, m.bound = true, kinds{true, true}
					for range 400 {
						m.step(smallOps[r.IntN(len(smallOps))], byte(r.IntN(5)), byte(r.IntN(60)))
					}
				})
			})
		}
	}
}

// smallOps are the operations of a machine that say most about a small cache.
var smallOps = []byte{0, 0, 0, 0, 0, 5, 7, 8, 9, 10, 13, 14} // read-only

// TestEvictShareIsEvictedAtOnce fills a cache with one shard, and stores one more.
func TestEvictShareIsEvictedAtOnce(t *testing.T) {
	for _, x := range []struct {
		entries, weight int64 // bounds
		share           float64
		each            int64 // weight of each entry
		fill            int   // entries that fit
		want            int   // evictions for one more
	}{
		{100, 0, 0, 1, 100, 1},
		{100, 0, 0.005, 1, 100, 1}, // less than one entry
		{100, 0, 0.1, 1, 100, 10},
		{100, 0, 0.29, 1, 100, 29}, // 0.29*100 is less than 29 in floating point
		{109, 0, 0.1, 1, 109, 10},
		{1000, 0, 0.5, 1, 1000, 500},
		{0, 100, 0.1, 1, 100, 10},
		{0, 100, 0.1, 4, 25, 3}, // 12 is the first sum of weights of at least 10
		{50, 1000, 0.1, 4, 50, 5},
		{50, 100, 0.2, 4, 25, 5}, // the bound of weights is met first
	} {
		for _, p := range policies {
			t.Run(fmt.Sprintf("%+v %v", x, p), func(t *testing.T) {
				heard := 0
				c := New(Config[int, int]{
					MaxEntries: x.entries, MaxWeight: x.weight, Policy: p, EvictShare: x.share,
					Notify: func(_ *Entry[int, int], why Reason) {
						if why == Evicted {
							heard++
						}
					},
				})
				defer c.Close()
				set := func(k int) (gone int) {
					t.Helper()
					removed, ok := c.Set(forever(k, 0), x.each)
					if e, _ := c.Peek(k); !ok || e == nil {
						t.Fatalf("key %d was not stored", k)
					}
					c.Notify(removed)
					if len(removed) > 0 {
						validate(t, c)
					}
					return len(removed)
				}
				for k := range x.fill {
					if n := set(k); n != 0 {
						t.Fatalf("key %d evicts %d", k, n)
					}
				}
				if n := set(x.fill); n != x.want || heard != x.want {
					t.Fatalf("%d evicted, %d heard of, want %d", n, heard, x.want)
				}
				for k := range x.want - 1 {
					if n := set(x.fill + 1 + k); n != 0 {
						t.Fatalf("write %d after evicts %d", k, n)
					}
				}
				if n := set(-1); n != x.want {
					t.Fatalf("the next full cache evicts %d, want %d", n, x.want)
				}
			})
		}
	}
}

// TestEvictShareIsThatOfTheWholeCache fills caches with several shards: one store that finds
// no room has the share of all evicted, by all shards alike. Of a large share it evicts some
// itself, and the sweeper the rest, until there is nothing to do.
func TestEvictShareIsThatOfTheWholeCache(t *testing.T) {
	kit.Alone(t)
	for _, x := range []struct {
		entries, weight int64
		share           float64
		want            int // entries that one store has evicted
	}{
		{2048, 0, 0.25, 512},
		{8000, 0, 0.25, 2000},
		{0, 15_000, 0.5, 2500}, // each entry weighs 3
		{5000, 300_000, 0.004, 20},
		{5000, 0, 0.001, 5},
		{0, 15_000, 0.001, 5}, // each entry weighs 3
	} {
		for _, p := range policies {
			t.Run(fmt.Sprintf("%+v %v", x, p), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var heard atomic.Int64
					c := New(Config[int, int]{
						MaxEntries: x.entries, MaxWeight: x.weight, Policy: p, EvictShare: x.share,
						Notify: func(*Entry[int, int], Reason) { heard.Add(1) },
					})
					defer c.Close()
					full := int(x.entries)
					if full == 0 {
						full = int(x.weight / 3)
					}
					for k := range full {
						if gone, ok := c.Set(forever(k, 0), 3); !ok || len(gone) > 0 {
							t.Fatalf("key %d: %v, %d evicted", k, ok, len(gone))
						}
					}
					gone, _ := c.Set(forever(-1, 0), 3)
					if most := storeEvicts + sliceEntries; len(gone) > most || len(gone) < min(x.want, storeEvicts) {
						t.Errorf("the store has evicted %d itself", len(gone))
					}
					c.Notify(gone)
					synctest.Wait() // the sweeper has ended
					if int(heard.Load()) != x.want || c.Len() != full+1-x.want {
						t.Errorf("%d heard of, %d left of %d, want %d evicted", heard.Load(), c.Len(), full, x.want)
					}
					if e, _ := c.Peek(-1); e == nil && p != evict.Random && p != evict.LFU && p != evict.A3FIFO {
						t.Error("the entry that needed the room was evicted")
					}
					// Hashes fill shards by chance, and few evictions do not even them out.
					mean := float64(c.Len()) / float64(c.inUse())
					for i := range c.inUse() {
						if held := float64(c.shards[i].entries.Load()); math.Abs(held-mean) > mean/10+4*math.Sqrt(mean) {
							t.Errorf("shard %d holds %.0f, of %.0f on average", i, held, mean)
						}
					}
					validate(t, c)
				})
			})
		}
	}
}

// TestResizeEvictsInSlices lowers the bounds of a large cache. Resize evicts some entries
// itself. The cache never holds more than before, takes new entries meanwhile, and arrives
// at the bound.
func TestResizeEvictsInSlices(t *testing.T) {
	before, after := kit.Rounds(30_000), kit.Rounds(1000)
	for _, weighted := range []bool{false, true} {
		for _, p := range policies {
			synctest.Test(t, func(t *testing.T) {
				var o Config[int, int]
				bounds := func(n int64) (entries, weight int64) {
					if weighted {
						return 0, n
					}
					return n, 0
				}
				o.Policy = p
				o.MaxEntries, o.MaxWeight = bounds(int64(before))
				c := New(o)
				defer c.Close()
				for k := range before {
					weight := int64(1)
					if k%10 == 0 && k < before/2 {
						weight = evict.Pinned
					}
					c.Set(forever(k, 0), weight)
				}
				gone := c.Resize(bounds(int64(after))) // less than the pinned weight
				if len(gone) > resizeEvicts+sliceEntries {
					t.Errorf("%v: %d were evicted by Resize", p, len(gone))
				}
				if e, w := c.Bounds(); e+w != int64(after) {
					t.Errorf("%v: bounds %d, %d", p, e, w)
				}
				for k := range 5000 {
					if _, ok := c.Set(forever(before+k, 0), 1); !ok || c.Len() > before {
						t.Fatalf("%v: stored %v, %d held", p, ok, c.Len())
					}
				}
				synctest.Wait()
				if c.Len() != after {
					t.Errorf("%v: %d are left", p, c.Len())
				}
				c.Resize(bounds(int64(2 * after))) // and up again
				for k := range 2 * after {
					c.Set(forever(-k, 0), 1)
				}
				if c.Len() != 2*after {
					t.Errorf("%v: %d of a bound that was raised", p, c.Len())
				}
				validate(t, c)
			})
		}
	}
}

// TestLargeEvictionsMeetCloseClearAndWrites ends or empties a cache while the sweeper has much
// to evict: no goroutine is left, each entry is told of once, and a cleared cache fills up to its
// new bound.
func TestLargeEvictionsMeetCloseClearAndWrites(t *testing.T) {
	const before, after = 20_000, 100
	for name, does := range map[string]func(c *Cache[int, int]){
		"close": (*Cache[int, int]).Close,
		"clear": (*Cache[int, int]).Clear,
		"close after a share": func(c *Cache[int, int]) {
			for k := range before {
				c.Set(forever(before+k, 0), 1)
			}
			c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told atomic.Int64
				stored := 0
				c := New(Config[int, int]{MaxEntries: before, EvictShare: 0.5, Notify: func(*Entry[int, int], Reason) { told.Add(1) }})
				for k := range before {
					c.Set(forever(k, 0), 1)
				}
				c.Notify(c.Resize(after, 0))
				does(c)
				synctest.Wait()
				if c.Len() != 0 && name != "close after a share" || c.owes() != (change{}) && name == "clear" {
					t.Errorf("%d entries, %+v owed", c.Len(), c.owes())
				}
				if n := told.Load(); n != before && name != "close after a share" {
					t.Errorf("%d of %d entries were told of", n, before)
				}
				if name == "clear" {
					for k := range before {
						gone, ok := c.Set(forever(k, 0), 1)
						if c.Notify(gone); ok {
							stored++
						}
					}
					synctest.Wait()
					if c.Len() > after || c.Len() < after/2 || stored != before {
						t.Errorf("%d entries of a bound of %d, %d stored", c.Len(), after, stored)
					}
					validate(t, c)
					c.Close()
				}
			})
		})
	}
}

// TestBoundIsRaisedWhileItIsLowered resizes a large cache down and up again at once.
func TestBoundIsRaisedWhileItIsLowered(t *testing.T) {
	const before, after = 20_000, 15_000
	synctest.Test(t, func(t *testing.T) {
		c := New(Config[int, int]{MaxEntries: before})
		defer c.Close()
		for k := range before {
			c.Set(forever(k, 0), 1)
		}
		c.Resize(10, 0)
		c.Resize(after, 0)
		synctest.Wait()
		for k := range before {
			c.Set(forever(-k, 0), 1)
		}
		if c.Len() != after {
			t.Errorf("%d of %d", c.Len(), after)
		}
		validate(t, c)
	})
}

func TestResizeEvictsNoShareBeyondTheBound(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 100, EvictShare: 0.5})
	defer c.Close()
	for k := range 100 {
		c.Set(forever(k, 0), 1)
	}
	if gone := c.Resize(90, 0); len(gone) != 0 || c.Len() != 90 {
		t.Fatalf("%d are left of 90", c.Len())
	}
}

// TestReplacementIsAUse stores a key again: the policy sees it as it sees a hit.
func TestReplacementIsAUse(t *testing.T) {
	for _, x := range []struct {
		policy evict.Policy
		want   int // the first to leave
	}{{evict.LRU, 1}, {evict.LFU, 1}, {evict.FIFO, 0}} {
		c := New(Config[int, int]{MaxEntries: 3, Policy: x.policy})
		for k := range 3 {
			c.Set(forever(k, 0), 1)
		}
		c.Set(forever(0, 1), 1)
		c.Set(forever(9, 0), 1)
		for k := range 3 {
			if e, _ := c.Peek(k); (e == nil) != (k == x.want) {
				t.Errorf("%v: key %d: %v", x.policy, k, e)
			}
		}
		c.Close()
	}
}

// TestEntryIsNotEvictedForItsSuccessor replaces the oldest entry by a much heavier one, so
// that its shard, by its share, has nothing to give.
func TestEntryIsNotEvictedForItsSuccessor(t *testing.T) {
	for _, p := range policies {
		for range 50 { // the random policy may be lucky
			c := New(Config[int, int]{MaxWeight: 18, Policy: p, Notify: func(*Entry[int, int], Reason) {}})
			first := forever(0, 0)
			c.Set(first, 1)
			for k := range 2 {
				c.Set(forever(k+1, 0), 7)
			}
			gone, _ := c.Set(forever(0, 1), 11)
			if i := slices.IndexFunc(gone, func(r Removed[int, int]) bool { return r.Entry == first }); len(gone) != 2 || gone[i].Reason != Replaced {
				t.Fatalf("%v: %v", p, gone)
			}
			validate(t, c)
			c.Close()
		}
		// With several shards the others make the room.
		c := New(Config[int, int]{MaxEntries: 4096, MaxWeight: 4096, Policy: p, Notify: func(*Entry[int, int], Reason) {}})
		for k := range 100 {
			c.Set(forever(k, 0), 1)
		}
		gone, ok := c.Set(forever(0, 1), 4096)
		if i := slices.IndexFunc(gone, func(r Removed[int, int]) bool { return r.Entry.Key == 0 }); !ok || len(c.shards) < 2 || len(gone) != 100 || gone[i].Reason != Replaced {
			t.Fatalf("%v, %d shards: %v, %v", p, len(c.shards), gone, ok)
		}
		validate(t, c)
		c.Close()
	}
}

func TestHottestFollowsThePolicy(t *testing.T) {
	for p, want := range map[evict.Policy][]int{
		evict.LRU: {1, 3, 2, 9, 8},
		evict.LFU: {2, 1, 3, 9, 8},
	} {
		c := New(Config[int, int]{MaxEntries: 100, Policy: p})
		for k := range 10 {
			c.Set(forever(k, 0), 1)
		}
		for _, k := range []int{2, 1, 2, 2, 3, 1} {
			c.Get(k)
		}
		var got []int
		for _, e := range c.Hottest(5) {
			got = append(got, e.Key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: hottest %v, want %v", p, got, want)
		}
		c.Close()
	}
}

// TestHottestMergesShards asks for more than any shard has.
func TestHottestMergesShards(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 4096, Policy: evict.LFU})
	defer c.Close()
	for k := range 100 {
		c.Set(forever(k, 0), 1)
		for range k {
			c.Get(k)
		}
	}
	hottest := c.Hottest(60)
	if len(c.shards) < 2 || len(hottest) != 60 {
		t.Fatalf("%d hottest of %d shards", len(hottest), len(c.shards))
	}
	for i, e := range hottest {
		if e.Key != 99-i {
			t.Fatalf("place %d has key %d", i, e.Key)
		}
	}
}

// TestHitOnAnEntryThatHasLeftChangesNothing is a reader that finds an entry, and
// reaches the policy after another goroutine has removed it.
func TestHitOnAnEntryThatHasLeftChangesNothing(t *testing.T) {
	for _, p := range []evict.Policy{evict.LRU, evict.LFU} {
		c := New(Config[int, int]{MaxEntries: 3, Policy: p})
		for k := range 3 {
			c.Set(forever(k, 0), 1)
		}
		e, _ := c.Delete(0)
		c.hit(headOf(e))
		validate(t, c)
		c.Set(forever(3, 0), 1) // in the node of the entry that left
		c.Get(1)
		c.Get(2)
		c.hit(headOf(e))
		c.Set(forever(4, 0), 1)
		if e, _ := c.Peek(3); e != nil {
			t.Errorf("%v evicts another entry than the least used", p)
		}
		validate(t, c)
		c.Clear()
		c.hit(headOf(e))
		validate(t, c)
		c.Close()
	}
}

// TestHitsRaceWithRemovals reads keys that others store, replace and delete.
func TestHitsRaceWithRemovals(t *testing.T) {
	for _, p := range policies {
		c := New(Config[int, int]{MaxEntries: 2048, Policy: p})
		var all sync.WaitGroup
		for g := range uint64(4) {
			all.Go(func() { hammer(c, rand.New(rand.NewPCG(g, 3)), 5000) })
			all.Go(func() {
				r := rand.New(rand.NewPCG(g, 4))
				for range 5000 {
					c.Get(r.IntN(6000))
				}
			})
		}
		all.Wait()
		c.sweeper.close()
		validate(t, c)
		c.Close()
	}
}

func TestHitsAllocateNothing(t *testing.T) {
	for _, p := range policies {
		c := New(Config[int, int]{MaxEntries: 100, Policy: p})
		for k := range 100 {
			c.Set(forever(k, 0), 1)
		}
		k := 0
		if n := testing.AllocsPerRun(1000, func() { c.Get(k % 100); k += 7 }); n != 0 {
			t.Errorf("%v: a hit allocates %v times", p, n)
		}
		c.Close()
	}
}
