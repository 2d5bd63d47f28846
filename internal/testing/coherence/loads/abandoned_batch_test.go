package loads_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

func cancels(o *strata.Options[string, int64]) { o.Limits.CancelAbandoned = true }

// TestCancelAbandonedCancelsALoadAfterAKeyOfItsBatchHasLanded: the retry budget has refused that key, or another instance has
// loaded it.
func TestCancelAbandonedCancelsALoadAfterAKeyOfItsBatchHasLanded(t *testing.T) {
	type end struct {
		after time.Duration
		err   error
	}
	hangs := func(ends chan end) strata.ManyLoader[string, int64] {
		return func(ctx context.Context, _ []string) (map[string]int64, error) {
			begun := time.Now()
			<-ctx.Done()
			ends <- end{time.Since(begun), context.Cause(ctx)}
			return nil, ctx.Err()
		}
	}
	t.Run("GetMany", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := lab.NewCache(t, patient, cancels)
			spends(t, c)
			ends := make(chan end, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, _ = c.GetMany(ctx, []string{"old", "new"}, hangs(ends))
			if e := <-ends; e.after > 1100*time.Millisecond {
				t.Errorf("the load was cancelled after %v by %v, want 1s", e.after, e.err)
			}
		})
	})
	t.Run("gathered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ends := make(chan end, 1)
			c := lab.NewCache(t, patient, cancels, func(o *strata.Options[string, int64]) {
				o.BatchWait, o.ManyLoader = 10*time.Millisecond, hangs(ends)
			})
			spends(t, c)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			getsEach(ctx, c, "old", "new")
			if e := <-ends; e.after > 1100*time.Millisecond {
				t.Errorf("the load was cancelled after %v by %v, want 1s", e.after, e.err)
			}
		})
	})
	t.Run("apart", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a, b := lab.Instance(t, s, patient, cancels), lab.Instance(t, s, patient)
			lab.Must(t, a.InvalidateHold(t.Context(), time.Minute, "held"))
			go b.GetOrLoad(t.Context(), "theirs", (&lab.Origin{Takes: 500 * time.Millisecond}).Load)
			synctest.Wait()
			ends := make(chan end, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, _ = a.GetMany(ctx, []string{"held", "theirs"}, hangs(ends))
			if e := <-ends; e.after > 2100*time.Millisecond {
				t.Errorf("the load was cancelled after %v by %v, want 2s", e.after, e.err)
			}
		})
	})
}
