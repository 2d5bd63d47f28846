package loads_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/memory"
)

// loadsBy makes load the Loader of the Options.
func loadsBy(load strata.Loader[string, int64]) func(*strata.Options[string, int64]) {
	return func(o *strata.Options[string, int64]) { o.Loader = load }
}

func TestRefreshLoadsInTheBackgroundThoughEntriesAreFresh(t *testing.T) {
	o := &lab.Origin{Takes: time.Second}
	both(t, loadsBy(o.Load), func(t *testing.T, c *strata.Cache[string, int64]) {
		lab.Must(t, c.Set(t.Context(), "a", 1))
		o.Value.Store(2)
		o.Loads.Store(0)
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		lab.Must(t, c.Refresh(ctx, "a", "b", "a"))
		cancel()
		if took := time.Since(begun); took != 0 {
			t.Errorf("Refresh took %v", took)
		}
		time.Sleep(time.Second / 2)
		if v, took := lab.MustGet(t, c, "a", nil), time.Since(begun); v != 1 || took != time.Second/2 {
			t.Errorf("meanwhile a is %d after %v, want 1 at once", v, took)
		}
		if v, took := lab.MustGet(t, c, "b", nil), time.Since(begun); v != 2 || took != time.Second {
			t.Errorf("b is %d after %v, want 2 when it is loaded", v, took)
		}
		synctest.Wait()
		if v := lab.MustGet(t, c, "a", nil); v != 2 || o.Loads.Load() != 2 {
			t.Errorf("after that a is %d, %d loads; want 2, 2", v, o.Loads.Load())
		}
		if r := c.Explain(t.Context(), "a"); r.L1.Fresh != time.Minute || r.L2.Used && r.L2.Fresh != time.Minute {
			t.Errorf("%+v; %+v", r.L1, r.L2)
		}
	})
}

func TestRefreshOfManyKeysIsOneCallOfTheManyLoader(t *testing.T) {
	o := abc()
	both(t, func(opts *strata.Options[string, int64]) { opts.ManyLoader = o.load }, func(t *testing.T, c *strata.Cache[string, int64]) {
		lab.Must(t, c.Set(t.Context(), "a", 0))
		lab.Must(t, c.Refresh(t.Context(), "a", "b", "c", "d"))
		synctest.Wait()
		for k, want := range map[string]int64{"a": 1, "b": 2, "c": 3} {
			if v, ok := c.Get(t.Context(), k); v != want || !ok {
				t.Errorf("%s is %d, %v", k, v, ok)
			}
		}
		if asked := o.asked(); asked != "[[a b c d]]" {
			t.Errorf("asked for %s", asked)
		}
	})
}

func TestRefreshSaysWhatItDoesNotRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := lab.NewCache[string, int64](t).Refresh(t.Context(), "a"); !errors.Is(err, strata.ErrNoLoader) {
			t.Errorf("without a loader: %v", err)
		}
		for name, many := range map[string]bool{"one by one": false, "many": true} {
			o, b := &lab.Origin{Takes: time.Second}, abc()
			b.takes = time.Second
			c := lab.NewCache(t, func(opts *strata.Options[string, int64]) {
				opts.Limits.MaxRefreshes, opts.Limits.MaxKeyBytes = 2, 3
				if opts.Loader = o.Load; many {
					opts.ManyLoader = b.load
				}
			})
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := c.Refresh(ended, "a"); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: with a context that has ended: %v", name, err)
			}
			err := c.Refresh(t.Context(), "long", "a", "b")
			p, ok := errors.AsType[*strata.PartialError[string]](err)
			if !ok || len(p.Failed) != 1 || !errors.Is(p.Failed["long"], strata.ErrKeyTooLong) {
				t.Errorf("%s: %v", name, err)
			}
			if many {
				lab.Must(t, c.Refresh(t.Context(), "x"))
			}
			err = c.Refresh(t.Context(), "c", "d")
			p, ok = errors.AsType[*strata.PartialError[string]](err)
			if !ok || len(p.Failed) != 2 || !errors.Is(p.Failed["c"], strata.ErrOverloaded) {
				t.Errorf("%s: beyond MaxRefreshes: %v", name, err)
			}
			synctest.Wait()
			lab.Must(t, c.Refresh(t.Context(), "a")) // is loading
			time.Sleep(time.Second)
			synctest.Wait()
			lab.Must(t, c.Refresh(t.Context(), "c"))
			lab.Must(t, c.Close(t.Context()))
			if err := c.Refresh(t.Context(), "a"); !errors.Is(err, strata.ErrClosed) {
				t.Errorf("%s: after Close: %v", name, err)
			}
		}
	})
}

func TestRefreshLeavesAKeyAloneThatHasFailedAMomentAgo(t *testing.T) {
	o := &lab.Fallible{}
	both(t, func(opts *strata.Options[string, int64]) { opts.Loader, opts.ErrorTTL = o.Load, time.Second }, func(t *testing.T, c *strata.Cache[string, int64]) {
		lab.Must(t, c.Set(t.Context(), "k", 7))
		o.Fail(lab.ErrDown)
		o.Loads.Store(0)
		for range 3 {
			lab.Must(t, c.Refresh(t.Context(), "k"))
			synctest.Wait()
		}
		if v := lab.MustGet(t, c, "k", nil); v != 7 || o.Loads.Load() != 1 {
			t.Errorf("%d, %d loads; want 7, 1", v, o.Loads.Load())
		}
	})
}

