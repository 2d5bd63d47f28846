package loads_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

func TestTwoHundredHotKeysAreRefreshedAndNoCallerWaits(t *testing.T) {
	for name, l2 := range map[string]bool{"alone": false, "with L2": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				change := func(o *strata.Options[string, int64]) { lab.DefaultLives(o); o.TTL = 10 * time.Second }
				c := lab.NewCache(t, change)
				if l2 {
					c = lab.Instance(t, lab.NewShared(), change)
				}
				keys, o := lab.ManyKeys(200), &lab.Origin{Takes: 50 * time.Millisecond}
				var wg sync.WaitGroup
				for _, k := range keys { // together, so that they are due together
					wg.Go(func() { lab.MustGet(t, c, k, o.Load) })
				}
				wg.Wait()
				begun, slept := time.Now(), time.Duration(0)
				for ; slept < time.Minute; slept += 20 * time.Millisecond {
					time.Sleep(20 * time.Millisecond)
					for _, k := range keys {
						lab.MustGet(t, c, k, o.Load)
					}
				}
				st := c.Stats()
				if waited := time.Since(begun) - slept; waited != 0 || st.RefreshesDropped != 0 || st.Refreshes < 1000 {
					t.Errorf("callers waited for %v, %d refreshes left out, %d carried out", waited, st.RefreshesDropped, st.Refreshes)
				}
				t.Logf("%d reads, %d refreshes", st.Reads, st.Refreshes)
			})
		})
	}
}

func TestNoMoreThanMaxRefreshesRunAndTheNextReadStartsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, refreshAt(0.5), func(o *strata.Options[string, int64]) { o.Limits.MaxRefreshes = 3 })
		keys := lab.ManyKeys(20)
		for _, k := range keys {
			lab.Must(t, c.Set(t.Context(), k, 0))
		}
		time.Sleep(60 * time.Second)
		var running, most, loads atomic.Int64
		load := func(context.Context, string) (int64, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			loads.Add(1)
			time.Sleep(time.Second)
			return 1, nil
		}
		for range 8 {
			for _, k := range keys {
				lab.MustGet(t, c, k, load)
			}
			time.Sleep(1100 * time.Millisecond)
		}
		for _, k := range keys {
			if v := lab.MustGet(t, c, k, load); v != 1 {
				t.Errorf("%s was read eight times and not refreshed", k)
			}
		}
		if most.Load() != 3 || loads.Load() != 20 {
			t.Errorf("%d refreshes at once, %d in all; want 3, 20", most.Load(), loads.Load())
		}
	})
}

func TestSetDuringASlowRefreshIsRefreshedInItsTurn(t *testing.T) {
	for name, l2 := range map[string]bool{"alone": false, "with L2": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, refreshAt(0.5))
				if l2 {
					c = lab.Instance(t, lab.NewShared(), refreshAt(0.5))
				}
				lab.Must(t, c.Set(t.Context(), "k", 0))
				time.Sleep(60 * time.Second)
				slow := &lab.Origin{Takes: 50 * time.Second}
				lab.GetTakes(t, c, slow.Load, 0)
				synctest.Wait()
				if slow.Loads.Load() != 1 {
					t.Fatal("there is no refresh")
				}
				// The refresh that runs is obsolete by now.
				refreshedInItsTurn(t, c, slow)
				time.Sleep(time.Minute)
			})
		})
	}
}

// refreshedInItsTurn sets k with a short life, and wants one refresh of it in its turn, and no further load of slow.
func refreshedInItsTurn(t *testing.T, c *strata.Cache[string, int64], slow *lab.Origin) {
	t.Helper()
	lab.Must(t, c.Set(t.Context(), "k", 7, strata.WithTTL(10*time.Second)))
	time.Sleep(8 * time.Second)
	quick := &lab.Origin{}
	quick.Value.Store(9)
	lab.GetTakes(t, c, quick.Load, 7)
	synctest.Wait()
	if lab.GetTakes(t, c, quick.Load, 9); quick.Loads.Load() != 1 || slow.Loads.Load() != 1 {
		t.Errorf("%d refreshes of what was set, want 1", quick.Loads.Load())
	}
}

// pausedRefreshes is a Tracer that holds up the begin of refreshes until it is closed.
type pausedRefreshes chan struct{}

func (p pausedRefreshes) Start(ctx context.Context, s strata.Span) (context.Context, func(strata.SpanEnd)) {
	if s.Name == strata.SpanRefresh {
		<-p
	}
	return ctx, func(strata.SpanEnd) {}
}

// TestSetIsRefreshedInItsTurnThoughARefreshHasJoinedAMiss drops a key just when a
// refresh of it begins, which then finds the flight of a miss.
func TestSetIsRefreshedInItsTurnThoughARefreshHasJoinedAMiss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paused := make(pausedRefreshes)
		c := lab.NewCache(t, refreshAt(0.5), func(o *strata.Options[string, int64]) { o.Tracer = paused })
		lab.Must(t, c.Set(t.Context(), "k", 0))
		time.Sleep(60 * time.Second)
		slow := &lab.Origin{Takes: 50 * time.Second}
		lab.GetTakes(t, c, slow.Load, 0)
		synctest.Wait() // the refresh has seen no flight of the key
		lab.Must(t, c.Invalidate(t.Context(), "k"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := c.GetOrLoad(ctx, "k", slow.Load)
		close(paused)
		synctest.Wait()
		if n := c.Stats().Refreshes; err == nil || n != 1 || slow.Loads.Load() != 1 {
			t.Fatalf("the refresh has not joined the miss: %v, %d refreshes, %d loads", err, n, slow.Loads.Load())
		}
		refreshedInItsTurn(t, c, slow)
	})
}
