package loads_test

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
)

// queued returns a cache with the stale value 0 of the key "k", and with a SkipRead of it that waits for the slot of another
// load, which does not end.
func queued(t *testing.T, change ...func(*strata.Options[string, int64])) *strata.Cache[string, int64] {
	t.Helper()
	one := func(o *strata.Options[string, int64]) { o.Limits.MaxLoads = 1 }
	c := lab.NewCache(t, append([]func(*strata.Options[string, int64]){patient, one}, change...)...)
	lab.Must(t, c.Set(t.Context(), "k", 0, strata.WithTags("t")))
	time.Sleep(2 * time.Minute)
	s := newStubborn(5)
	t.Cleanup(func() { close(s.end); synctest.Wait() })
	go c.GetOrLoad(t.Context(), "other", s.load)
	synctest.Wait()
	go c.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) {
		select {
		case <-s.end: // the test is over
		default:
			t.Error("a load has begun while another has the slot")
		}
		return 0, nil
	}, strata.SkipRead())
	synctest.Wait()
	return c
}

func TestSoftTimeoutHoldsBesideAReloadThatHasNotBegun(t *testing.T) {
	t.Run("queue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := queued(t, softly)
			if took := lab.GetTakes(t, c, lab.Never(t), 0); took != 100*time.Millisecond {
				t.Errorf("waited %v, want 100ms", took)
			}
		})
	})
	t.Run("queue without SoftTimeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := queued(t)
			if v, err := c.GetOrLoad(t.Context(), "k", lab.Never(t)); v != 0 || err != nil {
				t.Errorf("%v, %v, want the stale value", v, err)
			}
		})
	})
	t.Run("lease", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a, b := lab.Instance(t, s, patient, softly), lab.Instance(t, s, patient)
			lab.Must(t, a.Set(t.Context(), "k", 0))
			time.Sleep(2 * time.Minute)
			o := &lab.Origin{Takes: 5 * time.Second}
			go b.GetOrLoad(t.Context(), "k", o.Load)
			synctest.Wait()
			go a.GetOrLoad(t.Context(), "k", o.Load, strata.SkipRead())
			synctest.Wait()
			if took := lab.GetTakes(t, a, o.Load, 0); took > 200*time.Millisecond {
				t.Errorf("waited %v, want 100ms", took)
			}
			time.Sleep(time.Minute)
		})
	})
}

func TestReloadThatHasNotBegunOffersNothingDropped(t *testing.T) {
	for name, drop := range map[string]func(context.Context, *strata.Cache[string, int64]) error{
		"Invalidate":     func(ctx context.Context, c *strata.Cache[string, int64]) error { return c.Invalidate(ctx, "k") },
		"InvalidateAll":  func(ctx context.Context, c *strata.Cache[string, int64]) error { return c.InvalidateAll(ctx) },
		"InvalidateTags": func(ctx context.Context, c *strata.Cache[string, int64]) error { return c.InvalidateTags(ctx, "t") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := queued(t, softly)
				lab.Must(t, drop(t.Context(), c))
				begun := time.Now()
				v, err := c.GetOrLoad(t.Context(), "k", lab.Never(t))
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) < 9*time.Second {
					t.Errorf("%d, %v after %v; want no dropped value", v, err, time.Since(begun))
				}
			})
		})
	}
}

func TestKeyThatExitsIsAnErrorForAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var exits atomic.Bool
		c := lab.Instance(t, lab.NewShared(), patient, func(o *strata.Options[string, int64]) {
			o.Remote.Key = func(k string) string {
				if exits.Load() {
					lab.ExitGoroutine()
				}
				return k
			}
			o.Remote.ParseKey = func(k string) (string, error) { return k, nil }
		})
		exits.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begun := time.Now()
		_, err := c.GetOrLoad(ctx, "k", lab.PlainLoad, strata.SkipRead())
		if !errors.Is(err, strata.ErrLoadExited) || time.Since(begun) > 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		exits.Store(false)
		if v, err := c.GetOrLoad(ctx, "k", lab.PlainLoad, strata.SkipRead()); v != 1 || err != nil {
			t.Errorf("%v, %v", v, err)
		}
	})
}

func TestNumbersAddUpForCallersThatLeaveBesideAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, slow := lab.NewShared(), &atomic.Bool{}
		c := lab.Instance(t, s, softly, func(o *strata.Options[string, int64]) {
			o.Remote.Timeout = time.Second
			o.Remote.Tier = lab.Stalling(s.Tier, "Get", 300*time.Millisecond, slow)
		})
		lab.Must(t, c.Set(t.Context(), "k", 0))
		time.Sleep(2 * time.Minute)
		o := &lab.Origin{Takes: 10 * time.Second}
		o.Value.Store(2)
		var reload sync.WaitGroup
		reload.Go(func() { _, _ = c.GetOrLoad(t.Context(), "k", o.Load, strata.SkipRead()) })
		time.Sleep(time.Second)
		slow.Store(true)
		lab.GetTakes(t, c, o.Load, 0)
		time.Sleep(time.Second)
		reload.Wait()
		synctest.Wait()
		wantSums(t, c)
		reload.Go(func() { _, _ = c.GetOrLoad(t.Context(), "k2", o.Load, strata.SkipRead()) })
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, _ = c.GetOrLoad(ctx, "k2", o.Load)
		cancel()
		reload.Wait()
		synctest.Wait()
		wantSums(t, c)
	})
}
