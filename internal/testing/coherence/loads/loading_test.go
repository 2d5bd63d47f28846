package loads_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// saying is a Loader that brings 1 and says something about it.
func saying(say func(l *strata.Load)) strata.Loader[string, int64] {
	return func(ctx context.Context, _ string) (int64, error) {
		say(strata.Loading(ctx))
		return 1, nil
	}
}

func TestLoaderSetsHowLongItsValueIsFresh(t *testing.T) {
	second := func(l *strata.Load) { l.SetTTL(time.Second) }
	cases := map[string]struct {
		say     func(l *strata.Load)
		options []strata.CallOption
		want    time.Duration
	}{
		"nothing":             {func(*strata.Load) {}, nil, time.Minute},
		"shorter":             {second, nil, time.Second},
		"longer":              {func(l *strata.Load) { l.SetTTL(time.Hour) }, nil, time.Hour},
		"twice":               {func(l *strata.Load) { l.SetTTL(time.Hour); l.SetTTL(time.Second) }, nil, time.Second},
		"otherwise than call": {second, []strata.CallOption{strata.WithTTL(time.Hour)}, time.Second},
		"zero":                {func(l *strata.Load) { l.SetTTL(0) }, []strata.CallOption{strata.WithTTL(time.Hour)}, 0},
		"negative":            {func(l *strata.Load) { l.SetTTL(-1) }, []strata.CallOption{strata.WithTTL(time.Hour)}, 0},
		"not to be stored":    {func(l *strata.Load) { l.NoStore(); l.SetTTL(time.Hour) }, nil, 0},
	}
	for name, tc := range cases {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			c := lab.Instance[string, int64](t, s)
			v, err := c.GetOrLoad(t.Context(), "k", saying(tc.say), tc.options...)
			if v != 1 || err != nil {
				t.Errorf("%s: got %d, %v; want 1", name, v, err)
			}
			r := c.Explain(t.Context(), "k")
			if r.L1.Fresh != tc.want || r.L2.Fresh != tc.want {
				t.Errorf("%s: fresh for %v in L1, %v in L2; want %v", name, r.L1.Fresh, r.L2.Fresh, tc.want)
			}
			if tc.want == 0 && (r.L1.Present || r.L2.Present) {
				t.Errorf("%s: kept", name)
			}
		})
	}
}

// TestNoStoreRemovesTheEntryOfL1 also checks that the lease is given back: no caller
// waits in vain for a value to be stored.
func TestNoStoreRemovesTheEntryOfL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		lab.Must(t, a.Set(t.Context(), "k", 7))
		lab.Must(t, a.Expire(t.Context(), "k"))
		synctest.Wait()
		secret := saying((*strata.Load).NoStore)
		if v := lab.MustGet(t, a, "k", secret); v != 1 {
			t.Errorf("got %d, want 1", v)
		}
		if r := a.Explain(t.Context(), "k"); r.L1.Present {
			t.Error("the older value is still in L1")
		}
		start := time.Now()
		lab.MustGet(t, b, "k", secret)
		if waited := time.Since(start); waited != 0 {
			t.Errorf("the next instance waited %v", waited)
		}
	})
}

