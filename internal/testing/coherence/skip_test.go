package coherence_test

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
)

// skips are the ways to ask for a load whatever is cached.
func skips(t *testing.T, check func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption)) {
	t.Run("option", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			check(t, func(*strata.Options[string, int64]) {}, t.Context(), strata.SkipRead())
		})
	})
	t.Run("context", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			check(t, func(o *strata.Options[string, int64]) { o.ContextControls = true }, strata.SkipReadContext(t.Context()))
		})
	})
}

func TestSkipReadLoadsDespiteCachedEntriesAndStoresEverywhere(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		s := newShared()
		a, b := instance(t, s, change, negatives, remembering), instance[string, int64](t, s)
		o := &fallible{}
		for i, fill := range []func(){
			func() {},
			func() { mustGet(t, a, "k", o.load); mustGet(t, b, "k", o.load) },
			func() { must(t, a.Expire(t.Context(), "k")) },
			func() {
				must(t, a.Invalidate(t.Context(), "k"))
				o.fail(strata.ErrNotFound)
				findsNothing(t, a, o.load)
			},
			func() {
				must(t, a.Invalidate(t.Context(), "k"))
				o.fail(errDown)
				_, _ = a.GetOrLoad(t.Context(), "k", o.load)
			},
		} {
			fill()
			o.fail(nil)
			want := int64(i + 10)
			o.value.Store(want)
			var info strata.Info
			v, err := a.GetOrLoad(ctx, "k", o.load, append(opts, strata.ReadInfo(&info))...)
			if v != want || err != nil || source(info) != (strata.Info{Tier: "origin"}) {
				t.Errorf("%d: got %d, %v, %+v; want %d from the origin", i, v, err, info, want)
			}
			synctest.Wait()
			gets(t, a, never(t), want)
			gets(t, b, never(t), want)
		}
	})
}

func TestSkipReadInAContextIsNotHonouredUnlessItIsToBe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCache[string, int64](t)
		must(t, c.Set(t.Context(), "k", 1))
		if v, err := c.GetOrLoad(strata.SkipReadContext(t.Context()), "k", never(t)); v != 1 || err != nil {
			t.Errorf("got %d, %v", v, err)
		}
	})
}

func TestSkipReadIsNotAnsweredByARunningLoad(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := newCache(t, change)
		o := &origin{takes: time.Second}
		go c.GetOrLoad(t.Context(), "k", o.load)
		synctest.Wait()
		o.value.Store(2)
		quick := func(context.Context, string) (int64, error) { return 2, nil }
		if v, err := c.GetOrLoad(ctx, "k", quick, opts...); v != 2 || err != nil {
			t.Errorf("got %d, %v; want 2", v, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		gets(t, c, never(t), 2)
	})
}

func TestSkipReadThatFailsLeavesTheValueForFailures(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		s := newShared()
		for name, c := range map[string]*strata.Cache[string, int64]{"alone": newCache(t, change), "with L2": instance(t, s, change)} {
			must(t, c.Set(t.Context(), "k", 3))
			down := func(context.Context, string) (int64, error) { return 0, errDown }
			if v, err := c.GetOrLoad(ctx, "k", down, opts...); !errors.Is(err, errDown) {
				t.Errorf("%s: got %d, %v; want the origin's error", name, v, err)
			}
			gets(t, c, down, 3)
		}
	})
}

func TestSkipReadThatFindsNothingRemovesTheValueEverywhere(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		s := newShared()
		a, b, alone := instance(t, s, change), instance[string, int64](t, s), newCache(t, change)
		for _, c := range []*strata.Cache[string, int64]{a, b, alone} {
			must(t, c.Set(t.Context(), "k", 3))
		}
		for _, c := range []*strata.Cache[string, int64]{a, alone} {
			if v, err := c.GetOrLoad(ctx, "k", (&missing{}).load, opts...); !errors.Is(err, strata.ErrNotFound) {
				t.Errorf("got %d, %v; want ErrNotFound", v, err)
			}
		}
		synctest.Wait()
		down := func(context.Context, string) (int64, error) { return 0, errDown }
		for i, c := range []*strata.Cache[string, int64]{a, b, alone} {
			if v, err := c.GetOrLoad(t.Context(), "k", down); !errors.Is(err, errDown) {
				t.Errorf("%d: got %d, %v: a value that is not there any more", i, v, err)
			}
		}
	})
}

