package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
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

func TestThreeInstancesLoadAColdKeyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		o := &lab.Origin{Takes: 3 * time.Second}
		var wg sync.WaitGroup
		for range 3 {
			c := lab.Instance[string, int64](t, s)
			for range 1000 {
				wg.Go(func() { lab.MustGet(t, c, "k", o.Load) })
			}
		}
		wg.Wait()
		if n := o.Loads.Load(); n != 1 {
			t.Errorf("%d loads in the cluster, want 1", n)
		}
	})
}

func TestLoadLongerThanTheLeaseIsStillOneLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		o := &lab.Origin{Takes: 30 * time.Second}
		var wg sync.WaitGroup
		for range 3 {
			c := lab.Instance[string, int64](t, s)
			wg.Go(func() { lab.MustGet(t, c, "k", o.Load) })
		}
		wg.Wait()
		if n := o.Loads.Load(); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
	})
}

func TestFailedLoadLetsTheNextInstanceLoadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		fails := func(context.Context, string) (int64, error) {
			time.Sleep(time.Second)
			return 0, errors.New("down")
		}
		go a.GetOrLoad(t.Context(), "k", fails)
		synctest.Wait()
		start := time.Now()
		lab.MustGet(t, b, "k", (&lab.Origin{}).Load)
		if took := time.Since(start); took > 1100*time.Millisecond {
			t.Errorf("the other instance waited %v for a load that failed after 1s", took)
		}
	})
}

func TestValueOfOneInstanceIsAnL2HitOnAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		o := &lab.Origin{}
		o.Value.Store(4)
		lab.MustGet(t, a, "k", o.Load)
		if v, ok := b.Get(t.Context(), "k"); v != 4 || !ok {
			t.Errorf("Get on the other instance: %d, %v; want 4, true", v, ok)
		}
		st := b.Stats()
		if st.L2.Hits != 1 || st.L1.Misses != 1 || o.Loads.Load() != 1 {
			t.Errorf("L2 hits %d, L1 misses %d, loads %d; want 1, 1, 1", st.L2.Hits, st.L1.Misses, o.Loads.Load())
		}
	})
}

func TestEntryInL1LivesNoLongerThanThatOfL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		o := &lab.Origin{}
		lab.MustGet(t, a, "k", o.Load)
		time.Sleep(50 * time.Second)
		b.Get(t.Context(), "k")
		time.Sleep(9 * time.Second)
		if _, ok := b.Get(t.Context(), "k"); !ok {
			t.Error("gone before its time")
		}
		time.Sleep(2 * time.Second)
		if _, ok := b.Get(t.Context(), "k"); ok {
			t.Error("still there when L2 had forgotten it")
		}
	})
}

// TestSlowAnswerOfL2GivesNoLongerLife: the rest of a life counts from the question on.
func TestSlowAnswerOfL2GivesNoLongerLife(t *testing.T) {
	for _, absent := range []bool{false, true} {
		for _, left := range []time.Duration{500 * time.Millisecond, 50 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				w := lab.NewWire(s)
				a := lab.Instance[string, int64](t, s)
				b := lab.Instance(t, s, w.Use, func(o *strata.Options[string, int64]) { o.NotFoundTTL = time.Hour })
				end := time.Now().Add(time.Minute)
				if absent {
					lab.Must(t, a.SetNotFound(t.Context(), "k", strata.WithTTL(time.Minute)))
				} else {
					lab.Must(t, a.Set(t.Context(), "k", 1))
				}
				time.Sleep(time.Minute - left)
				w.Slows("Get", 0, 90*time.Millisecond)
				_, _ = b.GetOrLoad(t.Context(), "k", lab.DownLoad)
				time.Sleep(max(0, time.Until(end)))
				if v, err := b.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { return 2, nil }); v != 2 {
					t.Errorf("not found: %v, read %v before its end: %d, %v at its end", absent, left, v, err)
				}
			})
		}
	}
}

// TestSlowAnswerWithAFreshValueDropsNothing: the value has ended when the answer comes.
func TestSlowAnswerWithAFreshValueDropsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		w := lab.NewWire(s)
		none := func(o *strata.Options[string, int64]) { o.Stale = strata.Stale{WhileRevalidate: -1, OnError: -1} }
		a, b := lab.Instance(t, s, none), lab.Instance(t, s, w.Use, none)
		lab.Must(t, a.Set(t.Context(), "k", 1))
		time.Sleep(time.Minute - 50*time.Millisecond)
		before, _ := s.Tier.Changes(t.Context())
		w.Slows("Acquire", 0, 90*time.Millisecond)
		_, _ = b.Add(t.Context(), "k", 2) // asks for the lease first
		if after, _ := s.Tier.Changes(t.Context()); before != after {
			t.Errorf("the state of the drops goes from %q to %q", before, after)
		}
	})
}

