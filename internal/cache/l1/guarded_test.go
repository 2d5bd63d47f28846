package l1

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/testing/kit"
)

// TestDebtOfAGuardIsPaidExactly settles debts of entries and of weights, beside pinned entries, for each policy.
func TestDebtOfAGuardIsPaidExactly(t *testing.T) {
	for _, p := range evict.Policies() {
		for _, weighted := range []bool{false, true} {
			t.Run(fmt.Sprint(p, weighted), func(t *testing.T) {
				told := 0
				o := Config[int, int]{MaxEntries: 100_000, Policy: p, Notify: func(_ *Entry[int, int], why Reason) {
					if why == Evicted {
						told++
					}
				}}
				each := int64(1)
				if weighted {
					o.MaxWeight, each = 1_000_000, 3
				}
				c := New(o)
				defer c.Close()
				for i := range 10_000 {
					c.Set(NewEntry(c, i, i, Forever), each)
				}
				for i := range 50 {
					c.Set(NewEntry(c, -1-i, i, Forever), evict.Pinned)
				}
				if units, _ := WardOf(c).Usage(); units != 10_000*each {
					t.Fatalf("%d units", units)
				}
				WardOf(c).Owe(4000 * each)
				WardOf(c).Settle()
				if entries, units := WardOf(c).Shed(); c.Len() != 6050 || told != 4000 || entries != 4000 || units != 4000*each {
					t.Errorf("%d entries are left, %d were told, %d with %d units are counted", c.Len(), told, entries, units)
				}
				WardOf(c).Owe(1 << 40)
				WardOf(c).Settle()
				WardOf(c).Settle()
				if units, _ := WardOf(c).Usage(); c.Len() != 50 || units != 0 {
					t.Errorf("%d entries are left of 50 that are pinned", c.Len())
				}
				for i := range 50 {
					if c.Set(NewEntry(c, i, i, Forever), each); c.Len() != 51+i {
						t.Fatalf("entry %d: %d are left", i, c.Len())
					}
				}
				validate(t, c)
			})
		}
	}
}

// TestStoresPayTheDebtOfAGuard settles nothing but by stores, and cancels a debt.
func TestStoresPayTheDebtOfAGuard(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 100_000})
	defer c.Close()
	for i := range 50_000 {
		c.Set(NewEntry(c, i, i, Forever), 1)
	}
	WardOf(c).Owe(0)
	c.Set(NewEntry(c, -1, 0, Forever), 1)
	if c.Len() != 50_001 {
		t.Fatalf("%d entries are left without a debt", c.Len())
	}
	WardOf(c).Owe(1000)
	c.Set(NewEntry(c, -2, 0, Forever), 1)
	if c.Len() != 49_002 {
		t.Errorf("%d entries are left after a store with a debt of 1000", c.Len())
	}
	if e, _ := c.Peek(-2); e == nil {
		t.Error("a store has evicted its own entry")
	}
}

// TestCacheWithoutItsGuardIsAsBefore: neither a debt of nothing nor a guard that has left changes what the policy takes for
// full.
func TestCacheWithoutItsGuardIsAsBefore(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 100_000})
	defer c.Close()
	for i := range 1000 {
		c.Set(NewEntry(c, i, i, Forever), 1)
	}
	w := WardOf(c)
	w.Guarded(func() {})
	if w.Owe(0); c.rest.guarded.Load() {
		t.Error("full by a debt of nothing")
	}
	if w.Owe(500); !c.rest.guarded.Load() || c.owes().entries != 500 {
		t.Errorf("%+v is owed", c.owes())
	}
	w.Guarded(nil)
	w.Owe(0)
	w.Settle()
	if c.rest.guarded.Load() || c.owes() != (change{}) || c.Len() != 1000 {
		t.Errorf("without a guard %+v is owed, and %d of 1000 entries are left", c.owes(), c.Len())
	}
}

