package coherence_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
)

var errDown = errors.New("origin is down")

// fallible is an origin that can fail.
type fallible struct {
	origin
	err atomic.Pointer[error]
}

func (s *fallible) load(ctx context.Context, key string) (int64, error) {
	v, err := s.origin.load(ctx, key)
	if e := s.err.Load(); e != nil {
		return 0, *e
	}
	return v, err
}

// fail makes loads end with err; nil ends that.
func (s *fallible) fail(err error) {
	if err == nil {
		s.err.Store(nil)
		return
	}
	s.err.Store(&err)
}

// windows sets for how long stale values may be served.
func windows(revalidate, onError time.Duration) func(*strata.Options[string, int64]) {
	return func(o *strata.Options[string, int64]) {
		o.Stale = strata.Stale{WhileRevalidate: revalidate, OnError: onError}
	}
}

// gets calls GetOrLoad and says how long it took.
func gets(t *testing.T, c *strata.Cache[string, int64], load strata.Loader[string, int64], want int64) time.Duration {
	t.Helper()
	start := time.Now()
	if v := mustGet(t, c, "k", load); v != want {
		t.Errorf("got %d, want %d", v, want)
	}
	return time.Since(start)
}

func TestStaleValueIsServedAtOnceWhileItIsRefreshedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCache(t, windows(10*time.Second, -1))
		o := &origin{takes: time.Second}
		mustGet(t, c, "k", o.load)
		o.value.Store(2)
		time.Sleep(time.Minute + 5*time.Second)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				var info strata.Info
				start := time.Now()
				v, err := c.GetOrLoad(t.Context(), "k", o.load, strata.ReadInfo(&info))
				if v != 0 || err != nil || time.Since(start) != 0 || info.Err != nil || source(info) != (strata.Info{Tier: "L1", Stale: true}) {
					t.Errorf("%d, %v after %v, %+v; want the stale value at once", v, err, time.Since(start), info)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if took := gets(t, c, o.load, 2); took != 0 || o.loads.Load() != 2 {
			t.Errorf("%d loads, and %v for a hit", o.loads.Load(), took)
		}
		if st := c.Stats(); st.StaleRevalidating != 100 || st.StaleOnError != 0 {
			t.Errorf("%d and %d stale counted, want 100 and 0", st.StaleRevalidating, st.StaleOnError)
		}
	})
}

func TestWindowForRevalidationEndsToTheNanosecond(t *testing.T) {
	for _, late := range []time.Duration{-1, 0} {
		bubble(t, func(t *testing.T) {
			c := newCache(t, windows(10*time.Second, time.Hour))
			o := &origin{takes: time.Second}
			mustGet(t, c, "k", o.load)
			o.value.Store(2)
			time.Sleep(70*time.Second + late)
			want, wait := int64(0), time.Duration(0)
			if late == 0 {
				want, wait = 2, time.Second
			}
			if took := gets(t, c, o.load, want); took != wait {
				t.Errorf("%v past the window: waited %v, want %v", late, took, wait)
			}
		})
	}
}

// staleUntil makes a cache hold a value that was loaded now and returns until
// when that is served while loads fail.
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
		{name: "its time is over", windows: windows(-1, 10*time.Minute), want: 11 * time.Minute},
		{name: "its time is over, alone", windows: windows(-1, 10*time.Minute), alone: true, want: 11 * time.Minute},
		{name: "expired", windows: windows(-1, 10*time.Minute), expire: expire, want: 10 * time.Minute},
		{name: "expired, the other window is longer", windows: windows(time.Hour, 10*time.Minute), expire: expire, want: 10 * time.Minute},
		{name: "all expired", windows: windows(-1, 10*time.Minute), expire: expireAll, want: 10 * time.Minute},
		{name: "read from L2", windows: windows(-1, 10*time.Minute), other: true, want: 11 * time.Minute},
		{name: "expired, alone, the other window is longer", windows: windows(time.Hour, 10*time.Minute), expire: expire, alone: true, want: 10 * time.Minute},
		{name: "all expired, alone", windows: windows(-1, 10*time.Minute), expire: expireAll, alone: true, want: 10 * time.Minute},
		{name: "expired, read from L2", windows: windows(-1, 10*time.Minute), expire: expire, other: true, want: 10 * time.Minute},
		{name: "all expired, read from L2", windows: windows(-1, 10*time.Minute), expire: expireAll, other: true, want: 10 * time.Minute},
	} {
		for _, late := range []time.Duration{-1, 0} {
			t.Run(fmt.Sprintf("%s, %v", tt.name, late), func(t *testing.T) {
				bubble(t, func(t *testing.T) { tt.check(t, late) })
			})
		}
	}
}

