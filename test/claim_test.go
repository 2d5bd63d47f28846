package test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// TestOneCallerAddsAndOneTakesOnRealServers has eight callers on two instances, and a
// value that may be gone only because one of them has taken it.
func TestOneCallerAddsAndOneTakesOnRealServers(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (tier func() remote.Tier, bus func() remote.Bus){
		"redis": func(t *testing.T) (func() remote.Tier, func() remote.Bus) {
			r := servers.StartRedis(t)
			return func() remote.Tier { return redis.NewTier(r.Client(t, patiently)) }, func() remote.Bus { return redis.NewBus(r.Client(t, patiently)) }
		},
		"redis cluster": func(t *testing.T) (func() remote.Tier, func() remote.Bus) {
			k := servers.StartCluster(t, 3, 0)
			return func() remote.Tier { return redis.NewTier(k.Client(t, patiently)) }, func() remote.Bus { return redis.NewBus(k.Client(t, patiently)) }
		},
		"memcached": func(t *testing.T) (func() remote.Tier, func() remote.Bus) {
			m, bus := servers.StartMemcached(t), stratatest.NewBus()
			slowly := func(o *memcached.Options) { o.Timeout = patience }
			return func() remote.Tier { return memcached.NewTier(m.Client(t, slowly)) }, func() remote.Bus { return bus.Connect() }
		},
		"fleet of memcached": func(t *testing.T) (func() remote.Tier, func() remote.Bus) {
			f, bus := startMemcachedFleet(t), stratatest.NewBus()
			return func() remote.Tier { return memcached.NewTier(f.client(t, memcached.DeadFails)) }, func() remote.Bus { return bus.Connect() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tier, bus := open(t)
			var all [2]*strata.Cache[string, int64]
			for i := range all {
				c, err := strata.New(strata.Options[string, int64]{
					Name: "claims", TTL: time.Hour, Remote: strata.Remote[string, int64]{Tier: tier(), Bus: bus(), Timeout: 5 * time.Second},
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close(context.Background()) })
				all[i] = c
			}
			for round := range 20 {
				oneAddsAndOneTakes(t, all, fmt.Sprint("key", round))
			}
		})
	}
}

func oneAddsAndOneTakes(t *testing.T, all [2]*strata.Cache[string, int64], key string) {
	t.Helper()
	var added, taken, sum atomic.Int64
	each := func(f func(c *strata.Cache[string, int64], i int64)) {
		var callers sync.WaitGroup
		for i := range int64(8) {
			callers.Go(func() { f(all[i%2], i+1) })
		}
		callers.Wait()
	}
	each(func(c *strata.Cache[string, int64], i int64) {
		ok, err := c.Add(t.Context(), key, i, strata.WithTags("t"))
		if err != nil {
			t.Error(err)
		}
		if ok {
			added.Add(1)
			sum.Add(i)
		}
	})
	each(func(c *strata.Cache[string, int64], _ int64) {
		v, ok, err := c.Take(t.Context(), key)
		if err != nil {
			t.Error(err)
		}
		if ok {
			taken.Add(1)
			sum.Add(-v)
		}
	})
	if added.Load() != 1 || taken.Load() != 1 || sum.Load() != 0 {
		t.Errorf("%s: %d callers have added, %d have taken, %d is left", key, added.Load(), taken.Load(), sum.Load())
	}
}