// TestLoadsInsideLoadsSayNothingAboutEachOther nests loads of two caches, and
// of two keys of one.
func TestLoadsInsideLoadsSayNothingAboutEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer := lab.NewCache[string, int64](t)
		inner := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Name = "inner" })
		load := func(nested *strata.Cache[string, int64]) strata.Loader[string, int64] {
			return func(ctx context.Context, _ string) (int64, error) {
				mine := strata.Loading(ctx)
				v, err := nested.GetOrLoad(ctx, "nested", func(ctx context.Context, _ string) (int64, error) {
					if strata.Loading(ctx) == mine {
						t.Error("the nested load is taken for the outer one")
					}
					strata.Loading(ctx).SetTTL(time.Second)
					strata.Loading(ctx).SetTags("nested")
					return 1, nil
				})
				if strata.Loading(ctx) != mine {
					t.Error("the load is another one after it has asked for a key")
				}
				strata.Loading(ctx).SetTTL(time.Hour)
				strata.Loading(ctx).SetTags("outer")
				return v, err
			}
		}
		for name, nested := range map[string]*strata.Cache[string, int64]{"another cache": inner, "the same cache": outer} {
			lab.MustGet(t, outer, name, load(nested))
			ro, rn := outer.Explain(t.Context(), name), nested.Explain(t.Context(), "nested")
			if ro.L1.Fresh != time.Hour || rn.L1.Fresh != time.Second {
				t.Errorf("%s: fresh for %v and, nested, %v; want 1h, 1s", name, ro.L1.Fresh, rn.L1.Fresh)
			}
			lab.Must(t, nested.InvalidateTags(t.Context(), "nested"))
			if _, ok := outer.Get(t.Context(), name); !ok {
				t.Errorf("%s: the outer entry has the nested one's tags", name)
			}
			if _, ok := nested.Get(t.Context(), "nested"); ok {
				t.Errorf("%s: the nested entry has not got its tags", name)
			}
			lab.Must(t, outer.InvalidateTags(t.Context(), "outer"))
			if _, ok := outer.Get(t.Context(), name); ok {
				t.Errorf("%s: the outer entry has not got its tags", name)
			}
		}
	})
}

// TestLoadingIsDeafOutsideALoad calls the methods of Loading where no load runs, and after the
// Loader of a load has returned.
func TestLoadingIsDeafOutsideALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		outside := strata.Loading(t.Context())
		if outside == nil {
			t.Fatal("there is nothing to call")
		}
		outside.NoStore()
		outside.SetTTL(-1)
		outside.SetTags("", "too")
		var kept *strata.Load
		lab.MustGet(t, c, "k", saying(func(l *strata.Load) { kept = l; l.SetTTL(time.Hour) }))
		kept.NoStore()
		kept.SetTTL(time.Second)
		kept.SetTags("late")
		lab.Must(t, c.InvalidateTags(t.Context(), "late", "too"))
		lab.WantHeld(t, "the cache", c, 1)
		if r := c.Explain(t.Context(), "k"); r.L1.Fresh != time.Hour {
			t.Errorf("fresh for %v, want 1h", r.L1.Fresh)
		}
	})
}

// TestLoaderMaySpeakFromItsOwnGoroutines calls the methods of Loading on many goroutines at once,
// for the race detector.
func TestLoaderMaySpeakFromItsOwnGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		lab.MustGet(t, c, "k", saying(func(l *strata.Load) {
			var wg sync.WaitGroup
			for _, tag := range []string{"a", "b", "c", "d"} {
				wg.Go(func() {
					l.SetTags(tag, "all")
					l.SetTTL(time.Hour)
				})
			}
			wg.Wait()
		}))
		if r := c.Explain(t.Context(), "k"); r.L1.Fresh != time.Hour {
			t.Errorf("fresh for %v, want 1h", r.L1.Fresh)
		}
		lab.Must(t, c.InvalidateTags(t.Context(), "c"))
		lab.WantAbsent(t, "the cache", c)
	})
}

func TestLoadingKeyCountsInALoaderOfOneKeyInABatch(t *testing.T) {
	for name, says := range map[string]func(ctx context.Context, k string) *strata.Load{
		"Loading":    func(ctx context.Context, _ string) *strata.Load { return strata.Loading(ctx) },
		"LoadingKey": func(ctx context.Context, k string) *strata.Load { return strata.LoadingKey(ctx, k) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
					o.Loader = func(ctx context.Context, k string) (int64, error) {
						if says(ctx, k).SetTTL(time.Second); k == "none" {
							says(ctx, k).NoStore()
						}
						return 1, nil
					}
				})
				lab.MustGet(t, c, "one", nil)
				_, err := c.GetMany(t.Context(), []string{"k", "l", "none"}, nil)
				lab.Must(t, err)
				for _, k := range []string{"one", "k", "l"} {
					if d := c.Explain(t.Context(), k).L1.Fresh; d != time.Second {
						t.Errorf("%s is fresh for %v, want a second", k, d)
					}
				}
				if c.Explain(t.Context(), "none").L1.Present {
					t.Error("the value of a key is stored against its word")
				}
			})
		})
	}
}
