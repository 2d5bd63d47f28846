package flight

import (
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestHoldsAreBoundedAndHoldMoreNotLess puts many more keys on hold than are known
// one by one.
func TestHoldsAreBoundedAndHoldMoreNotLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup[int, int](func() uint64 { return 0 })
		defer g.Close(t.Context())
		const keys = 10 * maxHolds
		stores := func(key int) bool {
			f, part, _ := g.register(caller{ctx: t.Context()}, key, Load, one[int, int]{})
			if part != Led {
				t.Fatalf("key %d: part %v", key, part)
			}
			stored := false
			g.Land(f, &Result[int]{}, func() { stored = true })
			g.runs.Done()
			return stored
		}
		if !stores(keys) {
			t.Fatal("nothing is on hold, and nothing is stored")
		}
		running, part, _ := g.register(caller{ctx: t.Context()}, keys, Load, one[int, int]{})
		if part != Led {
			t.Fatalf("part %v", part)
		}
		for key := range keys {
			g.Hold(key, time.Minute+time.Duration(key)*time.Second/keys)
		}
		known := 0
		for i := range g.shards {
			known += len(g.shards[i].holds)
		}
		if known > maxHolds {
			t.Errorf("%d holds are known one by one, want %d at most", known, maxHolds)
		}
		synctest.Wait()
		late := false
		g.Land(running, &Result[int]{}, func() { late = true })
		g.runs.Done()
		if late {
			t.Error("a load that ran when all keys of its lock were put on hold is stored")
		}
		time.Sleep(time.Minute - time.Second)
		for key := range keys {
			if g.HoldLeft(key) == 0 || key%100 == 0 && stores(key) {
				t.Fatalf("key %d is stored during its hold", key)
			}
		}
		var filled bool
		b := g.Batch(t.Context(), nil, Load)
		b.Fill(keys, func() { filled = true })
		if filled {
			t.Error("an extra key of a batch is stored while all keys of its lock are on hold")
		}
		time.Sleep(2 * time.Second)
		for _, key := range []int{0, 1, keys - 1, keys} {
			if g.HoldLeft(key) > 0 || !stores(key) {
				t.Errorf("key %d is not stored when all holds are over", key)
			}
		}
	})
}

func TestBatchThatHasLandedNothingLeavesTheCountAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[string, int]
		b := &Batch[string, int]{g: &g}
		b.Done(0) // an Add in a bubble leaves a mark
		if !reflect.DeepEqual(&g.runs, &sync.WaitGroup{}) {
			t.Error("a batch that has landed nothing has changed the count of flights")
		}
	})
}
