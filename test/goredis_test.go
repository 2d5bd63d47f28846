package test

import (
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata"
	adapter "github.com/strata-cache/strata/contrib/goredis"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// goRedis returns a client of go-redis. The end of the test closes it.
func goRedis(t testing.TB, o goredis.Options) *goredis.Client {
	t.Helper()
	rdb := goredis.NewClient(&o)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

func goRedisTier(t testing.TB, rdb *goredis.Client) *adapter.Tier {
	t.Helper()
	tier, err := adapter.NewTier(rdb)
	if err != nil {
		t.Fatal(err)
	}
	return tier
}

func goRedisBus(t testing.TB, rdb *goredis.Client) *adapter.Bus {
	t.Helper()
	bus, err := adapter.NewBus(rdb)
	if err != nil {
		t.Fatal(err)
	}
	return bus
}

func TestGoRedisTierConforms(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := servers.StartRedis(t)
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		return goRedisTier(t, goRedis(t, goredis.Options{Addr: r.Addr, ReadTimeout: patience})), pause
	})
}

func TestGoRedisTierConformsWithoutScripts(t *testing.T) {
	t.Parallel() // it waits most of the time
	o := withoutScripts(t, servers.StartRedis(t))
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		rdb := goRedis(t, goredis.Options{
			Addr: o.Addr, Username: o.Username, Password: o.Password,
			ContextTimeoutEnabled: true,
			ReadTimeout:           patience,
			Protocol:              2, // see README.md of the adapter on the race in go-redis with protocol 3
		})
		return goRedisTier(t, rdb), pause
	})
}

func TestGoRedisTierAnnounces(t *testing.T) {
	r := servers.StartRedis(t)
	stratatest.TestAnnouncer(t, func(t *testing.T) (remote.Tier, remote.Bus) {
		rdb := goRedis(t, goredis.Options{Addr: r.Addr})
		return goRedisTier(t, rdb), goRedisBus(t, rdb)
	})
}

func TestGoRedisBusConforms(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := servers.StartRedis(t)
	for name, protocol := range map[string]int{"RESP2": 2, "RESP3": 3} {
		t.Run(name, func(t *testing.T) {
			stratatest.TestBus(t, func(t *testing.T) stratatest.BusFixture {
				line := &servers.Line{}
				return stratatest.BusFixture{
					Bus:  goRedisBus(t, goRedis(t, goredis.Options{Addr: r.Addr, Protocol: protocol, Dialer: line.DialContext})),
					Peer: goRedisBus(t, goRedis(t, goredis.Options{Addr: r.Addr, Protocol: protocol})),
					Cut:  func() func() { line.Cut(); return line.Join },
				}
			})
		})
	}
}

// overGoRedis makes an instance use the adapter.
func overGoRedis(t testing.TB, o goredis.Options) change[string, int64] {
	return func(c *strata.Options[string, int64]) {
		rdb := goRedis(t, o)
		c.Remote.Tier, c.Remote.Bus = goRedisTier(t, rdb), goRedisBus(t, rdb)
	}
}

func TestInstancesOverGoRedisAndOverTheOwnClientAreOneCluster(t *testing.T) {
	r := servers.StartRedis(t)
	own, _ := instance[string, int64](t, r)
	adapted, _ := instance(t, r, overGoRedis(t, goredis.Options{Addr: r.Addr}))
	joined(t, "warm", own, adapted)
	joined(t, "warm", adapted, own)
	for _, pair := range []struct {
		name string
		a, b *strata.Cache[string, int64]
	}{{"own client first", own, adapted}, {"go-redis first", adapted, own}} {
		o := &counter{}
		mustGet(t, pair.a, pair.name, o.load)
		if mustGet(t, pair.b, pair.name, o.load); o.loads.Load() != 1 {
			t.Errorf("%s: %d loads on two instances; want 1", pair.name, o.loads.Load())
		}
		o.value.Store(1)
		if err := pair.a.Invalidate(t.Context(), pair.name); err != nil {
			t.Fatal(err)
		}
		eventually(t, pair.name+": the other instance applies the drop", func() bool { return mustGet(t, pair.b, pair.name, o.load) == 1 })
		if v := mustGet(t, pair.a, pair.name, o.load); v != 1 || o.loads.Load() != 2 {
			t.Errorf("%s: read %d after %d loads; want 1, 2", pair.name, v, o.loads.Load())
		}
		o.value.Store(2)
		if err := pair.a.InvalidateAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, pair.name+": the other instance applies a drop of everything", func() bool { return mustGet(t, pair.b, pair.name, o.load) == 2 })
	}
}

