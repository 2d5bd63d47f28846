package memory_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/memory"
)

// mustNew makes a cache that the test closes at its end.
func mustNew[K comparable, V any](t testing.TB, o memory.Options[K, V]) *memory.Cache[K, V] {
	t.Helper()
	c, err := memory.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// mustHold fails unless key holds the value.
func mustHold[K, V comparable](t *testing.T, c *memory.Cache[K, V], key K, want V) {
	t.Helper()
	if got, ok := c.Peek(key); !ok || got != want {
		t.Fatalf("%v holds %v, %v; want %v", key, got, ok, want)
	}
}

// mustMiss fails if key holds anything.
func mustMiss[K comparable, V any](t *testing.T, c *memory.Cache[K, V], key K) {
	t.Helper()
	if got, ok := c.Peek(key); ok {
		t.Fatalf("%v holds %v", key, got)
	}
}

// byReason collects the calls of OnEvict.
type byReason struct {
	mu sync.Mutex
	m  map[memory.Reason][]string
}

func (b *byReason) add(key string, _ int, why memory.Reason) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m == nil {
		b.m = map[memory.Reason][]string{}
	}
	b.m[why] = append(b.m[why], key)
}

func (b *byReason) want(t *testing.T, want map[memory.Reason][]string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !maps.EqualFunc(b.m, want, slices.Equal) {
		t.Fatalf("left: %v, want %v", b.m, want)
	}
}

func TestNewNamesEveryBadField(t *testing.T) {
	weigh := func(int, int) int64 { return 1 }
	for _, x := range []struct {
		name string
		o    memory.Options[int, int]
		want []string
	}{
		{"zero value", memory.Options[int, int]{}, nil},
		{"all set", memory.Options[int, int]{MaxEntries: 1, MaxWeight: 1, Weigh: weigh, TTL: 1}, nil},
		{"no expiry written", memory.Options[int, int]{TTL: memory.NoExpiry}, nil},
		{"weigh alone", memory.Options[int, int]{Weigh: weigh}, nil},
		{"negative entries", memory.Options[int, int]{MaxEntries: -1}, []string{"MaxEntries"}},
		{"weight without a measure", memory.Options[int, int]{MaxWeight: 1}, []string{"MaxWeight"}},
		{"everything", memory.Options[int, int]{MaxEntries: -1, MaxWeight: -1, TTL: -1}, []string{"MaxEntries", "MaxWeight", "TTL"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, err := memory.New(x.o)
			if len(x.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				c.Close()
				return
			}
			if err == nil || c != nil {
				t.Fatalf("New = %v, %v", c, err)
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(x.want) {
				t.Fatalf("%q, want one line for each of %v", lines, x.want)
			}
			for i, field := range x.want {
				if !strings.HasPrefix(lines[i], "memory: "+field+": ") {
					t.Fatalf("%q does not name %s", lines[i], field)
				}
			}
		})
	}
}

func TestZeroOptionsAreBounded(t *testing.T) {
	c := mustNew(t, memory.Options[int, int]{})
	for k := range 2 * 10_000 {
		c.Set(k, k)
	}
	if c.Len() != 10_000 || c.Weight() != 10_000 {
		t.Fatalf("%d entries of weight %d", c.Len(), c.Weight())
	}
}

func TestGetReturnsTheStoredValue(t *testing.T) {
	c := mustNew(t, memory.Options[string, int]{})
	if v, ok := c.Get("k"); ok || v != 0 {
		t.Fatalf("empty cache has %v", v)
	}
	c.Set("k", 1)
	c.Set("k", 2)
	if v, ok := c.Get("k"); !ok || v != 2 {
		t.Fatalf("%v, %v", v, ok)
	}
	if !c.Delete("k") || c.Delete("k") {
		t.Fatal("Delete does not delete exactly once")
	}
	c.Get("k")
	st := c.Stats()
	if st.Hits != 1 || st.Misses != 2 || st.Entries != 0 || st.HitRatio() != 1.0/3 {
		t.Fatalf("%+v", st)
	}
	if (memory.Stats{}).HitRatio() != 0 {
		t.Fatal("hit ratio of nothing")
	}
}

func TestEntriesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(t, memory.Options[string, int]{TTL: 10 * time.Second})
		time.Sleep(time.Hour) // a life begins with its Set, not with the cache
		c.Set("default", 1)
		c.SetTTL("short", 1, time.Second)
		c.SetTTL("long", 1, time.Hour)
		c.SetTTL("huge", 1, math.MaxInt64-1)
		c.SetTTL("never", 1, memory.NoExpiry)
		for _, x := range []struct {
			sleep time.Duration
			left  []string
		}{
			{time.Second - 1, []string{"default", "huge", "long", "never", "short"}},
			{1, []string{"default", "huge", "long", "never"}},
			{9*time.Second - 1, []string{"default", "huge", "long", "never"}},
			{1, []string{"huge", "long", "never"}},
			{time.Hour, []string{"huge", "never"}},
			{10 * 365 * 24 * time.Hour, []string{"huge", "never"}},
		} {
			time.Sleep(x.sleep)
			if left := slices.Sorted(maps.Keys(maps.Collect(c.All()))); !slices.Equal(left, x.left) {
				t.Fatalf("%v left, want %v", left, x.left)
			}
		}
	})
}

