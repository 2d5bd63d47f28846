package loads_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

func TestLivesAndLimitsThatCannotBeAreRefused(t *testing.T) {
	for _, tt := range []struct {
		field  string
		change func(*strata.Options[string, int64])
	}{
		{"TTL", func(o *strata.Options[string, int64]) { o.TTL = 0 }},
		{"TTL", func(o *strata.Options[string, int64]) { o.TTL = -time.Second }},
		{"TTL", func(o *strata.Options[string, int64]) { o.TTL = 60 }}, // 60 ns
		{"TTL", func(o *strata.Options[string, int64]) { o.TTL = time.Millisecond - 1 }},
		{"IdleTTL", func(o *strata.Options[string, int64]) { o.IdleTTL = -1 }},
		{"IdleTTL", func(o *strata.Options[string, int64]) { o.IdleTTL = time.Millisecond - 1 }},
		{"RefreshAt", func(o *strata.Options[string, int64]) { o.RefreshAt = 1 }},
		{"RefreshAt", func(o *strata.Options[string, int64]) { o.RefreshAt = math.NaN() }},
		{"RefreshAt", func(o *strata.Options[string, int64]) { o.RefreshAt = math.Inf(1) }},
		{"RefreshSpread", func(o *strata.Options[string, int64]) { o.RefreshSpread = -1 }},
		{"RefreshSpread", func(o *strata.Options[string, int64]) { o.RefreshSpread = math.NaN() }},
		{"Limits.SoftTimeout", func(o *strata.Options[string, int64]) { o.Limits.SoftTimeout = -1 }},
		{"Limits.MaxLoads", func(o *strata.Options[string, int64]) { o.Limits.MaxLoads = -1 }},
		{"Limits.MaxRefreshes", func(o *strata.Options[string, int64]) { o.Limits.MaxRefreshes = -1 }},
		{"Limits.MaxWaiters", func(o *strata.Options[string, int64]) { o.Limits.MaxWaiters = -1 }},
		{"Limits.Lease", func(o *strata.Options[string, int64]) { o.Limits.Lease = -1 }},
		{"Memory.TTL", func(o *strata.Options[string, int64]) { o.Memory.TTL = -1 }},
		{"Remote.BreakFor", func(o *strata.Options[string, int64]) { o.Remote.BreakFor = -1 }},
		{"Remote.Timeout", func(o *strata.Options[string, int64]) { o.Remote.Timeout = -1 }},
		{"RefreshEvery", func(o *strata.Options[string, int64]) { o.Loader, o.RefreshEvery = lab.PlainLoad, -1 }},
		{"RefreshEvery", func(o *strata.Options[string, int64]) { o.Loader, o.RefreshEvery = lab.PlainLoad, 60 }},
		{"RefreshEvery", func(o *strata.Options[string, int64]) { o.RefreshEvery = time.Second }},
		{"BatchWait", func(o *strata.Options[string, int64]) { o.ManyLoader, o.BatchWait = noKeys, -1 }},
		{"BatchWait", func(o *strata.Options[string, int64]) { o.ManyLoader, o.BatchWait = noKeys, time.Second+1 }},
		{"BatchWait", func(o *strata.Options[string, int64]) { o.BatchWait = 1 }},
		{"BatchWait", func(o *strata.Options[string, int64]) { o.Loader, o.ManyLoader, o.BatchWait = lab.PlainLoad, noKeys, 1 }},
		{"BatchSize", func(o *strata.Options[string, int64]) { o.ManyLoader, o.BatchWait, o.BatchSize = noKeys, 1, -1 }},
		{"BatchSize", func(o *strata.Options[string, int64]) { o.ManyLoader, o.BatchWait, o.BatchSize = noKeys, 1, 501 }},
		{"BatchSize", func(o *strata.Options[string, int64]) { o.ManyLoader, o.BatchSize = noKeys, 1 }},
	} {
		o := strata.Options[string, int64]{TTL: time.Minute}
		tt.change(&o)
		if _, err := strata.New(o); err == nil || !strings.Contains(err.Error(), "options: "+tt.field+":") {
			t.Errorf("New: %v, want an error about %s", err, tt.field)
		}
	}
}

func TestNegativeLivesTurnOptionsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := strata.New(strata.Options[string, int64]{
			TTL: time.Minute, Jitter: math.Inf(-1), RefreshAt: math.Inf(-1), NotFoundTTL: math.MinInt64, ErrorTTL: math.MinInt64,
			Stale:  strata.Stale{WhileRevalidate: math.MinInt64, OnError: math.MinInt64},
			Limits: strata.Limits{HardTimeout: -1}, Remote: strata.Remote[string, int64]{BreakAfter: math.MinInt},
		})
		lab.Must(t, err)
		defer c.Close(context.Background())
		o := &lab.Fallible{Origin: lab.Origin{Takes: 2 * time.Hour}}
		lab.MustGet(t, c, "k", o.Load)
		if p := c.Explain(t.Context(), "k").L1; p.Fresh != time.Minute || p.Left != time.Minute {
			t.Errorf("%+v, want a minute", p)
		}
		time.Sleep(time.Minute)
		o.Takes = 0
		for _, err := range []error{lab.ErrDown, strata.ErrNotFound} {
			o.Fail(err)
			for range 2 {
				_, _ = c.GetOrLoad(t.Context(), "k", o.Load)
			}
		}
		if n := o.Loads.Load(); n != 5 {
			t.Errorf("%d loads, want 5", n)
		}
	})
}

func TestLivesAreClampedAndDoNotOverflow(t *testing.T) {
	for _, ttl := range []time.Duration{strata.NoExpiry, strata.NoExpiry - 1, math.MaxInt64 / 2} {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			for name, c := range map[string]*strata.Cache[string, int64]{
				"alone": lab.NewCache(t, func(o *strata.Options[string, int64]) { o.TTL, o.RefreshAt = ttl, 0.5 }),
				"with L2": lab.Instance(t, s, func(o *strata.Options[string, int64]) {
					o.TTL, o.RefreshAt, o.RefreshSpread, o.Stale.WhileRevalidate = ttl, 0.5, 100, math.MaxInt64
				}),
				"per call": lab.NewCache(t, func(o *strata.Options[string, int64]) { o.RefreshAt, o.Stale.OnError = 0.5, math.MaxInt64 }),
			} {
				o := &lab.Origin{}
				for range 2 {
					if _, err := c.GetOrLoad(t.Context(), "k", o.Load, strata.WithTTL(ttl)); err != nil {
						t.Error(err)
					}
					time.Sleep(20 * time.Minute)
				}
				if n := o.Loads.Load(); n != 1 {
					t.Errorf("%s: %v: %d loads in 20m, want 1", name, ttl, n)
				}
			}
		})
	}
}

// TestLimitsAreClampedAndDoNotOverflow has limits of three centuries.
func TestLimitsAreClampedAndDoNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.ErrorTTL, o.Limits.HardTimeout, o.Limits.SoftTimeout, o.Limits.MaxLoads = math.MaxInt64, math.MaxInt64, math.MaxInt64, 1
		})
		time.Sleep(time.Second) // in a bubble
		o := &lab.Origin{Takes: time.Hour}
		lab.MustGet(t, c, "k", o.Load)
		for range 3 {
			_, _ = c.GetOrLoad(t.Context(), "failed", lab.DownLoad, strata.SkipRead())
		}
		time.Sleep(time.Hour) // in a bubble
		if _, err := c.GetOrLoad(t.Context(), "failed", lab.Never(t)); !errors.Is(err, lab.ErrDown) {
			t.Errorf("%v, want the failure that is remembered", err)
		}
	})
}

// TestStaleWindowWithoutAnEndHoldsForValuesOfL2 reads half a minute after the TTL.
func TestStaleWindowWithoutAnEndHoldsForValuesOfL2(t *testing.T) {
	endless := strata.Stale{OnError: math.MaxInt64}
	for name, of := range map[string]strata.CallOption{"of all values": {}, "of one value": strata.WithStale(endless)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				windows := lab.Windows(time.Minute, time.Hour)
				if name == "of all values" {
					windows = lab.Windows(time.Minute, endless.OnError)
				}
				lab.Must(t, lab.Instance(t, s, windows).Set(t.Context(), "k", 1, of))
				time.Sleep(90 * time.Second) // in a bubble
				c, o, begun := lab.Instance(t, s, windows), &lab.Origin{Takes: time.Second}, time.Now()
				var info strata.Info
				v, err := c.GetOrLoad(t.Context(), "k", o.Load, strata.ReadInfo(&info))
				if took := time.Since(begun); v != 1 || err != nil || took != 0 || info.Age != 90*time.Second {
					t.Errorf("got %d, %v, %+v after %v; want the stale value at once, and its age", v, err, info, took)
				}
				synctest.Wait()
			})
		})
	}
}

