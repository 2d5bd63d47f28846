package test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// coldInstance is the L2 and the bus of a new instance.
type coldInstance func(t *testing.T) (remote.Tier, remote.Bus)

// coldServers start a shared tier of each kind.
var coldServers = map[string]func(t *testing.T) coldInstance{ // read-only
	"redis": func(t *testing.T) coldInstance {
		r := servers.StartRedis(t)
		return func(t *testing.T) (remote.Tier, remote.Bus) {
			c := r.Client(t, patiently)
			return redis.NewTier(c), redis.NewBus(c)
		}
	},
	"redis cluster": func(t *testing.T) coldInstance {
		k := servers.StartCluster(t, 3, 0)
		return func(t *testing.T) (remote.Tier, remote.Bus) {
			c := k.Client(t, patiently)
			return redis.NewTier(c), redis.NewBus(c)
		}
	},
	"redis with sentinels": func(t *testing.T) coldInstance {
		w := servers.StartWatched(t, 1)
		return func(t *testing.T) (remote.Tier, remote.Bus) {
			c := w.Client(t, patiently)
			return redis.NewTier(c), redis.NewBus(c)
		}
	},
	"go-redis": func(t *testing.T) coldInstance {
		r := servers.StartRedis(t)
		return func(t *testing.T) (remote.Tier, remote.Bus) {
			c := goRedis(t, goredis.Options{
				Addr: r.Addr, ReadTimeout: patience, PoolTimeout: patience,
				// Two connections that go-redis opens at once race in its set-up of these notifications.
				MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			})
			return goRedisTier(t, c), goRedisBus(t, c)
		}
	},
	"memcached": func(t *testing.T) coldInstance {
		m, bus := servers.StartMemcached(t), stratatest.NewBus()
		return func(t *testing.T) (remote.Tier, remote.Bus) {
			return memcached.NewTier(m.Client(t, func(o *memcached.Options) { o.Timeout = patience })), bus.Connect()
		}
	},
	"fleet of memcached": func(t *testing.T) coldInstance {
		f, bus := startMemcachedFleet(t), stratatest.NewBus()
		return func(t *testing.T) (remote.Tier, remote.Bus) {
			return memcached.NewTier(f.client(t, memcached.DeadFails)), bus.Connect()
		}
	},
}

// firstCalls are the ways to begin: each is about keys and tags that no read has.
var firstCalls = map[string]func(ctx context.Context, c *strata.Cache[string, int64], key string) error{ // read-only
	"Get": func(ctx context.Context, c *strata.Cache[string, int64], key string) error {
		if _, ok := c.Get(ctx, key); ok {
			return errors.New("a value in a cold cache")
		}
		return nil
	},
	"Invalidate": func(ctx context.Context, c *strata.Cache[string, int64], key string) error {
		return c.Invalidate(ctx, key)
	},
	"Invalidate-two": func(ctx context.Context, c *strata.Cache[string, int64], key string) error {
		return c.Invalidate(ctx, key, key+"'")
	},
	"InvalidateHold": func(ctx context.Context, c *strata.Cache[string, int64], key string) error {
		return c.InvalidateHold(ctx, time.Second, key)
	},
	"Expire": func(ctx context.Context, c *strata.Cache[string, int64], key string) error { return c.Expire(ctx, key) },
	"Set":    func(ctx context.Context, c *strata.Cache[string, int64], key string) error { return c.Set(ctx, key, 1) },
	"InvalidateTags": func(ctx context.Context, c *strata.Cache[string, int64], key string) error {
		return c.InvalidateTags(ctx, key)
	},
	"Add": func(ctx context.Context, c *strata.Cache[string, int64], key string) error {
		_, err := c.Add(ctx, key, 1)
		return err
	},
}

// TestColdInstancesLoadEachKeyOnceWhateverTheyBeginWith lets two new instances on a cold L2 begin with
// a call, beside their first reads or before them.
func TestColdInstancesLoadEachKeyOnceWhateverTheyBeginWith(t *testing.T) {
	for kind, start := range coldServers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			open := start(t)
			for name, call := range firstCalls {
				t.Run(name+"/beside", func(t *testing.T) { coldLoads(t, open, false, call) })
				t.Run(name+"/before", func(t *testing.T) { coldLoads(t, open, true, call) })
			}
		})
	}
}

// coldLoads counts the loads of two new instances that read the same keys. Each begins with the call,
// before the reads or beside them.
func coldLoads(t *testing.T, open coldInstance, before bool, call func(context.Context, *strata.Cache[string, int64], string) error) {
	t.Helper()
	const keys = 60
	var loads [keys]atomic.Int64
	load := func(_ context.Context, key string) (int64, error) {
		var i int
		if _, err := fmt.Sscanf(key, "key%d", &i); err != nil {
			return 0, err
		}
		<-time.After(time.Millisecond) // so that the other instance finds the lease
		return loads[i].Add(1), nil
	}
	var callers, begin sync.WaitGroup
	begin.Add(1)
	for n := range 2 {
		o := strata.Options[string, int64]{Name: strings.ReplaceAll(t.Name(), "/", ":"), TTL: time.Hour}
		o.Remote.Tier, o.Remote.Bus = open(t)
		// So that a busy machine does not look like a dead server, or like a dead instance with a lease.
		o.Remote.Timeout, o.Limits.Lease, o.Limits.HardTimeout = patience, time.Minute, time.Minute
		c := openCache(t, o)
		begun := func() {
			if err := call(t.Context(), c, fmt.Sprint("other", n)); err != nil {
				t.Error(err)
			}
		}
		if before {
			begun()
		} else {
			callers.Go(func() { begin.Wait(); begun() })
		}
		for i := range keys {
			callers.Go(func() {
				begin.Wait()
				mustGet(t, c, fmt.Sprint("key", i), load)
			})
		}
	}
	begin.Done()
	callers.Wait()
	more := 0
	for i := range loads {
		if loads[i].Load() > 1 {
			more++
		}
	}
	if more > 0 {
		t.Errorf("%d of %d keys were loaded more than once", more, keys)
	}
}
