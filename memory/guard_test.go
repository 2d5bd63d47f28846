package memory_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/memory"
)

// guardOf returns a guard for a process of 64 MiB, which ends with the test.
func guardOf(t *testing.T) *memory.Guard {
	t.Helper()
	g, err := memory.NewGuard(memory.GuardOptions{Limit: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// mostFilled is the number of KiB at which a test gives up to fill memory.
const mostFilled = 400 << 10

// TestGuardMakesACacheSmaller fills a cache that is bounded by its guard alone, and has pinned entries.
func TestGuardMakesACacheSmaller(t *testing.T) {
	g := guardOf(t)
	var evicted, others atomic.Uint64
	c := mustNew(t, memory.Options[int, []byte]{
		MaxEntries: 1 << 30, Guard: g,
		Weigh: func(key int, _ []byte) int64 {
			if key < 100 {
				return memory.Pinned
			}
			return 1
		},
		OnEvict: func(_ int, _ []byte, why memory.Reason) {
			if why == memory.Evicted {
				evicted.Add(1)
			} else {
				others.Add(1)
			}
		},
	})
	defer c.Close()
	n := 0
	for ; n < mostFilled && g.Stats().Evicted < 50_000; n++ {
		if !c.Set(n, make([]byte, 1<<10)) {
			t.Fatal("not stored")
		}
	}
	s := g.Stats()
	if s.Evicted == 0 || s.Episodes != 1 || !s.Active || s.Limit != 64<<20 || s.Source != "Limit" || s.Ceiling <= 0 || s.Ceiling > 45<<20 {
		t.Fatalf("%d KiB are in a process of 64 MiB: %+v", n, s)
	}
	g.Close()
	// A goroutine of the cache may be about to tell the last ones.
	for begun := time.Now(); time.Since(begun) < 10*time.Second && evicted.Load() != c.Stats().Evicted; {
		runtime.Gosched()
	}
	// Two goroutines that pay the end of a debt may evict an entry more than it has. A slice of 256 evictions
	// ends when the guard leaves.
	if e := evicted.Load(); e < g.Stats().Evicted || e > g.Stats().Evicted+200 || int(e) != n-c.Len() || others.Load() > 0 || c.Stats().Evicted != e {
		t.Errorf("%d of %d stored were told as evicted, %d as others, the guard counts %d, the cache holds %d", e, n, others.Load(), g.Stats().Evicted, c.Len())
	}
	if each := g.Stats().EvictedBytes / s.Evicted; each < 1<<9 || each > 1<<11 {
		t.Errorf("an entry of 1 KiB counts as %d bytes", each)
	}
	for key := range 100 {
		if _, ok := c.Get(key); !ok {
			t.Fatalf("pinned entry %d is gone", key)
		}
	}
}

// TestGuardMakesAByteCacheSmaller gives a cache to one guard after the other.
func TestGuardMakesAByteCacheSmaller(t *testing.T) {
	before, g := guardOf(t), guardOf(t)
	c, err := memory.NewByteCache(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	c.SetGuard(before)
	c.SetGuard(g.Floor(1 << 20))
	value := make([]byte, 1<<10)
	most := int64(0)
	for n := 0; n < mostFilled && g.Stats().Evicted < 50_000; n++ {
		if !c.Set(binary.AppendUvarint(nil, uint64(n)), value) {
			t.Fatal("not stored")
		}
		most = max(most, c.Bytes())
	}
	if s := g.Stats(); s.Evicted == 0 || s.EvictedBytes == 0 || most > 64<<20 || c.Bytes() < 1<<20 {
		t.Errorf("%d MiB were held, %d are; %+v", most>>20, c.Bytes()>>20, s)
	}
	if s := before.Stats(); s.Evicted > 0 {
		t.Errorf("the guard of before has evicted, too: %+v", s)
	}
	c.SetGuard(nil)
	held := c.Bytes()
	for n := range 20_000 {
		c.Set(binary.AppendUvarint(nil, uint64(n)), value)
	}
	if c.Bytes() < held {
		t.Error("a cache without a guard is made smaller")
	}
}

// TestGuardOverClosedAndForgottenCaches closes a cache, forgets another one, and fills a third.
func TestGuardOverClosedAndForgottenCaches(t *testing.T) {
	g := guardOf(t)
	closed := mustNew(t, memory.Options[int, []byte]{Guard: g})
	closed.Set(1, nil)
	closed.Close()
	mustNew(t, memory.Options[int, []byte]{Guard: g}).Set(1, nil)
	runtime.GC()
	c := mustNew(t, memory.Options[int, []byte]{MaxEntries: 1 << 30, Guard: g.Floor(10), EvictShare: 0.1})
	defer c.Close()
	for n := 0; n < mostFilled && g.Stats().Evicted < 50_000; n++ {
		c.Set(n, make([]byte, 1<<10))
	}
	if g.Stats().Evicted == 0 || closed.Len() != 0 || closed.Set(2, nil) {
		t.Errorf("%+v, the closed cache has %d", g.Stats(), closed.Len())
	}
	want := max(10, c.Len()-5000)
	if err := c.Resize(want, 0); err != nil || c.Len() > want {
		t.Errorf("after Resize to %d: %d entries, %v", want, c.Len(), err)
	}
}

// TestGuardBesideAllElse stores, reads, moves a cache between guards, asks for numbers and closes at once.
func TestGuardBesideAllElse(t *testing.T) {
	g, other := guardOf(t), guardOf(t)
	b, err := memory.NewByteCache(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	c := mustNew(t, memory.Options[int, []byte]{MaxEntries: 1 << 30, Guard: g, OnEvict: func(int, []byte, memory.Reason) { g.Stats() }})
	defer c.Close()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 20_000 {
				key := w*1_000_000 + i
				c.Set(key, make([]byte, 1<<10))
				c.Get(key / 2)
				b.Set(binary.AppendUvarint(nil, uint64(key)), make([]byte, 1<<8))
				switch {
				case w == 0 && i%1000 == 0:
					b.SetGuard(g.Floor(int64(i)))
				case w == 1 && i%1000 == 500:
					b.SetGuard(other)
				case w == 2 && i%100 == 0:
					other.Stats()
				case w == 3 && i == 15_000:
					other.Close()
				}
			}
		})
	}
	wg.Wait()
	if s := g.Stats(); s.Evicted == 0 {
		t.Errorf("80 MiB and more were stored in a process of 64 MiB: %+v", s)
	}
}

// TestImpossibleGuardsAreRefused wants each field named in one error.
func TestImpossibleGuardsAreRefused(t *testing.T) {
	for _, o := range []memory.GuardOptions{
		{Limit: -1, Share: 0.96}, {Limit: 16<<20 - 1, Share: -0.1}, {Limit: 1, Share: math.NaN()}, {Limit: math.MinInt64, Share: math.Inf(1)},
	} {
		g, err := memory.NewGuard(o)
		if g != nil || err == nil || !strings.Contains(err.Error(), "Limit: ") || !strings.Contains(err.Error(), "Share: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []memory.GuardOptions{{}, {Limit: 16 << 20}, {Limit: math.MaxInt64, Share: 0.95}} {
		g, err := memory.NewGuard(o)
		if err != nil {
			t.Errorf("%+v: %v", o, err)
		}
		g.Close()
		g.Close()
	}
}

// TestNoGuard uses a nil Guard and the zero Guard.
func TestNoGuard(t *testing.T) {
	for _, g := range []*memory.Guard{nil, new(memory.Guard)} {
		c := mustNew(t, memory.Options[int, int]{Guard: g.Floor(3)})
		defer c.Close()
		b, err := memory.NewByteCache(memory.MinBytes)
		if err != nil {
			t.Fatal(err)
		}
		b.SetGuard(g)
		b.SetGuard(nil)
		if !c.Set(1, 1) || !b.Set([]byte("key"), nil) || g.Stats() != (memory.GuardStats{}) {
			t.Errorf("%v is something", g)
		}
		g.Close()
	}
}

func ExampleNewGuard() {
	var log bytes.Buffer
	guard, err := memory.NewGuard(memory.GuardOptions{
		Limit:  256 << 20, // without it GOMEMLIMIT, or the limit of a cgroup
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		panic(err)
	}
	defer guard.Close()

	users, err := memory.New(memory.Options[int, string]{MaxEntries: 1_000_000, Guard: guard})
	if err != nil {
		panic(err)
	}
	defer users.Close()
	pages, err := memory.NewByteCache(1 << 30)
	if err != nil {
		panic(err)
	}
	pages.SetGuard(guard.Floor(1 << 20)) // keeps a mebibyte at least

	users.Set(1, "Ada")
	pages.Set([]byte("/"), []byte("<html>"))
	s := guard.Stats()
	fmt.Println(s.Limit>>20, s.Source, s.Evicted, log.Len())
	// Output: 256 Limit 0 0
}
