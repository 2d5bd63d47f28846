//go:build unix

package test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/memcached/roster"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/stratatest"
)

// memcachedFleet is three real servers.
type memcachedFleet struct {
	members []*servers.Memcached
	addrs   []string
	ring    *roster.Ring
}

func startMemcachedFleet(t *testing.T, args ...string) *memcachedFleet {
	t.Helper()
	f := &memcachedFleet{}
	var places []roster.Server
	for range 3 {
		m := servers.StartMemcached(t, args...)
		f.members, f.addrs = append(f.members, m), append(f.addrs, m.Addr)
		places = append(places, roster.Server{Address: m.Addr})
	}
	var err error
	if f.ring, err = roster.NewRing(roster.Ketama, places); err != nil {
		t.Fatal(err)
	}
	return f
}

// client returns a client of all servers.
func (f *memcachedFleet) client(t *testing.T, d memcached.Dead) *memcached.Client {
	t.Helper()
	return f.members[0].Client(t, func(o *memcached.Options) {
		o.Servers, o.Fleet.Dead, o.Timeout = f.addrs, d, 8*time.Second // so that a busy machine does not look like a dead server
	})
}

// keys returns n keys of servers for which ask returns true.
func (f *memcachedFleet) keys(n int, ask func(server int) bool) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("key:", i); ask(f.ring.Pick(key)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// memcachedAbsences are ways for a process to be away. A fleet of members 0, 1 and 2 loses
// member 1.
var memcachedAbsences = map[string]struct{ leave, comeBack func(*servers.Memcached) }{ // read-only
	"killed":  {func(m *servers.Memcached) { m.Kill() }, (*servers.Memcached).Restart},
	"stopped": {(*servers.Memcached).Stop, (*servers.Memcached).Continue},
}

// TestMemcachedFleetLosesAServerAndServesTheOthers has eight callers while one of three
// processes is killed or stopped: each call ends, and a call to the other two ends
// without an error.
func TestMemcachedFleetLosesAServerAndServesTheOthers(t *testing.T) {
	for name, way := range memcachedAbsences {
		for d := memcached.DeadFails; d <= memcached.DeadMoves; d++ {
			t.Run(fmt.Sprint(name, "/", d), func(t *testing.T) {
				t.Parallel()
				losesOne(t, d, way.leave, way.comeBack)
			})
		}
	}
}

func losesOne(t *testing.T, d memcached.Dead, leave, comeBack func(*servers.Memcached)) {
	f := startMemcachedFleet(t)
	c := f.client(t, d)
	theirs := f.keys(30, func(server int) bool { return server != 1 })
	lost := f.keys(10, func(server int) bool { return server == 1 })
	if err := c.SetMany(t.Context(), itemsOf(append(lost, theirs...))); err != nil {
		t.Fatal(err)
	}
	leave(f.members[1])
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for round := range 20 {
				f.readTheirs(t, c, theirs)
				if caller == 0 || round == 0 {
					readLost(t, c, theirs, lost, d)
				}
			}
		})
	}
	callers.Wait()
	eventually(t, "the server is ejected", func() bool {
		_, _ = c.Get(t.Context(), lost[0])
		return len(c.Ejected()) == 1
	})
	f.readTheirs(t, c, theirs)
	comeBack(f.members[1])
	eventually(t, "the server is back", func() bool {
		_, _ = c.Get(t.Context(), lost[0])
		return len(c.Ejected()) == 0 && c.SetMany(t.Context(), itemsOf(lost)) == nil
	})
	if got, err := c.GetMany(t.Context(), append(lost, theirs...)); len(got) != 40 || err != nil {
		t.Errorf("%d items, %v", len(got), err)
	}
}

// itemsOf returns items with their keys as values.
func itemsOf(keys []string) (items []memcached.Item) {
	for _, key := range keys {
		items = append(items, memcached.Item{Key: key, Value: []byte(key)})
	}
	return items
}

