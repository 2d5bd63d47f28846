//go:build unix

package test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

const (
	// idleFor is the time for which the traffic of idle instances is counted.
	// idleMost is the number of bytes that one of them may send and receive in a second.
	idleFor  = 15 * time.Second
	idleMost = 1 << 10
)

// TestIdleCachesCostNextToNothing counts the traffic of two instances, with any
// number of caches each, while no caller uses them.
func TestIdleCachesCostNextToNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	r := servers.StartRedis(t)
	k := servers.StartCluster(t, 3, 1)
	w := servers.StartWatched(t, 1)
	dialers := map[string]func(*testing.T, func(context.Context, string, string) (net.Conn, error)) (remote.Tier, remote.Bus){
		"own": func(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) (remote.Tier, remote.Bus) {
			c := r.Client(t, func(o *redis.Options) { o.DialContext = dial })
			return redis.NewTier(c), redis.NewBus(c)
		},
		"own-cluster": func(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) (remote.Tier, remote.Bus) {
			c := k.Client(t, func(o *redis.Options) { o.DialContext = dial })
			return redis.NewTier(c), redis.NewBus(c)
		},
		"own-sentinel": func(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) (remote.Tier, remote.Bus) {
			c := w.Client(t, func(o *redis.Options) { o.DialContext = dial })
			return redis.NewTier(c), redis.NewBus(c)
		},
		"go-redis": func(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) (remote.Tier, remote.Bus) {
			c := goclient.NewClient(&goclient.Options{
				Addr: r.Addr, Dialer: dial, ContextTimeoutEnabled: true,
				MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			})
			t.Cleanup(func() { c.Close() })
			return goRedisTier(t, c), goRedisBus(t, c)
		},
	}
	for client, open := range dialers {
		for _, n := range []int{1, 2, 50} {
			t.Run(fmt.Sprintf("%s, %d caches", client, n), func(t *testing.T) {
				var lines [2]servers.Line
				var all []*strata.Cache[string, string]
				for i := range lines {
					tier, bus := open(t, lines[i].DialContext)
					for j := range n {
						all = append(all, idleCache(t, fmt.Sprintf("%s-%d-%d", client, n, j), tier, bus))
					}
				}
				for _, c := range all {
					until(t, 10*time.Second, "connected", func() bool { return c.Stats().Connected })
					until(t, 10*time.Second, "something is stored", func() bool { return c.Set(t.Context(), "k", "v") == nil })
				}
				rates := func(d time.Duration) (rates [2]float64) {
					var before [2]int64
					for i := range lines {
						before[i] = lines[i].Sent.Load() + lines[i].Received.Load()
					}
					<-time.After(d)
					for i := range lines {
						bytes := lines[i].Sent.Load() + lines[i].Received.Load() - before[i]
						rates[i] = float64(bytes) / d.Seconds()
					}
					return rates
				}
				until(t, time.Minute, "what was written has been looked into", func() bool {
					r := rates(2 * remote.ChangesAge)
					return max(r[0], r[1]) < 2*idleMost
				})
				for i, rate := range rates(idleFor) {
					t.Logf("instance %d: %.0f bytes a second over %d connections", i, rate, lines[i].Dials.Load())
					if rate > idleMost {
						t.Errorf("instance %d: %.0f bytes a second; want %d at most", i, rate, idleMost)
					}
				}
			})
		}
	}
}

func idleCache(t *testing.T, name string, tier remote.Tier, bus remote.Bus) *strata.Cache[string, string] {
	t.Helper()
	o := strata.Options[string, string]{Name: name, TTL: time.Hour}
	o.Remote.Tier, o.Remote.Bus = tier, bus
	c, err := strata.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}