func TestWithoutABusL1IsCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.TTL = time.Hour
			o.Remote.Tier = s.Tier
		})
		lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
		r := c.Explain(t.Context(), "k")
		if r.L1.Left > strata.UnconfirmedTTL || r.L2.Left < 59*time.Minute {
			t.Errorf("L1 keeps it %v, L2 %v; want at most %v, about 1h", r.L1.Left, r.L2.Left, strata.UnconfirmedTTL)
		}
	})
}

func TestInvalidateReachesOtherInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		o := &lab.Origin{}
		lab.MustGet(t, a, "k", o.Load)
		lab.MustGet(t, b, "k", o.Load)
		o.Value.Store(2)
		if err := a.Invalidate(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if v := lab.MustGet(t, b, "k", o.Load); v != 2 {
			t.Errorf("got %d, want 2", v)
		}
		if err := errors.Join(a.InvalidateAll(t.Context()), a.ExpireAll(t.Context())); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if st := b.Stats(); st.Heard != 3 || a.Stats().Heard != 0 {
			t.Errorf("heard %d, want 3", st.Heard)
		}
	})
}

func TestLoadBegunBeforeAnInvalidateElsewhereIsRefused(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf=%v", deaf), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				a := lab.Instance[string, int64](t, s)
				b := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
					if deaf { // only the lease can tell
						o.Remote.Bus = nil
					}
				})
				o := &lab.Origin{Takes: time.Second}
				o.Value.Store(1)
				var wg sync.WaitGroup
				wg.Go(func() { lab.MustGet(t, b, "k", o.Load) })
				synctest.Wait()
				o.Value.Store(2)
				if err := a.Invalidate(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				wg.Wait()
				if _, ok := b.Get(t.Context(), "k"); ok {
					t.Error("the old value was stored")
				}
				if v := lab.MustGet(t, b, "k", o.Load); v != 2 {
					t.Errorf("got %d, want 2", v)
				}
				if st := b.Stats(); st.RemoteRefused != 1 {
					t.Errorf("%d refused by L2, want 1", st.RemoteRefused)
				}
			})
		})
	}
}

func TestInvalidateFromAProgramWithAnotherValueTypeIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type person struct{ Name string }
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, person](t, s)
		o := &lab.Origin{}
		o.Value.Store(1)
		loads := 0
		load := func(context.Context, string) (person, error) { loads++; return person{"Ann"}, nil }
		lab.MustGet(t, a, "k", o.Load)
		for range 2 {
			if p, err := b.GetOrLoad(t.Context(), "k", load); p.Name != "Ann" || err != nil {
				t.Fatalf("got %v, %v", p, err)
			}
		}
		if v := lab.MustGet(t, a, "k", o.Load); v != 1 || loads != 1 || o.Loads.Load() != 1 {
			t.Errorf("the types disturb each other: %d, %d and %d loads", v, loads, o.Loads.Load())
		}
		if err := a.Invalidate(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, ok := b.Get(t.Context(), "k"); ok {
			t.Error("the other type survived")
		}
		if st := b.Stats(); st.L2.Foreign != 0 {
			t.Errorf("%d foreign values", st.L2.Foreign)
		}
	})
}

func TestStructKeysInvalidateThroughTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type pair struct{ A, B int }
		keys := func(o *strata.Options[pair, int64]) {
			o.Remote.Key = func(p pair) string { return fmt.Sprintf("%d/%d", p.A, p.B) }
			o.Remote.ParseKey = func(s string) (p pair, err error) {
				_, err = fmt.Sscanf(s, "%d/%d", &p.A, &p.B)
				return p, err
			}
		}
		s := lab.NewShared()
		a, b := lab.Instance(t, s, keys), lab.Instance(t, s, keys)
		load := func(context.Context, pair) (int64, error) { return 1, nil }
		for _, c := range []*strata.Cache[pair, int64]{a, b} {
			if _, err := c.GetOrLoad(t.Context(), pair{1, 2}, load); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Invalidate(t.Context(), pair{1, 2}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r := b.Explain(t.Context(), pair{1, 2}); r.L1.Present || r.L2.Present {
			t.Errorf("still there: %+v", r)
		}
	})
}

func TestSetReplacesTheValueEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		o := &lab.Origin{}
		lab.MustGet(t, b, "k", o.Load)
		if err := a.Set(t.Context(), "k", 7); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for name, c := range map[string]*strata.Cache[string, int64]{"writer": a, "other": b} {
			if v, ok := c.Get(t.Context(), "k"); v != 7 || !ok {
				t.Errorf("%s: %d, %v; want 7, true", name, v, ok)
			}
		}
		if r := a.Explain(t.Context(), "k"); !r.L1.Present {
			t.Error("the writer's own announcement dropped its value from L1")
		}
	})
}

func TestOwnAnnouncementDoesNotDropLaterStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		ear := s.Bus.Connect()
		a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
		ear.Delay(time.Second)
		if err := a.Set(t.Context(), "k", 7); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if r := a.Explain(t.Context(), "k"); !r.L1.Present {
			t.Error("the late echo dropped the value")
		}
	})
}

func TestInvalidateDropsL2BeforeL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var stall atomic.Bool
		stall.Store(true)
		slow := lab.Stalling(s.Tier, "Drop", 50*time.Millisecond, &stall)
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Remote.Tier = slow })
		o := &lab.Origin{}
		lab.MustGet(t, c, "k", o.Load)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := c.Invalidate(t.Context(), "k"); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(10 * time.Millisecond)
		o.Value.Store(2)
		lab.MustGet(t, c, "k", o.Load) // must not bring the old value back to L1
		wg.Wait()
		if v := lab.MustGet(t, c, "k", o.Load); v != 2 {
			t.Errorf("got %d after Invalidate, want 2", v)
		}
	})
}

// TestInstanceHearsOfADropOnceItIsDone reads on another instance while a tier that
// announces nothing carries out the drop: L2 still has the old value then.
func TestInstanceHearsOfADropOnceItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lab.Shared{Tier: stratatest.NewTier(), Bus: stratatest.NewBus()}
		var stall atomic.Bool
		a := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = lab.Stalling(s.Tier, "Drop", 50*time.Millisecond, &stall)
		})
		b := lab.Instance[string, int64](t, s)
		lab.Must(t, a.Set(t.Context(), "k", 1))
		lab.WantFound(t, b, 1)
		stall.Store(true)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := a.Invalidate(t.Context(), "k"); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(10 * time.Millisecond)
		lab.WantFound(t, b, 1)
		wg.Wait()
		synctest.Wait()
		lab.WantNotFound(t, b)
	})
}

func TestSetManyStoresEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		values := map[string]int64{"a": 1, "b": 2, "c": 3}
		if err := a.SetMany(t.Context(), values); err != nil {
			t.Fatal(err)
		}
		for k, want := range values {
			if v, ok := b.Get(t.Context(), k); v != want || !ok {
				t.Errorf("%s: %d, %v; want %d", k, v, ok, want)
			}
		}
	})
}

func TestManyKeysGoToL2InBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var drops atomic.Int64
		counting := stratatest.FaultyTier(s.Tier, func(op, _ string) (time.Duration, error) {
			if op == "Drop" {
				drops.Add(1)
			}
			return 0, nil
		})
		c := lab.Instance(t, s, func(o *strata.Options[int, int]) { o.Remote.Tier = counting })
		values := map[int]int{}
		keys := []int{}
		for i := range 1200 {
			values[i] = i
			keys = append(keys, i)
		}
		if err := c.SetMany(t.Context(), values); err != nil || drops.Load() != 3 || c.Len() != 1200 {
			t.Errorf("SetMany: %v, %d drops, %d entries; want nil, 3, 1200", err, drops.Load(), c.Len())
		}
		if err := c.Invalidate(t.Context(), keys...); err != nil || drops.Load() != 6 || c.Len() != 0 {
			t.Errorf("Invalidate: %v, %d drops, %d entries; want nil, 6, 0", err, drops.Load(), c.Len())
		}
	})
}

