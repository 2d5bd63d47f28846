package loads_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// gathers makes single loads wait for each other for 10 ms, and load by o.
func gathers(o *someKeys) func(*strata.Options[string, int64]) {
	return func(opts *strata.Options[string, int64]) {
		opts.ManyLoader, opts.BatchWait = o.load, 10*time.Millisecond
	}
}

// abc is an origin with the keys a, b and c.
func abc() *someKeys { return &someKeys{has: map[string]int64{"a": 1, "b": 2, "c": 3}} }

// got is the answer of a GetOrLoad.
type got struct {
	value int64
	err   error
	took  time.Duration
}

// getsEach asks c for each key by itself, all at once, and returns their answers.
func getsEach(ctx context.Context, c *strata.Cache[string, int64], keys ...string) map[string]got {
	var mu sync.Mutex
	var all sync.WaitGroup
	answers := map[string]got{}
	for _, k := range keys {
		all.Go(func() {
			begun := time.Now()
			v, err := c.GetOrLoad(ctx, k, nil)
			mu.Lock()
			defer mu.Unlock()
			answers[k] = got{v, err, time.Since(begun)}
		})
	}
	all.Wait()
	return answers
}

func TestLoadsOfSingleKeysThatComeTogetherAreOneCall(t *testing.T) {
	for name, c := range map[string]struct {
		size  int
		apart time.Duration
		asked string
		took  time.Duration // of a
	}{
		"at once":                 {0, 0, "[[a b c]]", 10 * time.Millisecond},
		"within the time":         {0, 4 * time.Millisecond, "[[a b c]]", 10 * time.Millisecond},
		"some of them":            {0, 6 * time.Millisecond, "[[a b] [c]]", 10 * time.Millisecond},
		"as many as there may be": {3, 0, "[[a b c]]", 0},
		"more than there may be":  {2, time.Millisecond, "[[a b] [c]]", time.Millisecond},
		"one by one":              {0, 20 * time.Millisecond, "[[a] [b] [c]]", 10 * time.Millisecond},
		"batches of one do not":   {1, 0, "[[a] [b] [c]]", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := abc()
				cache := lab.NewCache(t, gathers(o), func(opts *strata.Options[string, int64]) { opts.BatchSize = c.size })
				var all sync.WaitGroup
				for i, k := range []string{"a", "b", "c"} {
					all.Go(func() {
						begun := time.Now()
						if v, err := cache.GetOrLoad(t.Context(), k, nil); v != int64(i+1) || err != nil {
							t.Errorf("%s: %d, %v", k, v, err)
						}
						if took := time.Since(begun); k == "a" && took != c.took {
							t.Errorf("a took %v, want %v", took, c.took)
						}
					})
					synctest.Wait()
					time.Sleep(c.apart)
				}
				all.Wait()
				if asked := o.asked(); asked != c.asked {
					t.Errorf("asked for %s, want %s", asked, c.asked)
				}
			})
		})
	}
}

