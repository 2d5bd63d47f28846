package loads_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

func TestStaleValueIsServedAtOnceWhileItIsRefreshedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Windows(10*time.Second, -1))
		o := &lab.Origin{Takes: time.Second}
		lab.MustGet(t, c, "k", o.Load)
		o.Value.Store(2)
		time.Sleep(time.Minute + 5*time.Second)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				var info strata.Info
				start := time.Now()
				v, err := c.GetOrLoad(t.Context(), "k", o.Load, strata.ReadInfo(&info))
				if v != 0 || err != nil || time.Since(start) != 0 || info.Err != nil || lab.SourceOf(info) != (strata.Info{Tier: "L1", Stale: true}) {
					t.Errorf("%d, %v after %v, %+v; want the stale value at once", v, err, time.Since(start), info)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if took := lab.GetTakes(t, c, o.Load, 2); took != 0 || o.Loads.Load() != 2 {
			t.Errorf("%d loads, and %v for a hit", o.Loads.Load(), took)
		}
		if st := c.Stats(); st.StaleRevalidating != 100 || st.StaleOnError != 0 {
			t.Errorf("%d and %d stale counted, want 100 and 0", st.StaleRevalidating, st.StaleOnError)
		}
	})
}

func TestWindowForRevalidationEndsToTheNanosecond(t *testing.T) {
	for _, late := range []time.Duration{-1, 0} {
		synctest.Test(t, func(t *testing.T) {
			c := lab.NewCache(t, lab.Windows(10*time.Second, time.Hour))
			o := &lab.Origin{Takes: time.Second}
			lab.MustGet(t, c, "k", o.Load)
			o.Value.Store(2)
			time.Sleep(70*time.Second + late)
			want, wait := int64(0), time.Duration(0)
			if late == 0 {
				want, wait = 2, time.Second
			}
			if took := lab.GetTakes(t, c, o.Load, want); took != wait {
				t.Errorf("%v past the window: waited %v, want %v", late, took, wait)
			}
		})
	}
}

// staleUntil is a case of a value loaded now. want is the time for which the value is
// served while loads fail.
type staleUntil struct {
	name    string
	windows func(*strata.Options[string, int64])
	expire  func(t *testing.T, c *strata.Cache[string, int64])
	other   bool // another instance reads it, from L2
	alone   bool // there is no L2
	want    time.Duration
}

func TestStaleValueIsServedOnErrorToTheNanosecond(t *testing.T) {
	expire := func(t *testing.T, c *strata.Cache[string, int64]) {
		if err := c.Expire(t.Context(), "k"); err != nil {
			t.Error(err)
		}
	}
	expireAll := func(t *testing.T, c *strata.Cache[string, int64]) {
		if err := c.ExpireAll(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, tt := range []staleUntil{
		{name: "its time is over", windows: lab.Windows(-1, 10*time.Minute), want: 11 * time.Minute},
		{name: "its time is over, alone", windows: lab.Windows(-1, 10*time.Minute), alone: true, want: 11 * time.Minute},
		{name: "expired", windows: lab.Windows(-1, 10*time.Minute), expire: expire, want: 10 * time.Minute},
		{name: "expired, the other window is longer", windows: lab.Windows(time.Hour, 10*time.Minute), expire: expire, want: 10 * time.Minute},
		{name: "all expired", windows: lab.Windows(-1, 10*time.Minute), expire: expireAll, want: 10 * time.Minute},
		{name: "read from L2", windows: lab.Windows(-1, 10*time.Minute), other: true, want: 11 * time.Minute},
		{name: "expired, alone, the other window is longer", windows: lab.Windows(time.Hour, 10*time.Minute), expire: expire, alone: true, want: 10 * time.Minute},
		{name: "all expired, alone", windows: lab.Windows(-1, 10*time.Minute), expire: expireAll, alone: true, want: 10 * time.Minute},
		{name: "expired, read from L2", windows: lab.Windows(-1, 10*time.Minute), expire: expire, other: true, want: 10 * time.Minute},
		{name: "all expired, read from L2", windows: lab.Windows(-1, 10*time.Minute), expire: expireAll, other: true, want: 10 * time.Minute},
	} {
		for _, late := range []time.Duration{-1, 0} {
			t.Run(fmt.Sprintf("%s, %v", tt.name, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { tt.check(t, late) })
			})
		}
	}
}

func (tt staleUntil) check(t *testing.T, late time.Duration) {
	s := lab.NewShared()
	a := lab.Instance(t, s, tt.windows)
	b := lab.Instance(t, s, tt.windows)
	lab.MustGet(t, a, "k", (&lab.Origin{}).Load)
	if tt.expire != nil {
		tt.expire(t, a)
	}
	reader := a
	if tt.alone {
		reader = lab.NewCache(t, tt.windows)
		lab.MustGet(t, reader, "k", (&lab.Origin{}).Load)
		if tt.expire != nil {
			tt.expire(t, reader)
		}
	}
	if tt.other {
		reader = b
	}
	down := func(context.Context, string) (int64, error) { return 0, lab.ErrDown }
	time.Sleep(tt.want + late) // in a bubble
	_, err := reader.GetOrLoad(t.Context(), "k", down)
	if late < 0 && err != nil {
		t.Errorf("1ns before the end of the window: %v", err)
	}
	if late >= 0 && !errors.Is(err, lab.ErrDown) {
		t.Errorf("at the end of the window: %v, want the origin's error", err)
	}
}

// TestExpiredEntryIsKeptHereForItsWindowOnError: the other window and the rest of the TTL keep it no longer.
func TestExpiredEntryIsKeptHereForItsWindowOnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Windows(time.Hour, 10*time.Minute))
		lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
		lab.Must(t, c.Expire(t.Context(), "k"))
		time.Sleep(10*time.Minute - 1)
		if p := c.Explain(t.Context(), "k").L1; !p.Present || p.Left != 1 {
			t.Errorf("%+v 1 ns before the end of the window", p)
		}
		time.Sleep(1)
		if p := c.Explain(t.Context(), "k").L1; p.Present {
			t.Errorf("%+v at the end of the window", p)
		}
	})
}

