package l1

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// forever makes an entry that does not expire.
func forever[K comparable, V any](key K, value V) *Entry[K, V] {
	return until(key, value, Forever)
}

// until makes an entry that dies at the given time.
func until[K comparable, V any](key K, value V, dead int64) *Entry[K, V] {
	return &Entry[K, V]{Head: evict.Head{Dead: dead}, Key: key, Value: value}
}

// mustHold fails unless key holds e, or holds nothing for a nil e.
func mustHold[K comparable, V any](t *testing.T, c *Cache[K, V], key K, e *Entry[K, V]) {
	t.Helper()
	if got, _ := c.Peek(key); got != e {
		t.Fatalf("%v holds %+v, want %+v", key, got, e)
	}
}

func TestBoundIsExactHoweverHashesFall(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 100, 511, 512, 513, 2047, 5000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := New(Config[int, int]{MaxEntries: int64(n)})
			defer c.Close()
			for k := range 5*n + 10 {
				e := forever(k, k)
				if _, ok := c.Set(e, 1); !ok {
					t.Fatal("Set refused")
				}
				if got, want := c.Len(), min(k+1, n); got != want {
					t.Fatalf("%d entries after %d, want %d", got, k+1, want)
				}
				mustHold(t, c, k, e)
			}
			validate(t, c)
		})
	}
}

func TestWeightBoundIsExact(t *testing.T) {
	c := New(Config[int, int]{MaxWeight: 10_000})
	defer c.Close()
	for k := range 20_000 {
		w := int64(k*7919%100 + 1)
		if k%1000 == 999 {
			w = 9000
		}
		e := forever(k, k)
		if _, ok := c.Set(e, w); !ok {
			t.Fatalf("Set of weight %d: %v", w, ok)
		}
		mustHold(t, c, k, e)
		if c.Weight() > 10_000 {
			t.Fatalf("weight %d after %d", c.Weight(), k)
		}
	}
	if c.Weight() < 9000 {
		t.Fatalf("weight %d: evicts more than it must", c.Weight())
	}
	validate(t, c)
}

// TestEmptiedShardRecovers: eviction must take from shards that hold more than
// their share, or a shard once emptied stays small for ever.
func TestEmptiedShardRecovers(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 4096})
	defer c.Close()
	if len(c.shards) < 4 {
		t.Skip("needs several shards")
	}
	next := 0
	fill := func(n int) {
		for range n {
			c.Set(forever(next, 0), 1)
			next++
		}
	}
	fill(4096)
	c.DeleteFunc(func(e *Entry[int, int]) bool { return c.shard(c.hash(e.Key)) == &c.shards[0] })
	fill(20_000)
	share := int64(4096 / len(c.shards))
	if got := c.shards[0].entries.Load(); got < share*3/4 {
		t.Fatalf("the emptied shard holds %d, its share is %d", got, share)
	}
	validate(t, c)
}

func TestTooHeavyEntryIsRefusedAndTheOldOneRemoved(t *testing.T) {
	var left []Reason
	c := New(Config[string, int]{MaxWeight: 10, Notify: func(_ *Entry[string, int], r Reason) { left = append(left, r) }})
	defer c.Close()
	c.Set(forever("k", 1), 10)
	removed, ok := c.Set(forever("k", 2), 11)
	c.Notify(removed)
	if ok || c.Len() != 0 || c.Stats().Rejected != 1 || !slices.Equal(left, []Reason{Rejected}) {
		t.Fatalf("ok %v, %d entries, %+v, left %v", ok, c.Len(), c.Stats(), left)
	}
	if _, o := c.SetIf(nil, forever("k", 3), math.MaxInt64); o != TooHeavy {
		t.Fatalf("SetIf = %v", o)
	}
	validate(t, c)
}

func TestWeightsAtTheirLimits(t *testing.T) {
	c := New(Config[int, int]{MaxWeight: math.MaxInt64})
	defer c.Close()
	e := forever(1, 1)
	if _, ok := c.Set(e, -5); !ok || c.Weight() != 0 {
		t.Fatalf("weight -5 counts as %d", c.Weight())
	}
	for k := range 200 { // the sum of weights would overflow
		if _, ok := c.Set(forever(k, k), math.MaxInt64); ok {
			t.Fatal("stored")
		}
		c.Set(forever(k, k), maxBound)
	}
	if c.Len() != 1 || c.Weight() != maxBound {
		t.Fatalf("%d entries of weight %d", c.Len(), c.Weight())
	}
	validate(t, c)
}

