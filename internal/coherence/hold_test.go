package coherence_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
)

func TestHoldThatL2DidNotConfirmOutlivesADropOfEverything(t *testing.T) {
	const hold = time.Minute
	hard := func(c *strata.Cache[string, int64]) error { return c.InvalidateAll(context.Background()) }
	held := func(c *strata.Cache[string, int64]) error {
		return c.InvalidateHold(context.Background(), hold, "k")
	}
	for name, drops := range map[string][]func(*strata.Cache[string, int64]) error{
		"hold first":       {held, hard},
		"everything first": {hard, held},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newShared()
				var down atomic.Bool
				a := instance(t, s, func(o *strata.Options[string, int64]) {
					o.Remote.Tier = failing(failing(s.tier, "Drop", &down), "DropAll", &down)
				})
				b := instance[string, int64](t, s)
				down.Store(true)
				for _, drop := range drops {
					if drop(a) == nil {
						t.Fatal("confirmed by an L2 that is down")
					}
				}
				down.Store(false)
				time.Sleep(hold / 2)
				if n := a.Stats().Pending; n != 0 {
					t.Fatalf("the scenario shows nothing: %d pending, want 0", n)
				}
				for _, c := range []*strata.Cache[string, int64]{b, a} {
					mustGet(t, c, "k", (&origin{}).load) // a replica that lags behind
					wantAbsent(t, "nothing is kept during a hold: an instance", c)
				}
				time.Sleep(hold / 2)
				mustGet(t, a, "k", (&origin{}).load)
				wantHeld(t, "the hold is over: an instance", b, 0)
			})
		})
	}
}
