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
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// TestMemcachedTierConforms runs the checks of every Tier on a real server.
func TestMemcachedTierConforms(t *testing.T) {
	m := servers.StartMemcached(t)
	c := m.Client(t)
	stratatest.TestTier(t, func(*testing.T) (remote.Tier, func(time.Duration)) {
		return memcached.NewTier(c), time.Sleep // the server's time passes by itself
	})
}

// memcachedCaches returns n instances of a cache with one server and one bus.
func memcachedCaches(t *testing.T, m *servers.Memcached, n int, load strata.Loader[string, int64]) []*strata.Cache[string, int64] {
	t.Helper()
	bus := stratatest.NewBus()
	var all []*strata.Cache[string, int64]
	for range n {
		c, err := strata.New(strata.Options[string, int64]{
			Name: "numbers", TTL: time.Hour, Loader: load,
			Memory: strata.Memory[string, int64]{MaxEntries: 10_000},
			Remote: strata.Remote[string, int64]{Tier: memcached.NewTier(m.Client(t)), Bus: bus.Connect(), Timeout: 5 * time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		all = append(all, c)
	}
	return all
}

// TestMemcachedInstancesLoadOnce has 1000 callers on three instances miss one key.
func TestMemcachedInstancesLoadOnce(t *testing.T) {
	m := servers.StartMemcached(t)
	var loads atomic.Int64
	caches := memcachedCaches(t, m, 3, func(context.Context, string) (int64, error) { return loads.Add(1), nil })
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			<-start
			if v, err := caches[i%3].GetOrLoad(t.Context(), "hot", nil); err != nil || v != 1 {
				t.Errorf("%d, %v", v, err)
			}
		})
	}
	close(start)
	wg.Wait()
	if n := loads.Load(); n != 1 {
		t.Errorf("%d loads", n)
	}
}

// TestMemcachedNeverStoresAValueThatWasDroppedWhileItWasLoaded drops a key during its
// load, 10 000 times.
func TestMemcachedNeverStoresAValueThatWasDroppedWhileItWasLoaded(t *testing.T) {
	rounds := 10_000
	if testing.Short() {
		rounds = 500
	}
	m := servers.StartMemcached(t)
	loader := m.Client(t)
	tier := memcached.NewTier(loader).Bind(remote.Space{Name: "late", Instance: 1})
	other := memcached.NewTier(m.Client(t)).Bind(remote.Space{Name: "late", Instance: 2})
	ctx := t.Context()
	for i := range rounds {
		key := fmt.Sprint("key", i%5)
		a, err := tier.Acquire(ctx, []remote.Request{{Key: key}}, time.Minute)
		if err != nil || a[0].Lease.Grant != remote.Granted {
			t.Fatalf("round %d: %+v, %v", i, a, err)
		}
		put := []remote.Put{{Key: key, Data: []byte("late"), Fresh: time.Hour, Left: time.Hour, Lease: a[0].Lease}}
		var wg sync.WaitGroup
		var refused []int
		var stored, dropped error
		wg.Go(func() { refused, stored = tier.Put(ctx, put) })
		wg.Go(func() { _, dropped = other.Drop(ctx, []remote.Drop{{Key: key}}) })
		wg.Wait()
		if stored != nil || dropped != nil {
			t.Fatalf("round %d: %v, %v", i, stored, dropped)
		}
		// The Put may have been first, but the drop is over: nothing may be left.
		if held, err := other.Get(ctx, []string{key}); err != nil || !held[0].Absent() {
			t.Fatalf("round %d: refused %v, holds %+v, %v", i, refused, held, err)
		}
		if refused, err := tier.Put(ctx, put); err != nil || len(refused) != 1 {
			t.Fatalf("round %d: a late store was not refused: %v", i, err)
		}
	}
}

