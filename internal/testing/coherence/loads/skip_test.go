package loads_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// skips runs check for each way to ask for a load, cached value or not.
func skips(t *testing.T, check func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption)) {
	t.Run("option", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			check(t, func(*strata.Options[string, int64]) {}, t.Context(), strata.SkipRead())
		})
	})
	t.Run("context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			check(t, func(o *strata.Options[string, int64]) { o.ContextControls = true }, strata.SkipReadContext(t.Context()))
		})
	})
}

func TestSkipReadLoadsDespiteCachedEntriesAndStoresEverywhere(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		s := lab.NewShared()
		a, b := lab.Instance(t, s, change, lab.Negatives, lab.Remembering), lab.Instance[string, int64](t, s)
		o := &lab.Fallible{}
		for i, fill := range []func(){
			func() {},
			func() { lab.MustGet(t, a, "k", o.Load); lab.MustGet(t, b, "k", o.Load) },
			func() { lab.Must(t, a.Expire(t.Context(), "k")) },
			func() {
				lab.Must(t, a.Invalidate(t.Context(), "k"))
				o.Fail(strata.ErrNotFound)
				findsNothing(t, a, o.Load)
			},
			func() {
				lab.Must(t, a.Invalidate(t.Context(), "k"))
				o.Fail(lab.ErrDown)
				_, _ = a.GetOrLoad(t.Context(), "k", o.Load)
			},
		} {
			fill()
			o.Fail(nil)
			want := int64(i + 10)
			o.Value.Store(want)
			var info strata.Info
			v, err := a.GetOrLoad(ctx, "k", o.Load, append(opts, strata.ReadInfo(&info))...)
			if v != want || err != nil || lab.SourceOf(info) != (strata.Info{Tier: "origin"}) {
				t.Errorf("%d: got %d, %v, %+v; want %d from the origin", i, v, err, info, want)
			}
			synctest.Wait()
			lab.GetTakes(t, a, lab.Never(t), want)
			lab.GetTakes(t, b, lab.Never(t), want)
		}
	})
}

func TestSkipReadInAContextIsNotHonouredUnlessItIsToBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		lab.Must(t, c.Set(t.Context(), "k", 1))
		if v, err := c.GetOrLoad(strata.SkipReadContext(t.Context()), "k", lab.Never(t)); v != 1 || err != nil {
			t.Errorf("got %d, %v", v, err)
		}
	})
}

func TestSkipReadIsNotAnsweredByARunningLoad(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := lab.NewCache(t, change)
		o := &lab.Origin{Takes: time.Second}
		go c.GetOrLoad(t.Context(), "k", o.Load)
		synctest.Wait()
		o.Value.Store(2)
		quick := func(context.Context, string) (int64, error) { return 2, nil }
		if v, err := c.GetOrLoad(ctx, "k", quick, opts...); v != 2 || err != nil {
			t.Errorf("got %d, %v; want 2", v, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		lab.GetTakes(t, c, lab.Never(t), 2)
	})
}

func TestSkipReadThatFailsLeavesTheValueForFailures(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		s := lab.NewShared()
		for name, c := range map[string]*strata.Cache[string, int64]{"alone": lab.NewCache(t, change), "with L2": lab.Instance(t, s, change)} {
			lab.Must(t, c.Set(t.Context(), "k", 3))
			down := func(context.Context, string) (int64, error) { return 0, lab.ErrDown }
			if v, err := c.GetOrLoad(ctx, "k", down, opts...); !errors.Is(err, lab.ErrDown) {
				t.Errorf("%s: got %d, %v; want the origin's error", name, v, err)
			}
			lab.GetTakes(t, c, down, 3)
		}
	})
}

func TestSkipReadThatFailsTellsNothingOfAValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := expiredCache(t)
		var i strata.Info
		if _, err := c.GetOrLoad(t.Context(), "k", lab.DownLoad, strata.SkipRead(), strata.ReadInfo(&i)); !errors.Is(err, lab.ErrDown) || i != (strata.Info{}) {
			t.Errorf("%v, and information about a value: %+v", err, i)
		}
	})
}