func TestSkipReadMayBeAnsweredNotModified(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		s := newShared()
		for name, c := range map[string]*strata.Cache[string, int64]{"alone": newCache(t, change), "with L2": instance(t, s, change)} {
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
					c := newCache(t, change)
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
		c := newCache(t, change, limits(strata.Limits{MaxLoads: 3}))
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
			c := newCache(t, change, limits(strata.Limits{MaxLoads: 1}))
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
		c := newCache(t, change, limits(strata.Limits{MaxLoads: 1}))
		over, cancel := context.WithCancel(ctx)
		cancel()
		o := &fallible{}
		for range 3 {
			_, _ = c.GetOrLoad(ctx, "k", o.load, opts...)
			_, _ = c.GetOrLoad(over, "k", o.load, opts...)
			_, _ = c.GetOrLoad(ctx, "k", nil, opts...)
			o.fail(errDown)
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
			bubble(t, func(t *testing.T) {
				s := newShared()
				a, b := instance[string, int64](t, s), instance[string, int64](t, s)
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
	bubble(t, func(t *testing.T) {
		s := newShared()
		a := instance[string, int64](t, s)
		must(t, a.InvalidateHold(t.Context(), time.Second, "k"))
		late := instance[string, int64](t, s)
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
	bubble(t, func(t *testing.T) {
		s := newShared()
		a, b := instance[string, int64](t, s), instance[string, int64](t, s)
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

// TestSkipReadsThatOverlapShareLoadsBegunAfterThem also shows that readers lose
// nothing meanwhile: they are served what is held.
func TestSkipReadsThatOverlapShareLoadsBegunAfterThem(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		s := newShared()
		for name, c := range map[string]*strata.Cache[string, int64]{"alone": newCache(t, change), "with L2": instance(t, s, change)} {
			must(t, c.Set(t.Context(), "k", 1))
			o := &origin{takes: time.Second}
			o.value.Store(2)
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if v, err := c.GetOrLoad(ctx, "k", o.load, opts...); v != 2 || err != nil {
						t.Errorf("%s: got %d, %v; want 2", name, v, err)
					}
				})
			}
			synctest.Wait()
			gets(t, c, never(t), 1)
			wg.Wait()
			gets(t, c, never(t), 2)
			if n := o.loads.Load(); n < 1 || n > 2 {
				t.Errorf("%s: %d loads for 20 callers, want one or two", name, n)
			}
		}
	})
}

func TestSkipReadsOneAfterTheOtherStoreTheirValues(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		s := newShared()
		all := []*strata.Cache[string, int64]{instance(t, s, change), instance(t, s, change)}
		o := &origin{takes: 1030 * time.Millisecond} // no load ends as another is asked for
		must(t, all[0].Set(t.Context(), "k", 0))
		var wg sync.WaitGroup
		for i := range 20 { // every 500 ms, on one instance and the other
			o.value.Store(int64(i))
			wg.Go(func() {
				called := time.Now()
				v, err := all[i%2].GetOrLoad(ctx, "k", o.load, opts...)
				if v < int64(i) || err != nil {
					t.Errorf("a SkipRead that was called at version %d got %d, %v", i, v, err)
				}
				if took := time.Since(called); took > 3500*time.Millisecond {
					t.Errorf("a SkipRead took %v, want its load after two others at most", took)
				}
			})
			time.Sleep(500 * time.Millisecond)
			for _, c := range all {
				if v, err := c.GetOrLoad(t.Context(), "k", never(t)); err != nil || v < int64(i)-7 {
					t.Errorf("a reader got %d, %v at version %d", v, err, i)
				}
			}
		}
		wg.Wait()
		synctest.Wait()
		for _, c := range all {
			gets(t, c, never(t), 19)
		}
	})
}

func TestSkipReadIsNotJoinedByTheNext(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := newCache(t, change)
		o := &origin{takes: time.Second}
		read := func(want int64, loads ...strata.CallOption) func() {
			return func() {
				if v, err := c.GetOrLoad(ctx, "k", o.load, loads...); v != want || err != nil {
					t.Errorf("got %d, %v; want %d", v, err, want)
				}
			}
		}
		var wg sync.WaitGroup
		wg.Go(read(0, opts...))
		synctest.Wait()
		o.value.Store(1)
		wg.Go(read(1, opts...)) // it waits for the load that runs, and the next one is its own
		synctest.Wait()
		wg.Go(read(1, opts...))
		wg.Go(func() {
			if v := mustGet(t, c, "k", o.load); v != 0 { // a reader joins what runs
				t.Errorf("a reader got %d, want 0", v)
			}
		})
		wg.Wait()
		if n := o.loads.Load(); n != 2 {
			t.Errorf("%d loads, want 2", n)
		}
	})
}