// TestMemcachedThatRestartsRevivesNothing kills the server in the middle of loads.
func TestMemcachedThatRestartsRevivesNothing(t *testing.T) {
	m := servers.StartMemcached(t)
	tier := memcached.NewTier(m.Client(t)).Bind(remote.Space{Name: "restarts", Instance: 1})
	ctx := t.Context()
	for i := range 5 {
		key := fmt.Sprint("key", i)
		a, err := tier.Acquire(ctx, []remote.Request{{Key: key}}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		m.Restart()
		put := []remote.Put{{Key: key, Data: []byte("late"), Fresh: time.Hour, Left: time.Hour, Lease: a[0].Lease}}
		refused, err := tier.Put(ctx, put)
		for err != nil && ctx.Err() == nil { // the dead connection
			refused, err = tier.Put(ctx, put)
		}
		if len(refused) != 1 {
			t.Errorf("a right of before the restart has stored a value")
		}
		if held, err := tier.Get(ctx, []string{key}); err != nil || !held[0].Absent() {
			t.Errorf("%+v, %v", held, err)
		}
	}
}

// TestMemcachedThatEvictsRevivesNothing fills a small server while keys are dropped.
func TestMemcachedThatEvictsRevivesNothing(t *testing.T) {
	m := servers.StartMemcached(t, "-m", "2")
	c := m.Client(t)
	var version atomic.Int64
	caches := memcachedCaches(t, m, 2, func(context.Context, string) (int64, error) { return version.Load(), nil })
	filler := make([]byte, 64<<10)
	for i := range 400 {
		version.Add(1)
		if err := caches[i%2].Invalidate(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if err := c.Set(t.Context(), memcached.Item{Key: fmt.Sprint("filler", i), Value: filler}); err != nil && !errors.Is(err, remote.ErrRefused) {
			t.Fatal(err)
		}
		if v, err := caches[i%2].GetOrLoad(t.Context(), "k", nil); err != nil || v < int64(i+1) {
			t.Fatalf("round %d: %d, %v", i, v, err)
		}
	}
	stats, err := c.Stats(t.Context(), "")
	if err != nil || stats[m.Addr]["evictions"] == "0" {
		t.Errorf("nothing was evicted: %v", err)
	}
}

// TestMemcachedTierRefusesAServerWithoutMetaCommands says so in one sentence.
func TestMemcachedTierRefusesAServerWithoutMetaCommands(t *testing.T) {
	m := servers.StartMemcached(t)
	tier := memcached.NewTier(m.Client(t, memcachedModes["classic"]))
	if _, err := tier.Get(t.Context(), []string{"k"}); !errors.Is(err, memcached.ErrClassic) {
		t.Errorf("Get: %v", err)
	}
	if _, err := tier.Probe(t.Context()); !errors.Is(err, memcached.ErrClassic) {
		t.Errorf("Probe: %v", err)
	}
}

// TestMemcachedEntitiesWithNewTagsAreLoadedOnceBesideDropsOfOtherTags has three instances read
// entities with tags of their own while one of them drops other tags.
func TestMemcachedEntitiesWithNewTagsAreLoadedOnceBesideDropsOfOtherTags(t *testing.T) {
	var loads atomic.Int64
	third := make(chan *strata.Cache[string, int64], 1)
	caches := memcachedCaches(t, servers.StartMemcached(t), 3, func(ctx context.Context, key string) (int64, error) {
		loads.Add(1)
		strata.Loading(ctx).SetTags("tag:" + key)
		c := <-third
		defer func() { third <- c }()
		return 0, c.InvalidateTags(ctx, "another", "of "+key)
	})
	third <- caches[2]
	loadsOf := func(key string) int64 {
		before := loads.Load()
		for _, c := range caches {
			if _, err := c.GetOrLoad(t.Context(), key, nil); err != nil {
				t.Fatal(err)
			}
		}
		return loads.Load() - before
	}
	// The first drop takes the clock of tags ahead of the server's time, which passes it soon.
	for i := 0; loadsOf(fmt.Sprint("first", i)) > 1; i++ {
		if t.Context().Err() != nil || i == 10_000 {
			t.Fatal("no entity is loaded once")
		}
	}
	for i := range 50 {
		if n := loadsOf(fmt.Sprint("k", i)); n != 1 {
			t.Errorf("%d loads of entity %d", n, i)
		}
	}
}
