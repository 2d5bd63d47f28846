package loads_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// spends makes c refuse to load the key "old": it has failed, so have others, and the retries of
// this second are used up.
func spends(t *testing.T, c *strata.Cache[string, int64]) {
	t.Helper()
	fails := func(key string) {
		found, err := c.GetMany(t.Context(), []string{key}, lab.EachOf(lab.DownLoad))
		if len(found) != 0 || err == nil {
			t.Fatalf("%s: %v, %v", key, found, err)
		}
	}
	fails("old")
	for i := range 20 {
		fails(fmt.Sprint(i))
	}
	time.Sleep(1100 * time.Millisecond) // in a bubble: the failures are not remembered any more
	for i := range 20 {
		fails(fmt.Sprint(i))
	}
	if st := c.Stats(); st.BudgetSpent == 0 {
		t.Fatal("the retry budget is not spent")
	}
}

// patient are the limits of a cache whose loads end after ten seconds.
func patient(o *strata.Options[string, int64]) {
	o.ErrorTTL, o.Limits.HardTimeout = time.Second, 10*time.Second
}

// TestKeyThatTheRetryBudgetRefusesDoesNotWaitForItsBatch: the Loader of the other keys looks at
// no context.
func TestKeyThatTheRetryBudgetRefusesDoesNotWaitForItsBatch(t *testing.T) {
	t.Run("GetMany", func(t *testing.T) {
		tiers(t, func(t *testing.T, c *strata.Cache[string, int64]) {
			spends(t, c)
			s := newStubborn(5)
			defer close(s.end)
			begun := time.Now()
			_, err := c.GetMany(t.Context(), []string{"old", "new"}, lab.EachOf(s.load))
			partial, ok := errors.AsType[*strata.PartialError[string]](err)
			if !ok || !errors.Is(partial.Failed["old"], lab.ErrDown) || !errors.Is(partial.Failed["new"], context.DeadlineExceeded) {
				t.Errorf("%v; want the last failure of the one key, and a timeout of the other", err)
			}
			if took := time.Since(begun); took > 10*time.Second+200*time.Millisecond {
				t.Errorf("after %v, want 10s", took)
			}
		}, patient)
	})
	t.Run("gathered", func(t *testing.T) {
		var s *stubborn
		tiers(t, func(t *testing.T, c *strata.Cache[string, int64]) {
			spends(t, c)
			s = newStubborn(5)
			defer close(s.end)
			answers := getsEach(t.Context(), c, "old", "new")
			if a := answers["old"]; !errors.Is(a.err, lab.ErrDown) || a.took > 300*time.Millisecond {
				t.Errorf("%v after %v; want the last failure, without the load of another key", a.err, a.took)
			}
			if a := answers["new"]; !errors.Is(a.err, context.DeadlineExceeded) || a.took > 10*time.Second+300*time.Millisecond {
				t.Errorf("the other key: %v after %v; want a timeout", a.err, a.took)
			}
		}, patient, func(o *strata.Options[string, int64]) {
			o.BatchWait = 10 * time.Millisecond
			o.ManyLoader = func(ctx context.Context, keys []string) (map[string]int64, error) {
				_, err := s.load(ctx, keys[0])
				return nil, err
			}
		})
	})
}

// TestLoadDoesNotWaitForLeasesOfRefusedKeys: they are given back beside it.
func TestLoadDoesNotWaitForLeasesOfRefusedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := lab.NewShared()
		var slow atomic.Bool
		c := lab.Instance(t, shared, patient, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = stratatest.FaultyTier(shared.Tier, func(op, _ string) (time.Duration, error) {
				if slow.Load() && op == "Release" {
					return time.Hour, nil
				}
				return 0, nil
			})
		})
		spends(t, c)
		slow.Store(true)
		begun := time.Now()
		found, err := c.GetMany(t.Context(), []string{"old", "new"}, lab.EachOf(func(context.Context, string) (int64, error) {
			if waited := time.Since(begun); waited != 0 {
				t.Errorf("the load begins after %v", waited)
			}
			return 7, nil
		}))
		partial, ok := errors.AsType[*strata.PartialError[string]](err)
		if found["new"] != 7 || !ok || !errors.Is(partial.Failed["old"], lab.ErrDown) {
			t.Errorf("%v, %v", found, err)
		}
		synctest.Wait()
		if v, ok := c.Get(t.Context(), "new"); v != 7 || !ok {
			t.Errorf("stored: %v, %v", v, ok)
		}
	})
}
