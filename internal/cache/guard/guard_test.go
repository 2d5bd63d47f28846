package guard

import (
	"bytes"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a cache of units of a size, in a heap.
type fake struct {
	mu          sync.Mutex
	size, units int64
	hits        uint64
	owed, shed  int64
	poke        func()
	lazy        bool // Settle does nothing
}

func (f *fake) Usage() (int64, uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.units, f.hits
}

func (f *fake) Shed() (entries, units int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shed, f.shed
}

func (f *fake) Owe(units int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owed = units
}

func (f *fake) Settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := min(f.owed, f.units); !f.lazy {
		f.units -= n
		f.shed += n
		f.owed = 0
	}
}

func (f *fake) Guarded(poke func()) { f.poke = poke }

func (f *fake) change(units int64, hits uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.units += units
	f.hits += hits
}

const mib = 1 << 20

// heap is a process with caches, a ceiling of 70 MiB, and some heap beside.
type heap struct {
	*state
	r      reading
	beside int64
	caches []*fake
	log    bytes.Buffer
}

func newHeap(limit int64, caches ...*fake) *heap {
	h := &heap{caches: caches, r: reading{memLimit: math.MaxInt64, percent: 100}}
	if limit > 0 {
		h.r.memLimit = limit
	}
	h.state = newState(Options{Share: 0.7, Logger: slog.New(slog.NewTextHandler(&h.log, nil))}, tree(nil), func() reading { return h.r })
	for _, c := range caches {
		Watch(&Guard{state: h.state}, c, c.size == 1)
	}
	return h
}

func (h *heap) size() int64 {
	n := h.beside
	for _, c := range h.caches {
		n += c.units * c.size
	}
	return n
}

// collect is a collection, 100 ms later, that finds the heap that it was before. The work of the guard is over
// when it returns.
func (h *heap) collect(live int64) {
	time.Sleep(100 * time.Millisecond)
	h.r.cycles++
	h.r.live = live
	h.look()
	synctest.Wait()
}

// TestHeapIsBroughtBelowTheCeiling grows a cache, with collections in between and without.
func TestHeapIsBroughtBelowTheCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fake{size: 1000}
		h := newHeap(100*mib, c)
		h.beside = 5 * mib
		for range 60 {
			c.change(1000, 0)
			h.collect(h.size())
		}
		if s := h.stats; c.shed != 0 || s.Episodes != 0 || s.Limit != 100*mib || s.Ceiling != 70*mib || s.Source != "GOMEMLIMIT" {
			t.Fatalf("below the ceiling: %d were evicted, %+v", c.shed, s)
		}
		// The collector does not run, but the cache has stores.
		for range 100 {
			c.change(1000, 0)
			time.Sleep(interval)
			c.poke()
			synctest.Wait()
			if h.size() > 72*mib || h.size() < 60*mib {
				t.Fatalf("the heap is %d MiB", h.size()/mib)
			}
		}
		if s := (&Guard{state: h.state}).Stats(); s.Episodes != 1 || !s.Active || s.Exhausted || s.Evicted != uint64(c.shed) || s.EvictedBytes < uint64(900*c.shed) || s.EvictedBytes > uint64(1100*c.shed) {
			t.Errorf("%+v after %d evictions", s, c.shed)
		}
		if text := h.log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "above 70 MiB") {
			t.Errorf("the log of an episode is %q", text)
		}
		h.collect(h.size())
		time.Sleep(quiet)
		h.collect(h.size())
		if h.stats.Active {
			t.Error("the episode does not end")
		}
	})
}