// readTheirs reads and writes the keys of the servers that answer.
func (f *memcachedFleet) readTheirs(t *testing.T, c *memcached.Client, keys []string) {
	for _, key := range keys {
		if v, err := c.AppendGet(t.Context(), nil, key); string(v) != key || err != nil {
			t.Errorf("%s of server %d: %q, %v", key, f.ring.Pick(key), v, err)
		}
	}
	if err := c.SetMany(t.Context(), itemsOf(keys)); err != nil {
		t.Error(err)
	}
}

// readLost reads keys of a dead server, and a batch with some of them.
func readLost(t *testing.T, c *memcached.Client, theirs, lost []string, d memcached.Dead) {
	var ce *memcached.ConnError
	v, err := c.AppendGet(t.Context(), nil, lost[0])
	if missed := errors.Is(err, memcached.ErrMiss); !missed && !errors.As(err, &ce) || missed && d == memcached.DeadFails {
		t.Errorf("read of a dead server: %q, %v", v, err)
	}
	got, err := c.GetMany(t.Context(), append(lost, theirs...))
	var partial *memcached.PartialError
	switch {
	case len(got) != len(theirs):
		t.Errorf("%d of %d items, %v", len(got), len(theirs), err)
	case err == nil && d == memcached.DeadFails, err != nil && d == memcached.DeadMisses:
		t.Errorf("a batch: %v", err)
	case err != nil && (!errors.As(err, &partial) || len(partial.Failed) != len(lost)):
		t.Errorf("not an error of the %d keys of the dead server: %v", len(lost), err)
	}
}

// TestMemcachedServerThatComesBackBringsNoOldValue drops values while one of three
// processes is killed or stopped, with two instances of a cache.
func TestMemcachedServerThatComesBackBringsNoOldValue(t *testing.T) {
	for name, way := range memcachedAbsences {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bringsNoOldValue(t, way.leave, way.comeBack)
		})
	}
}

func bringsNoOldValue(t *testing.T, leave, comeBack func(*servers.Memcached)) {
	f := startMemcachedFleet(t)
	bus := stratatest.NewBus()
	var version atomic.Int64
	version.Store(1)
	instance := func() *strata.Cache[string, int64] {
		c, err := strata.New(strata.Options[string, int64]{
			Name: "numbers", TTL: time.Hour,
			Loader: func(context.Context, string) (int64, error) { return version.Load(), nil },
			Memory: strata.Memory[string, int64]{MaxEntries: 1000},
			Remote: strata.Remote[string, int64]{Tier: memcached.NewTier(f.client(t, memcached.DeadMoves)), Bus: bus.Connect()},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	one, other := instance(), instance()
	keys := f.keys(60, func(int) bool { return true })
	reads := func(who string, c *strata.Cache[string, int64], want int64) {
		t.Helper()
		for _, key := range keys {
			if v, err := c.GetOrLoad(t.Context(), key, nil); v != want || err != nil {
				t.Fatalf("%s reads %s: %d, not %d, %v", who, key, v, want, err)
			}
		}
	}
	reads("the first instance", one, 1)
	reads("the other instance", other, 1)
	leave(f.members[1])
	version.Store(2)
	failed := 0
	for _, key := range keys {
		if err := one.Invalidate(t.Context(), key); err != nil {
			failed++
		}
	}
	if failed == 0 || failed == len(keys) {
		t.Errorf("%d of %d drops failed without one of three servers", failed, len(keys))
	}
	reads("without the server, the instance that dropped", one, 2)
	comeBack(f.members[1])
	agree(t, keys, one, other, instance, reads)
}

// agree waits until the drops of keys by one instance are confirmed, after its server
// has come back. It fails unless all instances serve version 2 then.
func agree(t *testing.T, keys []string, one, other *strata.Cache[string, int64], instance func() *strata.Cache[string, int64], reads func(string, *strata.Cache[string, int64], int64)) {
	t.Helper()
	eventually(t, "the drops are confirmed", func() bool {
		reads("the instance that dropped", one, 2)
		return one.Stats().Pending == 0
	})
	eventually(t, "the other instance has heard", func() bool {
		for _, key := range keys {
			if v, err := other.GetOrLoad(t.Context(), key, nil); v != 2 || err != nil {
				return false
			}
		}
		return true
	})
	reads("a new instance", instance(), 2)
	reads("the instance that dropped", one, 2)
}