func TestSkipReadThatFindsNothingRemovesTheValueEverywhere(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		s := lab.NewShared()
		a, b, alone := lab.Instance(t, s, change), lab.Instance[string, int64](t, s), lab.NewCache(t, change)
		for _, c := range []*strata.Cache[string, int64]{a, b, alone} {
			lab.Must(t, c.Set(t.Context(), "k", 3))
		}
		for _, c := range []*strata.Cache[string, int64]{a, alone} {
			if v, err := c.GetOrLoad(ctx, "k", (&missing{}).load, opts...); !errors.Is(err, strata.ErrNotFound) {
				t.Errorf("got %d, %v; want ErrNotFound", v, err)
			}
		}
		synctest.Wait()
		down := func(context.Context, string) (int64, error) { return 0, lab.ErrDown }
		for i, c := range []*strata.Cache[string, int64]{a, b, alone} {
			if v, err := c.GetOrLoad(t.Context(), "k", down); !errors.Is(err, lab.ErrDown) {
				t.Errorf("%d: got %d, %v: a value that is not there any more", i, v, err)
			}
		}
	})
}

func TestSkipReadMayBeAnsweredNotModified(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		s := lab.NewShared()
		for name, c := range map[string]*strata.Cache[string, int64]{"alone": lab.NewCache(t, change), "with L2": lab.Instance(t, s, change)} {
			load := func(ctx context.Context, _ string) (int64, error) {
				if _, ok := c.Previous(ctx); ok {
					return 0, strata.ErrNotModified
				}
				return 8, nil
			}
			for range 2 {
				v, err := c.GetOrLoad(ctx, "k", load, opts...)
				if v != 8 || err != nil {
					t.Errorf("%s: got %d, %v; want 8", name, v, err)
				}
				if r := c.Explain(t.Context(), "k").L1; r.Fresh != time.Minute {
					t.Errorf("%s: %+v, want fresh for a minute", name, r)
				}
				time.Sleep(time.Second) // in a bubble
			}
			if st := c.Stats().Loads; st.OK != 1 || st.NotModified != 1 {
				t.Errorf("%s: %d loads ok and %d not modified, want one each", name, st.OK, st.NotModified)
			}
		}
	})
}

func TestSkipReadThatAsksForItselfIsRefused(t *testing.T) {
	for name, circle := range map[string]map[string]string{
		"one key":  {"a": "a"},
		"two keys": {"a": "b", "b": "a"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, inner := range [][]strata.CallOption{nil, {strata.SkipRead()}} {
				skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
					c := lab.NewCache(t, change)
					var load strata.Loader[string, int64]
					load = func(ctx context.Context, key string) (int64, error) {
						return c.GetOrLoad(ctx, circle[key], load, inner...)
					}
					if v, err := c.GetOrLoad(ctx, "a", load, opts...); !errors.Is(err, strata.ErrRecursiveLoad) {
						t.Errorf("got %d, %v; want ErrRecursiveLoad", v, err)
					}
				})
			}
		})
	}
}

func TestSkipReadsAreBoundByMaxLoads(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := lab.NewCache(t, change, limits(strata.Limits{MaxLoads: 3}))
		b := &busy{takes: time.Second}
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				if _, err := c.GetOrLoad(ctx, strconv.Itoa(i), b.load, opts...); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if b.most.Load() != 3 || b.total.Load() != 12 {
			t.Errorf("%d of %d at once, want 3 of 12", b.most.Load(), b.total.Load())
		}
	})
}

func TestSkipReadMayAskForOtherKeys(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		for _, inner := range [][]strata.CallOption{nil, {strata.SkipRead()}} {
			c := lab.NewCache(t, change, limits(strata.Limits{MaxLoads: 1}))
			var load strata.Loader[string, int64]
			load = func(ctx context.Context, key string) (int64, error) {
				if len(key) == 4 {
					return 4, nil
				}
				return c.GetOrLoad(ctx, key+"x", load, inner...)
			}
			start := time.Now()
			if v, err := c.GetOrLoad(ctx, "k", load, opts...); v != 4 || err != nil || time.Since(start) != 0 {
				t.Errorf("got %d, %v after %v", v, err, time.Since(start))
			}
		}
	})
}

