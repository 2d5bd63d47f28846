package loads_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

func TestTuneChangesNothingIfAValueIsInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		before := c.Stats()
		bad := []strata.Tuning{
			{MaxEntries: new(int64(0)), TTL: new(time.Hour)},
			{MaxEntries: new(int64(-5))},
			{MaxEntries: new(int64(7)), MaxWeight: new(int64(5))}, // without Weigh
			{MaxEntries: new(int64(7)), TTL: new(time.Duration(60))},
			{TTL: new(-time.Minute), Off: new(true)},
		}
		for _, b := range bad {
			if err := c.Tune(b); err == nil || !strings.HasPrefix(err.Error(), "strata: tune: ") {
				t.Errorf("%v: %v", b, err)
			}
		}
		after := c.Stats()
		if after.TuneRefused != uint64(len(bad)) || after.MaxEntries != before.MaxEntries || after.Off {
			t.Errorf("%d refused, %d entries, off %v", after.TuneRefused, after.MaxEntries, after.Off)
		}
		lab.MustGet(t, c, "k", lab.PlainLoad)
		if p := c.Explain(t.Context(), "k").L1; p.Fresh != time.Minute {
			t.Errorf("a refused TTL counts: fresh for %v", p.Fresh)
		}
	})
}

func TestTuneOfAClosedCacheIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		c.Close(context.Background())
		if err := c.Tune(strata.Tuning{TTL: new(time.Hour)}); err != strata.ErrClosed {
			t.Errorf("got %v", err)
		}
	})
}

func TestTunedBoundEvictsAtOnceAndHolds(t *testing.T) {
	lab.Plain(t, "it has no bound of entries")
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		for i := range 1000 {
			lab.MustGet(t, c, fmt.Sprint(i), lab.PlainLoad)
		}
		lab.Tune(t, c, strata.Tuning{MaxEntries: new(int64(10))})
		if c.Len() > 10 || c.Stats().MaxEntries != 10 {
			t.Errorf("%d entries of %d", c.Len(), c.Stats().MaxEntries)
		}
		for i := range 1000 {
			lab.MustGet(t, c, fmt.Sprint(i), lab.PlainLoad)
		}
		if c.Len() > 10 {
			t.Errorf("%d entries later", c.Len())
		}
		lab.Tune(t, c, strata.Tuning{MaxEntries: new(int64(500))})
		for i := range 400 {
			lab.MustGet(t, c, fmt.Sprint(i), lab.PlainLoad)
		}
		if n := c.Len(); n < 400 || n > 410 {
			t.Errorf("%d entries after the bound was raised, want 400 and some of the 10 before", n)
		}
	})
}

func TestTunedTTLHoldsForValuesStoredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Jitter = 0.1 })
		lab.MustGet(t, c, "old", lab.PlainLoad)
		lab.Tune(t, c, strata.Tuning{TTL: new(time.Hour)})
		lab.MustGet(t, c, "new", lab.PlainLoad)
		var i strata.Info
		time.Sleep(10 * time.Second)
		for key, most := range map[string]time.Duration{"old": time.Minute, "new": time.Hour} {
			if _, err := c.GetOrLoad(t.Context(), key, lab.PlainLoad, strata.ReadInfo(&i)); err != nil {
				t.Fatal(err)
			}
			if left := i.TTL + 10*time.Second; left > most || left < most*9/10 {
				t.Errorf("%s is fresh for %v, want up to %v", key, left, most)
			}
			if i.Age != 10*time.Second {
				t.Errorf("%s is %v old, want 10s", key, i.Age)
			}
		}
	})
}

func TestTunedStaleWindowsHoldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Stale.WhileRevalidate = 30 * time.Second })
		o := &lab.Origin{Takes: time.Second}
		took := func() time.Duration {
			start := time.Now()
			lab.MustGet(t, c, "k", o.Load)
			return time.Since(start)
		}
		took()
		time.Sleep(70 * time.Second)
		lab.Tune(t, c, strata.Tuning{StaleWhileRevalidate: new(time.Duration(0))})
		if d := took(); d != time.Second {
			t.Errorf("a read outside the window took %v", d)
		}
		time.Sleep(70 * time.Second)
		lab.Tune(t, c, strata.Tuning{StaleWhileRevalidate: new(20 * time.Second)})
		if d := took(); d != 0 {
			t.Errorf("a read inside the window took %v", d)
		}
		synctest.Wait()
	})
}