func TestReplaceKeepsStandingAndCorrectsWeight(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 3, MaxWeight: 100})
	defer c.Close()
	for k := range 3 {
		c.Set(forever(k, k), 10)
	}
	c.Get(0)
	c.Set(forever(0, 100), 50)
	if c.Weight() != 70 {
		t.Fatalf("weight %d, want 70", c.Weight())
	}
	c.Set(forever(3, 3), 1)
	if e, _ := c.Peek(0); e == nil || e.Value != 100 {
		t.Fatal("an entry lost its standing when it was replaced")
	}
	mustHold(t, c, 1, nil)
	validate(t, c)
}

func TestSwapLosesToAnyOtherWrite(t *testing.T) {
	c := New(Config[string, int]{MaxEntries: 10})
	defer c.Close()
	for _, x := range []struct {
		name  string
		write func()
	}{
		{"set", func() { c.Set(forever("k", 2), 1) }},
		{"swap", func() { e, _ := c.Peek("k"); c.Swap(e, forever("k", 2)) }},
		{"delete", func() { c.Delete("k") }},
		{"clear", c.Clear},
		{"delete and set again", func() { e, _ := c.Delete("k"); c.Set(forever("k", e.Value), 1) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			old := forever("k", 1)
			c.Set(old, 7)
			x.write()
			now, _ := c.Peek("k")
			if c.Swap(old, forever("k", 1)) || c.DeleteEntry(old) {
				t.Fatal("an entry that is gone was found")
			}
			mustHold(t, c, "k", now)
			validate(t, c)
		})
	}
}

func TestSwapMovesDeadlines(t *testing.T) {
	c := New(Config[string, int]{MaxEntries: 10})
	defer c.Close()
	e := forever("k", 1)
	c.Set(e, 3)
	for _, dead := range []int64{After(0, time.Hour), Forever, After(0, 2*time.Hour)} {
		next := until("k", 1, dead)
		if !c.Swap(e, next) {
			t.Fatal("Swap refused")
		}
		mustHold(t, c, "k", next)
		validate(t, c)
		e = next
	}
	if c.Weight() != 3 {
		t.Fatalf("weight %d, want 3", c.Weight())
	}
}

func TestPeekLeavesNoTrace(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 2})
	defer c.Close()
	c.Set(forever(0, 0), 1)
	c.Set(forever(1, 1), 1)
	for range 3 {
		c.Peek(1)
	}
	c.Peek(9)
	if st := c.Stats(); st.Hits+st.Misses != 0 {
		t.Fatalf("Peek was counted: %+v", st)
	}
	c.Set(forever(2, 2), 1) // takes the place of the newest: it was not hit
	mustHold(t, c, 1, nil)
}

func TestClosedCacheHoldsNothingAndRefuses(t *testing.T) {
	var left int
	c := New(Config[int, int]{MaxEntries: 10_000, Notify: func(_ *Entry[int, int], r Reason) {
		if r == Cleared {
			left++
		}
	}})
	for k := range 100 {
		c.Set(until(k, k, After(c.Now(), time.Hour)), 1)
	}
	c.Close()
	c.Close()
	if left != 100 || c.Len() != 0 || c.Weight() != 0 {
		t.Fatalf("%d notified, %d entries of weight %d left", left, c.Len(), c.Weight())
	}
	if _, ok := c.Set(forever(1, 1), 1); ok {
		t.Fatal("Set after Close")
	}
	if _, o := c.SetIf(nil, forever(1, 1), 1); o != Closed {
		t.Fatalf("SetIf after Close = %v", o)
	}
	if e, _ := c.Get(1); e != nil {
		t.Fatal("Get after Close")
	}
	if _, ok := c.Delete(1); ok || c.Resize(1, 0) != nil || c.Hottest(5) != nil {
		t.Fatal("a closed cache holds something")
	}
	validate(t, c)
}

func TestResizeKeepsTheEntriesThatFit(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 8192, Notify: func(*Entry[int, int], Reason) {}})
	defer c.Close()
	for k := range 8192 {
		c.Set(forever(k, k), 1)
	}
	for _, n := range []int{8000, 1000, 3, 1} {
		gone := c.Resize(int64(n), 0)
		if c.Len() != n {
			t.Fatalf("%d entries, want %d", c.Len(), n)
		}
		for _, r := range gone {
			if e, _ := c.Peek(r.Entry.Key); e != nil || r.Reason != Evicted {
				t.Fatalf("%v was %v but is held", r.Entry.Key, r.Reason)
			}
		}
		validate(t, c)
	}
	c.Resize(0, 0)
	c.Set(forever(-1, 0), 1)
	if c.Len() != 1 {
		t.Fatal("a Resize without a bound took the bound away")
	}
}