func (tt staleUntil) check(t *testing.T, late time.Duration) {
	s := newShared()
	a := instance(t, s, tt.windows)
	b := instance(t, s, tt.windows)
	mustGet(t, a, "k", (&origin{}).load)
	if tt.expire != nil {
		tt.expire(t, a)
	}
	reader := a
	if tt.alone {
		reader = newCache(t, tt.windows)
		mustGet(t, reader, "k", (&origin{}).load)
		if tt.expire != nil {
			tt.expire(t, reader)
		}
	}
	if tt.other {
		reader = b
	}
	down := func(context.Context, string) (int64, error) { return 0, errDown }
	time.Sleep(tt.want + late) // in a bubble
	_, err := reader.GetOrLoad(t.Context(), "k", down)
	if late < 0 && err != nil {
		t.Errorf("1ns before the end of the window: %v", err)
	}
	if late >= 0 && !errors.Is(err, errDown) {
		t.Errorf("at the end of the window: %v, want the origin's error", err)
	}
}

func TestEntryIsKeptForItsTTLAndTheLongerWindowInBothTiers(t *testing.T) {
	for _, w := range []func(*strata.Options[string, int64]){windows(10*time.Minute, -1), windows(time.Second, 10*time.Minute)} {
		bubble(t, func(t *testing.T) {
			s := newShared()
			c := instance(t, s, w)
			if err := c.Set(t.Context(), "set", 1); err != nil {
				t.Fatal(err)
			}
			mustGet(t, c, "loaded", (&origin{}).load)
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
				bubble(t, func(t *testing.T) {
					s := newTagged(t)
					w := windows(10*time.Minute, -1)
					a, holds, cold := instance(t, s, w), instance(t, s, w), instance(t, s, w)
					o := &origin{takes: time.Second}
					tagged := func(ctx context.Context, key string) (int64, error) {
						strata.Loading(ctx).SetTags("tag")
						return o.load(ctx, key)
					}
					mustGet(t, a, "k", tagged)
					mustGet(t, holds, "k", tagged)
					time.Sleep(age)
					o.value.Store(2)
					if err := expire(a, t.Context()); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					var wg sync.WaitGroup
					for _, c := range []*strata.Cache[string, int64]{a, holds, cold} {
						wg.Go(func() { gets(t, c, tagged, 2) })
					}
					wg.Wait()
					if n := o.loads.Load(); n != 2 {
						t.Errorf("%d loads, want 2", n)
					}
				})
			})
		}
	}
}

func TestStaleValueInL2IsServedAtOnceAndRefreshed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared()
		w := windows(10*time.Second, -1)
		a, cold := instance(t, s, w), instance(t, s, w)
		o := &origin{takes: time.Second}
		mustGet(t, a, "k", o.load)
		o.value.Store(2)
		time.Sleep(65 * time.Second)
		var info strata.Info
		start := time.Now()
		v, err := cold.GetOrLoad(t.Context(), "k", o.load, strata.ReadInfo(&info))
		if v != 0 || err != nil || time.Since(start) != 0 || info.Err != nil || source(info) != (strata.Info{Tier: "L2", Stale: true}) {
			t.Errorf("%d, %v after %v, %+v; want the stale value at once", v, err, time.Since(start), info)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		gets(t, cold, o.load, 2)
		if n := o.loads.Load(); n != 2 {
			t.Errorf("%d loads, want 2", n)
		}
	})
}

func TestGetReturnsNoStaleValue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared()
		w := windows(10*time.Second, time.Hour)
		a, cold := instance(t, s, w), instance(t, s, w)
		mustGet(t, a, "k", (&origin{}).load)
		time.Sleep(61 * time.Second)
		for name, c := range map[string]*strata.Cache[string, int64]{"L1": a, "L2": cold} {
			if v, ok := c.Get(t.Context(), "k"); ok {
				t.Errorf("%s: got %d", name, v)
			}
		}
	})
}

func TestFailingOriginDoesNotProlongTheLifeOfAStaleValue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCache(t, windows(10*time.Second, 5*time.Minute), func(o *strata.Options[string, int64]) {
			o.ErrorTTL, o.RefreshAt = time.Second, 0.8
		})
		start, s := time.Now(), &fallible{}
		mustGet(t, c, "k", s.load)
		s.fail(errDown)
		for time.Since(start) < 6*time.Minute {
			if _, err := c.GetOrLoad(t.Context(), "k", s.load); err != nil {
				t.Fatalf("%v after it was loaded: %v", time.Since(start), err)
			}
			time.Sleep(time.Second)
		}
		for range 100 {
			if v, err := c.GetOrLoad(t.Context(), "k", s.load); !errors.Is(err, errDown) {
				t.Fatalf("%v after it was loaded: %d, %v; want an error", time.Since(start), v, err)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestStaleValuesAreNotServedIfTheyMayNot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared()
		o := &fallible{}
		a := instance(t, s, windows(-1, -1))
		mustGet(t, a, "k", o.load)
		if l := a.Explain(t.Context(), "k"); l.L1.Left != time.Minute || l.L2.Left != time.Minute {
			t.Errorf("kept for %v and %v, want 1m", l.L1.Left, l.L2.Left)
		}
		o.fail(errDown)
		for _, age := range []time.Duration{0, time.Minute} {
			time.Sleep(age)
			if err := a.Expire(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			if v, err := a.GetOrLoad(t.Context(), "k", o.load); !errors.Is(err, errDown) {
				t.Errorf("after %v: %d, %v", age, v, err)
			}
		}
	})
}