func TestCacheThatIsOffReadsAndStoresNothing(t *testing.T) {
	tiers(t, func(t *testing.T, c *strata.Cache[string, int64]) {
		o := &lab.Origin{}
		lab.MustGet(t, c, "k", o.Load)
		_ = c.Set(t.Context(), "set", 1)
		lab.Tune(t, c, strata.Tuning{Off: new(true)})
		loads := o.Loads.Load()
		for range 3 {
			lab.MustGet(t, c, "k", o.Load)
			if _, err := c.GetMany(t.Context(), []string{"k", "m"}, lab.EachOf(o.Load)); err != nil {
				t.Error(err)
			}
			_ = c.Set(t.Context(), "set", 2)
			_ = c.Refresh(t.Context(), "k")
		}
		if n := o.Loads.Load() - loads; n != 9 {
			t.Errorf("%d loads, want one for each key of each read", n)
		}
		if _, found := c.Get(t.Context(), "k"); found || c.Len() != 0 || !c.Stats().Off {
			t.Errorf("found %v, %d entries, off %v", found, c.Len(), c.Stats().Off)
		}
		if v := c.Explain(t.Context(), "k").Verdict; !strings.Contains(v, "off") {
			t.Errorf("Explain says %q", v)
		}
		lab.Tune(t, c, strata.Tuning{Off: new(false)})
		lab.MustGet(t, c, "again", o.Load)
		loads = o.Loads.Load()
		if lab.MustGet(t, c, "again", o.Load); o.Loads.Load() != loads {
			t.Error("nothing is stored after the cache is on again")
		}
	})
}

// TestLoadThatRunsWhenTheCacheIsTurnedOffIsNotStored has the answers of the origin on their way to L2.
func TestLoadThatRunsWhenTheCacheIsTurnedOffIsNotStored(t *testing.T) {
	for name, read := range map[string]func(ctx context.Context, c *strata.Cache[string, int64], o *lab.Origin) error{
		"alone": func(ctx context.Context, c *strata.Cache[string, int64], o *lab.Origin) error {
			_, err := c.GetOrLoad(ctx, "k", o.Load)
			return err
		},
		"in a batch": func(ctx context.Context, c *strata.Cache[string, int64], o *lab.Origin) error {
			_, err := c.GetMany(ctx, []string{"k", "l"}, lab.EachOf(o.Load))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				c, other := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
				o := &lab.Origin{Takes: time.Second}
				go func() { lab.Must(t, read(t.Context(), c, o)) }()
				synctest.Wait()
				lab.Tune(t, c, strata.Tuning{Off: new(true)})
				time.Sleep(5 * time.Second) // in a bubble
				lab.WantAbsent(t, "L2", other)
				lab.GetTakes(t, other, lab.PlainLoad, 1) // no lease is left
			})
		})
	}
}

func TestInvalidationsReachOthersWhileACacheIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		lab.MustGet(t, b, "k", lab.PlainLoad)
		lab.Tune(t, a, strata.Tuning{Off: new(true)})
		if err := a.Invalidate(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, found := b.Get(t.Context(), "k"); found {
			t.Error("the other instance still has the value")
		}
		lab.MustGet(t, b, "k", func(context.Context, string) (int64, error) { return 2, nil })
		lab.Tune(t, a, strata.Tuning{Off: new(false)})
		if v := lab.MustGet(t, a, "k", lab.PlainLoad); v != 2 {
			t.Errorf("after it is on again: %d", v)
		}
	})
}