func TestInstancesThatRefreshTheSameKeyLoadItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := lab.NewShared(), &lab.Origin{Takes: time.Second}
		a, b := lab.Instance(t, s, loadsBy(o.Load)), lab.Instance(t, s, loadsBy(o.Load))
		lab.Must(t, a.Set(t.Context(), "k", 1))
		synctest.Wait() // b has heard of it
		if v, _ := b.Get(t.Context(), "k"); v != 1 {
			t.Fatalf("%d", v)
		}
		o.Value.Store(2)
		lab.Must(t, errors.Join(a.Refresh(t.Context(), "k"), b.Refresh(t.Context(), "k")))
		time.Sleep(2 * time.Second)
		for name, c := range map[string]*strata.Cache[string, int64]{"a": a, "b": b} {
			if v, ok := c.Get(t.Context(), "k"); v != 2 || !ok || o.Loads.Load() != 1 {
				t.Errorf("%s: %d, %v, %d loads", name, v, ok, o.Loads.Load())
			}
		}
	})
}

// TestRefreshAsksForItsLeaseOnce refreshes a fresh value: the first question says which value it
// replaces.
func TestRefreshAsksForItsLeaseOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := lab.NewShared(), &lab.Origin{Takes: time.Second}
		tier, asked := lab.CountCalls(s.Tier)
		a := lab.Instance(t, s, loadsBy(o.Load), func(opts *strata.Options[string, int64]) { opts.Remote.Tier = tier })
		lab.Must(t, a.Set(t.Context(), "k", 1))
		lab.Must(t, a.Refresh(t.Context(), "k"))
		time.Sleep(2 * time.Second)
		if n := asked("Acquire"); n != 1 || o.Loads.Load() != 1 {
			t.Errorf("%d questions for the lease, %d loads", n, o.Loads.Load())
		}
	})
}

// TestInvalidateDuringARefreshOnDemandWins fences its load as any other.
func TestInvalidateDuringARefreshOnDemandWins(t *testing.T) {
	o := &lab.Origin{Takes: time.Second}
	both(t, loadsBy(o.Load), func(t *testing.T, c *strata.Cache[string, int64]) {
		lab.Must(t, c.Refresh(t.Context(), "k"))
		time.Sleep(time.Second / 2) // in a bubble
		lab.Must(t, c.Invalidate(t.Context(), "k"))
		time.Sleep(time.Second) // in a bubble
		if r := c.Explain(t.Context(), "k"); r.L1.Present || r.L2.Present {
			t.Errorf("%+v", r)
		}
	})
}

// everySeconds makes a cache with a TTL of 100 seconds keep its hottest keys.
func everySeconds(n int, load strata.Loader[string, int64]) func(*strata.Options[string, int64]) {
	return func(o *strata.Options[string, int64]) {
		o.TTL, o.RefreshAt, o.Loader, o.RefreshEvery = 100*time.Second, 0.8, load, time.Duration(n)*time.Second
	}
}

// TestHotKeysDoNotExpireWithRefreshEvery reads by Get, which starts no refresh.
func TestHotKeysDoNotExpireWithRefreshEvery(t *testing.T) {
	for _, every := range []int{7, 30, 65, 90} {
		o := &lab.Origin{Takes: time.Second}
		both(t, everySeconds(every, o.Load), func(t *testing.T, c *strata.Cache[string, int64]) {
			o.Loads.Store(0)
			lab.MustGet(t, c, "k", nil)
			for range 100 {
				time.Sleep(10 * time.Second) // in a bubble
				if _, ok := c.Get(t.Context(), "k"); !ok || !c.Explain(t.Context(), "k").L1.Present {
					t.Fatalf("every %ds: the key has expired", every)
				}
			}
			if n := o.Loads.Load(); n < 10 || n > 40 {
				t.Errorf("every %ds: %d loads in ten lives", every, n)
			}
		})
	}
}

func TestKeyThatIsNotReadAnyMoreDiesDespiteRefreshEvery(t *testing.T) {
	for _, policy := range evict.Policies() {
		synctest.Test(t, func(t *testing.T) {
			o := &lab.Origin{}
			c := lab.NewCache(t, everySeconds(30, o.Load), func(o *strata.Options[string, int64]) {
				o.Memory.Policy, o.Stale.OnError = memory.Policy(policy), -1
			})
			for _, k := range []string{"once", "often"} {
				lab.MustGet(t, c, k, nil)
			}
			for range 20 {
				time.Sleep(10 * time.Second)
				c.Get(t.Context(), "often")
			}
			if r := c.Explain(t.Context(), "once"); r.L1.Present {
				t.Errorf("%v: a key that was loaded and never read is kept: %v", policy, r)
			}
			read := o.Loads.Load()
			time.Sleep(1000 * time.Second)
			if n := o.Loads.Load() - read; c.Len() != 0 && !lab.Encoded() || n < 1 || n > 3 {
				t.Errorf("%v: %d entries are left, %d loads after the last read", policy, c.Len(), n)
			}
		})
	}
}