// TestEvictionIsNotRepeatedBeforeItShows has a heap beside the cache that grows at once, and collections that
// find what was evicted while they ran.
func TestEvictionIsNotRepeatedBeforeItShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fake{size: 1000}
		h := newHeap(100*mib, c)
		for range 40 {
			c.change(1000, 0)
			h.collect(h.size())
		}
		h.beside = 40 * mib
		before := h.size()
		h.collect(before)
		first := c.shed
		if n := first * 1000; n < 10*mib || n > 25*mib {
			t.Fatalf("%d MiB of %d MiB were evicted", n/mib, before/mib)
		}
		h.collect(before) // it has begun before the evictions
		h.collect(h.size())
		for range 10 {
			h.collect(h.size())
		}
		if extra := (c.shed - first) * 1000; extra > 8*mib || h.size() > 70*mib || h.size() < 55*mib {
			t.Errorf("%d MiB were evicted after %d MiB; the heap is %d MiB", extra/mib, first*1000/mib, h.size()/mib)
		}
	})
}

// TestUnpaidDebtIsNotDoubled has a cache without stores, and a goroutine of the guard that gets no time.
func TestUnpaidDebtIsNotDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fake{size: 1000, lazy: true}
		h := newHeap(100*mib, c)
		c.change(75_000, 0)
		for range 10 {
			h.collect(h.size())
		}
		if n := c.owed * 1000; n < 5*mib || n > 25*mib {
			t.Errorf("the cache owes %d MiB of %d MiB", n/mib, h.size()/mib)
		}
	})
}

// fill fills a cache up to the ceiling of 70 MiB within a few collections, and on. It fails the test if the heap does
// not stay below the ceiling, or falls far below. also is called before each of these collections.
func (h *heap) fill(t *testing.T, c *fake, also func()) {
	t.Helper()
	for n := int64(40); n <= 640; n *= 2 {
		also()
		c.change(n, 0)
		h.collect(h.size())
	}
	least, most := int64(math.MaxInt64), int64(0) // the ceiling is reached within 250 stores
	for n := range 1000 {
		c.change(10, 0)
		time.Sleep(interval)
		c.poke()
		synctest.Wait()
		if most = max(most, h.size()); n > 250 {
			least = min(least, h.size())
		}
		if n%100 == 99 {
			h.collect(h.size())
		}
	}
	if c.shed == 0 || most > 75*mib || least < 55*mib {
		t.Errorf("the heap was from %d to %d MiB, the ceiling is %d MiB; %d were evicted", least/mib, most/mib, h.stats.Ceiling/mib, c.shed)
	}
}

// TestCacheThatFillsBesideAnotherIsLearnedInTime has a cache with small entries, from whose sizes the first guess at others
// comes, and one with entries a thousand times as large.
func TestCacheThatFillsBesideAnotherIsLearnedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		little, large := &fake{size: 30}, &fake{size: 32 << 10}
		h := newHeap(100*mib, little, large)
		for range 6 {
			little.change(3000, 100)
			h.collect(h.size())
		}
		h.fill(t, large, func() { little.change(400, 100) })
		if size := h.living()[0].size; little.shed > 0 || size < 15 || size > 60 {
			t.Errorf("%d entries of the cache that is read were evicted; one has %v bytes", little.shed, size)
		}
	})
}

// TestSizesFollowWhatACacheIsFilledWith has a cache that gets large entries after it had small ones.
func TestSizesFollowWhatACacheIsFilledWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fake{size: 100}
		h := newHeap(100*mib, c)
		for range 6 {
			c.change(500, 100)
			h.collect(h.size())
		}
		c.change(-3000, 0)
		c.size = 32 << 10
		h.collect(h.size())
		h.fill(t, c, func() {})
	})
}

