package memory_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/sim"
	"github.com/strata-cache/strata/internal/testing/sim/sized"
	"github.com/strata-cache/strata/memory"
)

// full returns a cache that is full of 1000 entries of weight 1. The weight of an entry
// is its value.
func full(t *testing.T, p memory.Policy, onEvict func(int, int, memory.Reason)) *memory.Cache[int, int] {
	c := mustNew(t, memory.Options[int, int]{
		MaxWeight: 1000, Policy: p, OnEvict: onEvict, Weigh: func(_, v int) int64 { return int64(v) },
	})
	for k := range 1000 {
		c.Set(k, 1)
	}
	return c
}

func TestHeavyValueOfAFullCacheIsStoredOnceItIsSetOften(t *testing.T) {
	var gone int
	c := full(t, memory.A3FIFO, func(int, int, memory.Reason) { gone++ })
	if c.Set(-1, 600) || c.Len() != 1000 || gone != 0 || c.Stats().Rejected != 1 {
		t.Fatalf("stored; %d entries left, %d have gone, %+v", c.Len(), gone, c.Stats())
	}
	if _, ok := c.Get(-1); ok {
		t.Fatal("a refused value is found")
	}
	if !c.Set(-1, 600) || c.Weight() > 1000 {
		t.Fatalf("not stored when it comes back, weight %d", c.Weight())
	}
	if v, ok := c.Get(-1); !ok || v != 600 {
		t.Fatalf("Get = %d, %v", v, ok)
	}
}

// TestHeavyValuesThatMustBeStoredAre: present keys, pinned entries, stores on a condition,
// caches with room, and policies that admit all.
func TestHeavyValuesThatMustBeStoredAre(t *testing.T) {
	for name, store := range map[string]func(c *memory.Cache[int, int]) bool{
		"a present key":  func(c *memory.Cache[int, int]) bool { return c.Set(999, 600) },
		"a pinned entry": func(c *memory.Cache[int, int]) bool { return c.Set(-1, memory.Pinned) },
		"SetIfAbsent": func(c *memory.Cache[int, int]) bool {
			_, ok := c.SetIfAbsent(-1, 600)
			return ok
		},
		"Compute": func(c *memory.Cache[int, int]) bool {
			_, ok := c.Compute(-1, func(int, bool) (int, memory.Op) { return 600, memory.Store })
			return ok
		},
		"room": func(c *memory.Cache[int, int]) bool {
			c.DeleteFunc(func(k, _ int) bool { return k < 600 })
			return c.Set(-1, 600)
		},
		"a light one": func(c *memory.Cache[int, int]) bool { return c.Set(-1, 10) },
	} {
		c := full(t, memory.A3FIFO, nil)
		if _, ok := c.Get(999); !ok {
			t.Fatal("the last key is not there")
		}
		if !store(c) || c.Stats().Rejected != 0 {
			t.Errorf("%s: not stored, %+v", name, c.Stats())
		}
	}
	for _, p := range everyPolicy() {
		if c := full(t, p, nil); p != memory.A3FIFO && !c.Set(-1, 600) {
			t.Errorf("%v: not stored", p)
		}
	}
}

// TestOneHitsCostTheSameAtAnyWeight asks for light keys by popularity, beside keys that are asked
// for once: the same weight of these, as many light entries or as few heavy ones.
func TestOneHitsCostTheSameAtAnyWeight(t *testing.T) {
	kit.Alone(t)
	base := oneHits(t, 1)
	for _, heavy := range []int{5, 20, 50, 200, 400} {
		if got := oneHits(t, heavy); got < base-2 {
			t.Errorf("%.1f %% hits beside entries of weight %d, %.1f beside light ones", got, heavy, base)
		}
	}
}

// oneHits returns the percentage of hits of light keys beside keys asked for once of a weight.
func oneHits(t *testing.T, heavy int) float64 {
	c := mustNew(t, memory.Options[int, int]{MaxWeight: 1000, Weigh: func(_, v int) int64 { return int64(v) }})
	hits, asked, owed, once := 0, 0, 0, -1
	for i, key := range sim.Take(sim.Zipf(3000, 1, 1), 100_000) {
		for owed++; owed >= 2*heavy; owed -= 2 * heavy { // half of the weight
			c.Set(once, heavy)
			once--
		}
		_, ok := c.Get(int(key))
		if !ok {
			c.Set(int(key), 1)
		}
		if i > 25_000 {
			asked++
			if ok {
				hits++
			}
		}
	}
	return 100 * float64(hits) / float64(asked)
}