func TestTTLOfACallThatIsNotPositiveStoresNothing(t *testing.T) {
	both(t, refreshAt(0.5), func(t *testing.T, c *strata.Cache[string, int64]) {
		for ttl, want := range map[time.Duration]time.Duration{-1: 0, math.MinInt64: 0, 0: 0, time.Second: time.Second} {
			o := &lab.Origin{}
			_, err := c.GetOrLoad(t.Context(), "loaded", o.Load, strata.WithTTL(ttl))
			lab.Must(t, err)
			lab.Must(t, c.Set(t.Context(), "set", 1, strata.WithTTL(ttl)))
			lab.Must(t, c.SetMany(t.Context(), map[string]int64{"many": 1}, strata.WithTTL(ttl)))
			lab.Must(t, c.Update(t.Context(), "updated", func(context.Context) (int64, error) { return 1, nil }, strata.WithTTL(ttl)))
			for _, key := range []string{"loaded", "set", "many", "updated"} {
				r := c.Explain(t.Context(), key)
				if r.L1.Fresh != want || r.L2.Fresh != want && r.L2.Used {
					t.Errorf("TTL %v: %s: %+v, want %v", ttl, key, r, want)
				}
			}
			lab.Must(t, c.Invalidate(t.Context(), "loaded", "set", "many", "updated"))
		}
	})
}

func TestEveryWayToStoreIsJittered(t *testing.T) {
	both(t, func(o *strata.Options[string, int64]) { o.Jitter = 0.5 }, func(t *testing.T, c *strata.Cache[string, int64]) {
		ctx := t.Context()
		for name, store := range map[string]func(key string) error{
			"load": func(key string) error { _, err := c.GetOrLoad(ctx, key, (&lab.Origin{}).Load); return err },
			"load by TTL": func(key string) error {
				_, err := c.GetOrLoad(ctx, key, (&lab.Origin{}).Load, strata.WithTTL(time.Minute))
				return err
			},
			"set":      func(key string) error { return c.Set(ctx, key, 1) },
			"set many": func(key string) error { return c.SetMany(ctx, map[string]int64{key: 1}) },
			"update": func(key string) error {
				return c.Update(ctx, key, func(context.Context) (int64, error) { return 1, nil })
			},
			"get many": func(key string) error {
				_, err := c.GetMany(ctx, []string{key}, (&someKeys{has: map[string]int64{key: 1}}).load)
				return err
			},
			"extra of a batch": func(key string) error {
				_, err := c.GetMany(ctx, []string{"x" + key}, func(context.Context, []string) (map[string]int64, error) {
					return map[string]int64{"x" + key: 1, key: 1}, nil
				})
				return err
			},
			"past the cache": func(key string) error {
				_, err := c.GetOrLoad(ctx, key, (&lab.Origin{}).Load, strata.SkipRead())
				return err
			},
		} {
			lives := map[time.Duration]bool{}
			for i := range 20 {
				key := name + string(rune('a'+i))
				lab.Must(t, store(key))
				fresh := c.Explain(ctx, key).L1.Fresh
				longest := time.Minute
				if name == "extra of a batch" && c.Explain(ctx, key).L2.Used {
					longest = strata.UnconfirmedTTL
				}
				if fresh > longest || fresh < longest/2 && fresh < 30*time.Second {
					t.Errorf("%s: %v, want %v to %v", name, fresh, longest/2, longest)
				}
				lives[fresh] = true
			}
			if len(lives) < 15 {
				t.Errorf("%s: %d different lives of 20", name, len(lives))
			}
		}
	})
}