// TestColdCachePays has a cache that is read and one that is not, with units of different kinds.
func TestColdCachePays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hot, cold, inBytes := &fake{size: 1000}, &fake{size: 50}, &fake{size: 1}
		h := newHeap(100*mib, hot, cold, inBytes)
		for i := range 100 {
			hot.change(200, 2000)
			cold.change(4000, 10)
			inBytes.change(200_000, 2000)
			if h.collect(h.size()); i < 50 && hot.shed+cold.shed+inBytes.shed > 0 {
				t.Fatal("evicted below the ceiling")
			}
		}
		for range 200 {
			hot.change(200, 2000)
			inBytes.change(200_000, 2000)
			h.collect(h.size())
		}
		if cold.shed == 0 || hot.shed+inBytes.shed > 0 && cold.units*50 > hot.units*1000/10 {
			t.Errorf("the cold cache has lost %d and has %d, the hot ones have lost %d and %d", cold.shed, cold.units, hot.shed, inBytes.shed)
		}
		if hot.shed == 0 || inBytes.shed == 0 {
			t.Errorf("when the cold one is gone, the hot ones pay: %d, %d", hot.shed, inBytes.shed)
		}
		if a, b := hot.units*1000, inBytes.units; a < b*2/3 || b < a*2/3 {
			t.Errorf("caches that are read alike keep %d and %d bytes", a, b)
		}
	})
}

// TestFloorsHold has more heap beside the cache than there may be.
func TestFloorsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, other := &fake{size: 1000}, &fake{size: 1000}
		h := newHeap(100*mib, c)
		Watch((&Guard{state: h.state}).WithFloor(300), other, false)
		c.change(1000, 0)
		other.change(1000, 0)
		h.beside = 90 * mib
		for range 50 {
			h.collect(h.size())
		}
		if c.units > 1 || other.units != 300 {
			t.Errorf("%d and %d units are left", c.units, other.units)
		}
		if s := h.stats; !s.Exhausted || !s.Active || s.Episodes != 1 {
			t.Errorf("%+v", s)
		}
		h.beside = 0
		h.collect(h.size())
		if h.stats.Exhausted {
			t.Error("with memory again the guard is exhausted")
		}
	})
}

// TestWithoutALimitNothingIsEvicted says so once in the log.
func TestWithoutALimitNothingIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fake{size: 1000}
		h := newHeap(0, c)
		c.change(1e9, 0)
		h.collect(math.MaxInt64)
		if s := h.stats; c.shed > 0 || s.Limit != 0 || s.Ceiling != 0 || s.Active {
			t.Errorf("%d evicted, %+v", c.shed, s)
		}
		if text := h.log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "GOMEMLIMIT") {
			t.Errorf("the log is %q", text)
		}
		h.r.memLimit = 100 * mib // SetMemoryLimit, while the process runs
		h.r.live = 90 * mib
		h.collect(90 * mib)
		if c.shed == 0 {
			t.Error("a limit that comes later has no effect")
		}
	})
}

// TestLooksAreRare counts readings of the runtime.
func TestLooksAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fake{size: 1000}
		h := newHeap(100*mib, c)
		n := 0
		h.read = func() reading { n++; return h.r }
		readings := func() int {
			before := n
			for range 1000 {
				time.Sleep(time.Millisecond)
				c.poke()
			}
			return n - before
		}
		if n := readings(); n > 101 || n < 90 {
			t.Errorf("%d readings in a second", n)
		}
		time.Sleep(time.Hour)
		if n > 101 {
			t.Error("a process without stores has readings")
		}
	})
}

// TestClosedGuardDoesNothing closes a guard in all states.
func TestClosedGuardDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, later := &fake{size: 1000, lazy: true}, &fake{size: 1000}
		h := newHeap(100*mib, c)
		g := &Guard{state: h.state}
		c.change(90_000, 0)
		h.collect(h.size())
		if c.owed == 0 || !g.Stats().Active {
			t.Fatal("there is no episode")
		}
		g.Close()
		g.Close()
		if c.owed != 0 || c.poke != nil || g.Stats().Active || g.Stats().Episodes != 1 {
			t.Errorf("after Close the cache owes %d, %+v", c.owed, g.Stats())
		}
		Watch(g, later, false)
		later.change(90_000, 0)
		h.collect(h.size())
		h.collected()
		if later.poke != nil || later.owed+later.shed+c.owed+c.shed > 0 {
			t.Error("a closed guard guards")
		}
	})
}