func TestSetsBesideTuneLeaveNothingBehind(t *testing.T) {
	for range 50 {
		c, err := strata.New(strata.Options[int, int]{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		for g := range 4 {
			calls.Go(func() {
				for i := range 100 {
					_ = c.Set(t.Context(), g*100+i, i)
				}
			})
		}
		calls.Go(func() { _ = c.Tune(strata.Tuning{Off: new(true), MaxEntries: new(int64(math.MaxInt64))}) })
		calls.Wait()
		for i := range 400 {
			if _, found := c.Get(t.Context(), i); found {
				t.Fatalf("key %d was left in L1", i)
			}
		}
		c.Close(context.Background())
	}
}

// shorten gives c windows of ten seconds.
func shorten(t *testing.T, c *strata.Cache[string, int64]) {
	t.Helper()
	lab.Tune(t, c, strata.Tuning{StaleOnError: new(10 * time.Second), StaleWhileRevalidate: new(10 * time.Second)})
}

// TestShorterWindowsHoldForValuesThatTiersHave has instances with windows of an hour. Half an hour after the
// TTL of a value, all have windows of ten seconds.
func TestShorterWindowsHoldForValuesThatTiersHave(t *testing.T) {
	long := lab.Windows(time.Hour, time.Hour)
	for name, next := range map[string]func(t *testing.T, s *lab.Shared, a *strata.Cache[string, int64]) *strata.Cache[string, int64]{
		"L1, by Tune": func(t *testing.T, _ *lab.Shared, a *strata.Cache[string, int64]) *strata.Cache[string, int64] {
			shorten(t, a)
			return a
		},
		"L2, by Tune": func(t *testing.T, s *lab.Shared, _ *strata.Cache[string, int64]) *strata.Cache[string, int64] {
			b := lab.Instance(t, s, long)
			shorten(t, b)
			return b
		},
		"L2, by another program": func(t *testing.T, s *lab.Shared, _ *strata.Cache[string, int64]) *strata.Cache[string, int64] {
			return lab.Instance(t, s, lab.Windows(10*time.Second, 10*time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				a := lab.Instance(t, s, long)
				lab.Must(t, a.Set(t.Context(), "k", 1))
				time.Sleep(31 * time.Minute)
				c := next(t, s, a)
				var info strata.Info
				if v, err := c.GetOrLoad(t.Context(), "k", lab.DownLoad, strata.ReadInfo(&info)); err == nil {
					t.Errorf("got %d, %+v, half an hour after its TTL", v, info)
				}
				if v, ok := c.Get(t.Context(), "k", strata.AllowStale(), strata.ReadInfo(&info)); v != 1 || !ok || info.Age != 31*time.Minute {
					t.Errorf("got %d, %v, %+v; want the value that a tier keeps", v, ok, info)
				}
			})
		})
	}
}

func TestShorterWindowsHoldForValuesThatWereExpired(t *testing.T) {
	for name, of := range map[string]func(t *testing.T) *strata.Cache[string, int64]{
		"L1": func(t *testing.T) *strata.Cache[string, int64] {
			c := lab.NewCache(t, lab.Windows(-1, time.Hour), lab.Forever)
			lab.Must(t, c.Set(t.Context(), "k", 1))
			lab.Must(t, c.Expire(t.Context(), "k"))
			time.Sleep(5 * time.Second) // in a bubble
			return c
		},
		"L1, expired with everything later": func(t *testing.T) *strata.Cache[string, int64] {
			c := lab.NewCache(t, lab.Windows(-1, time.Hour), lab.Forever)
			lab.Must(t, c.Set(t.Context(), "k", 1))
			lab.Must(t, c.Expire(t.Context(), "k"))
			lab.Must(t, c.ExpireAll(t.Context()))
			time.Sleep(5 * time.Second) // in a bubble
			lab.MustGet(t, c, "k", lab.DownLoad)
			return c
		},
		// L2 does not say when it was expired.
		"L2": func(t *testing.T) *strata.Cache[string, int64] {
			s := lab.NewShared()
			a, b := lab.Instance(t, s, lab.Windows(-1, time.Hour), lab.Forever), lab.Instance(t, s, lab.Windows(-1, time.Hour), lab.Forever)
			lab.Must(t, a.Set(t.Context(), "k", 1))
			lab.Must(t, a.Expire(t.Context(), "k"))
			time.Sleep(30 * time.Minute) // in a bubble
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := of(t)
				shorten(t, c)
				if v := lab.MustGet(t, c, "k", lab.DownLoad); v != 1 {
					t.Errorf("got %d within the window", v)
				}
				time.Sleep(11 * time.Second)
				if v, err := c.GetOrLoad(t.Context(), "k", lab.DownLoad); err == nil {
					t.Errorf("got %d after its window", v)
				}
			})
		})
	}
}
