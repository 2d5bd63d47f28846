package loads_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// softly makes callers with something stale wait for 100 ms.
func softly(o *strata.Options[string, int64]) { o.Limits.SoftTimeout = 100 * time.Millisecond }

// staleInL2 returns an instance with an empty L1. L2 holds a stale zero for each key:
// expired by a call, or past its TTL.
func staleInL2(t *testing.T, expired bool, keys []string, change ...func(*strata.Options[string, int64])) *strata.Cache[string, int64] {
	t.Helper()
	s := lab.NewShared()
	a := lab.Instance(t, s, softly)
	for _, k := range keys {
		lab.MustGet(t, a, k, (&lab.Origin{}).Load)
	}
	if expired {
		lab.Must(t, a.Expire(t.Context(), keys...))
	} else {
		time.Sleep(2 * time.Minute)
	}
	return lab.Instance(t, s, append(change, softly)...)
}

func TestSoftTimeoutAppliesToEntriesThatAreStaleInL2Only(t *testing.T) {
	for name, expired := range map[string]bool{"too old": false, "expired": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := staleInL2(t, expired, []string{"k"})
				lab.MissALot(t, c) // L2 is asked by way of the lease
				o := &lab.Origin{Takes: time.Second}
				o.Value.Store(2)
				var info strata.Info
				begun := time.Now()
				v, err := c.GetOrLoad(t.Context(), "k", o.Load, strata.ReadInfo(&info))
				if took := time.Since(begun); v != 0 || err != nil || took != 100*time.Millisecond || !info.Stale {
					t.Errorf("got %d, %v, %+v after %v; want the stale value after 100ms", v, err, info, took)
				}
				time.Sleep(50 * time.Millisecond)
				if took := lab.GetTakes(t, c, o.Load, 0); took != 100*time.Millisecond {
					t.Errorf("the next caller waited for %v, want 100ms", took)
				}
				time.Sleep(time.Second)
				lab.GetTakes(t, c, o.Load, 2)
				if n := o.Loads.Load(); n != 1 {
					t.Errorf("%d loads, want 1", n)
				}
				if st := c.Stats(); st.StaleOnError != 2 {
					t.Errorf("%d stale values counted, want 2", st.StaleOnError)
				}
			})
		})
	}
}

func TestSoftTimeoutHoldsInABatch(t *testing.T) {
	load := func(o *someKeys) func(t *testing.T, c *strata.Cache[string, int64]) {
		return func(t *testing.T, c *strata.Cache[string, int64]) {
			t.Helper()
			begun := time.Now()
			getsMany(t, c, o, map[string]int64{"a": 0, "b": 0}, "a", "b")
			if took := time.Since(begun); took != 100*time.Millisecond {
				t.Errorf("a batch with a stale value for each key took %v, want 100ms", took)
			}
			begun = time.Now()
			getsMany(t, c, o, map[string]int64{"a": 1, "b": 2, "c": 3}, "a", "b", "c")
			if took := time.Since(begun); took != time.Second {
				t.Errorf("a batch with a key that has no stale value took %v, want 1s", took)
			}
			getsMany(t, c, o, map[string]int64{"a": 1, "b": 2, "c": 3}, "a", "b", "c")
			if calls := o.asked(); calls != "[[a b] [c]]" {
				t.Errorf("loads of %v, want [[a b] [c]]", calls)
			}
		}
	}
	has := map[string]int64{"a": 1, "b": 2, "c": 3}
	t.Run("stale in L1", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := lab.NewCache(t, softly)
			lab.Must(t, c.SetMany(t.Context(), map[string]int64{"a": 0, "b": 0}))
			time.Sleep(2 * time.Minute)
			load(&someKeys{takes: time.Second, has: has})(t, c)
		})
	})
	t.Run("stale in L2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			load(&someKeys{takes: time.Second, has: has})(t, staleInL2(t, false, []string{"a", "b"}))
		})
	})
}

