package agreement_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/memory"
)

// iterated returns the keys of All, Keys and Hottest, which must be the same, in
// alphabetical order.
func iterated[V any](t *testing.T, c *strata.Cache[string, V]) []string {
	t.Helper()
	all, keys, hottest := maps.Collect(c.All()), slices.Sorted(c.Keys()), maps.Collect(c.Hottest(1000))
	if a, h := slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(hottest)); !slices.Equal(a, keys) || !slices.Equal(h, keys) {
		t.Errorf("All has %v, Keys %v, Hottest %v", a, keys, h)
	}
	return keys
}

func TestIterationYieldsWhatIsFreshInL1AndNothingElse(t *testing.T) {
	for _, policy := range []memory.Policy{memory.A3FIFO, memory.LRU} {
		synctest.Test(t, func(t *testing.T) {
			c := lab.Instance(t, lab.NewTagged(t), lab.Windows(time.Hour, time.Hour), func(o *strata.Options[string, int64]) {
				o.Memory.Policy, o.NotFoundTTL = policy, time.Hour
			})
			want := func(keys ...string) {
				t.Helper()
				if got := iterated(t, c); !slices.Equal(got, keys) {
					t.Errorf("got %v, want %v", got, keys)
				}
			}
			want()
			for _, key := range []string{"a", "b", "c", "d"} {
				lab.Must(t, c.Set(t.Context(), key, 1, strata.WithTags("of "+key)))
			}
			lab.Must(t, c.Set(t.Context(), "soon", 1, strata.WithTTL(10*time.Second)))
			_, _ = c.GetOrLoad(t.Context(), "none", func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound })
			want("a", "b", "c", "d", "soon")
			lab.Must(t, c.Expire(t.Context(), "a"))
			want("b", "c", "d", "soon")
			lab.Must(t, c.InvalidateTags(t.Context(), "of b"))
			want("c", "d", "soon")
			lab.Must(t, c.ExpireTags(t.Context(), "of c"))
			want("d", "soon")
			time.Sleep(10 * time.Second)
			want("d")
			lab.Must(t, c.ExpireAll(t.Context()))
			want()
			lab.Must(t, c.Set(t.Context(), "e", 1))
			want("e")
			lab.Must(t, c.InvalidateAll(t.Context()))
			want()
			lab.Must(t, c.Set(t.Context(), "f", 1))
			lab.Must(t, c.Close(context.Background()))
			want()
		})
	}
}

func TestIterationYieldsNothingThatL2HasToConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		ear := s.Bus.Connect()
		c := lab.Instance(t, s, lab.Forever, func(o *strata.Options[string, int64]) {
			o.Remote.Bus, o.Remote.Strict = ear, true
		})
		time.Sleep(time.Second)
		lab.Must(t, c.Set(t.Context(), "k", 1))
		time.Sleep(time.Second)
		if got := iterated(t, c); len(got) != 1 {
			t.Fatalf("got %v before the silence", got)
		}
		ear.Hush(true)
		time.Sleep(10 * time.Second)
		if got := iterated(t, c); len(got) != 0 {
			t.Errorf("got %v during the silence", got)
		}
		ear.Hush(false)
		time.Sleep(10 * time.Second)
		c.Get(t.Context(), "k")
		if got := iterated(t, c); len(got) != 1 {
			t.Errorf("got %v when L2 has confirmed it", got)
		}
	})
}