// TestEntryThatIsCooledAndNotReadHasNoUsesLeft cools an entry again and again, and renews it each
// time: a Renew does not count as a use.
func TestEntryThatIsCooledAndNotReadHasNoUsesLeft(t *testing.T) {
	for _, policy := range policies {
		c := New(Config[int, int]{MaxEntries: 100, Policy: policy})
		c.Set(forever(1, 1), 1)
		if e, _ := c.Peek(1); c.Cool(&e.Head) {
			t.Errorf("%v: an entry that was never read has uses", policy)
		}
		for range 5 {
			c.Get(1)
		}
		cooled := 0
		for range 5 {
			e, _ := c.Peek(1)
			if c.Cool(&e.Head) {
				cooled++
			}
			if _, ok := c.Renew(forever(1, 1), 1); !ok {
				t.Errorf("%v: not stored", policy)
			}
		}
		if cooled < 1 || cooled > evict.MaxUses {
			t.Errorf("%v: %d uses", policy, cooled)
		}
		c.Get(1)
		if e, _ := c.Peek(1); !c.Cool(&e.Head) {
			t.Errorf("%v: a read is not counted", policy)
		}
		c.Close()
	}
}

// TestRenewDoesNotProlongTheIdleLife stores an entry again and again that
// nothing reads.
func TestRenewDoesNotProlongTheIdleLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config[int, int]{MaxEntries: 100, IdleTTL: time.Minute})
		defer c.Close()
		c.Set(forever(1, 1), 1)
		for range 12 {
			time.Sleep(6 * time.Second)
			if e, _ := c.Peek(1); e != nil {
				c.Renew(forever(1, 1), 1)
			}
		}
		if e, _ := c.Peek(1); e != nil {
			t.Error("an entry that was not read for a minute is there")
		}
		c.Renew(forever(1, 2), 1)
		if e, _ := c.Peek(1); e == nil {
			t.Error("an entry that is new has no idle life of its own")
		}
	})
}

func TestHottestComesFirst(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 100})
	defer c.Close()
	for k := range 20 {
		c.Set(forever(k, k), 1)
		for range k % 4 {
			c.Get(k)
		}
	}
	hottest := c.Hottest(7)
	for i, e := range hottest {
		want := 3
		if i >= 5 {
			want = 2
		}
		if e.Key%4 != want {
			t.Fatalf("place %d has key %d", i, e.Key)
		}
	}
	if len(hottest) != 7 || len(c.Hottest(1000)) != 20 || len(c.Hottest(-1)) != 0 {
		t.Fatal("Hottest has the wrong length")
	}
}

// TestAllSurvivesChangesUnderIt changes the cache from inside the loop.
func TestAllSurvivesChangesUnderIt(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 100_000})
	defer c.Close()
	for k := range 1000 {
		c.Set(forever(k, 0), 1)
	}
	seen := map[int]int{}
	next := 1000
	for e := range c.All() {
		seen[e.Key]++
		for next < 20_000 && e.Key < 1000 { // makes tables grow
			c.Set(forever(next, 0), 1)
			if next++; next%50 == 0 {
				break
			}
		}
		c.Delete(500)
	}
	for k := range 1000 {
		if n := seen[k]; n != 1 && k != 500 || n > 1 {
			t.Fatalf("key %d seen %d times", k, n)
		}
	}
	for range c.All() {
		break
	}
	validate(t, c)
}

// TestAllFollowsATableThatWasReplaced: the entries of the old table do not
// belong to the cache any more.
func TestAllFollowsATableThatWasReplaced(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 100})
	defer c.Close()
	for k := range 5 {
		c.Set(forever(k, 0), 1)
	}
	first := true
	for e := range c.All() {
		if first {
			first = false
			for k := range 90 { // grows the table and changes all
				c.Set(forever(k, 1), 1)
			}
			c.Delete(4)
			continue
		}
		if e.Value != 1 || e.Key == 4 {
			t.Fatalf("key %d is seen with its old value", e.Key)
		}
	}
}

// TestUnreachableKeysAreStillBounded: a NaN is never found again.
func TestUnreachableKeysAreStillBounded(t *testing.T) {
	c := New(Config[float64, int]{MaxEntries: 10})
	defer c.Close()
	for i := range 100 {
		c.Set(forever(math.NaN(), i), 1)
	}
	if c.Len() != 10 {
		t.Fatalf("%d entries, want 10", c.Len())
	}
	if n := c.DeleteFunc(func(*Entry[float64, int]) bool { return true }); n != 10 || c.Len() != 0 {
		t.Fatalf("deleted %d, %d left", n, c.Len())
	}
	validate(t, c)
}

func TestIncomparableKeyPanicsAndLocksNothing(t *testing.T) {
	c := New(Config[any, int]{MaxEntries: 10})
	defer c.Close()
	for _, x := range []struct {
		name string
		call func()
	}{
		{"get", func() { c.Get([]int{1}) }},
		{"set", func() { c.Set(forever[any, int]([]int{1}, 1), 1) }},
		{"delete", func() { c.Delete([]int{1}) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("no panic")
				}
				e := forever[any, int]("fine", 1)
				c.Set(e, 1)
				mustHold[any, int](t, c, "fine", e)
			}()
			x.call()
		})
	}
}

