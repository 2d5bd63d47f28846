package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

func TestInstanceThatWasCutOffForHoursDropsItsPendingKeysOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewTagged(t)
		var down atomic.Bool
		long := func(o *strata.Options[string, int64]) { o.TTL = strata.NoExpiry }
		a := lab.Instance(t, s, long, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = lab.Failing(lab.Failing(s.Tier, "Drop", &down), "DropTags", &down)
		})
		b := lab.Instance(t, s, long)
		o := &lab.Origin{}
		for i := range 1000 {
			lab.MustGet(t, b, fmt.Sprint(i), o.Load)
		}
		lab.Must(t, b.Set(t.Context(), "tagged", 1, strata.WithTags("t")))
		synctest.Wait()
		down.Store(true)
		if a.Invalidate(t.Context(), "7") == nil || a.InvalidateTags(t.Context(), "t") == nil {
			t.Fatal("confirmed by an L2 that is down")
		}
		time.Sleep(5 * time.Hour)
		down.Store(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		before := o.Loads.Load()
		for i := range 1000 {
			lab.MustGet(t, b, fmt.Sprint(i), o.Load)
		}
		if n := o.Loads.Load() - before; n != 1 {
			t.Errorf("%d of 1000 entries are loaded again, want that which was invalidated", n)
		}
		if v, ok := b.Get(t.Context(), "tagged"); ok {
			t.Errorf("got %d, whose tag was invalidated", v)
		}
		if n := a.Stats().Pending; n != 0 {
			t.Errorf("%d pending, want 0", n)
		}
	})
}

func TestKeyThatL2CannotHoldIsNotPendingForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := lab.NewShared(), &lab.Patient{}
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = p.On(narrow{s.Tier}) })
		p.Fails.Store(true)
		misses(t, c, "a", 5) // L2 is left alone: the cache does not learn that the key is too long
		_ = c.Invalidate(t.Context(), strings.Repeat("x", 101), "a", "b")
		p.Fails.Store(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := c.Stats().Pending; n != 0 {
			t.Errorf("%d pending, want 0", n)
		}
	})
}

// writers are the calls that drop something in L2, and which key they concern.
func writers(c *strata.Cache[string, int64]) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Set":            func(ctx context.Context) error { return c.Set(ctx, "k", 2) },
		"SetMany":        func(ctx context.Context) error { return c.SetMany(ctx, map[string]int64{"k": 2}) },
		"Invalidate":     func(ctx context.Context) error { return c.Invalidate(ctx, "k") },
		"Expire":         func(ctx context.Context) error { return c.Expire(ctx, "k") },
		"InvalidateTags": func(ctx context.Context) error { return c.InvalidateTags(ctx, "t") },
		"InvalidateAll":  func(ctx context.Context) error { return c.InvalidateAll(ctx) },
		"ExpireAll":      func(ctx context.Context) error { return c.ExpireAll(ctx) },
		"Update": func(ctx context.Context) error {
			return c.Update(ctx, "k", func(context.Context) (int64, error) { return 2, nil })
		},
	}
}

func TestWriterThatLeavesIsNoFailureOfL2AndItsDropIsCarriedOutAtOnce(t *testing.T) {
	for name := range writers(nil) {
		for how, leave := range map[string]time.Duration{"before": 0, "meanwhile": 10 * time.Millisecond} {
			t.Run(name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log lab.LogText
					s := lab.NewTagged(t)
					slow := func(string, string) (time.Duration, error) { return 50 * time.Millisecond, nil }
					a := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
						o.Remote.Tier, o.Logger = stratatest.FaultyTier(s.Tier, slow), lab.TextLogger(&log)
					})
					b := lab.Instance[string, int64](t, s)
					lab.Must(t, b.Set(t.Context(), "k", 1, strata.WithTags("t")))
					time.Sleep(time.Second)
					for range 20 {
						ctx, cancel := context.WithTimeout(t.Context(), leave)
						start := time.Now()
						err := writers(a)[name](ctx)
						var unconfirmed *strata.RemoteError
						if !errors.As(err, &unconfirmed) || !errors.Is(err, context.DeadlineExceeded) {
							t.Fatalf("got %v; want a *RemoteError that wraps the context's error", err)
						}
						if took := time.Since(start); took > leave && name != "Update" { // which drops again
							t.Errorf("it took %v", took)
						}
						cancel()
					}
					time.Sleep(200 * time.Millisecond) // an operation takes 50
					if v, ok := b.Get(t.Context(), "k"); ok {
						t.Errorf("the other instance has %d", v)
					}
					if st := a.Stats(); st.BreakerOpen || !st.Connected || st.L2.Errors != 0 || st.Pending != 0 {
						t.Errorf("breaker open %v, connected %v, %d errors, %d pending", st.BreakerOpen, st.Connected, st.L2.Errors, st.Pending)
					}
					if strings.Contains(log.String(), "L2") {
						t.Errorf("it is said of L2:\n%s", log.String())
					}
				})
			})
		}
	}
}

// tardy is a tier with drops that fail after 150 ms and ignore their context.
type tardy struct{ *stratatest.Tier }

func (d tardy) Bind(s remote.Space) remote.Tier { return tardy{d.Tier.Bind(s).(*stratatest.Tier)} }

func (d tardy) Drop(context.Context, []remote.Drop) ([]remote.Lease, error) {
	time.Sleep(150 * time.Millisecond)
	return nil, errors.New("i/o timeout")
}

func TestWritersThatLeaveDoNotHideADeadL2(t *testing.T) {
	for name, patience := range map[string]time.Duration{"before its time is over": 50 * time.Millisecond, "after it": 120 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := lab.NewShared(), &lab.Patient{}
				c := lab.IllInstance(t, s, p, func(o *strata.Options[string, int64]) {
					if patience > lab.RemoteTimeout {
						o.Remote.Tier = tardy{s.Tier}
					}
				})
				p.Hangs.Store(true)
				for range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					_ = c.Invalidate(ctx, "k")
					cancel()
				}
				if patience < lab.RemoteTimeout {
					time.Sleep(5 * time.Second) // attempts in the background have the time that L2 gets
				}
				if !c.Stats().BreakerOpen {
					t.Error("a dead L2 is not left alone")
				}
			})
		})
	}
}