func TestManyLoaderOfTheOptionsIsUsedWithoutALoader(t *testing.T) {
	both(t, func(*strata.Options[string, int64]) {}, func(t *testing.T, c *strata.Cache[string, int64]) {
		if _, err := c.GetOrLoad(t.Context(), "a", nil); !errors.Is(err, strata.ErrNoLoader) {
			t.Errorf("without any loader: %v", err)
		}
	})
	o, own := abc(), &lab.Origin{}
	own.Value.Store(7)
	both(t, func(opts *strata.Options[string, int64]) { opts.ManyLoader = o.load }, func(t *testing.T, c *strata.Cache[string, int64]) {
		if v := lab.MustGet(t, c, "a", nil); v != 1 {
			t.Errorf("a is %d, want 1", v)
		}
		if got, err := c.GetMany(t.Context(), []string{"a", "b", "c", "d"}, nil); err != nil || fmt.Sprint(got) != "map[a:1 b:2 c:3]" {
			t.Errorf("%v, %v", got, err)
		}
		if v, err := c.GetOrLoad(t.Context(), "a", nil, strata.SkipRead()); v != 1 || err != nil {
			t.Errorf("past the cache: %d, %v", v, err)
		}
		if v := lab.MustGet(t, c, "x", own.Load); v != 7 {
			t.Errorf("with a Loader of the call: %d, want 7", v)
		}
		if asked := o.asked(); asked != "[[a] [b c d] [a]]" {
			t.Errorf("asked for %s", asked)
		}
	})
	both(t, func(opts *strata.Options[string, int64]) { opts.ManyLoader, opts.Loader = o.load, own.Load }, func(t *testing.T, c *strata.Cache[string, int64]) {
		if v := lab.MustGet(t, c, "a", nil); v != 7 {
			t.Errorf("a is %d by Options.Loader, want 7", v)
		}
		if got, err := c.GetMany(t.Context(), []string{"b", "c"}, nil); err != nil || fmt.Sprint(got) != "map[b:2 c:3]" {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// TestKeysOfAGatheredBatchHaveTheirOwnResults has an origin that brings a and an extra
// key, fails for b, and says of c by leaving it out that it does not exist.
func TestKeysOfAGatheredBatchHaveTheirOwnResults(t *testing.T) {
	for _, fails := range []bool{false, true} {
		load := func(ctx context.Context, keys []string) (map[string]int64, error) {
			strata.LoadingKey(ctx, "a").SetTTL(20 * time.Second)
			strata.LoadingKey(ctx, "a").SetTags("of a")
			strata.LoadingKey(ctx, "d").NoStore()
			found := map[string]int64{"a": 1, "d": 4, "extra": 5}
			if fails {
				return found, lab.ErrDown
			}
			return found, nil
		}
		both(t, func(o *strata.Options[string, int64]) {
			o.ManyLoader, o.BatchWait, o.NotFoundTTL, o.ErrorTTL = load, 10*time.Millisecond, 5*time.Second, time.Second
		}, func(t *testing.T, c *strata.Cache[string, int64]) {
			lives := map[string]time.Duration{"a": 20 * time.Second, "b": 0, "d": 0, "e": 0, "extra": time.Minute}
			if c.Explain(t.Context(), "a").L2.Used {
				lives["extra"] = strata.UnconfirmedTTL
			}
			if fails {
				lives["extra"] = 0
			}
			answers := getsEach(t.Context(), c, "a", "b", "d", "e")
			for k, a := range answers {
				want := error(nil)
				switch {
				case fails && (k == "b" || k == "e"):
					want = lab.ErrDown
				case k == "b" || k == "e":
					want = strata.ErrNotFound
				}
				if !errors.Is(a.err, want) || a.took != 10*time.Millisecond {
					t.Errorf("fails %v: %s: %+v, want %v after 10ms", fails, k, a, want)
				}
			}
			for k, want := range lives {
				r := c.Explain(t.Context(), k)
				if got := r.L1.Fresh; !r.L1.NotFound && got != want {
					t.Errorf("fails %v: %s is fresh for %v, want %v", fails, k, got, want)
				}
				if absent := !fails && (k == "b" || k == "e"); r.L1.NotFound != absent || r.Failures > 0 != (fails && (k == "b" || k == "e")) {
					t.Errorf("fails %v: %s: %+v", fails, k, r)
				}
			}
			lab.Must(t, c.InvalidateTags(t.Context(), "of a"))
			if c.Explain(t.Context(), "a").L1.Present {
				t.Errorf("fails %v: a has no tag", fails)
			}
		})
	}
}

func TestCallOptionsOfAGatheredLoadAreThoseOfItsKey(t *testing.T) {
	o := abc()
	both(t, gathers(o), func(t *testing.T, c *strata.Cache[string, int64]) {
		var all sync.WaitGroup
		all.Go(func() { _, _ = c.GetOrLoad(t.Context(), "a", nil, strata.WithTTL(time.Second), strata.WithTags("t")) })
		all.Go(func() { lab.MustGet(t, c, "b", nil) })
		all.Wait()
		if asked := o.asked(); asked != "[[a b]]" {
			t.Errorf("asked for %s", asked)
		}
		a, b := c.Explain(t.Context(), "a").L1, c.Explain(t.Context(), "b").L1
		if a.Fresh != time.Second || len(a.Tags) != 1 || b.Fresh != time.Minute || len(b.Tags) != 0 {
			t.Errorf("%+v, %+v", a, b)
		}
	})
}

func TestRefreshesThatComeTogetherAreOneCall(t *testing.T) {
	o := abc()
	both(t, func(opts *strata.Options[string, int64]) { gathers(o)(opts); opts.RefreshAt = 0.5 }, func(t *testing.T, c *strata.Cache[string, int64]) {
		getsEach(t.Context(), c, "a", "b", "c")
		time.Sleep(40 * time.Second) // in a bubble
		if a := getsEach(t.Context(), c, "a", "b")["a"]; a.value != 1 || a.took != 0 {
			t.Errorf("%+v, want 1 at once", a)
		}
		time.Sleep(time.Second) // in a bubble
		if asked := o.asked(); asked != "[[a b c] [a b]]" {
			t.Errorf("asked for %s", asked)
		}
	})
}

func TestValuesOfL2WaitForNoGatheredLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := lab.NewShared(), abc()
		one, other := lab.Instance(t, s, gathers(o)), lab.Instance(t, s, gathers(o))
		lab.Must(t, one.Set(t.Context(), "a", 1))
		if answers := getsEach(t.Context(), other, "a", "b"); answers["a"].took != 0 || answers["b"].took != 10*time.Millisecond {
			t.Errorf("%+v", answers)
		}
		if asked := o.asked(); asked != "[[b]]" {
			t.Errorf("asked for %s", asked)
		}
	})
}

func TestCallerThatLeavesAGatheredLoadTakesNothingFromTheOthers(t *testing.T) {
	for name, cancels := range map[string]bool{"goes on": false, "is cancelled": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := abc()
				o.takes = time.Second
				c := lab.NewCache(t, gathers(o), func(opts *strata.Options[string, int64]) { opts.Limits.CancelAbandoned = cancels })
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				defer cancel()
				late, cancelLate := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancelLate()
				var all sync.WaitGroup
				for k, ctx := range map[string]context.Context{"a": ctx, "c": late} {
					all.Go(func() {
						begun := time.Now()
						_, err := c.GetOrLoad(ctx, k, nil)
						if end, _ := ctx.Deadline(); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != end.Sub(begun) {
							t.Errorf("%s: %v after %v", k, err, time.Since(begun))
						}
					})
				}
				time.Sleep(time.Millisecond)
				if b := getsEach(t.Context(), c, "b")["b"]; b.value != 2 || b.err != nil {
					t.Errorf("b: %+v", b)
				}
				all.Wait()
				if left := c.Explain(t.Context(), "c").L1.Present; left == cancels {
					t.Errorf("c is stored: %v", left)
				}
			})
		})
	}
}

