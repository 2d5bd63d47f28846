package test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// countedTier counts the operations of callers on the tier of a cache.
type countedTier struct {
	*redis.Tier
	calls *atomic.Int64
}

// Bind counts too.
func (c countedTier) Bind(s remote.Space) remote.Tier {
	return countedTier{c.Tier.Bind(s).(*redis.Tier), c.calls}
}

// Get counts.
func (c countedTier) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	c.calls.Add(1)
	return c.Tier.Get(ctx, keys, known...)
}

// Acquire counts.
func (c countedTier) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	c.calls.Add(1)
	return c.Tier.Acquire(ctx, r, d)
}

// Put counts.
func (c countedTier) Put(ctx context.Context, p []remote.Put) ([]int, error) {
	c.calls.Add(1)
	return c.Tier.Put(ctx, p)
}

// Release counts.
func (c countedTier) Release(ctx context.Context, key string, l remote.Lease) error {
	c.calls.Add(1)
	return c.Tier.Release(ctx, key, l)
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

// hitTime is the median time of a hit.
func hitTime(t *testing.T, c *strata.Cache[string, int64], key string) time.Duration {
	t.Helper()
	const batches, size = 101, 5000
	took := make([]time.Duration, batches)
	for i := range took {
		start := time.Now()
		for range size {
			if _, ok := c.Get(t.Context(), key); !ok {
				t.Fatal("a hit was none")
			}
		}
		took[i] = time.Since(start)
	}
	return median(took) // of size hits
}

// TestPausedRedisIsLeftAloneAndUsedAgain pauses Redis under a cache with the
// usual options. Times are printed. Only a time that no slow machine can
// prolong is asserted: a miss that waits for Redis takes its whole timeout.
func TestPausedRedisIsLeftAloneAndUsedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	const loads = 5 * time.Millisecond
	r := servers.StartRedis(t)
	var calls atomic.Int64
	c, _ := instance(t, r, func(o *strata.Options[string, int64]) {
		o.Remote.Timeout = 0 // the default, as the breaker's
		o.Remote.Tier = countedTier{o.Remote.Tier.(*redis.Tier), &calls}
	})
	peer, _ := instance[string, int64](t, r)
	joined(t, "warm", peer, c)
	o := &counter{takes: loads}
	mustGet(t, c, "hit", o.load)
	healthy := hitTime(t, c, "hit")

	r.Stop()
	t.Cleanup(r.Continue)
	calls.Store(0)
	dead := hitTime(t, c, "hit")
	if n := calls.Load(); n != 0 {
		t.Errorf("%d calls of a paused L2 for hits", n)
	}

	// miss returns the time that L2 adds to the load of another key.
	n := 0
	miss := func() time.Duration {
		n++
		var loaded time.Duration
		start := time.Now()
		mustGet(t, c, fmt.Sprint("miss", n), func(ctx context.Context, key string) (int64, error) {
			begun := time.Now()
			v, err := o.load(ctx, key)
			loaded = time.Since(begun)
			return v, err
		})
		return time.Since(start) - loaded
	}
	var waited []time.Duration
	for !c.Stats().BreakerOpen && len(waited) < 20 {
		waited = append(waited, miss())
	}
	if len(waited) != 5 || calls.Load() != 5 {
		t.Errorf("L2 was left alone after %d misses and %d calls; want %d", len(waited), calls.Load(), 5)
	}

	opened := time.Now()
	calls.Store(0)
	var passed []time.Duration
	for range 200 {
		passed = append(passed, miss())
	}
	probes := int64(time.Since(opened)/5*time.Second) + 1
	if got := calls.Load(); got > probes {
		t.Errorf("%d calls of an L2 that is left alone, for %d misses in %v; want %d at most", got, len(passed), time.Since(opened), probes)
	}
	if d := median(passed); d > 60*time.Millisecond {
		t.Errorf("an L2 that is left alone adds %v to a miss", d)
	}
	still := hitTime(t, c, "hit")

	resumed := time.Now()
	r.Continue()
	eventually(t, "another instance can write", func() bool { return peer.Set(t.Context(), "theirs", 7) == nil })
	eventually(t, "L2 answers reads again", func() bool {
		v, ok := c.Get(t.Context(), "theirs")
		return ok && v == 7
	})
	if st := c.Stats(); st.BreakerOpen || st.L2.Hits == 0 {
		t.Errorf("breaker open: %t, hits in L2: %d", st.BreakerOpen, st.L2.Hits)
	}
	took := time.Since(resumed)
	eventually(t, "the bus is back", func() bool { return c.Stats().Connected })
	after := hitTime(t, c, "hit")

	usual := (healthy + after) / 2
	t.Logf("a hit, of the usual time: %.3f while Redis is paused, %.3f when it is left alone; no calls",
		float64(dead)/float64(usual), float64(still)/float64(usual))
	t.Logf("a miss, beyond its load: %v each until L2 is left alone, then %v (median of %d)", waited, median(passed), len(passed))
	t.Logf("L2 had hits again %v after Redis went on", took.Round(time.Millisecond))
}
