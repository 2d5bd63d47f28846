package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// wantOrigin fails unless the origin has failed, and been slow, for these times, to a second.
func wantOrigin(t *testing.T, c *strata.Cache[string, int64], failing, slow time.Duration) {
	t.Helper()
	s := c.Stats()
	near := func(got, want time.Duration) bool {
		return (got > 0) == (want > 0) && (got-want).Abs() <= time.Second
	}
	if !near(s.OriginFailing, failing) || !near(s.OriginSlow, slow) {
		t.Errorf("failing for %v, slow for %v; want %v, %v", s.OriginFailing, s.OriginSlow, failing, slow)
	}
}

func TestDeadOriginIsAStateWithinSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Logger, o.ErrorTTL, o.TTL = lab.TextLogger(&log), time.Second, 10*time.Second
			o.Stale.OnError = time.Minute
		})
		s := &lab.Fallible{}
		get := func(seconds int) { // one key, asked for once a second
			for range seconds {
				_, _ = c.GetOrLoad(t.Context(), "k", s.Load)
				time.Sleep(time.Second)
			}
		}
		get(60)
		wantOrigin(t, c, 0, 0)
		s.Fail(lab.ErrDown)
		get(30)
		if f := c.Stats().OriginFailing; f < 19*time.Second {
			t.Errorf("dead for 30 s with a TTL of 10 s, and failing for %v", f)
		}
		wantLines(t, &log, 1, "level=WARN msg=\"strata: loads fail\" cache=test error=\"origin is down\"")
		get(10 * 60)
		if f := c.Stats().OriginFailing; f < 10*time.Minute {
			t.Errorf("dead for ten minutes, and failing for %v", f)
		}
		if n := strings.Count(log.String(), "\n"); n > 4 {
			t.Errorf("%d lines in ten minutes:\n%s", n, log.String())
		}
		s.Fail(nil)
		get(60)
		wantOrigin(t, c, 0, 0)
		wantLines(t, &log, 1, "level=INFO msg=\"strata: loads succeed again\"")
	})
}

func TestHangingOriginIsSlowAtAQuarterOfTheHardTimeout(t *testing.T) {
	for _, within := range []time.Duration{0, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var log lab.LogText
			c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
				o.Logger, o.Limits.HardTimeout = lab.TextLogger(&log), within
			})
			if within == 0 {
				within = time.Minute
			}
			lab.MustGet(t, c, "well", (&lab.Origin{}).Load)
			time.Sleep(10 * time.Second)
			hang := func(ctx context.Context, _ string) (int64, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			for i := range 3 {
				go func() { _, _ = c.GetOrLoad(context.Background(), fmt.Sprint(i), hang) }()
			}
			time.Sleep(within/4 - time.Second)
			wantOrigin(t, c, 0, 0)
			time.Sleep(2 * time.Second)
			wantOrigin(t, c, 0, within/4+time.Second)
			wantLines(t, &log, 1, "level=WARN msg=\"strata: loads are slow\" cache=test longer_than="+(within/4).String())
			time.Sleep(within - within/4)
			synctest.Wait()
			wantOrigin(t, c, within+time.Second, within+time.Second)
			for range 60 {
				lab.MustGet(t, c, fmt.Sprint("well", time.Now()), (&lab.Origin{}).Load)
				time.Sleep(time.Second)
			}
			wantOrigin(t, c, 0, 0)
			wantLines(t, &log, 1, "level=INFO msg=\"strata: loads are quick again\"")
		})
	}
}

func TestSlowLoadsWithoutAHardTimeoutAreJudgedAtTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Limits.HardTimeout = -1 })
		lab.MustGet(t, c, "k", (&lab.Origin{Takes: 20 * time.Second}).Load)
		wantOrigin(t, c, 0, 20*time.Second)
	})
}