func TestNumbersAddUpWithSkipReads(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := lab.NewCache(t, change, limits(strata.Limits{MaxLoads: 1}))
		over, cancel := context.WithCancel(ctx)
		cancel()
		o := &lab.Fallible{}
		for range 3 {
			_, _ = c.GetOrLoad(ctx, "k", o.Load, opts...)
			_, _ = c.GetOrLoad(over, "k", o.Load, opts...)
			_, _ = c.GetOrLoad(ctx, "k", nil, opts...)
			o.Fail(lab.ErrDown)
		}
		synctest.Wait()
		st := c.Stats()
		if st.L1.Misses+st.Refreshes != st.Flights+st.Joins+st.TurnedAway+st.Remembered ||
			st.Flights != st.Rechecked+st.L2.Hits+st.Absent+st.Abandoned+st.Throttled+st.Loads.Total() {
			t.Errorf("the numbers do not add up: %+v", st)
		}
	})
}

func TestTagsOfAReloadAreChecked(t *testing.T) {
	for name, load := range map[string]strata.Loader[string, int64]{
		"said by the loader": func(ctx context.Context, _ string) (int64, error) {
			strata.Loading(ctx).SetTags("t")
			return 2, nil
		},
		"of the value that still holds": func(context.Context, string) (int64, error) { return 0, strata.ErrNotModified },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
				if err := a.Set(t.Context(), "k", 1, strata.WithTags("t")); err != nil {
					t.Fatal(err)
				}
				if _, err := a.GetOrLoad(t.Context(), "k", load, strata.SkipRead()); err != nil {
					t.Fatal(err)
				}
				if err := b.InvalidateTags(t.Context(), "t"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				for _, c := range []*strata.Cache[string, int64]{a, b} {
					if v, ok := c.Get(t.Context(), "k"); ok {
						t.Errorf("got %d, which carries the tag", v)
					}
				}
			})
		})
	}
}

func TestSkipReadOfAKeyOnAHoldThatWasNeverHeardOfIsKeptNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a := lab.Instance[string, int64](t, s)
		lab.Must(t, a.InvalidateHold(t.Context(), time.Second, "k"))
		late := lab.Instance[string, int64](t, s)
		old := func(context.Context, string) (int64, error) { return 1, nil } // a replica that lags behind
		if v, err := late.GetOrLoad(t.Context(), "k", old, strata.SkipRead()); v != 1 || err != nil {
			t.Errorf("got %d, %v; want what was loaded", v, err)
		}
		synctest.Wait()
		for _, c := range []*strata.Cache[string, int64]{a, late} {
			if v, ok := c.Get(t.Context(), "k"); ok {
				t.Errorf("%d is kept, though it was loaded during the hold", v)
			}
		}
	})
}

func TestSkipReadOfAKeyOnHoldIsKeptNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		if err := a.InvalidateHold(t.Context(), time.Second, "k"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		old := func(context.Context, string) (int64, error) { return 1, nil } // a replica that lags behind
		for _, c := range []*strata.Cache[string, int64]{a, b} {
			if v, err := c.GetOrLoad(t.Context(), "k", old, strata.SkipRead()); v != 1 || err != nil {
				t.Errorf("got %d, %v; want what was loaded", v, err)
			}
		}
		time.Sleep(time.Second)
		for _, c := range []*strata.Cache[string, int64]{a, b} {
			if v, ok := c.Get(t.Context(), "k"); ok {
				t.Errorf("%d is kept, though it was loaded during the hold", v)
			}
		}
	})
}

// TestSkipReadsThatOverlapShareLoadsBegunAfterThem also shows that readers lose nothing
// meanwhile: they get the cached value.
func TestSkipReadsThatOverlapShareLoadsBegunAfterThem(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		s := lab.NewShared()
		for name, c := range map[string]*strata.Cache[string, int64]{"alone": lab.NewCache(t, change), "with L2": lab.Instance(t, s, change)} {
			lab.Must(t, c.Set(t.Context(), "k", 1))
			o := &lab.Origin{Takes: time.Second}
			o.Value.Store(2)
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if v, err := c.GetOrLoad(ctx, "k", o.Load, opts...); v != 2 || err != nil {
						t.Errorf("%s: got %d, %v; want 2", name, v, err)
					}
				})
			}
			synctest.Wait()
			lab.GetTakes(t, c, lab.Never(t), 1)
			wg.Wait()
			lab.GetTakes(t, c, lab.Never(t), 2)
			if n := o.Loads.Load(); n < 1 || n > 2 {
				t.Errorf("%s: %d loads for 20 callers, want one or two", name, n)
			}
		}
	})
}

