package loads_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/memory"
	"github.com/strata-cache/strata/snapshot"
	"github.com/strata-cache/strata/stratatest"
)

// guarded is a cache without a bound of its own, in a process that may have 64 MiB.
type guarded struct {
	*strata.Cache[int, []byte]
	guard         *memory.Guard
	evicted, told atomic.Uint64 // by the hook, for any reason
}

func newGuarded(t *testing.T, options ...func(*strata.Options[int, []byte])) *guarded {
	t.Helper()
	g, err := memory.NewGuard(memory.GuardOptions{Limit: 64 << 20})
	lab.Must(t, err)
	t.Cleanup(g.Close)
	c := &guarded{guard: g}
	o := strata.Options[int, []byte]{Name: "guarded", TTL: time.Hour, Memory: strata.Memory[int, []byte]{MaxEntries: 1 << 30, Guard: g.Floor(100)}}
	o.Hooks = &strata.Hooks{Evict: func(e strata.Event) {
		if c.told.Add(1); e.Reason == "evicted" {
			c.evicted.Add(1)
		}
	}}
	for _, f := range options {
		f(&o)
	}
	c.Cache, err = strata.New(o)
	lab.Must(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// fill stores values of 1 KiB until the guard has evicted many.
func (c *guarded) fill(t *testing.T) (stored int) {
	t.Helper()
	for begun := c.guard.Stats().Evicted; stored < 400<<10 && c.guard.Stats().Evicted < begun+40_000; stored++ {
		lab.Must(t, c.Set(t.Context(), 1_000_000+stored, make([]byte, 1<<10)))
	}
	if s := c.Stats(); s.Guard.Evicted < 40_000 || !s.Guard.Active || s.Guard.Limit != 64<<20 {
		t.Fatalf("%d KiB are stored in a process of 64 MiB: %+v, %d evicted", stored, s.Guard, s.Evicted)
	}
	return stored
}

// TestGuardLeavesPinnedEntriesAndDropsAlone has pinned, tagged, held, negative and dropped keys in a cache
// that its guard makes smaller.
func TestGuardLeavesPinnedEntriesAndDropsAlone(t *testing.T) {
	loads := 0
	c := newGuarded(t, func(o *strata.Options[int, []byte]) {
		o.Memory.MaxWeight = 1 << 40
		o.Memory.Weigh = func(key int, _ []byte) int64 {
			if key < 50 {
				return memory.Pinned
			}
			return 1
		}
		o.Loader = func(_ context.Context, key int) ([]byte, error) {
			if loads++; key == 300 {
				return nil, strata.ErrNotFound
			}
			return []byte("loaded"), nil
		}
	})
	ctx := t.Context()
	for key := range 50 {
		lab.Must(t, c.Set(ctx, key, []byte("pinned")))
	}
	lab.Must(t, c.Set(ctx, 100, []byte("old"), strata.WithTags("tag")))
	lab.Must(t, c.InvalidateTags(ctx, "tag"))
	lab.Must(t, c.InvalidateHold(ctx, time.Hour, 200))
	if _, err := c.GetOrLoad(ctx, 300, nil); !errors.Is(err, strata.ErrNotFound) {
		t.Fatal(err)
	}
	c.fill(t)
	for key := range 50 {
		if v, ok := c.Get(ctx, key); !ok || string(v) != "pinned" {
			t.Fatalf("pinned entry %d is gone", key)
		}
	}
	if _, ok := c.Get(ctx, 100); ok {
		t.Error("a value is back whose tag was dropped")
	}
	loads = 0
	for range 3 {
		if v, err := c.GetOrLoad(ctx, 200, nil); err != nil || string(v) != "loaded" {
			t.Errorf("%q, %v", v, err)
		}
	}
	if loads != 3 {
		t.Errorf("%d loads of a key on hold, want 3", loads)
	}
	if _, err := c.GetOrLoad(ctx, 300, nil); !errors.Is(err, strata.ErrNotFound) {
		t.Errorf("a key that does not exist: %v", err)
	}
	n := c.Len()
	if v, err := c.GetOrLoad(ctx, 400, nil, strata.NoMemory()); err != nil || string(v) != "loaded" || c.Len() > n {
		t.Errorf("%q, %v; %d entries, %d before", v, err, c.Len(), n)
	}
}

// TestEvictionsOfTheGuardAreTold compares what the hook is told with all counts, and then tunes, saves, and
// closes the cache while the heap is too large.
func TestEvictionsOfTheGuardAreTold(t *testing.T) {
	c := newGuarded(t)
	stored := c.fill(t)
	c.guard.Close()
	// A goroutine of the cache may be about to tell the last ones.
	for begun := time.Now(); time.Since(begun) < 10*time.Second && c.told.Load() != c.Stats().Evicted; {
		runtime.Gosched()
	}
	if told := c.evicted.Load(); told != c.told.Load() || int(told) != stored-c.Len() || told != c.Stats().Evicted || told < c.Stats().Guard.Evicted {
		t.Errorf("the hook was told %d (%d), %d of %d are left, Stats count %d and %d",
			told, c.told.Load(), c.Len(), stored, c.Stats().Evicted, c.Stats().Guard.Evicted)
	}
	d := newGuarded(t)
	d.fill(t)
	lab.Must(t, d.Tune(strata.Tuning{MaxEntries: new(int64(500))}))
	if n := d.Stats().MaxEntries; n != 500 {
		t.Errorf("the bound is %d", n)
	}
	for key := range 2000 {
		lab.Must(t, d.Set(t.Context(), key, nil))
	}
	var file bytes.Buffer
	if r, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, d.Cache); err != nil || file.Len() == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	lab.Must(t, d.Close(context.Background()))
	if s := d.guard.Stats(); d.Len() != 0 || s.Evicted == 0 {
		t.Errorf("%d entries in a closed cache; %+v", d.Len(), s)
	}
}

// TestEntriesThatTheGuardEvictsComeBackFromL2 reads them again.
func TestEntriesThatTheGuardEvictsComeBackFromL2(t *testing.T) {
	c := newGuarded(t, func(o *strata.Options[int, []byte]) { o.Remote.Tier = stratatest.NewTier() })
	for key := range 1000 {
		lab.Must(t, c.Set(t.Context(), key, []byte("first")))
	}
	c.fill(t)
	before := c.Stats().L2.Hits
	for key := range 1000 {
		if v, ok := c.Get(t.Context(), key); !ok || string(v) != "first" {
			t.Fatalf("key %d has %q, %v", key, v, ok)
		}
	}
	if n := c.Stats().L2.Hits - before; n < 500 {
		t.Errorf("%d of 1000 came from L2", n)
	}
}
