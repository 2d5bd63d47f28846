package expiry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/cmd/strata/expiry"
)

// ofTheDemo are the options of a comparison of the usual length, with fewer keys.
var ofTheDemo = expiry.Options{Keys: 2_000, TTL: 40 * time.Second, Step: time.Second, Jitters: []float64{0, 0.1}} // read-only

// In the time of the bubble, keys without jitter all come in the same second, and keys with a
// jitter of a tenth spread over more than three.
func TestJitterSpreadsTheQueriesForKeysThatWereLoadedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		curves, err := expiry.Run(t.Context(), ofTheDemo)
		if err != nil || len(curves) != 2 {
			t.Fatalf("%d curves, %v", len(curves), err)
		}
		for i, tt := range []struct {
			jitter      float64
			least, most int64
		}{{0, 2_000, 2_000}, {0.1, 500, 800}} {
			c, sum := curves[i], int64(0)
			for _, n := range c.Queries {
				sum += n
			}
			if c.Jitter != tt.jitter || sum != 2_000 || c.Worst() < tt.least || c.Worst() > tt.most {
				t.Errorf("jitter %v: %d queries, %d in the worst second: %v", c.Jitter, sum, c.Worst(), c.Queries)
			}
			// A read refreshes an entry after 0.8 of its life, which jitter shortens by a tenth at most.
			for step, n := range c.Queries {
				if n > 0 && (step < 28 || step > 33) {
					t.Errorf("jitter %v: %d queries in second %d", c.Jitter, n, step)
				}
			}
		}
	})
}

func TestMeasurementEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begun := time.Now()
		if _, err := expiry.Run(ctx, ofTheDemo); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 11*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
