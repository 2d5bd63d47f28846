//go:build !race

package strata_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/strata-cache/strata"
)

func TestHitAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	c := holding(t, "k")
	for name, get := range map[string]func(){
		"GetOrLoad": func() { c.GetOrLoad(ctx, "k", plainLoad) },
		"Get":       func() { c.Get(ctx, "k") },
	} {
		if n := testing.AllocsPerRun(1000, get); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
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
