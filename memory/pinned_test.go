package memory_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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
	for _, p := range []memory.Policy{memory.A3FIFO, memory.LRU, memory.LFU, memory.FIFO, memory.Random} {
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

// TestPinnedEntriesAreBounded stores nothing beside entries that are pinned and leave no
// room, until one of them goes.
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