// TestEvictionsEndWhenTheGuardLeaves lets the guard leave in the middle of a slice, many times.
func TestEvictionsEndWhenTheGuardLeaves(t *testing.T) {
	const entries = 20_000
	uncounted, rounds := 0, kit.Rounds(30)
	for range rounds {
		c := New(Config[int, int]{MaxEntries: 100_000})
		for i := range entries {
			c.Set(NewEntry(c, i, i, Forever), 1)
		}
		w := WardOf(c)
		w.Owe(entries)
		var settling sync.WaitGroup
		settling.Go(w.Settle)
		for shed := int64(0); shed < 100; shed, _ = w.Shed() {
			runtime.Gosched()
		}
		w.Guarded(nil)
		settling.Wait()
		shed, _ := w.Shed()
		uncounted += entries - c.Len() - int(shed)
		c.Close()
	}
	// The entry that is being evicted when the guard leaves may be counted, or not. A slice has 256.
	if uncounted < 0 || uncounted > rounds {
		t.Errorf("%d entries were evicted after the guard had left, %d times", uncounted, rounds)
	}
}

// TestOneStoreIn64PokesTheGuard counts.
func TestOneStoreIn64PokesTheGuard(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 1000})
	defer c.Close()
	n := 0
	WardOf(c).Guarded(func() { n++ })
	for i := range 64_000 {
		c.Set(NewEntry(c, i, i, Forever), 1)
	}
	if n < 800 || n > 1200 {
		t.Errorf("64,000 stores poke %d times", n)
	}
	WardOf(c).Guarded(nil)
	n = 0
	for i := range 1000 {
		c.Set(NewEntry(c, i, i, Forever), 1)
	}
	if n > 0 {
		t.Error("poked without a guard")
	}
}

// TestGuardedCacheKeepsWhatIsUsed compares a cache that only its guard makes smaller with one of a bound:
// hot keys beside a stream of others.
func TestGuardedCacheKeepsWhatIsUsed(t *testing.T) {
	ratio := func(c *Cache[int, int], owe func()) float64 {
		defer c.Close()
		r, hits, n := rand.New(rand.NewPCG(1, 2)), 0, 100_000
		for i := range n {
			key := 1_000_000 + i
			if r.IntN(2) == 0 {
				key = r.IntN(750)
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
	bounded := ratio(New(Config[int, int]{MaxEntries: 1000}), func() {})
	c := New(Config[int, int]{MaxEntries: 1 << 30})
	guarded := ratio(c, func() {
		if n := c.Len(); n > 1050 {
			WardOf(c).Owe(int64(n - 950))
		}
	})
	if guarded < 0.9*bounded {
		t.Errorf("hit ratio %.3f with a guard, %.3f with a bound", guarded, bounded)
	}
}

// TestDebtsBesideAllElse owes, settles, stores, deletes, resizes and reads at once.
func TestDebtsBesideAllElse(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 20_000, EvictShare: 0.1, Notify: func(*Entry[int, int], Reason) {}})
	defer c.Close()
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(g, 3))
			for range 20_000 {
				key := r.IntN(30_000)
				switch n := r.IntN(1000); {
				case n == 0:
					WardOf(c).Owe(int64(r.IntN(3000)))
				case n == 1:
					WardOf(c).Settle()
				case n == 2:
					c.Notify(c.Resize(int64(1000+r.IntN(20_000)), 0))
				case n < 100:
					c.Delete(key)
				case n < 500:
					c.Get(key)
				default:
					c.Set(NewEntry(c, key, key, Forever), 1)
				}
			}
		})
	}
	wg.Wait()
	WardOf(c).Settle()
	validate(t, c)
	if n := len(slices.Collect(c.All())); n != c.Len() {
		t.Errorf("%d entries of %d", n, c.Len())
	}
}

// TestUnitsForAGuardStayWhenTheBoundChanges resizes caches from a bound of entries to one of weights, and back.
func TestUnitsForAGuardStayWhenTheBoundChanges(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		o, units := Config[int, int]{MaxEntries: 100_000}, int64(1000)
		if weighted {
			o, units = Config[int, int]{MaxWeight: 100_000}, 5000
		}
		c := New(o)
		w := WardOf(c)
		for i := range 1000 {
			c.Set(NewEntry(c, i, i, Forever), 5)
		}
		for _, bounds := range [][2]int64{{0, 200_000}, {200_000, 0}, {200_000, 200_000}} {
			c.Resize(bounds[0], bounds[1])
			if n, _ := w.Usage(); n != units {
				t.Errorf("bounds %v: %d units, %d before", bounds, n, units)
			}
		}
		w.Owe(units / 2)
		w.Settle()
		if entries, n := w.Shed(); entries != 500 || n != units/2 || c.Len() != 500 {
			t.Errorf("%d entries of %d units have left, %d are there", entries, n, c.Len())
		}
		validate(t, c)
		c.Close()
	}
}
