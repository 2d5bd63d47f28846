package loads_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/memory"
)

// listsCache returns a cache with an encoded L1 whose values can be changed by all that get them.
func listsCache(t *testing.T, o strata.Options[string, []string]) *strata.Cache[string, []string] {
	o.Memory.Encoded, o.Jitter, o.TTL = true, -1, time.Minute
	c, err := strata.New(o)
	lab.Must(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// TestHookForLoadsHasAValueOfItsOwn has a hook that changes its value, while the caller changes the one of the load.
func TestHookForLoadsHasAValueOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saw := make(chan string, 1)
		c := listsCache(t, strata.Options[string, []string]{
			Loader: func(context.Context, string) ([]string, error) { return []string{"loaded"}, nil },
			Hooks: &strata.Hooks{Load: func(e strata.Event) {
				v := e.Value.([]string)
				time.Sleep(time.Second) // in the bubble; no caller waits for so long
				saw <- v[0]
				v[0] = "changed by the hook"
			}},
		})
		v, err := c.GetOrLoad(t.Context(), "k", nil)
		lab.Must(t, err)
		v[0] += " and changed"
		again, _ := c.Get(t.Context(), "k")
		if got := <-saw; got != "loaded" || v[0] != "loaded and changed" || again[0] != "loaded" {
			t.Errorf("the hook has %q, the caller %q, L1 %q", got, v[0], again[0])
		}
		synctest.Wait()
		if again, _ = c.Get(t.Context(), "k"); again[0] != "loaded" {
			t.Errorf("L1 has %q", again[0])
		}
	})
}

// TestLoaderThatOutlivesItsCallersHasThePreviousValue gives the stale value to a caller that changes it, while the Loader
// goes on after HardTimeout.
func TestLoaderThatOutlivesItsCallersHasThePreviousValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *strata.Cache[string, []string]
		loads, saw := 0, make(chan string, 1)
		c = listsCache(t, strata.Options[string, []string]{
			Stale: strata.Stale{OnError: time.Hour}, Limits: strata.Limits{HardTimeout: time.Second},
			Loader: func(ctx context.Context, _ string) ([]string, error) {
				if loads++; loads == 1 {
					return []string{"first"}, nil
				}
				time.Sleep(5 * time.Second) // in the bubble, and longer than HardTimeout
				p, _ := c.Previous(ctx)
				saw <- p[0]
				return nil, errors.New("late")
			},
		})
		_, err := c.GetOrLoad(t.Context(), "k", nil)
		lab.Must(t, err)
		time.Sleep(2 * time.Minute)
		v, err := c.GetOrLoad(t.Context(), "k", nil)
		lab.Must(t, err)
		v[0] = "changed"
		if got := <-saw; got != "first" {
			t.Errorf("the Loader has %q", got)
		}
	})
}

// TestTuneRefusesABoundThatTheStoreOfAnEncodedL1CannotKeep tunes a cache that was made for many processors and much memory.
func TestTuneRefusesABoundThatTheStoreOfAnEncodedL1CannotKeep(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	c, _ := encodedCache(t, func(o *strata.Options[int, []byte]) { o.Memory.MaxWeight = 1 << 30 })
	if err := c.Tune(strata.Tuning{MaxWeight: new(int64(memory.MinBytes))}); err == nil || !strings.Contains(err.Error(), "tune: MaxWeight: ") || c.Stats().MaxWeight != 1<<30 {
		t.Errorf("%v, the bound is %d", err, c.Stats().MaxWeight)
	}
	lab.Must(t, c.Tune(strata.Tuning{MaxWeight: new(int64(8 << 20))}))
	for key := range 30_000 {
		lab.Must(t, c.Set(t.Context(), key, make([]byte, 100)))
	}
	if s := c.Stats(); s.MaxWeight != 8<<20 || s.Weight > s.MaxWeight || c.Len() < 29_000 {
		t.Errorf("%d entries in %d bytes of %d", c.Len(), s.Weight, s.MaxWeight)
	}
}
