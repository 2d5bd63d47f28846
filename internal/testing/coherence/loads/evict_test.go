package loads_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/memory"
)

// left are the keys gone from L1, by the reason that a hook was told.
type left map[string][]string

func (l left) hooks() *strata.Hooks {
	return &strata.Hooks{Evict: func(e strata.Event) {
		l[e.Reason] = append(l[e.Reason], fmt.Sprint(e.Key))
	}}
}

func (l left) want(t *testing.T, reason string, keys int) {
	t.Helper()
	synctest.Wait()
	if len(l[reason]) != keys || len(l) != min(keys, 1) {
		t.Errorf("told of %v, want %d keys %q", l, keys, reason)
	}
	clear(l)
}

func TestDropOfEverythingFreesTheMemoryOfAllInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		told := left{}
		a := lab.Instance(t, s, lab.Forever[string, int64])
		b := lab.Instance(t, s, lab.Forever, func(o *strata.Options[string, int64]) { o.Hooks = told.hooks() })
		for i := range 100 {
			lab.Must(t, a.Set(t.Context(), fmt.Sprint(i), 1))
			synctest.Wait() // or the message of the Set takes the entry of b
			if _, ok := b.Get(t.Context(), fmt.Sprint(i)); !ok {
				t.Fatal("b does not get what a has set")
			}
		}
		lab.Must(t, a.InvalidateAll(t.Context()))
		if n := a.Len(); n != 0 {
			t.Errorf("%d entries where everything was invalidated", n)
		}
		time.Sleep(time.Second)
		if st := b.Stats(); b.Len() != 0 || st.Weight != 0 && !lab.Encoded() { // where empty tables count
			t.Errorf("%d entries of weight %d on the other instance a second later, want none", b.Len(), st.Weight)
		}
		told.want(t, "invalidated", 100)
	})
}

func TestDropOfATagFreesTheMemoryOfAllInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance(t, s, lab.Forever[string, int64]), lab.Instance(t, s, lab.Forever[string, int64])
		for i := range 100 {
			lab.Must(t, a.Set(t.Context(), fmt.Sprint(i), 1, strata.WithTags(fmt.Sprint("odd", i%2))))
			synctest.Wait()
			b.Get(t.Context(), fmt.Sprint(i))
		}
		if a.Len() != 100 || b.Len() != 100 {
			t.Fatalf("%d and %d entries, want 100", a.Len(), b.Len())
		}
		lab.Must(t, a.InvalidateTags(t.Context(), "odd1"))
		time.Sleep(time.Second)
		if a.Len() != 50 || b.Len() != 50 {
			t.Errorf("%d and %d entries, want the 50 without the tag", a.Len(), b.Len())
		}
		for i := range 5 { // a pass goes on for as long as drops come
			lab.Must(t, b.InvalidateTags(t.Context(), "odd0", fmt.Sprint("other", i)))
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if a.Len() != 0 || b.Len() != 0 {
			t.Errorf("%d and %d entries, want none", a.Len(), b.Len())
		}
	})
}

func TestEvictIsCalledForEveryWayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := left{}
		c := lab.NewCache(t, lab.Forever, func(o *strata.Options[string, int64]) {
			o.Hooks, o.Memory.MaxWeight = told.hooks(), 3
			o.Memory.Weigh = func(_ string, v int64) int64 { return v }
		})
		set := func(keys ...string) {
			for _, k := range keys {
				lab.Must(t, c.Set(t.Context(), k, 1))
			}
		}
		set("a", "a")
		told.want(t, "", 0) // replaced by a newer one
		lab.Must(t, c.Invalidate(t.Context(), "a", "none"))
		told.want(t, "invalidated", 1)
		set("a", "b")
		lab.Must(t, c.InvalidateAll(t.Context()))
		told.want(t, "invalidated", 2)
		set("a", "b", "c", "d")
		told.want(t, "evicted", 1)
		lab.Must(t, c.InvalidateAll(t.Context()))
		clear(told)

		set("a", "b", "c")
		_, err := c.GetMany(t.Context(), []string{"d"}, func(context.Context, []string) (map[string]int64, error) {
			return map[string]int64{"d": 1, "extra": 1}, nil
		})
		lab.Must(t, err)
		told.want(t, "evicted", 2)

		lab.Must(t, c.InvalidateAll(t.Context()))
		set("a")
		clear(told)
		lab.Must(t, c.Expire(t.Context(), "a"))
		_, _ = c.GetOrLoad(t.Context(), "a", func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound })
		told.want(t, "invalidated", 1)
		set("a", "b")
		lab.Must(t, c.Set(t.Context(), "a", 4))
		told.want(t, "rejected", 1)
		lab.Must(t, c.Close(t.Context()))
		if want := (left{"closed": {"b"}}); !maps.EqualFunc(told, want, func(a, b []string) bool { return len(a) == len(b) }) {
			t.Errorf("told of %v, want %v", told, want)
		}
	})
}