// sizes is a cache that stores each object that it misses.
type sizes struct {
	*memory.Cache[uint64, int64]
}

func (c sizes) Access(r sized.Request) bool {
	if _, ok := c.Get(r.Key); ok {
		return true
	}
	c.Set(r.Key, r.Size)
	return false
}

// TestSizedHitRatioIsThatOfTheSimulatedPolicy compares the engine, with its shards, with a
// simulator of one.
func TestSizedHitRatioIsThatOfTheSimulatedPolicy(t *testing.T) {
	kit.Alone(t)
	for name, size := range map[string]func(uint64) int64{"web": sized.Web, "etc": sized.ETC} {
		tr := sized.Of(name, sim.Take(sim.Zipf(40_000, 0.9, 1), 60_000), size)
		for _, bound := range tr.Bounds() {
			for _, p := range everyPolicy() {
				if p == memory.Random || testing.Short() && p != memory.A3FIFO && p != memory.LRU {
					continue // Random has no simulator with sizes
				}
				c := sizes{mustNew(t, memory.Options[uint64, int64]{MaxWeight: bound, Policy: p, Weigh: func(_ uint64, v int64) int64 { return v }})}
				s, err := sized.New(simulators[p], bound, tr)
				if err != nil {
					t.Fatal(err)
				}
				const most = 4 // a few heavy objects that stay in one, and not in the other, are points
				got, want := sized.Run(c, tr), sized.Run(s, tr)
				if d := got.Sub(want); math.Abs(d.Objects) > most || math.Abs(d.Seconds) > most {
					t.Errorf("%s, %d bytes, %v: %v, simulated %v", name, bound, p, got, want)
				}
			}
		}
	}
}

// processors gives the test as many, and so caches of several shards.
func processors(t *testing.T, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func weightOf(_, weight int) int64 { return int64(weight) }

// TestHeavyEntryInUseStays asks for an entry of half the bound at every second request, beside keys that are asked for
// once.
func TestHeavyEntryInUseStays(t *testing.T) {
	kit.Alone(t)
	processors(t, 4)
	const bound, rounds = 20_000, 30_000
	for _, p := range []memory.Policy{memory.A3FIFO, memory.LRU, memory.LFU} {
		c := mustNew(t, memory.Options[int, int]{MaxWeight: bound, Policy: p, Weigh: weightOf})
		for key := range bound {
			c.Set(key, 1)
		}
		hits := 0
		for i := range rounds {
			if _, ok := c.Get(-1); ok {
				hits++
			} else {
				c.Set(-1, bound/2)
			}
			c.Set(bound+i, 1)
		}
		if hits < rounds*99/100 {
			t.Errorf("%v: %d of %d reads of the heavy entry are hits", p, hits, rounds)
		}
		c.Close()
	}
}

// TestHeavyEntryTakesItsRoomFromTheOldest stores an entry of a part of the bound, beside entries of which a few were
// read.
func TestHeavyEntryTakesItsRoomFromTheOldest(t *testing.T) {
	kit.Alone(t)
	processors(t, 4)
	const bound, used = 50_000, 2500
	for _, p := range []memory.Policy{memory.A3FIFO, memory.LRU} {
		for _, percent := range []int{10, 30, 50} {
			c := mustNew(t, memory.Options[int, int]{MaxWeight: bound, Policy: p, Weigh: weightOf})
			for key := range bound {
				c.Set(key, 1)
			}
			for key := range used {
				c.Get(key)
			}
			c.SetIfAbsent(-1, bound*percent/100)
			if _, ok := c.Get(-1); !ok {
				t.Fatalf("%v: an entry of %d %% is not stored", p, percent)
			}
			left := 0
			for key := range used {
				if _, ok := c.Peek(key); ok {
					left++
				}
			}
			if left < used*96/100 {
				t.Errorf("%v: %d of %d keys in use are left beside an entry of %d %%", p, left, used, percent)
			}
			c.Close()
		}
	}
}

// TestWeightsWithoutABoundRefuseNothing stores weights whose sum overflows.
func TestWeightsWithoutABoundRefuseNothing(t *testing.T) {
	processors(t, 4)
	c := mustNew(t, memory.Options[int, int]{MaxEntries: 100_000, Weigh: func(int, int) int64 { return math.MaxInt64 / 2 }})
	defer c.Close()
	for key := range 10 {
		if _, ok := c.Get(key); !c.Set(key, key) || ok {
			t.Errorf("key %d is refused", key)
		}
	}
	if s := c.Stats(); s.Rejected > 0 || s.Entries == 0 || s.Weight < 0 {
		t.Errorf("%+v", s)
	}
}
