package test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// withAndWithoutScripts returns clients of two users of a server: one may run
// scripts, the other may not.
func withAndWithoutScripts() map[string]func(testing.TB, *servers.Redis) *redis.Client {
	return map[string]func(testing.TB, *servers.Redis) *redis.Client{
		"scripts":      func(t testing.TB, r *servers.Redis) *redis.Client { return r.Client(t) },
		"transactions": func(t testing.TB, r *servers.Redis) *redis.Client { return client(t, withoutScripts(t, r)) },
	}
}

// stall lets r stand still, and f run at its beginning.
func stall(r *servers.Redis, d time.Duration, f func()) {
	r.Stop()
	f()
	<-time.After(d)
	r.Continue()
}

// TestLeaseWithoutWaitersHoldsUpNoInstance has one instance ask for leases while
// the server stands still, and give up waiting. The server grants none of them
// when it goes on, so another instance loads at once.
func TestLeaseWithoutWaitersHoldsUpNoInstance(t *testing.T) {
	for name, client := range withAndWithoutScripts() {
		t.Run(name, func(t *testing.T) {
			r := servers.StartRedis(t)
			over := func(timeout time.Duration) change[string, int64] {
				return func(o *strata.Options[string, int64]) {
					o.Remote.Tier, o.Remote.Timeout, o.Remote.BreakAfter = redis.NewTier(client(t, r)), timeout, -1
				}
			}
			a, _ := instance(t, r, over(100*time.Millisecond))
			b, _ := instance(t, r, over(10*time.Second))
			joined(t, "warm", a, b)
			o := &counter{takes: 2 * time.Millisecond}
			for i := range 200 { // most of the keys are absent: leases are asked for at once
				mustGet(t, a, fmt.Sprint("cold ", i), o.load)
			}
			const keys = 40
			var wg sync.WaitGroup
			stall(r, 300*time.Millisecond, func() {
				for i := range keys {
					wg.Go(func() { mustGet(t, a, fmt.Sprint("k", i), o.load) })
				}
				wg.Wait()
			})
			took := make([]time.Duration, keys)
			for i := range keys {
				wg.Go(func() {
					begun := time.Now()
					mustGet(t, b, fmt.Sprint("k", i), o.load)
					took[i] = time.Since(begun)
				})
			}
			wg.Wait()
			most, slow := slices.Max(took), 0
			for _, d := range took {
				if d > 5*time.Second/2 { // a busy machine may take a second
					slow++
				}
			}
			t.Logf("the slowest of %d reads took %v", keys, most)
			if slow > 0 {
				t.Errorf("%d of %d reads were slow, the slowest took %v", slow, keys, most)
			}
		})
	}
}

// TestAcquireThatIsLateGivesNoLease asks a server that stands still.
func TestAcquireThatIsLateGivesNoLease(t *testing.T) {
	for name, client := range withAndWithoutScripts() {
		t.Run(name, func(t *testing.T) {
			r := servers.StartRedis(t)
			bind := func() *redis.Tier {
				return redis.NewTier(client(t, r)).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
			}
			a, b := bind(), bind()
			for i := range 3 { // connections are open and the word is known
				fill(t, a, fmt.Sprint("warm ", i), "v", time.Hour)
			}
			stall(r, 300*time.Millisecond, func() {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				var wg sync.WaitGroup
				wg.Go(func() { _, _, _ = kit.AcquireMany(ctx, a, []string{"many 1", "many 2"}, time.Minute) })
				wg.Go(func() { _, _, _ = kit.Refresh(ctx, a, "refresh", 7, time.Minute) })
				if _, l, err := kit.Acquire(ctx, a, "one", time.Minute); err == nil {
					t.Errorf("got %+v from a server that stands still", l)
				}
				wg.Wait()
			})
			mustDo(t, r.Client(t), "PING")
			for _, key := range []string{"one", "refresh", "many 1", "many 2"} {
				if _, l, err := kit.Acquire(t.Context(), b, key, time.Minute); err != nil || l.Grant != remote.Granted {
					t.Errorf("%s: %+v, %v; want the lease", key, l, err)
				}
			}
		})
	}
}