func TestParseKeyThatPanicsDoesNotEndTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a := lab.Instance[string, int64](t, s)
		b := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Key = func(k string) string { return k }
			o.Remote.ParseKey = func(name string) (string, error) {
				if name == "bad" {
					panic("no key")
				}
				return name, nil
			}
		})
		lab.MustGet(t, b, "good", (&lab.Origin{}).Load)
		if err := a.Invalidate(t.Context(), "bad", "good"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r := b.Explain(t.Context(), "good"); r.L1.Present || b.Stats().CallbackPanics != 1 {
			t.Errorf("present %v, %d panics counted; want false, 1", r.L1.Present, b.Stats().CallbackPanics)
		}
	})
}

func TestSetThatTimedOutCannotOverwriteANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var stall atomic.Bool
		slow := lab.Stalling(s.Tier, "Put", time.Hour, &stall)
		a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = slow })
		b := lab.Instance[string, int64](t, s)
		stall.Store(true)
		var remoteErr *strata.RemoteError
		if err := a.Set(t.Context(), "k", 1); !errors.As(err, &remoteErr) {
			t.Fatalf("Set over a stalled L2: %v, want *RemoteError", err)
		}
		stall.Store(false)
		if err := b.Set(t.Context(), "k", 2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // until then a reads the key past L2
		if v, ok := a.Get(t.Context(), "k"); v != 2 || !ok {
			t.Errorf("got %d, %v; want 2", v, ok)
		}
	})
}

func TestInvalidateAllReachesOtherInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		o := &lab.Origin{}
		lab.MustGet(t, b, "k", o.Load)
		o.Value.Store(2)
		if err := a.InvalidateAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if v := lab.MustGet(t, b, "k", o.Load); v != 2 {
			t.Errorf("got %d, want 2", v)
		}
	})
}

func TestAfterAGapL1IsConfirmedByL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a := lab.Instance[string, int64](t, s)
		ear := s.Bus.Connect()
		b := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
		o := &lab.Origin{}
		lab.MustGet(t, b, "k", o.Load)
		lab.MustGet(t, b, "other", o.Load)
		ear.Cut()
		synctest.Wait()
		o.Value.Store(2)
		if err := a.Invalidate(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if st := b.Stats(); st.Gaps != 1 || st.Connected {
			t.Errorf("%d gaps, connected %v; want 1, false", st.Gaps, st.Connected)
		}
		ear.Join()
		synctest.Wait()
		if v := lab.MustGet(t, b, "k", o.Load); v != 2 {
			t.Errorf("got %d after the gap, want 2", v)
		}
		if v := lab.MustGet(t, b, "other", o.Load); v != 0 || o.Loads.Load() != 3 {
			t.Errorf("what nobody dropped was loaded again: %d loads, want 3", o.Loads.Load())
		}
		if st := b.Stats(); !st.Connected {
			t.Error("not connected")
		}
	})
}

func TestL1IsUsedForThirtySecondsOfASilentBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a := lab.Instance[string, int64](t, s)
		ear := s.Bus.Connect()
		b := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.TTL = time.Hour
			o.Remote.Bus = ear
		})
		o := &lab.Origin{}
		lab.MustGet(t, b, "k", o.Load)
		ear.Cut()
		synctest.Wait()
		o.Value.Store(2)
		if err := a.Invalidate(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(strata.UnconfirmedTTL - time.Second)
		if v := lab.MustGet(t, b, "k", o.Load); v != 0 {
			t.Errorf("got %d while the silence is short, want the hit", v)
		}
		time.Sleep(2 * time.Second)
		if v := lab.MustGet(t, b, "k", o.Load); v != 2 {
			t.Errorf("got %d when it has lasted, want 2", v)
		}
	})
}

func TestOutageOfL2AndBusTakesNoHitsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		ear := s.Bus.Connect()
		var down atomic.Bool
		dead := stratatest.FaultyTier(s.Tier, func(string, string) (time.Duration, error) {
			if down.Load() {
				return time.Hour, nil
			}
			return 0, nil
		})
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier, o.Remote.Bus = dead, ear })
		o := &lab.Origin{}
		lab.MustGet(t, c, "k", o.Load)
		down.Store(true)
		ear.Cut()
		synctest.Wait()
		start := time.Now()
		for range 20 {
			time.Sleep(time.Second)
			lab.MustGet(t, c, "k", o.Load)
		}
		if took := time.Since(start); took != 20*time.Second || o.Loads.Load() != 1 {
			t.Errorf("20 hits, a second apart, took %v and %d loads; want 20s, 1", took, o.Loads.Load())
		}
	})
}

func TestExpireAndNotModifiedSendNoPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var puts atomic.Int64
		counting := stratatest.FaultyTier(s.Tier, func(op, _ string) (time.Duration, error) {
			if op == "Put" {
				puts.Add(1)
			}
			return 0, nil
		})
		a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = counting })
		b := lab.Instance[string, int64](t, s)
		o := &lab.Origin{}
		o.Value.Store(5)
		lab.MustGet(t, a, "k", o.Load)
		if err := a.Expire(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		same := func(ctx context.Context, _ string) (int64, error) {
			if v, ok := a.Previous(ctx); v != 5 || !ok {
				t.Errorf("Previous: %d, %v", v, ok)
			}
			return 0, strata.ErrNotModified
		}
		if v := lab.MustGet(t, a, "k", same); v != 5 {
			t.Errorf("got %d, want 5", v)
		}
		if v, ok := b.Get(t.Context(), "k"); v != 5 || !ok {
			t.Errorf("the other instance: %d, %v; want the extended 5", v, ok)
		}
		if n := puts.Load(); n != 1 {
			t.Errorf("%d puts, want only the first", n)
		}
	})
}

func TestDeadL2AddsOneTimeoutToAMissAndNothingToAHit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var calls atomic.Int64
		dead := stratatest.FaultyTier(s.Tier, func(string, string) (time.Duration, error) {
			calls.Add(1)
			return time.Hour, nil
		})
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = dead })
		o := &lab.Origin{Takes: time.Second}
		start := time.Now()
		lab.MustGet(t, c, "k", o.Load)
		if took := time.Since(start); took != 1100*time.Millisecond {
			t.Errorf("a miss took %v, want the load's 1s and one timeout of 100ms", took)
		}
		before := calls.Load()
		start = time.Now()
		for range 100 {
			lab.MustGet(t, c, "k", o.Load)
		}
		if took := time.Since(start); took != 0 || calls.Load() != before {
			t.Errorf("hits took %v and %d calls on L2", took, calls.Load()-before)
		}
		if st := c.Stats(); st.L2.Errors != 1 {
			t.Errorf("%d errors counted, want 1", st.L2.Errors)
		}
	})
}

func TestInvalidateThatL2DidNotConfirmIsAppliedHereAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var down atomic.Bool
		flaky := lab.Failing(s.Tier, "Drop", &down)
		a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = flaky })
		b := lab.Instance[string, int64](t, s)
		o := &lab.Origin{}
		lab.MustGet(t, a, "k", o.Load)
		lab.MustGet(t, b, "k", o.Load)
		o.Value.Store(2)
		down.Store(true)
		var remoteErr *strata.RemoteError
		if err := a.Invalidate(t.Context(), "k"); !errors.As(err, &remoteErr) || remoteErr.Pending != 1 {
			t.Fatalf("got %v, want a *RemoteError with 1 pending", err)
		}
		if v := lab.MustGet(t, a, "k", o.Load); v != 2 {
			t.Errorf("the instance that invalidated got %d from L2, want 2 past it", v)
		}
		if _, ok := a.Get(t.Context(), "other"); ok || a.Stats().Pending != 1 {
			t.Errorf("%d pending, want 1", a.Stats().Pending)
		}
		down.Store(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if v := lab.MustGet(t, b, "k", o.Load); v != 2 || a.Stats().Pending != 0 {
			t.Errorf("the other instance got %d with %d pending, want 2 with 0", v, a.Stats().Pending)
		}
	})
}

func TestInvalidateAllThatL2DidNotConfirmIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var down atomic.Bool
		flaky := lab.Failing(s.Tier, "DropAll", &down)
		a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = flaky })
		b := lab.Instance[string, int64](t, s)
		o := &lab.Origin{}
		lab.MustGet(t, b, "k", o.Load)
		o.Value.Store(2)
		down.Store(true)
		if err := a.InvalidateAll(t.Context()); err == nil {
			t.Fatal("no error")
		}
		if v := lab.MustGet(t, a, "k", o.Load); v != 2 {
			t.Errorf("got %d from L2, want 2 past it", v)
		}
		down.Store(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if v := lab.MustGet(t, b, "k", o.Load); v != 2 {
			t.Errorf("the other instance got %d, want 2", v)
		}
	})
}

func TestDamagedValueIsAMissAndIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		spoils := stratatest.FaultyTier(spoiling{s.Tier}, func(string, string) (time.Duration, error) { return 0, nil })
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Remote.Tier = spoils })
		o := &lab.Origin{}
		o.Value.Store(1)
		lab.MustGet(t, a, "k", o.Load)
		if v := lab.MustGet(t, c, "k", o.Load); v != 1 {
			t.Errorf("got %d", v)
		}
		if st := c.Stats(); st.L2.Foreign == 0 || st.Loads.OK != 1 {
			t.Errorf("foreign %d, loads %d; want it counted and loaded", st.L2.Foreign, st.Loads.OK)
		}
		synctest.Wait()
		if v, ok := b.Get(t.Context(), "k"); v != 1 || !ok {
			t.Errorf("not replaced: %d, %v", v, ok)
		}
	})
}

// TestUnreadableValuesAreLoggedOnceAMinute reads damaged values for two minutes.
func TestUnreadableValuesAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		s := lab.NewShared()
		a := lab.Instance[string, int64](t, s)
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Remote.Tier, o.Logger = spoiling{s.Tier}, lab.TextLogger(&log)
		})
		for i := range 120 {
			key := strconv.Itoa(i)
			lab.MustGet(t, a, key, (&lab.Origin{}).Load)
			c.Get(t.Context(), key)
			time.Sleep(time.Second)
		}
		var lines []string
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "cannot be read") {
				lines = append(lines, line)
			}
		}
		if len(lines) != 2 || !strings.Contains(lines[0], "cache=test count=1\n") || !strings.Contains(lines[1], "count=60") {
			t.Errorf("the log says:\n%s\nwant one line with 1 value and a minute later one with 60", log.String())
		}
	})
}

// spoiling is a tier that flips one bit of each value on its way to the cache.
type spoiling struct{ *stratatest.Tier }

func (s spoiling) Bind(sp remote.Space) remote.Tier {
	return spoiling{s.Tier.Bind(sp).(*stratatest.Tier)}
}

func (s spoiling) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	held, err := s.Tier.Get(ctx, keys, known...)
	for i := range held {
		if d := held[i].Data; len(d) > 0 {
			d[len(d)-1] ^= 1
		}
	}
	return held, err
}

func (s spoiling) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	acquired, err := s.Tier.Acquire(ctx, r, d)
	for i := range acquired {
		if d := acquired[i].Held.Data; len(d) > 0 {
			d[len(d)-1] ^= 1
		}
	}
	return acquired, err
}

func TestStatsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		var wg sync.WaitGroup
		for i := range 2000 {
			c := a
			if i%2 == 0 {
				c = b
			}
			wg.Go(func() {
				key := strings.Repeat("k", 1+i%17)
				switch i % 23 {
				case 0:
					c.Invalidate(t.Context(), key)
				case 1:
					c.Expire(t.Context(), key)
				case 2:
					c.Get(t.Context(), key)
				case 3:
					c.GetOrLoad(t.Context(), key, nil)
				default:
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%40)*time.Millisecond)
					defer cancel()
					c.GetOrLoad(ctx, key, func(context.Context, string) (int64, error) {
						time.Sleep(time.Duration(i%5) * 10 * time.Millisecond)
						switch i % 7 {
						case 0:
							return 0, strata.ErrNotFound
						case 1:
							return 0, errors.New("down")
						case 2:
							panic("boom")
						case 3:
							return 0, strata.ErrNotModified
						}
						return 1, nil
					})
				}
			})
			if i%50 == 0 {
				time.Sleep(5 * time.Millisecond)
			}
		}
		wg.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, c := range []*strata.Cache[string, int64]{a, b} {
			st := c.Stats()
			if st.Reads != st.L1.Hits+st.L1.Misses {
				t.Errorf("reads: %+v", st)
			}
			if st.L1.Misses != st.Flights+st.Joins+st.TurnedAway {
				t.Errorf("misses %d != %d flights + %d joins + %d turned away", st.L1.Misses, st.Flights, st.Joins, st.TurnedAway)
			}
			if st.Flights != st.Rechecked+st.L2.Hits+st.Absent+st.Abandoned+st.Loads.Total() {
				t.Errorf("flights %d != %d rechecked + %d L2 hits + %d absent + %d abandoned + %d loads",
					st.Flights, st.Rechecked, st.L2.Hits, st.Absent, st.Abandoned, st.Loads.Total())
			}
			if n := st.Loads.Latency.Count(); n != st.Loads.Total() {
				t.Errorf("%d latencies for %d loads", n, st.Loads.Total())
			}
		}
	})
}
