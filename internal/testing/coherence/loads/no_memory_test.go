package loads_test

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

// askedTooOften is a context that counts as cancelled after many questions, so that a caller in a busy loop ends.
type askedTooOften struct {
	context.Context
	asked int
}

func (a *askedTooOften) Err() error {
	if a.asked++; a.asked > 100 {
		return context.Canceled
	}
	return nil
}

func TestNoMemoryCallerWaitsInPlaceOfAnOfferOfL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, softly)
		lab.Must(t, c.Set(t.Context(), "k", 1))
		time.Sleep(2 * time.Minute)
		o := &lab.Origin{Takes: time.Second}
		o.Value.Store(2)
		go c.GetOrLoad(t.Context(), "k", o.Load)
		synctest.Wait()
		ctx := &askedTooOften{Context: context.Background()}
		v, err := c.GetOrLoad(ctx, "k", o.Load, strata.NoMemory())
		if v != 2 || err != nil {
			t.Errorf("%d, %v after %d looks at the context; want 2 of the load", v, err, ctx.asked)
		}
	})
}

func TestNoMemoryCallerIsOfferedTheValueOfL2BehindTheOneOfL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var slow atomic.Int64
		c := lab.Instance(t, s, softly, func(o *strata.Options[string, int64]) {
			o.Remote.Timeout = time.Second
			o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(string, string) (time.Duration, error) {
				return time.Duration(slow.Load()), nil
			})
		})
		lab.Must(t, c.Set(t.Context(), "k", 2))
		lab.Must(t, c.Set(t.Context(), "k", 1, strata.NoRemote()))
		time.Sleep(2 * time.Minute)
		slow.Store(int64(300 * time.Millisecond))
		o := &lab.Origin{Takes: 10 * time.Second}
		go c.GetOrLoad(t.Context(), "k", o.Load)
		synctest.Wait()
		begun := time.Now()
		v, err := c.GetOrLoad(&askedTooOften{Context: context.Background()}, "k", o.Load, strata.NoMemory())
		if took := time.Since(begun); v != 2 || err != nil || took > time.Second {
			t.Errorf("%d, %v after %v; want 2 of L2 within a second", v, err, took)
		}
		time.Sleep(20 * time.Second)
	})
}

func TestGetManyWithNoMemoryJoinsNoAnswerOfL1(t *testing.T) {
	for name, fails := range map[string]bool{"stale on error": true, "offer": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, softly)
				lab.Must(t, c.Set(t.Context(), "k", 1))
				time.Sleep(2 * time.Minute)
				o := &lab.Origin{Takes: time.Second}
				o.Value.Store(2)
				go c.GetOrLoad(t.Context(), "k", func(ctx context.Context, key string) (int64, error) {
					if v, err := o.Load(ctx, key); !fails {
						return v, err
					}
					return 0, lab.ErrDown
				})
				synctest.Wait()
				all, err := c.GetMany(t.Context(), []string{"k"}, lab.EachOf(o.Load), strata.NoMemory())
				if all["k"] != 2 || err != nil {
					t.Errorf("%v, %v; want 2 of the origin: L1 has 1", all, err)
				}
			})
		})
	}
}

func TestNoMemoryLoadThatFindsItsValueNotModifiedDropsTheEntryOfL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.Instance[string, int64](t, lab.NewShared())
		lab.Must(t, c.Set(t.Context(), "k", 1))
		lab.Must(t, c.Set(t.Context(), "k", 7, strata.NoRemote(), strata.WithTTL(time.Hour)))
		time.Sleep(2 * time.Minute)
		same := func(context.Context, string) (int64, error) { return 0, strata.ErrNotModified }
		if v, err := c.GetOrLoad(t.Context(), "k", same, strata.NoMemory()); v != 1 || err != nil {
			t.Errorf("%d, %v; want 1 of L2", v, err)
		}
		if value, _ := inL1(t, c); value {
			t.Error("L1 keeps another value than the origin has confirmed")
		}
	})
}

func TestReadPastL1IsAUseOfTheEntry(t *testing.T) {
	lab.Plain(t, "it has no IdleTTL")
	synctest.Test(t, func(t *testing.T) {
		c := lab.Instance(t, lab.NewShared(), func(o *strata.Options[string, int64]) { o.IdleTTL, o.TTL = 10*time.Second, time.Hour })
		lab.Must(t, c.Set(t.Context(), "k", 1))
		for range 10 {
			time.Sleep(5 * time.Second)
			lab.WantFound(t, c, 1, strata.NoMemory())
		}
		if !c.Explain(t.Context(), "k").L1.Present {
			t.Error("the entry of a key that is read is gone")
		}
		time.Sleep(10 * time.Second)
		if c.Explain(t.Context(), "k").L1.Present {
			t.Error("the entry of a key that is not read is there")
		}
	})
}

func TestNoMemoryCallerBesideASkipReadTakesNoSuspectOfL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		w, ear := lab.NewWire(s), s.Bus.Connect()
		a, c := lab.Instance[string, int64](t, s), lab.Instance(t, s, w.Use, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
		lab.Must(t, c.Set(t.Context(), "k", 1))
		ear.Cut()
		lab.Must(t, a.Invalidate(t.Context(), "k"))
		ear.Join()
		synctest.Wait()
		if !c.Explain(t.Context(), "k").L1.Suspect {
			t.Fatal("the scenario shows nothing")
		}
		o := &lab.Origin{Takes: 10 * time.Second}
		o.Value.Store(2)
		go c.GetOrLoad(t.Context(), "k", o.Load, strata.SkipRead())
		synctest.Wait()
		w.Slows("Get", 0, time.Second)
		go c.GetOrLoad(t.Context(), "k", o.Load)
		synctest.Wait()
		var info strata.Info
		if v, err := c.GetOrLoad(t.Context(), "k", o.Load, strata.NoMemory(), strata.ReadInfo(&info)); v != 2 || err != nil {
			t.Errorf("%d, %v, %+v; want 2 of the origin", v, err, info)
		}
		time.Sleep(10 * time.Second)
	})
}

// TestExtraKeysOfALoadWithNoMemoryAreNotKept: neither by a batch, nor by a ManyLoader with a single key.
func TestExtraKeysOfALoadWithNoMemoryAreNotKept(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Millisecond} {
		both(t, func(o *strata.Options[string, int64]) {
			o.BatchWait = wait
			o.ManyLoader = func(_ context.Context, keys []string) (map[string]int64, error) {
				return map[string]int64{keys[0]: 1, "extra": 2}, nil
			}
		}, func(t *testing.T, c *strata.Cache[string, int64]) {
			if v, err := c.GetOrLoad(t.Context(), "one", nil, strata.NoMemory()); v != 1 || err != nil {
				t.Errorf("%d, %v", v, err)
			}
			if _, err := c.GetMany(t.Context(), []string{"many"}, nil, strata.NoMemory()); err != nil {
				t.Error(err)
			}
			if n := c.Len(); n != 0 {
				t.Errorf("L1 has %d entries", n)
			}
		})
	}
}