func TestEntryIsKeptForItsTTLAndTheLongerWindowInBothTiers(t *testing.T) {
	for _, w := range []func(*strata.Options[string, int64]){lab.Windows(10*time.Minute, -1), lab.Windows(time.Second, 10*time.Minute)} {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			c := lab.Instance(t, s, w)
			if err := c.Set(t.Context(), "set", 1); err != nil {
				t.Fatal(err)
			}
			lab.MustGet(t, c, "loaded", (&lab.Origin{}).Load)
			check := func(key string, present bool) {
				t.Helper()
				for name, p := range map[string]strata.Place{"L1": c.Explain(t.Context(), key).L1, "L2": c.Explain(t.Context(), key).L2} {
					if p.Present != present || present && (p.Fresh != time.Minute || p.Left != 11*time.Minute) {
						t.Errorf("%s, %s: %+v", key, name, p)
					}
				}
			}
			check("set", true)
			check("loaded", true)
			time.Sleep(11 * time.Minute)
			check("set", false)
			check("loaded", false)
		})
	}
}

func TestExpiredValueIsNotServedWhileItIsRevalidated(t *testing.T) {
	for name, expire := range map[string]func(*strata.Cache[string, int64], context.Context) error{
		"by its key": func(c *strata.Cache[string, int64], ctx context.Context) error { return c.Expire(ctx, "k") },
		"by its tag": func(c *strata.Cache[string, int64], ctx context.Context) error { return c.ExpireTags(ctx, "tag") },
	} {
		for _, age := range []time.Duration{time.Second, 65 * time.Second} {
			t.Run(fmt.Sprintf("%s after %v", name, age), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := lab.NewTagged(t)
					w := lab.Windows(10*time.Minute, -1)
					a, holds, cold := lab.Instance(t, s, w), lab.Instance(t, s, w), lab.Instance(t, s, w)
					o := &lab.Origin{Takes: time.Second}
					tagged := func(ctx context.Context, key string) (int64, error) {
						strata.Loading(ctx).SetTags("tag")
						return o.Load(ctx, key)
					}
					lab.MustGet(t, a, "k", tagged)
					lab.MustGet(t, holds, "k", tagged)
					time.Sleep(age)
					o.Value.Store(2)
					if err := expire(a, t.Context()); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					var wg sync.WaitGroup
					for _, c := range []*strata.Cache[string, int64]{a, holds, cold} {
						wg.Go(func() { lab.GetTakes(t, c, tagged, 2) })
					}
					wg.Wait()
					if n := o.Loads.Load(); n != 2 {
						t.Errorf("%d loads, want 2", n)
					}
				})
			})
		}
	}
}

