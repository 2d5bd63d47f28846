//go:build unix

package test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/stratatest"
)

// TestMemcachedChangesManyItemsAndCounters on a real server, in every mode of a client.
func TestMemcachedChangesManyItemsAndCounters(t *testing.T) {
	m := servers.StartMemcached(t)
	for name, change := range memcachedModes {
		t.Run(name, func(t *testing.T) { changesOfMemcached(t, m.Client(t, change), name) })
	}
}

func changesOfMemcached(t *testing.T, c *memcached.Client, prefix string) {
	ctx := t.Context()
	var keys []string
	var items []memcached.Item
	for i := range 500 {
		keys = append(keys, fmt.Sprint(prefix, i))
		items = append(items, memcached.Item{Key: keys[i], Value: []byte("v"), Flags: 5})
	}
	if err := c.SetMany(ctx, items); err != nil {
		t.Fatal(err)
	}
	found, err := c.GetMany(ctx, keys)
	if err != nil || len(found) != len(keys) {
		t.Fatalf("%d items, %v", len(found), err)
	}
	item := found[keys[0]]
	item.Value = []byte("new")
	err1, err2 := c.CompareAndSwap(ctx, item), c.CompareAndSwap(ctx, item)
	if err1 != nil || !errors.Is(err2, memcached.ErrConflict) {
		t.Errorf("CompareAndSwap by a number of GetMany: %v, then %v", err1, err2)
	}
	err = errors.Join(c.Append(ctx, keys[0], []byte("er")), c.Prepend(ctx, keys[0], []byte("a ")))
	if got, err2 := c.Get(ctx, keys[0]); string(got.Value) != "a newer" || err != nil || err2 != nil {
		t.Errorf("%+v, %v, %v", got, err, err2)
	}
	if err := c.Append(ctx, prefix+"none", []byte("x")); !errors.Is(err, memcached.ErrNotStored) {
		t.Errorf("Append to nothing: %v", err)
	}
	if err := c.Set(ctx, memcached.Item{Key: keys[1], Value: make([]byte, 700_000)}); err != nil {
		t.Error(err)
	}
	if err := c.Append(ctx, keys[1], make([]byte, 700_000)); !errors.Is(err, memcached.ErrNotStored) {
		t.Errorf("Append of too much: %v", err)
	}
	if got, err := c.AppendGet(ctx, nil, keys[1]); len(got) != 700_000 || err != nil {
		t.Errorf("%d bytes are left, %v", len(got), err)
	}
	for i, want := range []uint64{40, 45, 50} {
		if n, err := c.IncrementFrom(ctx, prefix+"n", 5, 40, 2*time.Second); n != want || err != nil {
			t.Errorf("%d: %d, %v", i, n, err)
		}
		if n, err := c.DecrementFrom(ctx, prefix+"m", 25, 40, 40*24*time.Hour); n != []uint64{40, 15, 0}[i] || err != nil {
			t.Errorf("%d: %d, %v", i, n, err)
		}
	}
	if err := c.DeleteMany(ctx, append(slices.Clone(keys[1:]), prefix+"none")); err != nil {
		t.Error(err)
	}
	if left, err := c.GetMany(ctx, keys); len(left) != 1 || err != nil {
		t.Errorf("%d items are left, %v", len(left), err)
	}
	gone := func() bool { _, err := c.Get(ctx, prefix+"n"); return errors.Is(err, memcached.ErrMiss) }
	eventually(t, "the counter ends", gone)
	if _, err := c.Get(ctx, prefix+"m"); err != nil {
		t.Errorf("a counter that lives for days: %v", err)
	}
}

// TestMemcachedServersChangeUnderACache changes the list of two instances while they read and
// drop: no call fails, and at the end both read the values of the origin, also from servers
// that were left out for a while.
func TestMemcachedServersChangeUnderACache(t *testing.T) {
	f := startMemcachedFleet(t)
	bus := stratatest.NewBus()
	var version atomic.Int64
	version.Store(1)
	var clients []*memcached.Client
	var caches []*strata.Cache[string, int64]
	for range 2 {
		c := f.client(t, memcached.DeadFails)
		clients, caches = append(clients, c), append(caches, numbersOver(t, c, bus, &version, patience))
	}
	keys := f.keys(60, func(int) bool { return true })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				if _, err := caches[n%2].GetOrLoad(t.Context(), keys[n%60], nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for round := range 12 {
		list := f.addrs[:1+round%3]
		for i, c := range clients {
			if err := c.SetServers(t.Context(), list); err != nil {
				t.Error(err)
			}
			version.Add(1)
			var late *strata.RemoteError // is tried again
			if err := caches[i].Invalidate(t.Context(), keys...); err != nil && !errors.As(err, &late) {
				t.Error(err)
			}
		}
	}
	cancel()
	wg.Wait()
	for _, c := range clients {
		if err := c.SetServers(t.Context(), f.addrs); err != nil {
			t.Error(err)
		}
	}
	version.Add(1)
	if err := caches[0].InvalidateAll(t.Context()); err != nil {
		t.Error(err)
	}
	for i, c := range caches {
		right := func() bool {
			values, err := c.GetMany(t.Context(), keys, nil)
			for _, v := range values {
				if v != version.Load() {
					return false
				}
			}
			return err == nil
		}
		eventually(t, fmt.Sprintf("instance %d reads the present values", i), right)
	}
}
