package coherence_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

func TestHoldThatL2HasLostAppliesOnInstancesThatReceivedIt(t *testing.T) {
	const hold = time.Minute
	lags := (&origin{}).load
	for name, read := range map[string]func(ctx context.Context, c *strata.Cache[string, int64]) error{
		"GetOrLoad": func(ctx context.Context, c *strata.Cache[string, int64]) error {
			_, err := c.GetOrLoad(ctx, "k", lags)
			return err
		},
		"SkipRead": func(ctx context.Context, c *strata.Cache[string, int64]) error {
			_, err := c.GetOrLoad(ctx, "k", lags, strata.SkipRead())
			return err
		},
		"GetMany": func(ctx context.Context, c *strata.Cache[string, int64]) error {
			_, err := c.GetMany(ctx, []string{"k", "other"}, eachOf(lags))
			return err
		},
		"not found": func(ctx context.Context, c *strata.Cache[string, int64]) error {
			_, err := c.GetOrLoad(ctx, "k", func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound })
			if errors.Is(err, strata.ErrNotFound) {
				return nil
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newShared()
				a, b := instance(t, s, negatives), instance(t, s, negatives)
				must(t, a.InvalidateHold(t.Context(), hold, "k"))
				synctest.Wait() // b is told
				s.tier.Restart()
				for _, c := range []*strata.Cache[string, int64]{a, b} {
					must(t, read(t.Context(), c))
					if p := c.Explain(t.Context(), "k").L2; p.Present || p.NotFound {
						t.Errorf("L2 keeps what was loaded during a hold: %+v", p)
					}
				}
				time.Sleep(hold)
				mustGet(t, a, "k", lags)
				wantHeld(t, "the hold is over: an instance", b, 0)
			})
		})
	}
}

func TestHoldLastsLongerWhereItIsHeardOfLater(t *testing.T) {
	const hold, late = 100 * time.Millisecond, 70 * time.Millisecond
	bubble(t, func(t *testing.T) {
		s := newShared()
		line := s.bus.Connect()
		slow := instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Bus = line })
		other := instance[string, int64](t, s)
		line.Delay(late)
		must(t, other.InvalidateHold(t.Context(), hold, "k"))
		time.Sleep(hold + late/2)
		mustGet(t, slow, "k", (&origin{}).load)
		if p := other.Explain(t.Context(), "k").L2; p.Present {
			t.Errorf("an instance has stored in L2 during the hold that it has heard of: %+v", p)
		}
		time.Sleep(late)
		mustGet(t, slow, "k", (&origin{}).load)
		wantHeld(t, "the hold is over: an instance", other, 0)
	})
}
