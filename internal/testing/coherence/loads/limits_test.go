package loads_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// limits sets the limits of loads.
func limits(l strata.Limits) func(*strata.Options[string, int64]) {
	return func(o *strata.Options[string, int64]) { o.Limits = l }
}

// expiredCache returns a cache that holds the value 0, expired.
func expiredCache(t *testing.T, change ...func(*strata.Options[string, int64])) *strata.Cache[string, int64] {
	t.Helper()
	c := lab.NewCache(t, change...)
	lab.Must(t, c.Set(t.Context(), "k", 0))
	lab.Must(t, c.Expire(t.Context(), "k"))
	return c
}

// TestLeaseWithoutEndIsAskedForNowAndThen: the time left of the lease has no room for a later poll.
func TestLeaseWithoutEndIsAskedForNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, endless := lab.NewShared(), limits(strata.Limits{Lease: math.MaxInt64})
		var asked atomic.Int64
		a := lab.Instance(t, s, endless)
		b := lab.Instance(t, s, endless, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(op, _ string) (time.Duration, error) {
				if op == "Acquire" && asked.Add(1) > 1000 {
					return 0, errors.New("asked too often") // or the time of the bubble would stand still
				}
				return 0, nil
			})
		})
		o := &lab.Origin{Takes: 10 * time.Second}
		var load sync.WaitGroup
		load.Go(func() { lab.MustGet(t, a, "k", o.Load) })
		synctest.Wait()
		lab.MustGet(t, b, "k", o.Load)
		load.Wait()
		if n := asked.Load(); n > 100 || o.Loads.Load() != 1 {
			t.Errorf("asked %d times in 10 s, %d loads", n, o.Loads.Load())
		}
	})
}

func TestSoftTimeoutServesTheStaleValueAndTheLoadIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := expiredCache(t, limits(strata.Limits{SoftTimeout: 100 * time.Millisecond}))
		o := &lab.Origin{Takes: time.Second}
		o.Value.Store(2)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				var info strata.Info
				start := time.Now()
				v, err := c.GetOrLoad(t.Context(), "k", o.Load, strata.ReadInfo(&info))
				if v != 0 || err != nil || time.Since(start) != 100*time.Millisecond || !info.Stale {
					t.Errorf("%d, %v after %v, %+v; want the stale value after 100ms", v, err, time.Since(start), info)
				}
			})
		}
		wg.Wait()
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		if took := lab.GetTakes(t, c, o.Load, 2); took != 0 || o.Loads.Load() != 1 {
			t.Errorf("%d loads, %v for a hit; want 1, 0", o.Loads.Load(), took)
		}
		if st := c.Stats(); st.StaleOnError != 10 {
			t.Errorf("%d stale counted, want 10", st.StaleOnError)
		}
	})
}

func TestSoftTimeoutHoldsWithASlowL2Too(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var slow atomic.Bool
		c := lab.Instance(t, s, limits(strata.Limits{SoftTimeout: 20 * time.Millisecond}), func(o *strata.Options[string, int64]) {
			o.Remote.Tier = lab.Stalling(s.Tier, "Get", time.Hour, &slow)
		})
		lab.Must(t, c.Set(t.Context(), "k", 0))
		lab.Must(t, c.Expire(t.Context(), "k"))
		slow.Store(true)
		o := &lab.Origin{Takes: time.Second}
		o.Value.Store(2)
		if took := lab.GetTakes(t, c, o.Load, 0); took != 20*time.Millisecond {
			t.Errorf("waited %v, want 20ms", took)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if r := c.Stats(); o.Loads.Load() != 1 || r.L2.Errors == 0 {
			t.Errorf("%d loads, %d errors of L2; want the load to have gone on, past L2", o.Loads.Load(), r.L2.Errors)
		}
		lab.GetTakes(t, c, o.Load, 2)
	})
}

func TestSoftTimeoutWithoutAStaleValueIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		soft := limits(strata.Limits{SoftTimeout: 100 * time.Millisecond})
		o := &lab.Origin{Takes: time.Second}
		for name, c := range map[string]*strata.Cache[string, int64]{
			"nothing held":     lab.NewCache(t, soft),
			"not to be served": expiredCache(t, soft, lab.Windows(time.Hour, -1)),
		} {
			if took := lab.GetTakes(t, c, o.Load, 0); took != time.Second {
				t.Errorf("%s: waited %v, want 1s", name, took)
			}
		}
	})
}

func TestSoftTimeoutDoesNotProlongTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Windows(-1, time.Minute), limits(strata.Limits{SoftTimeout: 10 * time.Second}))
		lab.Must(t, c.Set(t.Context(), "k", 0))
		time.Sleep(2*time.Minute - 5*time.Second)
		o := &lab.Origin{Takes: 30 * time.Second}
		o.Value.Store(2)
		if took := lab.GetTakes(t, c, o.Load, 2); took != 30*time.Second {
			t.Errorf("waited %v, want 30s", took)
		}
	})
}

func TestSoftTimeoutIsNotTheCallersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := expiredCache(t, limits(strata.Limits{SoftTimeout: time.Second}))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := c.GetOrLoad(ctx, "k", (&lab.Origin{Takes: time.Minute}).Load); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller's own deadline", err)
		}
	})
}

func TestLateResultOfATimedOutLoadReplacesNothingNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := expiredCache(t, limits(strata.Limits{SoftTimeout: 100 * time.Millisecond}))
		o := &lab.Origin{Takes: time.Second}
		o.Value.Store(1)
		lab.GetTakes(t, c, o.Load, 0)
		lab.Must(t, c.Set(t.Context(), "k", 2))
		time.Sleep(time.Second)
		synctest.Wait()
		lab.GetTakes(t, c, o.Load, 2)
	})
}

func TestHardTimeoutEndsALoadWithAStaleValueToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := expiredCache(t, limits(strata.Limits{HardTimeout: time.Second}))
		if took := lab.GetTakes(t, c, (&lab.Origin{Takes: time.Hour}).Load, 0); took != time.Second {
			t.Errorf("waited %v, want 1s", took)
		}
	})
}

// busy is an origin that notes how many loads run at once.
type busy struct {
	takes         time.Duration
	running, most atomic.Int64
	total         atomic.Int64
}

func (b *busy) begin() (end func()) {
	n := b.running.Add(1)
	b.total.Add(1)
	for m := b.most.Load(); n > m && !b.most.CompareAndSwap(m, n); m = b.most.Load() {
	}
	return func() { b.running.Add(-1) }
}

func (b *busy) load(context.Context, string) (int64, error) {
	defer b.begin()()
	time.Sleep(b.takes) // in a bubble
	return 1, nil
}

func TestLoadsAtOnceAreNeverMoreThanMaxLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		for name, c := range map[string]*strata.Cache[string, int64]{
			"alone":   lab.NewCache(t, limits(strata.Limits{MaxLoads: 4})),
			"with L2": lab.Instance(t, s, limits(strata.Limits{MaxLoads: 4})),
		} {
			b := &busy{takes: time.Second}
			start := time.Now()
			var wg sync.WaitGroup
			for i := range 40 {
				wg.Go(func() { lab.MustGet(t, c, fmt.Sprint(i), b.load) })
			}
			wg.Wait()
			if took := time.Since(start); b.most.Load() != 4 || b.total.Load() != 40 || took != 10*time.Second {
				t.Errorf("%s: %d of %d loads at once, %v; want 4 of 40 in 10s", name, b.most.Load(), b.total.Load(), took)
			}
		}
	})
}

func TestHitsDoNotWaitForMaxLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance(t, s, limits(strata.Limits{MaxLoads: 1}))
		lab.Must(t, lab.Instance[string, int64](t, s).Set(t.Context(), "in L2", 1))
		lab.Must(t, c.Set(t.Context(), "in L1", 1))
		go c.GetOrLoad(t.Context(), "slow", (&lab.Origin{Takes: time.Hour}).Load)
		synctest.Wait()
		for _, key := range []string{"in L1", "in L2"} {
			start := time.Now()
			if v := lab.MustGet(t, c, key, lab.Never(t)); v != 1 || time.Since(start) != 0 {
				t.Errorf("%s: %d after %v", key, v, time.Since(start))
			}
		}
	})
}

func TestCallerInTheQueueLeavesItAtItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, limits(strata.Limits{MaxLoads: 1, CancelAbandoned: true}))
		b := &busy{takes: time.Minute}
		go c.GetOrLoad(t.Context(), "slow", b.load)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.GetOrLoad(ctx, "queued", b.load); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := b.total.Load(); n != 1 {
			t.Errorf("%d loads, want 1: nobody waited for the other", n)
		}
	})
}