func TestGatheredLoadIsCancelledWhenAllItsCallersHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended error
		load := func(ctx context.Context, _ []string) (map[string]int64, error) {
			<-ctx.Done()
			ended = ctx.Err()
			return nil, ctx.Err()
		}
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.ManyLoader, o.BatchWait, o.Limits.CancelAbandoned = load, 10*time.Millisecond, true
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		getsEach(ctx, c, "a", "b")
		if synctest.Wait(); !errors.Is(ended, context.Canceled) {
			t.Errorf("the context of the load: %v", ended)
		}
	})
}

func TestGatheredLoadThatPanicsOrExitsIsAnErrorOfEachKey(t *testing.T) {
	for name, end := range map[string]func(){"panics": func() { panic("oh") }, "exits": lab.ExitGoroutine} {
		t.Run(name, func(t *testing.T) {
			fails, o := true, abc()
			both(t, func(opts *strata.Options[string, int64]) {
				gathers(o)(opts)
				opts.ManyLoader = func(ctx context.Context, keys []string) (map[string]int64, error) {
					if fails {
						end()
					}
					return o.load(ctx, keys)
				}
			}, func(t *testing.T, c *strata.Cache[string, int64]) {
				fails = true
				for k, a := range getsEach(t.Context(), c, "a", "b") {
					if _, panicked := errors.AsType[*strata.LoadPanicError](a.err); !panicked && !errors.Is(a.err, strata.ErrLoadExited) {
						t.Errorf("%s: %+v", k, a)
					}
				}
				fails = false
				for k, a := range getsEach(t.Context(), c, "a", "b") {
					if a.err != nil || a.value == 0 {
						t.Errorf("%s after that: %+v", k, a)
					}
				}
			})
		})
	}
}

func TestGatheredLoadEndsAtHardTimeout(t *testing.T) {
	o := abc()
	o.takes = time.Hour
	both(t, func(opts *strata.Options[string, int64]) { gathers(o)(opts); opts.Limits.HardTimeout = time.Second }, func(t *testing.T, c *strata.Cache[string, int64]) {
		for k, a := range getsEach(t.Context(), c, "a", "b") {
			if !errors.Is(a.err, context.DeadlineExceeded) || a.took != 1010*time.Millisecond {
				t.Errorf("%s: %+v", k, a)
			}
		}
	})
}