func TestSkipReadThatFailsGivesItsErrorToNoCallerWithAStaleValue(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := newCache(t, change)
		must(t, c.Set(t.Context(), "k", 3))
		must(t, c.Expire(t.Context(), "k"))
		fails := func(context.Context, string) (int64, error) {
			time.Sleep(time.Second) // in a bubble
			return 0, errDown
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if v, err := c.GetOrLoad(ctx, "k", fails, opts...); !errors.Is(err, errDown) {
				t.Errorf("got %d, %v; want the origin's error", v, err)
			}
		})
		synctest.Wait()
		gets(t, c, never(t), 3)
		wg.Wait()
	})
}

func TestSkipReadInTheQueueKeepsItsRightDespiteAnInvalidate(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		s := newShared()
		for name, c := range map[string]*strata.Cache[string, int64]{"alone": newCache(t, change), "with L2": instance(t, s, change)} {
			o := &origin{takes: time.Second}
			go c.GetOrLoad(ctx, "k", o.load, opts...)
			synctest.Wait()
			o.value.Store(1)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = c.GetOrLoad(ctx, "k", o.load, opts...) // waits for the first
			}()
			synctest.Wait()
			must(t, c.Invalidate(t.Context(), "k"))
			<-done
			gets(t, c, never(t), 1)
			if n := o.loads.Load(); n != 2 {
				t.Errorf("%s: %d loads, want 2", name, n)
			}
		}
	})
}

func TestSkipReadInTheQueueEndsWithTheCache(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := newCache(t, change)
		o := &origin{takes: time.Minute}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if v, err := c.GetOrLoad(ctx, "k", o.load, opts...); !errors.Is(err, strata.ErrClosed) {
					t.Errorf("got %d, %v; want ErrClosed", v, err)
				}
			})
			synctest.Wait()
		}
		must(t, c.Close(t.Context()))
		wg.Wait()
		if n := o.loads.Load(); n != 1 {
			t.Errorf("%d loads, want that of the first: the second one waited for it", n)
		}
	})
}

func TestLoadsThatWaitForEachOtherThroughASkipReadAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCache[string, int64](t)
		var refused atomic.Bool
		last := func(ctx context.Context, _ string) (int64, error) {
			time.Sleep(time.Second) // in a bubble: until a waits for b
			_, err := c.GetOrLoad(ctx, "a", never(t), strata.SkipRead())
			refused.Store(errors.Is(err, strata.ErrRecursiveLoad))
			return 1, nil
		}
		go mustGet(t, c, "b", last)
		synctest.Wait()
		began := time.Now()
		v, err := c.GetOrLoad(t.Context(), "a", func(ctx context.Context, _ string) (int64, error) {
			return c.GetOrLoad(ctx, "b", never(t))
		}, strata.SkipRead())
		if v != 1 || err != nil || !refused.Load() || time.Since(began) != time.Second {
			t.Errorf("got %d, %v after %v, refused: %t", v, err, time.Since(began), refused.Load())
		}
		synctest.Wait() // what was refused is not loaded by and by
	})
}

func TestSkipReadBehindALoadThatWaitsForTheOnlySlotIsLetThrough(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := newCache(t, change, limits(strata.Limits{MaxLoads: 1}))
		v, err := c.GetOrLoad(ctx, "a", func(ctx context.Context, _ string) (int64, error) {
			go c.GetOrLoad(context.Background(), "b", (&origin{}).load) // waits for the slot of a
			synctest.Wait()
			o := &origin{}
			o.value.Store(2)
			return c.GetOrLoad(ctx, "b", o.load, strata.SkipRead())
		}, opts...)
		if v != 2 || err != nil {
			t.Errorf("got %d, %v; want 2", v, err)
		}
	})
}

func TestSkipReadWhileL2IsDownExpiresTheEntryOfL2WhenItIsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared()
		var down atomic.Bool
		a := instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = failing(failing(s.tier, "Acquire", &down), "Drop", &down)
		})
		b := instance[string, int64](t, s)
		must(t, a.Set(t.Context(), "k", 1))
		gets(t, b, never(t), 1)
		down.Store(true)
		o := &origin{}
		o.value.Store(2)
		if v, err := a.GetOrLoad(t.Context(), "k", o.load, strata.SkipRead()); v != 2 || err != nil {
			t.Errorf("got %d, %v; want 2", v, err)
		}
		down.Store(false)
		time.Sleep(time.Minute / 2)
		gets(t, b, o.load, 2)
	})
}

func TestGetManyWithSkipReadLoadsAllKeysAtOnce(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := newCache(t, change)
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