func TestSetTTLWithoutTimeDeletes(t *testing.T) {
	c := mustNew(t, memory.Options[string, int]{})
	for _, ttl := range []time.Duration{0, -1, math.MinInt64} {
		c.Set("k", 1)
		if c.SetTTL("k", 2, ttl) {
			t.Fatal("stored")
		}
		mustMiss(t, c, "k")
	}
}

func TestSetIfAbsentStoresOnce(t *testing.T) {
	c := mustNew(t, memory.Options[string, int]{})
	var stored atomic.Int64
	var wg sync.WaitGroup
	values := make([]int, 8)
	for g := range values {
		wg.Go(func() {
			v, ok := c.SetIfAbsent("k", g)
			values[g] = v
			if ok {
				stored.Add(1)
			}
		})
	}
	wg.Wait()
	if stored.Load() != 1 || slices.Min(values) != slices.Max(values) {
		t.Fatalf("stored %d times; seen %v", stored.Load(), values)
	}
	mustHold(t, c, "k", values[0])
}

func TestSetIfAbsentTakesTheExpiredForAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left byReason
		c := mustNew(t, memory.Options[string, int]{TTL: 1500 * time.Millisecond, OnEvict: left.add})
		c.Set("k", 1)
		time.Sleep(1500 * time.Millisecond) // dead, but not swept before the end of its second
		if v, ok := c.SetIfAbsent("k", 2); !ok || v != 2 {
			t.Fatalf("%v, %v", v, ok)
		}
		left.want(t, map[memory.Reason][]string{memory.Expired: {"k"}})
	})
}

func TestComputeCarriesOutTheOperation(t *testing.T) {
	for _, x := range []struct {
		name   string
		before int // 0: absent
		op     memory.Op
		after  int
	}{
		{"store over nothing", 0, memory.Store, 7},
		{"store over something", 1, memory.Store, 7},
		{"keep nothing", 0, memory.Keep, 0},
		{"keep something", 1, memory.Keep, 1},
		{"remove nothing", 0, memory.Remove, 0},
		{"remove something", 1, memory.Remove, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := mustNew(t, memory.Options[string, int]{})
			if x.before != 0 {
				c.Set("k", x.before)
			}
			v, ok := c.Compute("k", func(old int, ok bool) (int, memory.Op) {
				if old != x.before || ok != (x.before != 0) {
					t.Errorf("called with %v, %v", old, ok)
				}
				return 7, x.op
			})
			if v != x.after || ok != (x.after != 0) {
				t.Fatalf("%v, %v; want %v", v, ok, x.after)
			}
			if held, _ := c.Peek("k"); held != x.after {
				t.Fatalf("holds %v, want %v", held, x.after)
			}
		})
	}
}

func TestComputeLosesNoUpdate(t *testing.T) {
	c := mustNew(t, memory.Options[string, int]{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 3000 {
				c.Compute("n", func(old int, _ bool) (int, memory.Op) { return old + 1, memory.Store })
				if i%100 == 0 { // removes a key and stores it again
					c.Compute("n", func(old int, _ bool) (int, memory.Op) { return old - 1, memory.Store })
					c.Compute("n", func(old int, _ bool) (int, memory.Op) { return old + 1, memory.Store })
				}
			}
		})
	}
	wg.Wait()
	mustHold(t, c, "n", 12_000)
}

// TestComputeRetriesAfterAnotherWrite writes the key in the function itself.
func TestComputeRetriesAfterAnotherWrite(t *testing.T) {
	for _, x := range []struct {
		name  string
		op    memory.Op
		other func(c *memory.Cache[string, int])
		want  int
	}{
		{"store after set", memory.Store, func(c *memory.Cache[string, int]) { c.Set("k", 10) }, 11},
		{"store after delete", memory.Store, func(c *memory.Cache[string, int]) { c.Delete("k") }, 1},
		{"remove after set", memory.Remove, func(c *memory.Cache[string, int]) { c.Set("k", 10) }, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := mustNew(t, memory.Options[string, int]{})
			c.Set("k", 5)
			calls := 0
			v, _ := c.Compute("k", func(old int, _ bool) (int, memory.Op) {
				if calls++; calls == 1 {
					x.other(c)
				}
				return old + 1, x.op
			})
			if held, _ := c.Peek("k"); calls != 2 || v != x.want || held != x.want {
				t.Fatalf("%d calls, returned %d, holds %d, want %d", calls, v, held, x.want)
			}
		})
	}
}

