package coherence_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testkit"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

func TestGetManyRefreshesEntriesThatAreStaleInL2Only(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared()
		revalidates := func(o *strata.Options[int, int]) { o.Stale.WhileRevalidate = 20 * time.Second }
		a, b := instance(t, s, revalidates), instance(t, s, revalidates)
		if err := a.SetMany(t.Context(), map[int]int{1: 1, 2: 2}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Second)
		o := &manyOrigin{}
		got, err := b.GetMany(t.Context(), []int{1, 2}, o.load)
		if err != nil || got[1] != 1 || got[2] != 2 {
			t.Errorf("got %v, %v; want the stale values", got, err)
		}
		synctest.Wait()
		if n := len(o.calls); n != 1 {
			t.Errorf("%d loads began in the background, want 1", n)
		}
		for _, c := range []*strata.Cache[int, int]{a, b} {
			if _, ok := c.Get(t.Context(), 2); !ok {
				t.Error("nothing fresh after the refresh")
			}
		}
	})
}

func TestGetManyWithSkipReadCountsItsReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCache[int, int](t)
		o := &manyOrigin{}
		for range 2 { // absent, and then held
			if _, err := c.GetMany(t.Context(), []int{1, 2, 3}, o.load, strata.SkipRead()); err != nil {
				t.Fatal(err)
			}
		}
		if s := c.Stats(); s.Reads != 6 || s.L1.Misses != 6 || s.Flights != 6 {
			t.Errorf("%d reads, %d misses, %d flights; want 6 each", s.Reads, s.L1.Misses, s.Flights)
		}
	})
}

// spread is a tier that keeps each key on a server of its own.
type spread struct{ remote.Tier }

func (s spread) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	return testkit.EachRequest(r, func(r remote.Request) (remote.Held, remote.Lease, error) {
		return testkit.Refresh(ctx, s.Tier, r.Key, r.Replace, d)
	})
}

func TestBatchGivesBackLeasesBesideOneThatFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		one := stratatest.NewTier()
		faulty := stratatest.FaultyTier(one, func(op, key string) (time.Duration, error) {
			if op == "Acquire" && key == "2" && down.Load() {
				return 0, errors.New("down")
			}
			return 0, nil
		})
		alone := func(o *strata.Options[int, int]) { o.Remote.Tier = spread{faulty} }
		a, b := newCache(t, alone), newCache(t, alone)
		no := errors.New("no")
		_, err := a.GetMany(t.Context(), []int{1, 2, 3}, func(context.Context, []int) (map[int]int, error) { return nil, no })
		if !errors.Is(err, no) {
			t.Errorf("got %v, want the loader's error", err)
		}
		down.Store(false)
		start := time.Now()
		if _, err := b.GetMany(t.Context(), []int{1, 2, 3}, (&manyOrigin{}).load); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("another instance waited %v for leases that nobody used", took)
		}
	})
}