func TestHottestYieldsTheMostUsedFirst(t *testing.T) {
	for _, policy := range []memory.Policy{memory.A3FIFO, memory.LRU, memory.LFU} {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Memory.Policy, o.Memory.MaxEntries = policy, 100 })
		for i := range 20 {
			lab.Must(t, c.Set(t.Context(), fmt.Sprint(i), int64(i)))
		}
		for _, key := range []string{"3", "7", "7", "5", "5", "5"} {
			c.Get(t.Context(), key)
		}
		lab.Must(t, c.Expire(t.Context(), "7"))
		var got []string
		for key := range c.Hottest(2) {
			got = append(got, key)
		}
		if !slices.Equal(got, []string{"5", "3"}) {
			t.Errorf("%v: got %v", policy, got)
		}
		for n, want := range map[int]int{-1: 0, 0: 0, 1: 1, 19: 19, 20: 19, math.MaxInt: 19} {
			if m := len(maps.Collect(c.Hottest(n))); m != want {
				t.Errorf("%v: Hottest(%d) has %d", policy, n, m)
			}
		}
		for range c.Hottest(5) {
			break
		}
	}
}

// TestIterationSeesDropsAndWritesOfItsOwnLoop changes the cache in the body.
func TestIterationSeesDropsAndWritesOfItsOwnLoop(t *testing.T) {
	c := lab.NewCache[string, int64](t)
	for i := range 100 {
		lab.Must(t, c.Set(t.Context(), fmt.Sprint(i), 1))
	}
	seen := 0
	for key := range c.Hottest(100) {
		seen++
		for i := range 100 {
			if other := fmt.Sprint(i); other != key {
				lab.Must(t, c.Invalidate(t.Context(), other))
			}
		}
		lab.Must(t, c.Set(t.Context(), key, 2))
	}
	if seen != 1 {
		t.Errorf("%d entries of 100 are seen, though all but one were dropped", seen)
	}
	for key, v := range c.All() {
		if v != 2 || c.Close(context.Background()) != nil {
			t.Errorf("%s is %d", key, v)
		}
	}
}

func TestIterationIsNoReadAndYieldsClones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hits := 0
		c := lab.NewCache(t, func(o *strata.Options[string, []int]) {
			o.IdleTTL = 8 * time.Second
			o.Memory.Clone = slices.Clone[[]int]
			o.Hooks = &strata.Hooks{Hit: func(strata.Event) { hits++ }}
		})
		lab.Must(t, c.Set(t.Context(), "k", []int{1}))
		before := c.Stats()
		for range 5 {
			time.Sleep(time.Second)
			for _, seq := range []func(func(string, []int) bool){c.All(), c.Hottest(1)} {
				for _, v := range seq {
					if v[0] != 1 {
						t.Error("a change reaches the cache")
					}
					v[0]++
				}
			}
			iterated(t, c)
		}
		if after := c.Stats(); hits != 0 || after.Reads != before.Reads || after.L1 != before.L1 {
			t.Errorf("it is counted: %d hits, %+v", hits, after)
		}
		time.Sleep(3 * time.Second)
		if n := len(iterated(t, c)); n != 0 {
			t.Error("it prolongs the idle life")
		}
		synctest.Wait()
	})
}

// TestIterationGoesOnWhileTheCacheChanges has writers, drops and readers run beside it.
func TestIterationGoesOnWhileTheCacheChanges(t *testing.T) {
	c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Memory.MaxEntries = 500 })
	for i := range 100 {
		lab.Must(t, c.Set(t.Context(), fmt.Sprint("stays ", i), 7))
	}
	var writers sync.WaitGroup
	for g := range 2 {
		writers.Go(func() {
			for i := range 2000 {
				key := fmt.Sprint(g, " ", i%150)
				_ = c.Set(t.Context(), key, int64(i))
				_ = c.Expire(t.Context(), key)
				_ = c.Invalidate(t.Context(), key)
			}
		})
	}
	for range 200 {
		stay := 0
		for key, v := range c.All() {
			if key[:1] == "s" {
				if stay++; v != 7 {
					t.Fatalf("%s is %d", key, v)
				}
			}
		}
		if stay != 100 {
			t.Fatalf("%d entries of 100 that stay are seen", stay)
		}
		if h, k := maps.Collect(c.Hottest(50)), slices.Collect(c.Keys()); len(h) > 50 || len(k) < 100 {
			t.Fatalf("%d hottest, %d keys", len(h), len(k))
		}
	}
	writers.Wait()
}