func TestComputeThatPanicsChangesNothing(t *testing.T) {
	c := mustNew(t, memory.Options[string, int]{})
	c.Set("k", 1)
	func() {
		defer func() {
			if recover() != "no" {
				t.Error("the panic did not reach the caller")
			}
		}()
		c.Compute("k", func(int, bool) (int, memory.Op) { panic("no") })
	}()
	mustHold(t, c, "k", 1)
	if !c.Set("k", 2) {
		t.Fatal("Set refused")
	}
}

func TestDeleteFuncMayUseTheCache(t *testing.T) {
	c := mustNew(t, memory.Options[int, int]{})
	for k := range 100 {
		c.Set(k, k)
	}
	n := c.DeleteFunc(func(k, v int) bool {
		c.Get(k)
		if k == 50 {
			c.Set(50, 51) // replaced while f runs: stays
		}
		return v%2 == 0
	})
	if n != 49 || c.Len() != 51 {
		t.Fatalf("deleted %d, %d left", n, c.Len())
	}
	mustHold(t, c, 50, 51)
}

func TestHottestIsTheMostRead(t *testing.T) {
	c := mustNew(t, memory.Options[int, int]{})
	for k := range 100 {
		c.Set(k, k)
	}
	for range 3 {
		c.Get(42)
		c.Get(7)
	}
	if hot := slices.Sorted(maps.Keys(maps.Collect(c.Hottest(2)))); !slices.Equal(hot, []int{7, 42}) {
		t.Fatalf("%v", hot)
	}
	for range c.Hottest(2) {
		break
	}
	for range c.All() {
		break
	}
}

func TestResizeChecksAndEvicts(t *testing.T) {
	c := mustNew(t, memory.Options[int, int]{MaxEntries: 100})
	for k := range 100 {
		c.Set(k, k)
	}
	for _, x := range []struct {
		name    string
		entries int
		weight  int64
		ok      bool
		length  int
	}{
		{"negative", -1, 0, false, 100},
		{"weight without a measure", 10, 10, false, 100},
		{"smaller", 10, 0, true, 10},
		{"default", 0, 0, true, 10},
	} {
		t.Run(x.name, func(t *testing.T) {
			if err := c.Resize(x.entries, x.weight); (err == nil) != x.ok || c.Len() != x.length {
				t.Fatalf("%v, %d entries", err, c.Len())
			}
		})
	}
	for k := range 2 * 10_000 {
		c.Set(k, k)
	}
	if c.Len() != 10_000 {
		t.Fatalf("%d entries", c.Len())
	}
}

func TestClosedCacheHoldsNothing(t *testing.T) {
	c := mustNew(t, memory.Options[int, int]{TTL: time.Hour})
	c.Set(1, 1)
	c.Close()
	if c.Set(1, 1) || c.Len() != 0 {
		t.Fatal("it stores")
	}
	if v, ok := c.SetIfAbsent(1, 5); ok || v != 5 {
		t.Fatalf("SetIfAbsent = %v, %v", v, ok)
	}
	if _, ok := c.Compute(1, func(int, bool) (int, memory.Op) { return 1, memory.Store }); ok {
		t.Fatal("Compute stores")
	}
	if _, ok := c.Get(1); ok {
		t.Fatal("it holds")
	}
	c.Clear()
}

// TestLoweredCacheGivesItsMemoryBack measures the heap, for each policy.
func TestLoweredCacheGivesItsMemoryBack(t *testing.T) {
	const n = 60_000
	for _, p := range []memory.Policy{memory.A3FIFO, memory.LRU, memory.LFU, memory.FIFO, memory.Random} {
		before := liveHeap()
		c := mustNew(t, memory.Options[int, int]{MaxEntries: n, Policy: p, TTL: time.Hour})
		for i := range n {
			c.Set(i, i)
		}
		full := liveHeap() - before
		for c.Len() > n/100 {
			if err := c.Resize(max(n/100, c.Len()-15_000), 0); err != nil { // leaves nothing to the background
				t.Fatal(err)
			}
		}
		if low := liveHeap() - before; low > full/10 {
			t.Errorf("%v: %d entries take %d bytes, %d took %d", p, c.Len(), low, n, full)
		}
		c.Close()
	}
}