// TestOneLoadWithEitherClientHoldingTheLease has callers on both kinds of instances ask for
// one key at once.
func TestOneLoadWithEitherClientHoldingTheLease(t *testing.T) {
	r := servers.StartRedis(t)
	own, _ := instance[string, int64](t, r)
	adapted, _ := instance(t, r, overGoRedis(t, goredis.Options{Addr: r.Addr}))
	joined(t, "warm", own, adapted)
	o := &counter{takes: 100 * time.Millisecond}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { mustGet(t, own, "k", o.load) })
		wg.Go(func() { mustGet(t, adapted, "k", o.load) })
	}
	wg.Wait()
	if n := o.loads.Load(); n != 1 {
		t.Errorf("%d loads by 100 callers on two instances; want 1", n)
	}
}

func TestRestartOfRedisIsSurvivedOverGoRedis(t *testing.T) {
	r := servers.StartRedis(t)
	c, _ := instance(t, r, overGoRedis(t, goredis.Options{Addr: r.Addr}))
	peer, _ := instance[string, int64](t, r)
	joined(t, "warm", peer, c)
	o := &counter{}
	mustGet(t, c, "k", o.load)
	r.Kill()
	eventually(t, "the bus is found dead", func() bool { return !c.Stats().Connected })
	if err := c.Invalidate(t.Context(), "gone"); err == nil {
		t.Error("Invalidate returned nil while Redis is down")
	}
	o.value.Store(1)
	r.Restart()
	eventually(t, "both are connected again", func() bool { return c.Stats().Connected && peer.Stats().Connected })
	eventually(t, "the peer's invalidation is confirmed", func() bool { return peer.Invalidate(t.Context(), "k") == nil })
	eventually(t, "the instance applies drops again", func() bool { return mustGet(t, c, "k", o.load) == 1 })
	eventually(t, "L2 is used again", func() bool {
		if _, ok := peer.Get(t.Context(), "new"); ok {
			return true
		}
		mustGet(t, c, "new", o.load)
		_ = c.Invalidate(t.Context(), "new")
		mustGet(t, c, "new", o.load)
		return false
	})
}

// TestPausedRedisCostsOneTimeoutOverGoRedis has the timeouts of go-redis far
// above the timeout of the cache, and its ContextTimeoutEnabled off.
func TestPausedRedisCostsOneTimeoutOverGoRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	r := servers.StartRedis(t)
	c, _ := instance(t, r, overGoRedis(t, goredis.Options{Addr: r.Addr, ReadTimeout: time.Minute, PoolTimeout: time.Minute}),
		func(o *strata.Options[string, int64]) { o.Remote.Timeout = 0 }) // the default
	o := &counter{}
	mustGet(t, c, "hit", o.load)
	r.Stop()
	t.Cleanup(r.Continue)
	for _, key := range []string{"a", "b", "c"} {
		start := time.Now()
		mustGet(t, c, key, o.load)
		if took := time.Since(start); took > 5*time.Second { // a busy machine; go-redis would take a minute
			t.Errorf("a miss took %v while Redis is paused", took)
		}
	}
	r.Continue()
	eventually(t, "L2 is used again", func() bool { return c.Invalidate(t.Context(), "a") == nil })
	eventually(t, "the bus is back", func() bool { return c.Stats().Connected })
}

// TestNoReadOverGoRedisIsOlderThanAnInvalidateThatReturned has a writer over
// the own client and readers over go-redis.
func TestNoReadOverGoRedisIsOlderThanAnInvalidateThatReturned(t *testing.T) {
	readThroughOutages(t, func(i int, r *servers.Redis) change[string, int64] {
		return overGoRedis(t, goredis.Options{Addr: r.Addr, ContextTimeoutEnabled: i > 0})
	})
}

// TestRestartedServerCostsNoCallOverGoRedis restarts the server of idle
// connections, which die with it.
func TestRestartedServerCostsNoCallOverGoRedis(t *testing.T) {
	r := servers.StartRedis(t)
	tier := goRedisTier(t, goRedis(t, goredis.Options{Addr: r.Addr})).Bind(remote.Space{Name: "n", Schema: 1})
	var wg sync.WaitGroup
	drop := func() {
		if _, err := tier.Drop(t.Context(), []remote.Drop{{Key: "k"}}); err != nil {
			t.Errorf("Drop: %v", err)
		}
	}
	for range 20 {
		wg.Go(drop)
	}
	wg.Wait()
	r.Kill()
	r.Restart()
	for range 20 {
		wg.Go(drop)
	}
	wg.Wait()
}