func TestSkipReadsOneAfterTheOtherStoreTheirValues(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		s := lab.NewShared()
		all := []*strata.Cache[string, int64]{lab.Instance(t, s, change), lab.Instance(t, s, change)}
		o := &lab.Origin{Takes: 1030 * time.Millisecond} // no load ends as another is asked for
		lab.Must(t, all[0].Set(t.Context(), "k", 0))
		var wg sync.WaitGroup
		for i := range 20 { // every 500 ms, on one instance and the other
			o.Value.Store(int64(i))
			wg.Go(func() {
				called := time.Now()
				v, err := all[i%2].GetOrLoad(ctx, "k", o.Load, opts...)
				if v < int64(i) || err != nil {
					t.Errorf("a SkipRead that was called at version %d got %d, %v", i, v, err)
				}
				if took := time.Since(called); took > 3500*time.Millisecond {
					t.Errorf("a SkipRead took %v, want its load after two others at most", took)
				}
			})
			time.Sleep(500 * time.Millisecond)
			for _, c := range all {
				if v, err := c.GetOrLoad(t.Context(), "k", lab.Never(t)); err != nil || v < int64(i)-7 {
					t.Errorf("a reader got %d, %v at version %d", v, err, i)
				}
			}
		}
		wg.Wait()
		synctest.Wait()
		for _, c := range all {
			lab.GetTakes(t, c, lab.Never(t), 19)
		}
	})
}

func TestSkipReadIsNotJoinedByTheNext(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := lab.NewCache(t, change)
		o := &lab.Origin{Takes: time.Second}
		read := func(want int64, loads ...strata.CallOption) func() {
			return func() {
				if v, err := c.GetOrLoad(ctx, "k", o.Load, loads...); v != want || err != nil {
					t.Errorf("got %d, %v; want %d", v, err, want)
				}
			}
		}
		var wg sync.WaitGroup
		wg.Go(read(0, opts...))
		synctest.Wait()
		o.Value.Store(1)
		wg.Go(read(1, opts...)) // it waits for the load that runs, and the next one is its own
		synctest.Wait()
		wg.Go(read(1, opts...))
		wg.Go(func() {
			if v := lab.MustGet(t, c, "k", o.Load); v != 0 { // a reader joins the running load
				t.Errorf("a reader got %d, want 0", v)
			}
		})
		wg.Wait()
		if n := o.Loads.Load(); n != 2 {
			t.Errorf("%d loads, want 2", n)
		}
	})
}

func TestSkipReadThatFailsGivesItsErrorToNoCallerWithAStaleValue(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := lab.NewCache(t, change)
		lab.Must(t, c.Set(t.Context(), "k", 3))
		lab.Must(t, c.Expire(t.Context(), "k"))
		fails := func(context.Context, string) (int64, error) {
			time.Sleep(time.Second) // in a bubble
			return 0, lab.ErrDown
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if v, err := c.GetOrLoad(ctx, "k", fails, opts...); !errors.Is(err, lab.ErrDown) {
				t.Errorf("got %d, %v; want the origin's error", v, err)
			}
		})
		synctest.Wait()
		lab.GetTakes(t, c, lab.Never(t), 3)
		wg.Wait()
	})
}

func TestSkipReadInTheQueueKeepsItsRightDespiteAnInvalidate(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		s := lab.NewShared()
		for name, c := range map[string]*strata.Cache[string, int64]{"alone": lab.NewCache(t, change), "with L2": lab.Instance(t, s, change)} {
			o := &lab.Origin{Takes: time.Second}
			go c.GetOrLoad(ctx, "k", o.Load, opts...)
			synctest.Wait()
			o.Value.Store(1)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = c.GetOrLoad(ctx, "k", o.Load, opts...) // waits for the first
			}()
			synctest.Wait()
			lab.Must(t, c.Invalidate(t.Context(), "k"))
			<-done
			lab.GetTakes(t, c, lab.Never(t), 1)
			if n := o.Loads.Load(); n != 2 {
				t.Errorf("%s: %d loads, want 2", name, n)
			}
		}
	})
}