func TestStaleValueInL2IsServedAtOnceAndRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		w := lab.Windows(10*time.Second, -1)
		a, cold := lab.Instance(t, s, w), lab.Instance(t, s, w)
		o := &lab.Origin{Takes: time.Second}
		lab.MustGet(t, a, "k", o.Load)
		o.Value.Store(2)
		time.Sleep(65 * time.Second)
		var info strata.Info
		start := time.Now()
		v, err := cold.GetOrLoad(t.Context(), "k", o.Load, strata.ReadInfo(&info))
		if v != 0 || err != nil || time.Since(start) != 0 || info.Err != nil || lab.SourceOf(info) != (strata.Info{Tier: "L2", Stale: true}) {
			t.Errorf("%d, %v after %v, %+v; want the stale value at once", v, err, time.Since(start), info)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		lab.GetTakes(t, cold, o.Load, 2)
		if n := o.Loads.Load(); n != 2 {
			t.Errorf("%d loads, want 2", n)
		}
	})
}

func TestGetReturnsNoStaleValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		w := lab.Windows(10*time.Second, time.Hour)
		a, cold := lab.Instance(t, s, w), lab.Instance(t, s, w)
		lab.MustGet(t, a, "k", (&lab.Origin{}).Load)
		time.Sleep(61 * time.Second)
		for name, c := range map[string]*strata.Cache[string, int64]{"L1": a, "L2": cold} {
			if v, ok := c.Get(t.Context(), "k"); ok {
				t.Errorf("%s: got %d", name, v)
			}
		}
	})
}

func TestFailingOriginDoesNotProlongTheLifeOfAStaleValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Windows(10*time.Second, 5*time.Minute), func(o *strata.Options[string, int64]) {
			o.ErrorTTL, o.RefreshAt = time.Second, 0.8
		})
		start, s := time.Now(), &lab.Fallible{}
		lab.MustGet(t, c, "k", s.Load)
		s.Fail(lab.ErrDown)
		for time.Since(start) < 6*time.Minute {
			if _, err := c.GetOrLoad(t.Context(), "k", s.Load); err != nil {
				t.Fatalf("%v after it was loaded: %v", time.Since(start), err)
			}
			time.Sleep(time.Second)
		}
		for range 100 {
			if v, err := c.GetOrLoad(t.Context(), "k", s.Load); !errors.Is(err, lab.ErrDown) {
				t.Fatalf("%v after it was loaded: %d, %v; want an error", time.Since(start), v, err)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestStaleValuesAreNotServedIfTheyMayNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		o := &lab.Fallible{}
		a := lab.Instance(t, s, lab.Windows(-1, -1))
		lab.MustGet(t, a, "k", o.Load)
		if l := a.Explain(t.Context(), "k"); l.L1.Left != time.Minute || l.L2.Left != time.Minute {
			t.Errorf("kept for %v and %v, want 1m", l.L1.Left, l.L2.Left)
		}
		o.Fail(lab.ErrDown)
		for _, age := range []time.Duration{0, time.Minute} {
			time.Sleep(age)
			if err := a.Expire(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			if v, err := a.GetOrLoad(t.Context(), "k", o.Load); !errors.Is(err, lab.ErrDown) {
				t.Errorf("after %v: %d, %v", age, v, err)
			}
		}
	})
}

// TestWindowForRevalidationIsOverOnAnInstanceThatHasJustBegun: the value was stale long before the clock of L1 began.
func TestWindowForRevalidationIsOverOnAnInstanceThatHasJustBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		lab.Must(t, lab.Instance(t, s, lab.Windows(10*time.Second, time.Hour)).Set(t.Context(), "k", 1))
		time.Sleep(31 * time.Minute)
		c := lab.Instance(t, s, lab.Windows(10*time.Second, time.Hour), lab.Remembering)
		for range 2 {
			if v := lab.MustGet(t, c, "k", lab.DownLoad); v != 1 {
				t.Errorf("got %d", v)
			}
		}
		if st := c.Stats(); st.StaleOnError != 2 || st.StaleRevalidating != 0 {
			t.Errorf("%d on error, %d while it is refreshed; want 2 and none", st.StaleOnError, st.StaleRevalidating)
		}
	})
}