func TestNotifyPanicsAreCaughtOneByOne(t *testing.T) {
	calls := 0
	c := New(Config[int, int]{MaxEntries: 10, Notify: func(*Entry[int, int], Reason) { calls++; panic("no") }})
	defer c.Close()
	for k := range 10 {
		c.Set(forever(k, k), 1)
	}
	c.Notify(c.Resize(5, 0))
	c.Clear()
	if calls != 10 || c.Stats().CallbackPanics != 10 {
		t.Fatalf("%d calls, %d panics counted, want 10", calls, c.Stats().CallbackPanics)
	}
}

func TestAfterSaturates(t *testing.T) {
	for _, x := range []struct {
		name string
		now  int64
		d    time.Duration
		want int64
	}{
		{"plain", 5, 7, 12},
		{"zero", 5, 0, 5},
		{"negative", 5, -1, 5},
		{"overflow", 5, math.MaxInt64 - 4, Forever},
		{"exactly the end", 5, math.MaxInt64 - 5, Forever},
		{"forever", 0, math.MaxInt64, Forever},
	} {
		t.Run(x.name, func(t *testing.T) {
			if got := After(x.now, x.d); got != x.want {
				t.Fatalf("%d, want %d", got, x.want)
			}
		})
	}
}

func TestGetAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	type pair struct {
		a string
		b int
	}
	pointed := new(int)
	t.Run("string", func(t *testing.T) { noAllocs(t, strings.Repeat("key", 20)) })
	t.Run("int", func(t *testing.T) { noAllocs(t, 12345678) })
	t.Run("struct", func(t *testing.T) { noAllocs(t, pair{"a", 1}) })
	t.Run("interface", func(t *testing.T) { noAllocs[any](t, pair{"a", 1}) })
	t.Run("pointer", func(t *testing.T) { noAllocs(t, pointed) })
}

func noAllocs[K comparable](t *testing.T, key K) {
	c := New(Config[K, string]{MaxEntries: 10})
	defer c.Close()
	c.Set(until(key, "value", After(c.Now(), time.Hour)), 1)
	if n := testing.AllocsPerRun(1000, func() {
		if e, _ := c.Get(key); e == nil {
			t.Error("missed")
		}
		c.Peek(key)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestShortStringKeyLiesBehindItsEntry(t *testing.T) {
	type name string
	type record struct{ id *int }
	c := New(Config[name, byte]{MaxEntries: 10})
	text := strings.Repeat("k", maxText+1)
	for n := range len(text) + 1 {
		id := new(int)
		key := name(text[:n])
		for i, e := range []*Entry[name, byte]{NewEntry(c, key, 1, Forever), NewEntryWith(c, key, 1, Forever, record{id})} {
			if e.Key != key || e.Value != 1 || e.Dead != Forever {
				t.Fatalf("%d bytes: %+v", n, e)
			}
			if i == 1 && Behind[record](e).id != id {
				t.Errorf("%d bytes: the key lies where the record should be", n)
			}
			from, at := uintptr(unsafe.Pointer(e)), uintptr(unsafe.Pointer(unsafe.StringData(string(e.Key))))
			behind := at > from && at-from <= unsafe.Sizeof(*e)+unsafe.Sizeof(record{})
			if want := 0 < n && n <= maxText; behind != want {
				t.Errorf("%d bytes, %d: the key lies behind its entry: %t, want %t", n, i, behind, want)
			}
			c.Set(e, 1)
			runtime.GC()
			if got, _ := c.Get(key); got != e {
				t.Errorf("%d bytes: got %v", n, got)
			}
		}
	}
}

func TestKeysThatAreNoStringsStayInTheirEntries(t *testing.T) {
	type pair struct{ a, b string }
	c := New(Config[pair, byte]{MaxEntries: 10})
	key := pair{"a", "b"}
	if e := NewEntry(c, key, 1, Forever); e.Key != key || unsafe.StringData(e.Key.a) != unsafe.StringData(key.a) {
		t.Errorf("%+v", e)
	}
}

func TestWhatLiesBehindAnEntryStaysThere(t *testing.T) {
	type record struct {
		id   uint64
		tags []string
	}
	c := New(Config[string, byte]{MaxEntries: 10})
	c.Set(NewEntryWith(c, "a", byte(1), Forever, record{7, []string{"x"}}), 1)
	c.Set(forever("b", byte(2)), 1)
	runtime.GC()
	e, _ := c.Get("a")
	if e == nil || e.Value != 1 {
		t.Fatalf("found %v", e)
	}
	if r := Behind[record](e); r.id != 7 || len(r.tags) != 1 || r.tags[0] != "x" {
		t.Errorf("%+v", r)
	}
}
