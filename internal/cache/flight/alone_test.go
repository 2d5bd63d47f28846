package flight_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/flight"
)

// TestFlightIsAloneUnlessAnotherCallerHasSeenIt lets other callers come to know a
// flight while its first stage runs.
func TestFlightIsAloneUnlessAnotherCallerHasSeenIt(t *testing.T) {
	for name, c := range map[string]struct {
		kind  flight.Kind // of the caller that comes meanwhile
		key   string
		alone bool
	}{
		"nobody comes":             {flight.Load, "another key", true},
		"a caller joins":           {flight.Load, "k", false},
		"a reload waits behind it": {flight.Reload, "k", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t)
			var alone bool
			land := func(f *keyFlight) { g.Land(f, &flight.Result[int]{Found: true}, nil) }
			first := func(_ context.Context, f *keyFlight) bool {
				go do(context.Background(), g, c.key, c.kind, lead{then: land})
				time.Sleep(time.Second)
				land(f)
				alone = f.Reuse()
				return true
			}
			_, _, err := do(t.Context(), g, "k", flight.Load, lead{first: first})
			must(t, err)
			if synctest.Wait(); alone != c.alone {
				t.Errorf("%s: alone is %t, want %t", name, alone, c.alone)
			}
		})
	}
}
