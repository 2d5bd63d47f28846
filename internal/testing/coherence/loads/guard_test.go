package loads_test

import (
	"bytes"
	"context"
	"encoding/binary"
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
	c := newGuarded(t, func(o *strata.Options[int, []byte]) {
		o.Remote.Tier, o.Remote.Timeout = stratatest.NewTier(), time.Minute // the machine may be busy
	})
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

// TestOneGuardOverCachesOfAllFormsTakesFromTheColdOnes gives one guard to a cache that is read, to one that is filled,
// and to two that nothing uses any more.
func TestOneGuardOverCachesOfAllFormsTakesFromTheColdOnes(t *testing.T) {
	const hotKeys, coldKeys = 2000, 6000
	hot := newGuarded(t)
	g, value := hot.guard, make([]byte, 1<<10)
	cold, err := memory.New(memory.Options[int, []byte]{MaxEntries: 1 << 30, Guard: g})
	lab.Must(t, err)
	defer cold.Close()
	coded, err := memory.NewByteCache(1 << 30)
	lab.Must(t, err)
	coded.SetGuard(g)
	filled, _ := encodedCache(t, func(o *strata.Options[int, []byte]) { o.Memory.MaxWeight, o.Memory.Guard = 1<<30, g })
	for key := range hotKeys {
		lab.Must(t, hot.Set(t.Context(), key, bytes.Clone(value)))
	}
	for key := range coldKeys {
		cold.Set(key, bytes.Clone(value))
		coded.Set(binary.AppendUvarint(nil, uint64(key)), value)
	}
	bytesBefore := coded.Bytes()
	key := 0
	for ; key < 400<<10 && g.Stats().Evicted < 60_000; key++ {
		lab.Must(t, filled.Set(t.Context(), key, value))
		filled.Get(t.Context(), key) // of two caches that nothing reads the larger one pays
		for read := range 4 {
			hot.Get(t.Context(), (4*key+read)%hotKeys)
		}
	}
	if s := g.Stats(); s.Evicted < 60_000 || s.Limit != 64<<20 {
		t.Fatalf("%d KiB are stored in a process of 64 MiB: %+v", key, s)
	}
	if n := hot.Len(); n < hotKeys*9/10 {
		t.Errorf("%d of %d entries are left of the cache that is read", n, hotKeys)
	}
	if n := cold.Len(); n > coldKeys/2 {
		t.Errorf("%d of %d entries are left of a cache that nothing reads", n, coldKeys)
	}
	if n := coded.Bytes(); n > bytesBefore/2 {
		t.Errorf("%d of %d bytes are left of a byte cache that nothing reads", n, bytesBefore)
	}
	g.Close() // else it may evict what is stored next
	lab.Must(t, filled.Set(t.Context(), key, value))
	if v, ok := filled.Get(t.Context(), key); !ok || len(v) != len(value) {
		t.Errorf("the last value has %d bytes, %v", len(v), ok)
	}
}

// TestCacheIsTurnedOffWhileItsGuardEvicts does so in the middle of a fill, again and again.
func TestCacheIsTurnedOffWhileItsGuardEvicts(t *testing.T) {
	c := newGuarded(t)
	c.fill(t)
	for n := range 20 {
		lab.Must(t, c.Tune(strata.Tuning{Off: new(true)}))
		lab.Must(t, c.Set(t.Context(), -1-n, make([]byte, 1<<10)))
		if _, ok := c.Get(t.Context(), -1-n); ok || c.Len() != 0 {
			t.Fatalf("%d entries in a cache that is off", c.Len())
		}
		lab.Must(t, c.Tune(strata.Tuning{Off: new(false)}))
		for key := range 2000 {
			lab.Must(t, c.Set(t.Context(), key, make([]byte, 1<<10)))
		}
	}
	begun := c.guard.Stats().Evicted
	c.fill(t)
	if v, ok := c.Get(t.Context(), 1_000_000); ok && len(v) != 1<<10 {
		t.Errorf("a value of %d bytes", len(v))
	}
	if c.guard.Stats().Evicted <= begun {
		t.Error("the guard evicts nothing any more")
	}
}

// TestTuneGivesAGuardAnotherOneAndNone fills a cache of each form whose guard comes and goes while it is used.
func TestTuneGivesAGuardAnotherOneAndNone(t *testing.T) {
	const floor = 20_000
	plain := newGuarded(t)
	coded, _ := encodedCache(t, func(o *strata.Options[int, []byte]) { o.Memory.MaxWeight = 1 << 30 })
	for name, c := range map[string]*strata.Cache[int, []byte]{"values": plain.Cache, "encoded": coded} {
		t.Run(name, func(t *testing.T) {
			first, second := newGuarded(t).guard, newGuarded(t).guard
			value, key := make([]byte, 1<<10), 0
			fill := func(until func() bool) {
				for ; key < 400<<10 && !until(); key++ {
					lab.Must(t, c.Set(t.Context(), key, bytes.Clone(value)))
				}
			}
			lab.Must(t, c.Tune(strata.Tuning{Guard: first}))
			fill(func() bool { return first.Stats().Evicted >= 10_000 })
			if s := c.Stats().Guard; s.Evicted < 10_000 {
				t.Fatalf("the first guard: %+v", s)
			}
			// The floor is a number of bytes for the encoded form.
			lab.Must(t, c.Tune(strata.Tuning{Guard: second.Floor(map[string]int64{"values": floor, "encoded": floor << 10}[name])}))
			before := first.Stats().Evicted
			fill(func() bool { return second.Stats().Evicted >= 10_000 })
			if s := c.Stats().Guard; s.Evicted < 10_000 || first.Stats().Evicted != before || c.Len() < floor*9/10 {
				t.Errorf("the second guard: %+v; the first one has evicted %d more; %d entries are left", s, first.Stats().Evicted-before, c.Len())
			}
			lab.Must(t, c.Tune(strata.Tuning{Guard: new(memory.Guard)}))
			before, n := second.Stats().Evicted, c.Len()
			end := key + 5000
			fill(func() bool { return key == end })
			// An eviction that was under way when the guard left may come to its end: of an entry, or of a chunk of the
			// encoded form, which has up to 64 KiB.
			ends := map[string]int{"values": 10, "encoded": 64}[name]
			if s := c.Stats().Guard; s != (memory.GuardStats{}) || second.Stats().Evicted != before || c.Len() > n+5000 || c.Len() < n+5000-ends {
				t.Errorf("no guard: %+v; the second one has evicted %d more; %d entries, %d before", s, second.Stats().Evicted-before, c.Len(), n)
			}
			lab.Must(t, c.Close(context.Background()))
			if err := c.Tune(strata.Tuning{Guard: first}); !errors.Is(err, strata.ErrClosed) {
				t.Errorf("a closed cache is given to a guard: %v", err)
			}
		})
	}
}
