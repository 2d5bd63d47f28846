package agreement_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

func TestInvalidateHoldKeepsLoadsFromBeingStoredEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		shared := []*strata.Cache[string, int64]{lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)}
		alone := lab.NewCache[string, int64](t)
		for _, c := range append(shared, alone) {
			if err := c.InvalidateHold(t.Context(), time.Minute, "k"); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for i, c := range append(shared, alone) {
			o := &lab.Origin{}
			for range 2 {
				lab.MustGet(t, c, "k", o.Load)
			}
			if o.Loads.Load() != 2 {
				t.Errorf("instance %d: %d loads during the hold, want 2", i, o.Loads.Load())
			}
		}
		time.Sleep(time.Minute)
		o := &lab.Origin{}
		for range 2 {
			lab.MustGet(t, alone, "k", o.Load)
			lab.MustGet(t, shared[0], "k", o.Load)
		}
		if o.Loads.Load() != 2 {
			t.Errorf("%d loads after it, want one for each store", o.Loads.Load())
		}
		if err := alone.InvalidateHold(t.Context(), 0, "k"); err == nil {
			t.Error("a hold of nothing was accepted")
		}
	})
}

func TestUpdateLeavesTheCacheNoOlderThanTheOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		o := &lab.Origin{}
		lab.MustGet(t, a, "k", o.Load)
		lab.MustGet(t, b, "k", o.Load)
		var wg sync.WaitGroup
		// A writes 1, and B writes 2 while A's answer is on its way.
		wg.Go(func() {
			err := a.Update(t.Context(), "k", func(context.Context) (int64, error) {
				o.Value.Store(1)
				time.Sleep(time.Second)
				return 1, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		time.Sleep(500 * time.Millisecond)
		if err := b.Update(t.Context(), "k", func(context.Context) (int64, error) { o.Value.Store(2); return 2, nil }); err != nil {
			t.Error(err)
		}
		wg.Wait()
		synctest.Wait()
		for name, c := range map[string]*strata.Cache[string, int64]{"a": a, "b": b} {
			if v := lab.MustGet(t, c, "k", o.Load); v != 2 {
				t.Errorf("%s: %d, want 2", name, v)
			}
		}
	})
}

func TestUpdateStoresTheWrittenValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		alone := lab.NewCache[string, int64](t)
		o := &lab.Origin{}
		for _, c := range []*strata.Cache[string, int64]{a, b, alone} {
			lab.MustGet(t, c, "k", o.Load)
		}
		for _, c := range []*strata.Cache[string, int64]{a, alone} {
			if err := c.Update(t.Context(), "k", func(context.Context) (int64, error) { return 5, nil }); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		for _, c := range []*strata.Cache[string, int64]{a, b, alone} {
			if v, ok := c.Get(t.Context(), "k"); v != 5 || !ok {
				t.Errorf("got %d, %v; want 5", v, ok)
			}
		}
	})
}

func TestUpdateThatFailsDropsTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		o := &lab.Origin{}
		lab.MustGet(t, a, "k", o.Load)
		cause := errors.New("constraint")
		err := a.Update(t.Context(), "k", func(context.Context) (int64, error) {
			lab.MustGet(t, b, "k", o.Load) // loads and stores the old value meanwhile
			o.Value.Store(9)               // the write has happened nevertheless
			return 0, cause
		})
		if !errors.Is(err, cause) {
			t.Errorf("got %v, want the cause", err)
		}
		synctest.Wait()
		for _, c := range []*strata.Cache[string, int64]{a, b} {
			if v := lab.MustGet(t, c, "k", o.Load); v != 9 {
				t.Errorf("got %d, want 9", v)
			}
		}
	})
}

func TestUpdateWritesThoughL2IsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = stratatest.FaultyTier(stratatest.NewTier(), func(string, string) (time.Duration, error) { return 0, down })
		})
		written := false
		err := c.Update(t.Context(), "k", func(context.Context) (int64, error) { written = true; return 1, nil })
		var remoteErr *strata.RemoteError
		if !written || !errors.As(err, &remoteErr) || remoteErr.Pending != 1 {
			t.Errorf("written %v, %v; want true, a *RemoteError with 1 pending", written, err)
		}
		if _, ok := c.Get(t.Context(), "k"); ok {
			t.Error("the unconfirmed value is served")
		}
	})
}

func TestHoldKeepsLoadsFromBeingStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance[string, int64](t, s)
		view := s.Tier.Bind(remote.Space{Name: "test"})
		if _, err := view.Drop(t.Context(), []remote.Drop{{Key: "k", Hold: time.Minute}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		o := &lab.Origin{}
		for range 2 {
			lab.MustGet(t, c, "k", o.Load)
		}
		if o.Loads.Load() != 2 || c.Len() != 0 {
			t.Errorf("%d loads, %d entries; want 2, 0", o.Loads.Load(), c.Len())
		}
	})
}

func TestLoadsDuringAnUpdateAreDroppedEverywhere(t *testing.T) {
	for _, announces := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			if !announces {
				s.Tier.Announce(nil)
			}
			a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
			o := &lab.Origin{}
			err := a.Update(t.Context(), "k", func(context.Context) (int64, error) {
				synctest.Wait()                // b has heard of the drop
				lab.MustGet(t, b, "k", o.Load) // the value from before the write, kept in b
				o.Value.Store(1)
				return 1, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if v := lab.MustGet(t, b, "k", o.Load); v != 1 {
				t.Errorf("announcing tier %v: the other instance serves %d, want 1", announces, v)
			}
		})
	}
}

func TestUpdateThatWasOvertakenReturnsAnErrorIfItCannotDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var down atomic.Bool
		a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = lab.Failing(s.Tier, "Drop", &down) })
		b := lab.Instance[string, int64](t, s)
		o := &lab.Origin{}
		err := a.Update(t.Context(), "k", func(context.Context) (int64, error) {
			if err := b.Invalidate(t.Context(), "k"); err != nil { // takes the token
				t.Error(err)
			}
			lab.MustGet(t, b, "k", o.Load)
			o.Value.Store(1)
			down.Store(true)
			return 1, nil
		})
		var remoteErr *strata.RemoteError
		if !errors.As(err, &remoteErr) || remoteErr.Pending != 1 {
			t.Errorf("got %v: the old value is in L2, and nobody was told", err)
		}
		down.Store(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if v := lab.MustGet(t, b, "k", o.Load); v != 1 {
			t.Errorf("got %d, want 1", v)
		}
	})
}
