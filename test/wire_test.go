//go:build unix

package test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

// TestGreetingsThatAreKilledFailNoCall: for a second all connections are killed
// every 2 ms, some of them in their greeting. Calls may lose their connections,
// but the client refuses none a connection. On a busy machine a greeting takes
// longer than 2 ms: so a kill waits until as many pipelines have succeeded since
// the last kill as run at once. Else nearly each greeting is cut, and a client may
// refuse calls.
func TestGreetingsThatAreKilledFailNoCall(t *testing.T) {
	server := servers.StartRedis(t)
	c, killer := server.Client(t), server.Client(t)
	mustDo(t, killer, "SET", "k", "v")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	const callers = 16
	var wg sync.WaitGroup
	var calls, failed, away, kills, succeeded atomic.Int64
	wg.Go(func() {
		before := -int64(callers / 2)
		for tick := time.NewTicker(2 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			n := succeeded.Load()
			if n < before+callers/2 {
				continue
			}
			before = n
			kills.Add(1)
			if err := killer.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
				t.Error(err)
			}
		}
	})
	for g := range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				var err error
				if g%2 == 0 {
					_, err = c.AppendGet(t.Context(), nil, "k")
				} else {
					p := c.Pipeline()
					p.Get("k")
					err = p.Each(t.Context(), func(_ int, r redis.Reply) error { return r.Err() })
				}
				calls.Add(1)
				var ce *redis.ConnError
				switch {
				case err == nil && g%2 == 1:
					succeeded.Add(1)
				case err == nil:
				case errors.As(err, &ce) && (ce.Op == "read" || ce.Op == "write"):
					failed.Add(1)
				default:
					away.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d kills; of %d calls %d lost their connections, and %d were turned away; %+v", kills.Load(), calls.Load(), failed.Load(), away.Load(), c.Stats())
	if away.Load() > 0 {
		t.Errorf("%d of %d calls were turned away", away.Load(), calls.Load())
	}
}

// TestReadsGoOnWhileWritesArePaused: as they are during a planned failover, for
// longer than a call waits.
func TestReadsGoOnWhileWritesArePaused(t *testing.T) {
	server := servers.StartRedis(t)
	c, operator := server.Client(t, func(o *redis.Options) { o.Timeout = 2 * time.Second }), server.Client(t)
	mustDo(t, c, "SET", "k", "v")
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	var writes, failed atomic.Int64
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				writes.Add(1)
				if c.Set(t.Context(), "k", []byte("v"), 0) != nil {
					failed.Add(1)
				}
			}
		})
	}
	most := make([]time.Duration, 8)
	var reads atomic.Int64
	for g := range most {
		wg.Go(func() {
			for ctx.Err() == nil {
				start := time.Now()
				if v, err := c.AppendGet(t.Context(), nil, "k"); string(v) != "v" || err != nil {
					t.Errorf("%q, %v after %v", v, err, time.Since(start))
				}
				reads.Add(1)
				most[g] = max(most[g], time.Since(start))
			}
		})
	}
	mustDo(t, operator, "CLIENT", "PAUSE", 5000, "WRITE")
	wg.Wait()
	t.Logf("%d reads, the slowest after %v; %d of %d writes failed", reads.Load(), slices.Max(most), failed.Load(), writes.Load())
	if failed.Load() == 0 || slices.Max(most) > 4*time.Second { // a busy machine may take a second or two, the pause takes five
		t.Errorf("a read took %v; %d writes failed", slices.Max(most), failed.Load())
	}
}
