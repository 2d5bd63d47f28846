package memory_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/memory"
)

// pinsBelow returns a function that pins the keys below n.
func pinsBelow(n int) func(key, value int) int64 {
	return func(key, value int) int64 {
		if key < n {
			return memory.Pinned
		}
		return int64(value)
	}
}

func TestPinnedEntriesAreNeverEvicted(t *testing.T) {
	for _, p := range everyPolicy() {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			c := mustNew(t, memory.Options[int, int]{MaxEntries: 1000, MaxWeight: 2000, Weigh: pinsBelow(500), Policy: p})
			for i := range 50_000 {
				if !c.Set(i, 1+i%3) {
					t.Fatalf("key %d was not stored", i)
				}
			}
			for i := range 500 {
				if v, ok := c.Get(i); !ok || v != 1+i%3 {
					t.Fatalf("pinned key %d: %d, %v", i, v, ok)
				}
			}
			if c.Len() > 1000 || c.Weight() > 2000 {
				t.Errorf("%d entries of weight %d", c.Len(), c.Weight())
			}
		})
	}
}

// TestPinnedEntriesAreBounded fills a cache with pinned entries. Nothing can be stored
// beside them until one of them goes.
func TestPinnedEntriesAreBounded(t *testing.T) {
	c := mustNew(t, memory.Options[int, int]{MaxWeight: 100, Weigh: pinsBelow(1000)})
	for i := range 200 {
		if stored := c.Set(i, 1); stored != (i < 100) {
			t.Fatalf("key %d: stored %v", i, stored)
		}
	}
	if c.Set(5000, 1) || c.Len() != 100 {
		t.Errorf("an entry was stored beside %d of 100 that are pinned", c.Len())
	}
	if !c.Set(7, 2) {
		t.Error("a pinned entry cannot be replaced")
	}
	c.Delete(8)
	if !c.Set(5000, 1) || c.Set(5001, 2) {
		t.Error("room for one was left")
	}
	if err := c.Resize(0, 50); err != nil || c.Weight() > 50 || !c.Set(5000, 1) {
		t.Errorf("after Resize: %v, weight %d", err, c.Weight())
	}
}

func TestPinnedEntriesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(t, memory.Options[int, int]{MaxWeight: 100, Weigh: pinsBelow(1000), TTL: time.Minute})
		for i := range 100 {
			c.Set(i, 1)
		}
		time.Sleep(time.Minute + 2*time.Second) // in the bubble's time
		if c.Len() != 0 || !c.Set(5000, 100) {
			t.Errorf("%d entries after their end", c.Len())
		}
	})
}

// TestPinnedEntryBecomesHeavy sets the key of a pinned entry to a value that needs the room
// of all others.
func TestPinnedEntryBecomesHeavy(t *testing.T) {
	for _, p := range everyPolicy() {
		kit.Watch(t, time.Minute)
		c := mustNew(t, memory.Options[string, int64]{MaxWeight: 4, Weigh: func(_ string, v int64) int64 { return v }, Policy: p})
		c.Set("a", memory.Pinned)
		c.Set("b", 1)
		if !c.Set("a", 4) || c.Len() != 1 || c.Weight() != 4 {
			t.Errorf("%v: %d entries of weight %d", p, c.Len(), c.Weight())
		}
	}
}

// TestOperationsOnASmallCacheEnd does all operations in random order on caches of a few
// entries, from two goroutines. The weight of an entry is its value.
func TestOperationsOnASmallCacheEnd(t *testing.T) {
	for _, p := range everyPolicy() {
		for seed := range uint64(kit.Rounds(20)) {
			t.Run(fmt.Sprint(p, " ", seed), func(t *testing.T) {
				kit.Watch(t, time.Minute)
				c := mustNew(t, memory.Options[int, int64]{
					MaxEntries: 3, MaxWeight: 6, Weigh: func(_ int, v int64) int64 { return v }, Policy: p,
					EvictShare: float64(seed%3) / 4, IdleTTL: time.Duration(seed%2) * time.Minute,
				})
				done := make(chan struct{})
				go func() {
					defer close(done)
					operate(c, rand.New(rand.NewPCG(seed, 1)))
				}()
				operate(c, rand.New(rand.NewPCG(seed, 2)))
				<-done
				if err := c.Resize(5, 10); err != nil {
					t.Fatal(err)
				}
				c.Clear()
				for k := range 5 {
					if !c.Set(k, 2) {
						t.Errorf("key %d is not stored in an empty cache", k)
					}
				}
			})
		}
	}
}

// operate does random operations on a cache.
func operate(c *memory.Cache[int, int64], r *rand.Rand) {
	for range 2000 {
		k, v := r.IntN(5), r.Int64N(9)-2 // -1 is Pinned
		switch r.IntN(12) {
		case 0:
			c.Get(k)
		case 1:
			c.Touch(k)
		case 2:
			c.Delete(k)
		case 3:
			c.SetIfAbsent(k, v)
		case 4:
			c.Compute(k, func(old int64, _ bool) (int64, memory.Op) { return v, memory.Op(uint64(old) % 3) })
		case 5:
			_ = c.Resize(1+r.IntN(4), r.Int64N(8)) // each is valid
		case 6:
			c.SetTTL(k, v, time.Hour)
		default:
			c.Set(k, v)
		}
	}
}
