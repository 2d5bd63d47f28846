//go:build !race

package strata_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

func TestHitAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	c := holding(t, "k")
	if err := c.Set(ctx, "tagged", 1, strata.WithTags("a", "b")); err != nil {
		t.Fatal(err)
	}
	for name, get := range map[string]func(){
		"GetOrLoad of an entry with tags": func() { c.GetOrLoad(ctx, "tagged", plainLoad) },

		"GetOrLoad": func() { c.GetOrLoad(ctx, "k", plainLoad) },
		"Get":       func() { c.Get(ctx, "k") },
		"GetOrLoad with options for loads": func() {
			c.GetOrLoad(ctx, "k", plainLoad, strata.WithTTL(time.Minute), strata.NoRemote(), strata.CallOption{})
		},
		"Get with an option": func() { c.Get(ctx, "k", strata.AllowStale()) },
	} {
		if n := testing.AllocsPerRun(1000, get); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

// TestHitAllocatesNothingWhileAPageCountsHotKeys has runs of so many hits that some are samples.
func TestHitAllocatesNothingWhileAPageCountsHotKeys(t *testing.T) {
	ctx := context.Background()
	c := holding(t, "k")
	transfer.Parts(c.Inside()).Panel().Watch()
	if n := testing.AllocsPerRun(100, func() {
		for range 256 {
			c.Get(ctx, "k")
		}
	}); n != 0 {
		t.Errorf("%v allocations in 256 hits, want 0", n)
	}
	if h := transfer.Parts(c.Inside()).Panel().Hot(); h.Sampled < 100 || len(h.ByReads) != 1 {
		t.Errorf("%d samples, %d keys", h.Sampled, len(h.ByReads))
	}
}

// TestEmptyCacheAllocatesLittle has two processors: tables of counters and locks grow with
// their number.
func TestEmptyCacheAllocatesLittle(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	const n = 50
	caches := make([]*strata.Cache[string, int64], n)
	var before, after runtime.MemStats
	for range 2 { // some of what the first one makes is for all of them
		clear(caches)
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range caches {
			c, err := strata.New(strata.Options[string, int64]{TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			caches[i] = c
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		for _, c := range caches {
			c.Close(t.Context())
		}
	}
	bytes, objects := (after.HeapAlloc-before.HeapAlloc)/n, (after.HeapObjects-before.HeapObjects)/n
	t.Logf("an empty cache takes %d bytes in %d objects", bytes, objects)
	if bytes > 20_000 || objects > 70 {
		t.Errorf("an empty cache takes %d bytes in %d objects, want at most 20,000 in 70", bytes, objects)
	}
}

func TestMissWithoutL2AllocatesAtMostThreeTimes(t *testing.T) {
	ending, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, ctx := range map[string]context.Context{
		"context without an end": context.Background(),
		"context with an end":    ending,
	} {
		c := holding(t, "k")
		key := 0
		keys := make([]string, 2000)
		for i := range keys {
			keys[i] = "key " + strconv.Itoa(i)
		}
		miss := func() { key++; c.GetOrLoad(ctx, keys[key], plainLoad) }
		if n := testing.AllocsPerRun(1000, miss); n > 3 {
			t.Errorf("%s: %v allocations, want 3 at most", name, n)
		}
	}
}

// remembering is a tier with a Read that allocates nothing: it repeats the results of
// earlier reads.
type remembering struct {
	*stratatest.Tier
	held map[string]remote.Held
}

func (r remembering) Bind(s remote.Space) remote.Tier {
	return remembering{r.Tier.Bind(s).(*stratatest.Tier), r.held}
}

func (r remembering) Self() remote.Tier { return r }

func (r remembering) Read(ctx context.Context, timeout time.Duration, key string, dst []byte) (remote.Held, error) {
	h, ok := r.held[key]
	if !ok {
		var err error
		if h, err = r.Tier.Read(ctx, timeout, key, nil); err != nil {
			return h, err
		}
		r.held[key] = h
	}
	h.Data = append(dst[:0], h.Data...)
	return h, nil
}

// TestHitInL2AllocatesTheValueAndTheEntry reads two keys in turn with room for one of
// them in L1.
func TestHitInL2AllocatesTheValueAndTheEntry(t *testing.T) {
	o := strata.Options[string, []byte]{Name: "c", TTL: time.Hour, Memory: strata.Memory[string, []byte]{MaxEntries: 1}}
	o.Remote.Tier = remembering{stratatest.NewTier(), map[string]remote.Held{}}
	c, err := strata.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ending, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer c.Close(ending)
	keys := []string{"a", "b"}
	for _, k := range keys {
		if err := c.Set(ending, k, []byte("the value of "+k)); err != nil {
			t.Fatal(err)
		}
	}
	load := func(context.Context, string) ([]byte, error) { return nil, errors.New("not in L2") }
	i := 0
	hit := func() {
		k := keys[i%2]
		if v, err := c.GetOrLoad(ending, k, load); err != nil || string(v) != "the value of "+k {
			t.Fatalf("%q: %q, %v", k, v, err)
		}
		i++
	}
	if n := testing.AllocsPerRun(1000, hit); n > 2 {
		t.Errorf("%v allocations, want 2 at most", n)
	}
	if st := c.Stats(); st.L2.Hits < 1000 {
		t.Errorf("%d hits in L2, want all", st.L2.Hits)
	}
}

func TestGetManyOfHitsAllocatesItsResultOnly(t *testing.T) {
	c, held := holding(t, "k"), map[string]int64{}
	for i := range 100 {
		held["key "+strconv.Itoa(i)] = 1
	}
	if err := c.SetMany(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	keys := slices.Collect(maps.Keys(held))
	result := testing.AllocsPerRun(100, func() { held = make(map[string]int64, len(keys)) })
	if n := testing.AllocsPerRun(100, func() { held, _ = c.GetMany(t.Context(), keys, nil, strata.WithTTL(time.Minute)) }); n > result || len(held) != 100 {
		t.Errorf("%v allocations for %d values, want those of the map, %v", n, len(held), result)
	}
}

func TestGetManyOfMissesAllocatesLessThanTwicePerKey(t *testing.T) {
	c := holding(t, "k")
	key := 0
	values := make(map[string]int64, 100)
	load := func(_ context.Context, keys []string) (map[string]int64, error) {
		for _, k := range keys {
			values[k] = 1
		}
		return values, nil
	}
	all := make([]string, 12_000)
	for i := range all {
		all[i] = "key " + strconv.Itoa(i)
	}
	many := func() {
		clear(values)
		c.GetMany(context.Background(), all[key:key+100], load)
		key += 100
	}
	if n := testing.AllocsPerRun(100, many); n >= 200 {
		t.Errorf("%v allocations, want less than 200 for 100 keys", n)
	}
}

func TestSetInMemoryAllocatesItsEntryOnly(t *testing.T) {
	for name, called := range map[string]string{"with snapshots": "c", "without": ""} {
		o := strata.Options[string, int]{Name: called, TTL: time.Hour, Memory: strata.Memory[string, int]{MaxEntries: 100}}
		c, err := strata.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		if n := testing.AllocsPerRun(1000, func() { c.Set(context.Background(), "k", 7) }); n != 1 {
			t.Errorf("%s: %v allocations, want 1", name, n)
		}
	}
}

func TestInvalidateOfAbsentKeyAllocatesNothing(t *testing.T) {
	c := holding(t, "k")
	if n := testing.AllocsPerRun(1000, func() { c.Invalidate(context.Background(), "absent") }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// heap returns the bytes that the collector keeps.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestEntryOfTwoWordsAllocatesLessThan100Bytes(t *testing.T) {
	const n = 100_000
	c, err := strata.New(strata.Options[uint64, uint64]{TTL: time.Hour, Memory: strata.Memory[uint64, uint64]{MaxEntries: n}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	before := heap()
	for i := range uint64(n) {
		if err := c.Set(t.Context(), i, i); err != nil {
			t.Fatal(err)
		}
	}
	if each := float64(heap()-before) / n; each >= 100 {
		t.Errorf("%.0f bytes per entry, want less than 100: 48 for the entry, 24 to find it, 24 for its order", each)
	}
	if held := c.Len(); held != n {
		t.Errorf("%d entries of %d", held, n)
	}
}