// TestGatheredLoadThatAsksForItsOwnKeyIsRefused has a load of a and b that asks for
// another key first, which is loaded alone and at once, and then for b.
func TestGatheredLoadThatAsksForItsOwnKeyIsRefused(t *testing.T) {
	var c *strata.Cache[string, int64]
	load := func(ctx context.Context, keys []string) (map[string]int64, error) {
		found := map[string]int64{}
		for _, k := range keys {
			found[k] = int64(len(keys))
		}
		if keys[0] == "inner" {
			return found, nil
		}
		begun := time.Now()
		v, err := c.GetOrLoad(ctx, "inner", nil)
		if err != nil || v != 1 || time.Since(begun) != 0 {
			return nil, fmt.Errorf("inner: %d, %w after %v", v, err, time.Since(begun))
		}
		if _, err = c.GetOrLoad(ctx, "b", nil); !errors.Is(err, strata.ErrRecursiveLoad) {
			return nil, fmt.Errorf("its own key: %w", err)
		}
		return found, nil
	}
	both(t, func(o *strata.Options[string, int64]) { o.ManyLoader, o.BatchWait = load, 10*time.Millisecond }, func(t *testing.T, own *strata.Cache[string, int64]) {
		c = own
		for k, a := range getsEach(t.Context(), c, "a", "b") {
			if a.err != nil || a.value != 2 {
				t.Errorf("%s: %+v", k, a)
			}
		}
	})
}

// TestLoadsThatWaitForEachOtherThroughGatheredBatchesAreRefused has a batch of a and b
// wait for the load of c. The load of c asks for b later.
func TestLoadsThatWaitForEachOtherThroughGatheredBatchesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *strata.Cache[string, int64]
		var refused error
		c = lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.BatchWait = 10 * time.Millisecond
			o.ManyLoader = func(ctx context.Context, keys []string) (map[string]int64, error) {
				found := map[string]int64{}
				for _, k := range keys {
					found[k] = 1
				}
				if found["a"] != 0 {
					_, err := c.GetOrLoad(ctx, "c", nil)
					return found, err
				}
				time.Sleep(20 * time.Millisecond)
				_, refused = c.GetOrLoad(ctx, "b", nil)
				return found, nil
			}
		})
		go getsEach(t.Context(), c, "c")
		time.Sleep(15 * time.Millisecond)
		if a := getsEach(t.Context(), c, "a", "b"); a["a"].err != nil || a["b"].took != 15*time.Millisecond || !errors.Is(refused, strata.ErrRecursiveLoad) {
			t.Errorf("%+v, refused with %v", a, refused)
		}
	})
}

func TestGatheredBatchIsOneLoadForMaxLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busy{takes: time.Second}
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.BatchWait, o.BatchSize, o.Limits.MaxLoads = 10*time.Millisecond, 5, 2
			o.ManyLoader = func(_ context.Context, keys []string) (map[string]int64, error) {
				defer b.begin()()
				time.Sleep(b.takes)
				found := map[string]int64{}
				for _, k := range keys {
					found[k] = 1
				}
				return found, nil
			}
		})
		begun := time.Now()
		for k, a := range getsEach(t.Context(), c, lab.ManyKeys(20)...) {
			if a.err != nil || a.value != 1 {
				t.Errorf("%s: %+v", k, a)
			}
		}
		if b.most.Load() != 2 || b.total.Load() != 4 || time.Since(begun) != 2*time.Second {
			t.Errorf("%d at once, %d calls, in %v", b.most.Load(), b.total.Load(), time.Since(begun))
		}
	})
}

// TestInvalidateDuringAGatheredLoadFencesItsKeyOnly also lets a caller come after the
// Invalidate, which gets a newer value by a load of its own.
func TestInvalidateDuringAGatheredLoadFencesItsKeyOnly(t *testing.T) {
	o := abc()
	o.takes = time.Second
	both(t, gathers(o), func(t *testing.T, c *strata.Cache[string, int64]) {
		var all sync.WaitGroup
		all.Go(func() { getsEach(t.Context(), c, "a", "b") })
		time.Sleep(500 * time.Millisecond) // in a bubble
		lab.Must(t, c.Invalidate(t.Context(), "a"))
		all.Wait()
		for k, want := range map[string]bool{"a": false, "b": true} {
			if r := c.Explain(t.Context(), k); r.L1.Present != want || r.L2.Used && r.L2.Present != want {
				t.Errorf("%s is stored: %+v, %+v", k, r.L1, r.L2)
			}
		}
	})
}

