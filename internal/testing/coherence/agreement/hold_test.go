package agreement_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
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
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				var down atomic.Bool
				a := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
					o.Remote.Tier = lab.Failing(lab.Failing(s.Tier, "Drop", &down), "DropAll", &down)
				})
				b := lab.Instance[string, int64](t, s)
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
					lab.MustGet(t, c, "k", (&lab.Origin{}).Load) // a replica that lags behind
					lab.WantAbsent(t, "nothing is kept during a hold: an instance", c)
				}
				time.Sleep(hold / 2)
				lab.MustGet(t, a, "k", (&lab.Origin{}).Load)
				lab.WantHeld(t, "the hold is over: an instance", b, 0)
			})
		})
	}
}

func TestHoldThatL2HasLostAppliesOnInstancesThatReceivedIt(t *testing.T) {
	const hold = time.Minute
	lags := (&lab.Origin{}).Load
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
			_, err := c.GetMany(ctx, []string{"k", "other"}, lab.EachOf(lags))
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
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				a, b := lab.Instance(t, s, lab.Negatives), lab.Instance(t, s, lab.Negatives)
				lab.Must(t, a.InvalidateHold(t.Context(), hold, "k"))
				synctest.Wait() // b is told
				s.Tier.Restart()
				for _, c := range []*strata.Cache[string, int64]{a, b} {
					lab.Must(t, read(t.Context(), c))
					if p := c.Explain(t.Context(), "k").L2; p.Present || p.NotFound {
						t.Errorf("L2 keeps what was loaded during a hold: %+v", p)
					}
				}
				time.Sleep(hold)
				lab.MustGet(t, a, "k", lags)
				lab.WantHeld(t, "the hold is over: an instance", b, 0)
			})
		})
	}
}

func TestHoldLastsLongerWhereItIsHeardOfLater(t *testing.T) {
	const hold, late = 100 * time.Millisecond, 70 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		line := s.Bus.Connect()
		slow := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Bus = line })
		other := lab.Instance[string, int64](t, s)
		line.Delay(late)
		lab.Must(t, other.InvalidateHold(t.Context(), hold, "k"))
		time.Sleep(hold + late/2)
		lab.MustGet(t, slow, "k", (&lab.Origin{}).Load)
		if p := other.Explain(t.Context(), "k").L2; p.Present {
			t.Errorf("an instance has stored in L2 during the hold that it has heard of: %+v", p)
		}
		time.Sleep(late)
		lab.MustGet(t, slow, "k", (&lab.Origin{}).Load)
		lab.WantHeld(t, "the hold is over: an instance", other, 0)
	})
}