func TestSoftTimeoutOfABatchHoldsWithASlowL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, slow := lab.NewShared(), &atomic.Bool{}
		c := lab.Instance(t, s, softly, func(o *strata.Options[string, int64]) {
			o.Remote.Timeout = time.Second
			o.Remote.Tier = lab.Stalling(s.Tier, "Get", 300*time.Millisecond, slow)
		})
		lab.Must(t, c.SetMany(t.Context(), map[string]int64{"a": 0, "b": 0}))
		time.Sleep(2 * time.Minute)
		slow.Store(true)
		o := &someKeys{has: map[string]int64{"a": 1, "b": 2}}
		begun := time.Now()
		getsMany(t, c, o, map[string]int64{"a": 0, "b": 0}, "a", "b")
		if took := time.Since(begun); took != 100*time.Millisecond {
			t.Errorf("took %v, want 100ms", took)
		}
		time.Sleep(time.Second)
		getsMany(t, c, o, map[string]int64{"a": 1, "b": 2}, "a", "b")
		if calls := o.asked(); calls != "[[a b]]" {
			t.Errorf("loads of %v, want one for both", calls)
		}
	})
}

func TestSoftTimeoutHoldsBesideAReloadWithASlowL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, slow := lab.NewShared(), &atomic.Bool{}
		c := lab.Instance(t, s, softly, func(o *strata.Options[string, int64]) {
			o.Remote.Timeout = time.Second
			o.Remote.Tier = lab.Stalling(s.Tier, "Get", 300*time.Millisecond, slow)
		})
		lab.Must(t, c.Set(t.Context(), "k", 0))
		time.Sleep(2 * time.Minute)
		o := &lab.Origin{Takes: 10 * time.Second}
		o.Value.Store(2)
		var reload sync.WaitGroup
		reload.Go(func() {
			if v, err := c.GetOrLoad(t.Context(), "k", o.Load, strata.SkipRead()); v != 2 || err != nil {
				t.Errorf("the reload: %d, %v", v, err)
			}
		})
		time.Sleep(time.Second)
		slow.Store(true)
		for range 2 {
			if took := lab.GetTakes(t, c, o.Load, 0); took != 100*time.Millisecond {
				t.Errorf("waited %v, want 100ms", took)
			}
		}
		begun := time.Now()
		getsMany(t, c, &someKeys{}, map[string]int64{"k": 0}, "k")
		if took := time.Since(begun); took != 100*time.Millisecond {
			t.Errorf("a batch waited %v, want 100ms", took)
		}
		reload.Wait()
		if n := o.Loads.Load(); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
		lab.GetTakes(t, c, o.Load, 2)
	})
}

func TestStaleValueThatComesAfterTheSoftTimeoutIsServedThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a := lab.Instance(t, s, softly)
		lab.MustGet(t, a, "k", (&lab.Origin{}).Load)
		time.Sleep(2 * time.Minute)
		b := lab.Instance(t, s, softly, func(o *strata.Options[string, int64]) {
			o.Remote.Timeout = time.Second
			o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(string, string) (time.Duration, error) { return 300 * time.Millisecond, nil })
		})
		o := &lab.Origin{Takes: 10 * time.Second}
		if took := lab.GetTakes(t, b, o.Load, 0); took > 500*time.Millisecond {
			t.Errorf("the stale value of a slow L2 took %v", took)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
	})
}

func TestInfoNamesTheTierThatTheStaleValueIsFrom(t *testing.T) {
	stale := func(t *testing.T, c *strata.Cache[string, int64], load strata.Loader[string, int64], tier string) {
		t.Helper()
		var info strata.Info
		v, err := c.GetOrLoad(t.Context(), "k", load, strata.ReadInfo(&info))
		if want := (strata.Info{Tier: tier, Stale: true}); v != 0 || err != nil || lab.SourceOf(info) != want || info.Err == nil {
			t.Errorf("got %d, %v, %+v; want 0, %+v", v, err, info, want)
		}
	}
	remembered := func(o *strata.Options[string, int64]) { o.ErrorTTL = time.Minute }
	t.Run("a load fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := staleInL2(t, true, []string{"k"}, remembered)
			stale(t, c, lab.Unavailable, "L2")
			stale(t, c, lab.Unavailable, "L1") // which keeps it
		})
	})
	t.Run("a load takes long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := staleInL2(t, true, []string{"k"})
			stale(t, c, (&lab.Origin{Takes: time.Second}).Load, "L2")
		})
	})
}