// TestKeyThatIsDroppedWhileItsLoadWaitsIsAskedForOnce has a caller from before the drop
// and one from after it. Their flights are in one batch.
func TestKeyThatIsDroppedWhileItsLoadWaitsIsAskedForOnce(t *testing.T) {
	o := abc()
	both(t, gathers(o), func(t *testing.T, c *strata.Cache[string, int64]) {
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if a := getsEach(t.Context(), c, "a")["a"]; a.err != nil || a.value != 1 {
					t.Errorf("%+v", a)
				}
			})
			time.Sleep(time.Millisecond) // in a bubble
			lab.Must(t, c.Invalidate(t.Context(), "a", "b"))
		}
		all.Go(func() { getsEach(t.Context(), c, "a", "b") })
		if all.Wait(); o.asked() != "[[a b]]" {
			t.Error("a was asked for more than once")
		}
		if !c.Explain(t.Context(), "a").L1.Present {
			t.Error("the value is not stored")
		}
	})
}

// TestInstancesLoadAGatheredKeyOnce has a load of another instance run for b. The batch
// waits for its value, and no other key is held up.
func TestInstancesLoadAGatheredKeyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := lab.NewShared(), abc()
		tier, asked := lab.CountCalls(s.Tier)
		one := lab.Instance(t, s, gathers(o))
		other := lab.Instance(t, s, gathers(o), func(o *strata.Options[string, int64]) { o.Remote.Tier = tier })
		var all sync.WaitGroup
		o.takes = time.Second
		all.Go(func() { getsEach(t.Context(), one, "b") })
		time.Sleep(100 * time.Millisecond)
		o.mu.Lock()
		o.takes = 0
		o.mu.Unlock()
		answers := getsEach(t.Context(), other, "a", "b", "c")
		all.Wait()
		if calls := o.asked(); calls != "[[b] [a c]]" || answers["a"].took != 10*time.Millisecond || answers["b"].value != 2 {
			t.Errorf("asked for %s; %+v", calls, answers)
		}
		if n := asked("Put"); n != 1 {
			t.Errorf("%d stores in L2, want 1", n)
		}
	})
}

func TestGatheredLoadHasTheValuesOfTheCallerThatCameFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type traceKey struct{}
		var seen any
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.BatchWait = 10 * time.Millisecond
			o.ManyLoader = func(ctx context.Context, _ []string) (map[string]int64, error) {
				seen = ctx.Value(traceKey{})
				return map[string]int64{"a": 1, "b": 2}, nil
			}
		})
		var all sync.WaitGroup
		for _, k := range []string{"a", "b"} {
			all.Go(func() { getsEach(context.WithValue(t.Context(), traceKey{}, k), c, k) })
			time.Sleep(time.Millisecond)
		}
		if all.Wait(); seen != "a" {
			t.Errorf("the load has the value %v, want a", seen)
		}
	})
}

func TestCloseWaitsForNoFurtherKeysOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := abc()
		c := lab.NewCache(t, gathers(o), func(o *strata.Options[string, int64]) { o.BatchWait = time.Second })
		var all sync.WaitGroup
		all.Go(func() {
			if a := getsEach(t.Context(), c, "a")["a"]; !errors.Is(a.err, strata.ErrClosed) || a.took != time.Millisecond {
				t.Errorf("%+v", a)
			}
		})
		time.Sleep(time.Millisecond)
		begun := time.Now()
		if lab.Must(t, c.Close(t.Context())); time.Since(begun) != 0 {
			t.Errorf("Close took %v", time.Since(begun))
		}
		if all.Wait(); o.asked() != "[]" {
			t.Error("a load began after Close")
		}
	})
}

func TestLeasesOfAGatheredBatchAreTakenInOneRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := lab.NewShared(), abc()
		tier, asked := lab.CountCalls(s.Tier)
		c := lab.Instance(t, s, gathers(o), func(o *strata.Options[string, int64]) { o.Remote.Tier = tier })
		getsEach(t.Context(), c, "a", "b", "c")
		if asked("Acquire") != 1 || asked("Put") != 1 || asked("Get") != 3 {
			t.Errorf("%d requests for leases, %d stores, %d reads; want 1, 1, 3", asked("Acquire"), asked("Put"), asked("Get"))
		}
	})
}
