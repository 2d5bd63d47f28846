package memory_test

import (
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/memory"
)

func TestOnEvictHearsOfEveryWayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left byReason
		c := mustNew(t, memory.Options[string, int]{
			MaxEntries: 5, MaxWeight: 100, OnEvict: left.add,
			Weigh: func(_ string, v int) int64 { return int64(v) },
		})
		c.SetTTL("expired", 1, time.Second)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		c.Set("replaced", 1)
		c.Set("replaced", 2)
		c.Delete("replaced")
		c.SetTTL("late", 1, 1500*time.Millisecond)
		time.Sleep(1500 * time.Millisecond)
		if c.Delete("late") {
			t.Fatal("an expired entry was deleted")
		}
		c.Set("rejected", 1)
		if c.Set("rejected", 101) {
			t.Fatal("too heavy but stored")
		}
		c.Set("computed", 1)
		c.Compute("computed", func(int, bool) (int, memory.Op) { return 0, memory.Remove })
		for _, k := range []string{"a", "b", "c", "evicted", "d", "e"} {
			c.Set(k, 1)
		}
		c.DeleteFunc(func(k string, _ int) bool { return k == "b" })
		c.Clear()
		c.Set("last", 1)
		c.Close()
		all := left.m[memory.Cleared]
		delete(left.m, memory.Cleared)
		left.want(t, map[memory.Reason][]string{
			memory.Expired:  {"expired", "late"},
			memory.Replaced: {"replaced"},
			memory.Rejected: {"rejected"},
			memory.Deleted:  {"replaced", "computed", "b"},
			memory.Evicted:  {"evicted"},
		})
		if len(all) != 5 || all[4] != "last" {
			t.Fatalf("cleared: %v", all)
		}
		if st := c.Stats(); st.Expired != 2 || st.Evicted != 1 || st.Rejected != 1 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestReasonsHaveNames(t *testing.T) {
	for _, x := range []struct {
		name string
		r    memory.Reason
	}{
		{"evicted", memory.Evicted},
		{"expired", memory.Expired},
		{"replaced", memory.Replaced},
		{"deleted", memory.Deleted},
		{"rejected", memory.Rejected},
		{"cleared", memory.Cleared},
		{"unknown", 0},
	} {
		if x.r.String() != x.name {
			t.Errorf("%d is %q, want %q", x.r, x.r, x.name)
		}
	}
}

func TestOnEvictMayUseTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *memory.Cache[int, int]
		var calls atomic.Int64
		c = mustNew(t, memory.Options[int, int]{MaxEntries: 10, OnEvict: func(k, v int, _ memory.Reason) {
			n := calls.Add(1)
			c.Get(k)
			switch {
			case n < 100:
				c.Set(k, v) // evicts another entry, which causes the next call
			case n == 100:
				c.Clear()
			}
		}})
		for k := range 11 {
			c.Set(k, k)
		}
		c.SetTTL(1, 1, time.Second)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if calls.Load() < 100 {
			t.Fatalf("%d calls", calls.Load())
		}
	})
}

// TestOnEvictThatPanicsHarmsNoCaller: neither the caller, nor the sweeper, nor
// later removals are affected.
func TestOnEvictThatPanicsHarmsNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(t, memory.Options[int, int]{MaxEntries: 10, OnEvict: func(int, int, memory.Reason) { panic("no") }})
		for k := range 20 {
			c.Set(k, k)
		}
		for k := range 10 {
			c.SetTTL(k, k, time.Duration(k+1)*time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := c.Stats(); st.CallbackPanics != 30 || st.Entries != 0 || st.Expired != 10 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestOnEvictThatEndsItsGoroutineDoesNotStopExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		c := mustNew(t, memory.Options[int, int]{TTL: time.Second, OnEvict: func(int, int, memory.Reason) {
			calls.Add(1)
			runtime.Goexit()
		}})
		for k := range 4 {
			c.SetTTL(k, k, time.Duration(k+1)*time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if c.Len() != 0 || calls.Load() != 4 {
			t.Fatalf("%d left after %d calls", c.Len(), calls.Load())
		}
	})
}

func TestWeigherThatPanicsChangesNothing(t *testing.T) {
	c := mustNew(t, memory.Options[string, int]{MaxWeight: 100, Weigh: func(_ string, v int) int64 {
		if v < 0 {
			panic("no")
		}
		return int64(v)
	}})
	c.Set("k", 5)
	for _, x := range []struct {
		name string
		call func()
	}{
		{"set", func() { c.Set("k", -1) }},
		{"set if absent", func() { c.SetIfAbsent("other", -1) }},
		{"compute", func() { c.Compute("k", func(int, bool) (int, memory.Op) { return -1, memory.Store }) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			defer func() {
				if recover() != "no" {
					t.Fatal("the panic did not reach the caller")
				}
				mustHold(t, c, "k", 5)
				if c.Len() != 1 || c.Weight() != 5 {
					t.Fatalf("%d entries of weight %d", c.Len(), c.Weight())
				}
			}()
			x.call()
		})
	}
}

func TestWeightBelowOneCountsAsOne(t *testing.T) {
	c := mustNew(t, memory.Options[int, int]{MaxWeight: 100, Weigh: func(_, v int) int64 { return int64(v) }})
	for k := range 1000 {
		c.Set(k, []int{0, -1, math.MinInt, 1}[k%4])
	}
	if c.Len() != 100 || c.Weight() != 100 {
		t.Fatalf("%d entries of weight %d", c.Len(), c.Weight())
	}
}