func TestStateOfTheOriginComesFromLoadsAlone(t *testing.T) {
	down := func(context.Context, string) (int64, error) { return 0, lab.ErrDown }
	many := func(context.Context, []string) (map[string]int64, error) { return nil, lab.ErrDown }
	for name, tt := range map[string]struct {
		change func(*strata.Options[string, int64])
		does   func(t *testing.T, c *strata.Cache[string, int64])
		fails  bool
	}{
		"one batch of many keys": {does: func(t *testing.T, c *strata.Cache[string, int64]) {
			_, _ = c.GetMany(t.Context(), []string{"a", "b", "c", "d", "e"}, many)
		}},
		"three batches": {fails: true, does: func(t *testing.T, c *strata.Cache[string, int64]) {
			for range 3 {
				_, _ = c.GetMany(t.Context(), []string{"a", "b", "c", "d", "e"}, many)
			}
		}},
		"batches that have some values": {does: func(t *testing.T, c *strata.Cache[string, int64]) {
			for i := range 20 {
				key := fmt.Sprint(i)
				_, _ = c.GetMany(t.Context(), []string{"a", key, "c"}, func(context.Context, []string) (map[string]int64, error) {
					return map[string]int64{key: 1}, lab.ErrDown
				})
			}
		}},
		"loads past L1": {fails: true, does: func(t *testing.T, c *strata.Cache[string, int64]) {
			for range 3 {
				_, _ = c.GetOrLoad(t.Context(), "a", down, strata.NoMemory(), strata.SkipRead())
			}
		}},
		"a cache that is off": {fails: true, does: func(t *testing.T, c *strata.Cache[string, int64]) {
			off := true
			lab.Must(t, c.Tune(strata.Tuning{Off: &off}))
			for range 3 {
				_, _ = c.GetOrLoad(t.Context(), "a", down)
			}
		}},
		"panics": {fails: true, does: func(t *testing.T, c *strata.Cache[string, int64]) {
			for range 3 {
				_, _ = c.GetOrLoad(t.Context(), "a", func(context.Context, string) (int64, error) { panic("at the disco") })
			}
		}},
		"what the origin does not have": {does: func(t *testing.T, c *strata.Cache[string, int64]) {
			for range 20 {
				_, _ = c.GetOrLoad(t.Context(), "a", func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound })
			}
		}},
		"callers that leave": {does: func(t *testing.T, c *strata.Cache[string, int64]) {
			for range 20 {
				_, _ = c.GetOrLoad(t.Context(), "a", func(context.Context, string) (int64, error) { return 0, fmt.Errorf("query: %w", context.Canceled) })
			}
		}},
		"the end of the cache": {does: func(t *testing.T, c *strata.Cache[string, int64]) {
			for i := range 20 {
				go func() {
					_, _ = c.GetOrLoad(context.Background(), fmt.Sprint(i), func(ctx context.Context, _ string) (int64, error) {
						<-ctx.Done()
						return 0, ctx.Err()
					})
				}()
			}
			synctest.Wait()
			lab.Must(t, c.Close(context.Background()))
		}},
		"refreshes": {
			fails:  true,
			change: func(o *strata.Options[string, int64]) { o.RefreshAt = 0.5 },
			does: func(t *testing.T, c *strata.Cache[string, int64]) {
				for _, k := range []string{"a", "b", "c"} {
					lab.MustGet(t, c, k, (&lab.Origin{}).Load)
				}
				time.Sleep(50 * time.Second) // of a TTL of a minute
				for _, k := range []string{"a", "b", "c"} {
					lab.MustGet(t, c, k, down)
					synctest.Wait()
				}
			},
		},
		"failures that are remembered": {
			fails:  true,
			change: func(o *strata.Options[string, int64]) { o.ErrorTTL = 5 * time.Minute },
			does: func(t *testing.T, c *strata.Cache[string, int64]) {
				for _, k := range []string{"a", "b", "c"} {
					_, _ = c.GetOrLoad(t.Context(), k, down)
				}
				for range 200 { // no load runs
					if _, err := c.GetOrLoad(t.Context(), "a", lab.PlainLoad); !errors.Is(err, lab.ErrDown) {
						t.Errorf("got %v, want the failure", err)
					}
					time.Sleep(time.Second)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
					if tt.change != nil {
						tt.change(o)
					}
				})
				tt.does(t, c)
				time.Sleep(time.Millisecond)
				if f := c.Stats().OriginFailing; f > 0 != tt.fails {
					t.Errorf("failing for %v; want failing: %v", f, tt.fails)
				}
			})
		})
	}
}