func TestLoadsWithWaitingCallersGoBeforeRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, refreshAt(0.5), limits(strata.Limits{MaxLoads: 1}))
		lab.Must(t, c.Set(t.Context(), "refreshed", 1))
		time.Sleep(60 * time.Second)
		var order []string
		load := func(_ context.Context, key string) (int64, error) {
			order = append(order, key)
			time.Sleep(time.Second)
			return 1, nil
		}
		var wg sync.WaitGroup
		for _, key := range []string{"first", "refreshed", "second"} {
			wg.Go(func() { lab.MustGet(t, c, key, load) })
			synctest.Wait()
		}
		wg.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if fmt.Sprint(order) != "[first second refreshed]" {
			t.Errorf("order %v, want the refresh last", order)
		}
	})
}

// TestRefreshThatACallerWaitsForGoesBeforeLaterLoads, and behind them when the caller has left.
func TestRefreshThatACallerWaitsForGoesBeforeLaterLoads(t *testing.T) {
	for stays, want := range map[bool]string{true: "[first k second]", false: "[first second k]"} {
		synctest.Test(t, func(t *testing.T) {
			var order []string
			load := func(_ context.Context, key string) (int64, error) {
				order = append(order, key)
				time.Sleep(time.Second)
				return 1, nil
			}
			c := lab.NewCache(t, limits(strata.Limits{MaxLoads: 1}), loadsBy(load))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			var all sync.WaitGroup
			for _, call := range []func(){
				func() { _, _ = c.GetOrLoad(t.Context(), "first", nil) },
				func() { _ = c.Refresh(t.Context(), "k") },
				func() { _, _ = c.GetOrLoad(ctx, "k", nil) },
				func() { _, _ = c.GetOrLoad(t.Context(), "second", nil) },
			} {
				all.Go(call)
				synctest.Wait()
			}
			if !stays {
				leave()
			}
			all.Wait()
			time.Sleep(3 * time.Second) // in the bubble
			synctest.Wait()
			if fmt.Sprint(order) != want {
				t.Errorf("the caller of the refreshed key stays: %v; order %v, want %s", stays, order, want)
			}
		})
	}
}

// TestRefreshWithoutASlotServesNothing: its candidate stays, and no caller has got it.
func TestRefreshWithoutASlotServesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, refreshAt(0.5), limits(strata.Limits{MaxLoads: 1, HardTimeout: 10 * time.Second}), lab.Windows(0, time.Hour))
		lab.Must(t, c.Set(t.Context(), "refreshed", 1))
		time.Sleep(60 * time.Second)
		held := make(chan struct{})
		defer close(held)
		go c.GetOrLoad(t.Context(), "slow", func(context.Context, string) (int64, error) { <-held; return 0, nil })
		synctest.Wait()
		lab.MustGet(t, c, "refreshed", lab.PlainLoad)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if st := c.Stats(); st.Refreshes != 1 || st.StaleOnError != 0 {
			t.Errorf("%d refreshes, %d stale values served; want 1 and none", st.Refreshes, st.StaleOnError)
		}
	})
}

func TestLoadsInsideLoadsDoNotWaitForThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		for name, c := range map[string]*strata.Cache[string, int64]{
			"alone":   lab.NewCache(t, limits(strata.Limits{MaxLoads: 2})),
			"with L2": lab.Instance(t, s, limits(strata.Limits{MaxLoads: 2})),
		} {
			var load strata.Loader[string, int64]
			load = func(ctx context.Context, key string) (int64, error) {
				time.Sleep(time.Second)
				if len(key) >= 5 {
					return int64(len(key)), nil
				}
				return c.GetOrLoad(ctx, key+"x", load) // shared by all when they have the same begin
			}
			var wg sync.WaitGroup
			for _, key := range []string{"a", "b", "c", "d", "ax", "axx"} {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					if v, err := c.GetOrLoad(ctx, key, load); v != 5 || err != nil {
						t.Errorf("%s: %s: %d, %v", name, key, v, err)
					}
				})
			}
			wg.Wait()
		}
	})
}

func TestSkipReadInsideALoadDoesNotWaitForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, limits(strata.Limits{MaxLoads: 1}))
		inner := func(context.Context, string) (int64, error) { return 4, nil }
		outer := func(ctx context.Context, _ string) (int64, error) {
			return c.GetOrLoad(ctx, "inner", inner, strata.SkipRead())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if v, err := c.GetOrLoad(ctx, "outer", outer); v != 4 || err != nil {
			t.Errorf("got %d, %v", v, err)
		}
	})
}

func TestCallersBeyondMaxWaitersAreTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, limits(strata.Limits{MaxWaiters: 10}))
		o := &lab.Origin{Takes: time.Second}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { lab.MustGet(t, c, "k", o.Load) })
		}
		synctest.Wait()
		for range 5 {
			start := time.Now()
			if _, err := c.GetOrLoad(t.Context(), "k", o.Load); err != strata.ErrOverloaded || time.Since(start) != 0 {
				t.Errorf("%v after %v; want ErrOverloaded at once", err, time.Since(start))
			}
		}
		wg.Wait()
		lab.MustGet(t, c, "k", o.Load)
		lab.MustGet(t, c, "other", o.Load)
		if st := c.Stats(); st.Overloaded != 5 {
			t.Errorf("%d overloaded counted, want 5", st.Overloaded)
		}
	})
}

func TestCallersBeyondMaxWaitersGetAStaleValueIfThereIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := expiredCache(t, limits(strata.Limits{MaxWaiters: 1}))
		o := &lab.Origin{Takes: time.Second}
		o.Value.Store(2)
		var wg sync.WaitGroup
		wg.Go(func() { lab.GetTakes(t, c, o.Load, 2) })
		synctest.Wait()
		var info strata.Info
		v, err := c.GetOrLoad(t.Context(), "k", o.Load, strata.ReadInfo(&info))
		if v != 0 || err != nil || lab.SourceOf(info) != (strata.Info{Tier: "L1", Stale: true}) || !errors.Is(info.Err, strata.ErrOverloaded) {
			t.Errorf("%d, %v, %+v; want the stale value", v, err, info)
		}
		wg.Wait()
	})
}

// TestCallersThatAreTurnedAwayAreNoWaiters has a hook that takes its time to hear of the stale value for such a caller.
func TestCallersThatAreTurnedAwayAreNoWaiters(t *testing.T) {
	for name, turnedAway := range map[string]func(ctx context.Context, c *strata.Cache[string, int64]){
		"alone": func(ctx context.Context, c *strata.Cache[string, int64]) { _, _ = c.GetOrLoad(ctx, "k", lab.PlainLoad) },
		"in a batch": func(ctx context.Context, c *strata.Cache[string, int64]) {
			_, _ = c.GetMany(ctx, []string{"k"}, lab.EachOf(lab.PlainLoad))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := expiredCache(t, limits(strata.Limits{MaxWaiters: 1}), func(o *strata.Options[string, int64]) {
					o.Hooks = &strata.Hooks{Stale: func(strata.Event) { time.Sleep(30 * time.Millisecond) }}
				})
				o := &lab.Origin{Takes: time.Second}
				go c.GetOrLoad(t.Context(), "k", o.Load)
				time.Sleep(time.Second - 10*time.Millisecond)
				go turnedAway(t.Context(), c)
				time.Sleep(20 * time.Millisecond)
				lab.MustGet(t, c, "other", o.Load) // no caller waits
				if n := c.Stats().Overloaded; n != 1 {
					t.Errorf("%d overloaded counted, want 1", n)
				}
				time.Sleep(time.Second) // until the hook has heard of it
			})
		})
	}
}

// TestReadsWithoutALoaderAreNoWaiters: they wait for L2 alone, and have no error by which their caller
// could learn that L2 was not asked.
func TestReadsWithoutALoaderAreNoWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		lab.Must(t, lab.Instance[string, int64](t, s).Set(t.Context(), "far", 2))
		c := lab.Instance(t, s, limits(strata.Limits{MaxWaiters: 1}))
		o := &lab.Origin{Takes: time.Hour}
		go c.GetOrLoad(t.Context(), "slow", o.Load)
		synctest.Wait()
		if got, err := c.GetMany(t.Context(), []string{"far", "none"}, nil); err != nil || len(got) != 1 || got["far"] != 2 {
			t.Errorf("%v, %v; want the value of L2", got, err)
		}
		if st := c.Stats(); st.Overloaded != 0 || st.StaleOnError != 0 {
			t.Errorf("%d overloaded, %d stale", st.Overloaded, st.StaleOnError)
		}
	})
}

func TestHitsAndStaleHitsAreNoWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Windows(time.Hour, time.Hour), limits(strata.Limits{MaxWaiters: 1}))
		lab.Must(t, c.Set(t.Context(), "stale", 1))
		time.Sleep(2 * time.Minute)
		lab.Must(t, c.Set(t.Context(), "fresh", 1))
		o := &lab.Origin{Takes: time.Hour}
		go c.GetOrLoad(t.Context(), "slow", o.Load)
		synctest.Wait()
		lab.MustGet(t, c, "fresh", o.Load)
		lab.MustGet(t, c, "stale", o.Load)
	})
}

func TestLoadsOfFailedKeysAreRationedWhileTheOriginFails(t *testing.T) {
	attempts := func(keys int) (first, again int) {
		synctest.Test(t, func(t *testing.T) {
			c := lab.NewCache(t, lab.Remembering, func(o *strata.Options[string, int64]) { o.Memory.MaxEntries = 100_000 })
			s := &lab.Fallible{}
			s.Fail(lab.ErrDown)
			ask := func() int {
				before := s.Loads.Load()
				for i := range keys {
					if _, err := c.GetOrLoad(t.Context(), fmt.Sprint(i), s.Load); !errors.Is(err, lab.ErrDown) {
						t.Fatal(err)
					}
				}
				return int(s.Loads.Load() - before)
			}
			first = ask()
			time.Sleep(time.Second)
			again = ask()
			if st := c.Stats(); int(st.BudgetSpent) != keys-again {
				t.Errorf("%d were not allowed, %d counted", keys-again, st.BudgetSpent)
			}
		})
		return first, again
	}
	if first, again := attempts(5); first != 5 || again != 5 {
		t.Errorf("few keys: %d loads and %d again, want 5 and 5", first, again)
	}
	if first, again := attempts(1000); first != 1000 || again != 10 {
		t.Errorf("many keys: %d loads and %d again, want 1000 and 10", first, again)
	}
}

func TestOneSuccessEndsTheRation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Remembering)
		s := &lab.Fallible{}
		s.Fail(lab.ErrDown)
		for i := range 100 {
			_, _ = c.GetOrLoad(t.Context(), fmt.Sprint(i), s.Load)
		}
		time.Sleep(time.Second)
		s.Fail(nil)
		for i := range 100 {
			lab.MustGet(t, c, fmt.Sprint(i), s.Load)
		}
	})
}

func TestBatchOfSkipReadsIsOneWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, limits(strata.Limits{MaxWaiters: 2}))
		o := &lab.Origin{Takes: time.Second}
		keys := []string{"a", "b", "c", "d"}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if found, err := c.GetMany(t.Context(), keys, lab.EachOf(o.Load), strata.SkipRead()); len(found) != len(keys) || err != nil {
					t.Errorf("%v, %v", found, err)
				}
			})
		}
		synctest.Wait()
		_, err := c.GetMany(t.Context(), keys, lab.EachOf(o.Load), strata.SkipRead())
		if partial, ok := errors.AsType[*strata.PartialError[string]](err); !ok || len(partial.Failed) != 4 || !errors.Is(partial.Failed["a"], strata.ErrOverloaded) {
			t.Errorf("a third batch: %v", err)
		}
		all.Wait()
		if st := c.Stats(); st.Overloaded != 4 || st.TurnedAway != 4 {
			t.Errorf("%d keys overloaded, %d turned away; want 4", st.Overloaded, st.TurnedAway)
		}
	})
}

// TestSoftTimeoutHoldsForAllPartsOfABatchTogether: a GetMany asks for 500 keys at a time.
func TestSoftTimeoutHoldsForAllPartsOfABatchTogether(t *testing.T) {
	both(t, limits(strata.Limits{SoftTimeout: 100 * time.Millisecond}), func(t *testing.T, c *strata.Cache[string, int64]) {
		keys := lab.ManyKeys(1200)
		values := map[string]int64{}
		for _, key := range keys {
			values[key] = 1
		}
		lab.Must(t, c.SetMany(t.Context(), values))
		time.Sleep(2 * time.Minute)
		begun := time.Now()
		found, err := c.GetMany(t.Context(), keys, func(_ context.Context, keys []string) (map[string]int64, error) {
			time.Sleep(time.Second)
			return nil, lab.ErrDown
		})
		if took := time.Since(begun); took != 100*time.Millisecond || len(found) != 1200 || err != nil {
			t.Errorf("%d of 1200 after %v, %v", len(found), took, err)
		}
		time.Sleep(time.Minute)
	})
}