func TestSkipReadInTheQueueEndsWithTheCache(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := lab.NewCache(t, change)
		o := &lab.Origin{Takes: time.Minute}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if v, err := c.GetOrLoad(ctx, "k", o.Load, opts...); !errors.Is(err, strata.ErrClosed) {
					t.Errorf("got %d, %v; want ErrClosed", v, err)
				}
			})
			synctest.Wait()
		}
		lab.Must(t, c.Close(t.Context()))
		wg.Wait()
		if n := o.Loads.Load(); n != 1 {
			t.Errorf("%d loads, want that of the first: the second one waited for it", n)
		}
	})
}

func TestLoadsThatWaitForEachOtherThroughASkipReadAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		var refused atomic.Bool
		last := func(ctx context.Context, _ string) (int64, error) {
			time.Sleep(time.Second) // in a bubble: until a waits for b
			_, err := c.GetOrLoad(ctx, "a", lab.Never(t), strata.SkipRead())
			refused.Store(errors.Is(err, strata.ErrRecursiveLoad))
			return 1, nil
		}
		go lab.MustGet(t, c, "b", last)
		synctest.Wait()
		began := time.Now()
		v, err := c.GetOrLoad(t.Context(), "a", func(ctx context.Context, _ string) (int64, error) {
			return c.GetOrLoad(ctx, "b", lab.Never(t))
		}, strata.SkipRead())
		if v != 1 || err != nil || !refused.Load() || time.Since(began) != time.Second {
			t.Errorf("got %d, %v after %v, refused: %t", v, err, time.Since(began), refused.Load())
		}
		synctest.Wait() // a refused key is not loaded later, either
		wantSums(t, c)
	})
}

func TestSkipReadBehindALoadThatWaitsForTheOnlySlotIsLetThrough(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := lab.NewCache(t, change, limits(strata.Limits{MaxLoads: 1}))
		v, err := c.GetOrLoad(ctx, "a", func(ctx context.Context, _ string) (int64, error) {
			go c.GetOrLoad(context.Background(), "b", (&lab.Origin{}).Load) // waits for the slot of a
			synctest.Wait()
			o := &lab.Origin{}
			o.Value.Store(2)
			return c.GetOrLoad(ctx, "b", o.Load, strata.SkipRead())
		}, opts...)
		if v != 2 || err != nil {
			t.Errorf("got %d, %v; want 2", v, err)
		}
	})
}

func TestSkipReadWhileL2IsDownExpiresTheEntryOfL2WhenItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var down atomic.Bool
		a := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = lab.Failing(lab.Failing(s.Tier, "Acquire", &down), "Drop", &down)
		})
		b := lab.Instance[string, int64](t, s)
		lab.Must(t, a.Set(t.Context(), "k", 1))
		lab.GetTakes(t, b, lab.Never(t), 1)
		down.Store(true)
		o := &lab.Origin{}
		o.Value.Store(2)
		if v, err := a.GetOrLoad(t.Context(), "k", o.Load, strata.SkipRead()); v != 2 || err != nil {
			t.Errorf("got %d, %v; want 2", v, err)
		}
		down.Store(false)
		time.Sleep(time.Minute / 2)
		lab.GetTakes(t, b, o.Load, 2)
	})
}

func TestGetManyWithSkipReadLoadsAllKeysAtOnce(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := lab.NewCache(t, change)
		began := time.Now()
		got, err := c.GetMany(ctx, []string{"a", "b", "c"}, func(_ context.Context, keys []string) (map[string]int64, error) {
			time.Sleep(time.Second) // in a bubble
			return map[string]int64{keys[0]: 1}, nil
		}, opts...)
		if len(got) != 3 || err != nil || time.Since(began) != time.Second {
			t.Errorf("got %v, %v after %v; want 3 keys after 1s", got, err, time.Since(began))
		}
	})
}
