package test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
)

func TestCacheStartsAndServesWhileRedisIsDown(t *testing.T) {
	r := servers.StartRedis(t)
	r.Kill()
	quick := func(o *strata.Options[string, int64]) { o.Remote.Timeout = 0 }
	c, _ := instance(t, r, quick)
	o := &counter{}
	for range 10 {
		mustGet(t, c, "k", o.load)
	}
	st := c.Stats()
	if n := o.loads.Load(); n != 1 || st.L1.Hits != 9 {
		t.Errorf("%d loads, %d hits in L1 for 10 reads while Redis is down; want 1, 9", n, st.L1.Hits)
	}
	if st.L2.Errors == 0 {
		t.Error("no error of L2 was counted")
	}
	if err := c.Invalidate(t.Context(), "k"); err == nil {
		t.Error("Invalidate returned nil while Redis is down")
	}
	if _, ok := c.Get(t.Context(), "k"); ok {
		t.Error("an invalidated key is still served here")
	}

	r.Restart()
	other, _ := instance[string, int64](t, r)
	eventually(t, "L2 is used again", func() bool {
		mustGet(t, c, "k", o.load)
		if _, ok := other.Get(t.Context(), "k"); ok {
			return true
		}
		_ = c.Invalidate(t.Context(), "k") // an error means not yet
		return false
	})
}

func TestPausedRedisCostsAMissOneTimeoutAndAHitNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	r := servers.StartRedis(t)
	var failed atomic.Int64
	c, line := instance(t, r, func(o *strata.Options[string, int64]) {
		o.Remote.Timeout = 0 // the default
		o.Hooks = &strata.Hooks{RemoteError: func(strata.Event) { failed.Add(1) }}
	})
	peer, _ := instance[string, int64](t, r)
	joined(t, "warm", peer, c)
	o := &counter{}
	mustGet(t, c, "hit", o.load)
	failed.Store(0)
	r.Stop()
	t.Cleanup(r.Continue)

	before := line.Writes.Load()
	for range 1000 {
		mustGet(t, c, "hit", nil)
	}
	if n := line.Writes.Load() - before; n != 0 || failed.Load() != 0 {
		t.Errorf("%d writes, %d errors for 1000 hits", n, failed.Load())
	}
	// A miss has three or four things to ask of L2. The number of errors shows
	// that it waits for one of them only, and so does a time well below two timeouts.
	for _, key := range []string{"a", "b", "c"} {
		failed.Store(0)
		start := time.Now()
		mustGet(t, c, key, o.load)
		if n := failed.Load(); n != 1 {
			t.Errorf("%d operations on L2 failed for a miss; want 1", n)
		}
		t.Logf("miss took %v, of which L2 may add %v", time.Since(start).Round(time.Millisecond), 100*time.Millisecond)
	}

	eventually(t, "the bus is found silent", func() bool { return !c.Stats().Connected })
	before = line.Writes.Load()
	for range 1000 {
		mustGet(t, c, "hit", nil)
	}
	if n := line.Writes.Load() - before; n > 2 { // the bus may look for its connection
		t.Errorf("%d writes for 1000 hits while the bus is silent", n)
	}

	r.Continue()
	eventually(t, "L2 is used again", func() bool {
		err := c.Invalidate(t.Context(), "a")
		return err == nil
	})
	eventually(t, "the bus is back", func() bool { return c.Stats().Connected })
}

// TestNoReadOfL2IsOlderThanAnInvalidateThatReturned lets one instance
// invalidate after each write to the origin, and others read, while Redis is
// paused, killed and restarted. The readers keep nothing in L1 and have one
// caller each, so every read goes to L2 or to the origin after it was called.
func TestNoReadOfL2IsOlderThanAnInvalidateThatReturned(t *testing.T) {
	readThroughOutages(t, func(int, *servers.Redis) change[string, int64] { return func(*strata.Options[string, int64]) {} })
}

// readThroughOutages is TestNoReadOfL2IsOlderThanAnInvalidateThatReturned, with changes of the
// options of each reader.
func readThroughOutages(t *testing.T, reader func(i int, r *servers.Redis) change[string, int64]) {
	if testing.Short() {
		t.Skip("-short")
	}
	r := servers.StartRedis(t)
	quick := func(o *strata.Options[string, int64]) {
		o.Remote.Timeout = 0 // the default
		o.Memory.MaxWeight, o.Memory.Weigh = 1, func(string, int64) int64 { return 2 }
	}
	writer, _ := instance(t, r, quick)
	o := &counter{takes: time.Millisecond}
	var confirmed, reads atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		for ctx.Err() == nil {
			now := o.value.Add(1)
			if err := writer.Invalidate(ctx, "k"); err == nil {
				confirmed.Store(now)
			}
			<-time.After(3 * time.Millisecond)
		}
	})
	var readers []*strata.Cache[string, int64]
	for i := range 3 {
		c, _ := instance(t, r, reader(i, r), quick)
		readers = append(readers, c)
		wg.Go(func() {
			for ctx.Err() == nil {
				oldest := confirmed.Load()
				v, err := c.GetOrLoad(ctx, "k", o.load)
				switch {
				case errors.Is(err, context.Canceled):
				case err != nil:
					t.Errorf("GetOrLoad: %v", err)
				case v < oldest:
					t.Errorf("read %d; %d was invalidated before the read was called", v, oldest)
					return
				}
				reads.Add(1)
			}
		})
	}
	for range 3 {
		<-time.After(300 * time.Millisecond)
		r.Stop()
		<-time.After(300 * time.Millisecond)
		r.Continue()
		<-time.After(300 * time.Millisecond)
		r.Kill()
		<-time.After(100 * time.Millisecond)
		r.Restart()
	}
	<-time.After(300 * time.Millisecond)
	var hits, l1 uint64
	for _, c := range readers {
		hits, l1 = hits+c.Stats().L2.Hits, l1+c.Stats().L1.Hits
	}
	if hits == 0 || l1 != 0 {
		t.Errorf("%d reads were answered by L2 and %d by L1: the test proves nothing", hits, l1)
	}
	t.Logf("%d reads, %d of them from L2, %d loads, %d confirmed invalidations", reads.Load(), hits, o.loads.Load(), confirmed.Load())
}