// TestMemoryPolicyDecidesWhatLeavesL1 reads the oldest of ten keys, the next one twice,
// and stores one more.
func TestMemoryPolicyDecidesWhatLeavesL1(t *testing.T) {
	for _, x := range []struct {
		policy memory.Policy
		share  float64
		want   string
	}{
		{memory.FIFO, 0, "[0]"},
		{memory.FIFO, 0.3, "[0 1 2]"},
		{memory.LRU, 0, "[2]"},
		{memory.LRU, 0.3, "[2 3 4]"},
		{memory.LFU, 0.5, "[2 3 4 5 6]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			told := left{}
			c := lab.NewCache(t, lab.Forever, func(o *strata.Options[string, int64]) {
				o.Hooks = told.hooks()
				o.Memory.MaxEntries, o.Memory.Policy, o.Memory.EvictShare = 10, x.policy, x.share
			})
			for i := range 10 {
				lab.Must(t, c.Set(t.Context(), fmt.Sprint(i), 1))
			}
			for _, k := range []string{"1", "0", "1"} {
				if _, ok := c.Get(t.Context(), k); !ok {
					t.Fatalf("%s is missed", k)
				}
			}
			lab.Must(t, c.Set(t.Context(), "new", 1))
			synctest.Wait()
			if got := fmt.Sprint(told["evicted"]); got != x.want {
				t.Errorf("%v, %v: evicts %s, want %s", x.policy, x.share, got, x.want)
			}
		})
	}
}

type requestKey struct{}

func TestHooksGetTheContextOfTheCallAndTheValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		note := func(what string) func(strata.Event) {
			return func(e strata.Event) {
				told = append(told, fmt.Sprint(what, " ", e.Key, "=", e.Value, " of ", e.Context.Value(requestKey{})))
			}
		}
		s := lab.NewShared()
		c := lab.Instance(t, s, lab.Windows(10*time.Second, time.Hour), lab.Negatives, func(o *strata.Options[string, int64]) {
			o.Hooks = &strata.Hooks{Hit: note("hit"), Miss: note("miss"), Load: note("load"), Stale: note("stale"), Evict: note("evict")}
		})
		request := context.WithValue(t.Context(), requestKey{}, "request")
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(told, want) {
				t.Errorf("told %q, want %q", told, want)
			}
			told = nil
		}
		load := func(context.Context, string) (int64, error) { return 5, nil }
		absent := func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound }

		c.Get(request, "k")
		expect("miss k=<nil> of request")
		_, _ = c.GetOrLoad(request, "k", load)
		expect("miss k=<nil> of request", "load k=5 of request")
		c.Get(request, "k")
		_, _ = c.GetOrLoad(request, "k", load)
		expect("hit k=5 of request", "hit k=5 of request")
		_, _ = c.GetMany(request, []string{"k", "l"}, func(context.Context, []string) (map[string]int64, error) {
			return map[string]int64{"l": 6}, nil
		})
		expect("hit k=5 of request", "miss l=<nil> of request", "load l=6 of request")
		_, _ = c.GetOrLoad(request, "none", absent)
		c.Get(request, "none")
		_, _ = c.GetMany(request, []string{"none"}, func(context.Context, []string) (map[string]int64, error) { return nil, nil })
		expect("miss none=<nil> of request", "load none=<nil> of request", "hit none=<nil> of request", "hit none=<nil> of request")

		time.Sleep(65 * time.Second)
		_, _ = c.GetOrLoad(request, "k", load)
		expect("stale k=5 of request", "load k=5 of request")
		lab.Must(t, c.Invalidate(request, "k"))
		expect("evict k=5 of <nil>")
	})
}
