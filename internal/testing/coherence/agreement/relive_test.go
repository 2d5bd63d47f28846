package agreement_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// TestFailedRefreshDoesNotUndoAnExpiry has everything expire after a refresh has read the value and
// before it has the lease. The load fails, and gives the previous value windows of its own.
func TestFailedRefreshDoesNotUndoAnExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var between atomic.Pointer[func()]
		tier := stratatest.FaultyTier(s.Tier, func(op, _ string) (time.Duration, error) {
			if f := between.Load(); f != nil && op == "Acquire" && between.CompareAndSwap(f, nil) {
				(*f)()
			}
			return 0, nil
		})
		a := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = tier
			o.Loader = func(ctx context.Context, _ string) (int64, error) {
				strata.Loading(ctx).SetStale(strata.Stale{OnError: time.Hour})
				return 0, lab.ErrDown
			}
		})
		b := lab.Instance[string, int64](t, s)
		lab.Must(t, b.Set(t.Context(), "k", 1))
		synctest.Wait()
		lab.WantFound(t, a, 1)
		expire := func() { lab.Must(t, b.ExpireAll(t.Context())) }
		between.Store(&expire)
		lab.Must(t, a.Refresh(t.Context(), "k"))
		synctest.Wait()
		if between.Load() != nil {
			t.Fatal("no lease was asked for")
		}
		for name, c := range map[string]*strata.Cache[string, int64]{"a": a, "b": b, "a cold one": lab.Instance[string, int64](t, s)} {
			if v, ok := c.Get(t.Context(), "k"); ok {
				t.Errorf("%s finds %d, which has expired", name, v)
			}
		}
	})
}