// TestEntryThatIsNeverReadIsNotRefreshed: an entry loaded, set or warmed, and then never read,
// ends with its TTL, with each policy, though it is among the hottest; a single read keeps it.
func TestEntryThatIsNeverReadIsNotRefreshed(t *testing.T) {
	for _, policy := range evict.Policies() {
		synctest.Test(t, func(t *testing.T) {
			o := &lab.Origin{}
			c := lab.NewCache(t, everySeconds(7, o.Load), func(o *strata.Options[string, int64]) { o.Memory.Policy = memory.Policy(policy) })
			lab.MustGet(t, c, "loaded", nil)
			lab.MustGet(t, c, "read", nil)
			lab.Must(t, c.Set(t.Context(), "set", 7))
			if _, err := c.GetMany(t.Context(), []string{"in a batch"}, nil); err != nil {
				t.Fatal(err)
			}
			c.Get(t.Context(), "read")
			loads := o.Loads.Load()
			time.Sleep(99 * time.Second) // in the bubble: a moment before the end of the TTL
			if n := o.Loads.Load() - loads; n != 1 {
				t.Errorf("%v: %d refreshes in the first life, want 1 of the entry that was read", policy, n)
			}
			for _, key := range []string{"loaded", "set", "in a batch"} {
				if !c.Explain(t.Context(), key).L1.Present {
					t.Errorf("%v: %s has ended early", policy, key)
				}
			}
			time.Sleep(2 * time.Second) // in the bubble
			for key, want := range map[string]bool{"loaded": false, "set": false, "in a batch": false, "read": true} {
				if _, ok := c.Get(t.Context(), key); ok != want {
					t.Errorf("%v: %s is there: %v", policy, key, ok)
				}
			}
		})
	}
}

func TestRefreshEveryKeepsNoMoreKeysThanMaxRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, b := &lab.Origin{}, &busy{takes: 100 * time.Millisecond}
		c := lab.NewCache(t, everySeconds(30, b.load), func(o *strata.Options[string, int64]) { o.Limits.MaxRefreshes = 3 })
		keys := lab.ManyKeys(10)
		for _, k := range keys {
			lab.MustGet(t, c, k, o.Load)
		}
		for range 9 {
			for _, k := range keys {
				c.Get(t.Context(), k)
			}
			time.Sleep(10 * time.Second)
		}
		if b.most.Load() != 3 || b.total.Load() != 3 {
			t.Errorf("%d refreshes, %d at once; want 3", b.total.Load(), b.most.Load())
		}
	})
}

func TestRefreshEveryUsesTheManyLoaderAndEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := abc()
		c := lab.NewCache(t, everySeconds(30, nil), func(opts *strata.Options[string, int64]) { opts.ManyLoader = o.load })
		read := func() {
			for range 9 {
				_, _ = c.GetMany(t.Context(), []string{"a", "b"}, nil)
				time.Sleep(10 * time.Second)
			}
		}
		if read(); o.asked() != "[[a b] [a b]]" {
			t.Error("the hottest keys were not loaded together, or not once")
		}
		lab.Must(t, c.Close(t.Context()))
		if read(); o.asked() != "[]" {
			t.Error("loads after Close")
		}
	})
}

// TestRefreshEveryLoadsNothingThatL2HasFresh has entries that L1 keeps for 30 seconds
// and L2 for an hour.
func TestRefreshEveryLoadsNothingThatL2HasFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &lab.Origin{}
		c := lab.Instance(t, lab.NewShared(), everySeconds(7, o.Load), func(o *strata.Options[string, int64]) {
			o.TTL, o.Memory.TTL = time.Hour, 30*time.Second
		})
		for range 100 {
			lab.MustGet(t, c, "k", nil)
			time.Sleep(10 * time.Second)
		}
		if n := o.Loads.Load(); n != 1 {
			t.Errorf("%d loads in a quarter of the TTL, want 1", n)
		}
	})
}

// TestRefreshEveryOfTwoInstancesLoadsAKeyOnceInALife lets both keep the same key.
func TestRefreshEveryOfTwoInstancesLoadsAKeyOnceInALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int64
		s, load := lab.NewShared(), func(context.Context, string) (int64, error) { return loads.Add(1), nil }
		a, b := lab.Instance(t, s, everySeconds(10, load)), lab.Instance(t, s, everySeconds(10, load))
		for i := range 100 {
			for name, c := range map[string]*strata.Cache[string, int64]{"a": a, "b": b} {
				if i == 0 {
					lab.MustGet(t, c, "k", nil)
				}
				if _, ok := c.Get(t.Context(), "k"); !ok {
					t.Fatalf("%s: the key has expired", name)
				}
			}
			time.Sleep(10 * time.Second)
		}
		if n := loads.Load(); n < 10 || n > 16 {
			t.Errorf("%d loads in ten lives", n)
		}
	})
}