// TestCacheLeavesAGuard takes a cache away while it owes something.
func TestCacheLeavesAGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeap(100 * mib)
		c := &fake{size: 1000, lazy: true}
		leave := Watch(&Guard{state: h.state}, c, false)
		c.change(90_000, 0)
		h.collect(h.size() + 90*mib)
		if c.owed == 0 {
			t.Fatal("the cache owes nothing")
		}
		c.shed = 7
		leave()
		h.collect(h.size() + 90*mib)
		if c.owed != 0 || c.poke != nil || h.stats.Evicted != 7 {
			t.Errorf("the cache owes %d, %+v", c.owed, h.stats)
		}
	})
}

// TestNilGuardGuardsNothing calls all methods.
func TestNilGuardGuardsNothing(t *testing.T) {
	var g *Guard
	if g.WithFloor(1) != nil || g.Stats() != (Stats{}) {
		t.Error("a nil guard is something")
	}
	c := &fake{}
	Watch(g, c, false)()
	g.Close()
	if c.poke != nil {
		t.Error("a nil guard guards")
	}
}

// TestGuardKeepsNoCacheAlive lets a cache become garbage.
func TestGuardKeepsNoCacheAlive(t *testing.T) {
	h := newHeap(100 * mib)
	gone := make(chan bool)
	func() {
		c := &fake{size: 1000}
		runtime.AddCleanup(c, func(int) { close(gone) }, 0)
		Watch(&Guard{state: h.state}, c, false)
	}()
	waiting := true
	for range 200 {
		if runtime.GC(); !waiting {
			break
		}
		select {
		case <-gone:
			waiting = false
		default:
			runtime.Gosched()
		}
	}
	if n := len(h.living()); waiting || n != 0 {
		t.Errorf("the cache is not garbage: %v; %d caches are known", waiting, n)
	}
}

// TestCollectionsBeginLooks has a real guard, and a cache without stores.
func TestCollectionsBeginLooks(t *testing.T) {
	g := New(Options{Limit: mib, Share: 0.7, Logger: slog.New(slog.DiscardHandler)})
	c := &fake{size: 1000}
	Watch(g, c, false)
	c.change(1000, 0)
	before := runtime.NumGoroutine()
	shed := func() bool { n, _ := c.Usage(); return n == 0 }
	for begun := time.Now(); time.Since(begun) < 20*time.Second && !shed(); {
		runtime.GC()
		runtime.Gosched()
	}
	if !shed() {
		t.Error("collections have begun no look that evicts all")
	}
	g.Close()
	if n := runtime.NumGoroutine(); n > before+1 { // the runtime has one for cleanups
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

// slow is a cache that waits while its guard leaves.
type slow struct {
	fake
	begun, wait chan struct{}
}

func (s *slow) Guarded(poke func()) {
	if poke == nil {
		close(s.begun)
		<-s.wait
	}
	s.fake.Guarded(poke)
}

// TestCacheKeepsItsNewGuardWhileTheOldOneCloses gives a cache to another guard while the first one tells its caches that
// it closes.
func TestCacheKeepsItsNewGuardWhileTheOldOneCloses(t *testing.T) {
	before, after := newHeap(100*mib), newHeap(100*mib)
	first := &slow{fake{size: 1}, make(chan struct{}), make(chan struct{})}
	moved := &fake{size: 1, units: 100}
	Watch(&Guard{state: before.state}, first, true)
	leave := Watch(&Guard{state: before.state}, moved, true)
	closed := make(chan struct{})
	go func() {
		(&Guard{state: before.state}).Close()
		close(closed)
	}()
	<-first.begun
	leave()
	Watch(&Guard{state: after.state}, moved, true)
	moved.Owe(50)
	close(first.wait)
	<-closed
	if moved.poke == nil || moved.owed != 50 || len(after.members) != 1 {
		t.Errorf("pokes its guard: %v; owes %d units; the guard has %d caches", moved.poke != nil, moved.owed, len(after.members))
	}
}
