//go:build unix

package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memcached"
)

// flood writes so many small items that a small server evicts others of about their sizes:
// a page of it has 8738 counts or tags, or 2716 entries.
func flood(t *testing.T, c *memcached.Client, round int) {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), time.Minute) // on a busy machine
	defer end()
	for part := range 18 {
		size, more := 24, 16
		if part%2 == 0 {
			size, more = 170, 140
		}
		items := make([]memcached.Item, 1000)
		for i := range items {
			items[i] = memcached.Item{Key: fmt.Sprintf("flood-%d-%d-%d", round, part, i), Value: make([]byte, size+rand.IntN(more))}
		}
		if err := c.SetMany(ctx, items); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullMemcachedLoadsAgainAndServesNothingOld evicts entries, leases, counts and tag
// clocks between the drop of a key, a tag or everything and the read after it, and in
// the middle of a load.
func TestFullMemcachedLoadsAgainAndServesNothingOld(t *testing.T) {
	m := servers.StartMemcached(t, "-m", "2")
	c := m.Client(t)
	var version atomic.Int64
	var held atomic.Pointer[chan struct{}] // a load waits for it
	begun := make(chan struct{}, 1)
	caches := memcachedCaches(t, m, 2, func(context.Context, string) (int64, error) {
		v := version.Load()
		if hold := held.Swap(nil); hold != nil {
			begun <- struct{}{}
			<-*hold
		}
		return v, nil
	})
	tagged := strata.WithTags("tag")
	drops := []func(*strata.Cache[string, int64]) error{
		func(c *strata.Cache[string, int64]) error { return c.Invalidate(t.Context(), "k") },
		func(c *strata.Cache[string, int64]) error { return c.InvalidateTags(t.Context(), "tag") },
		func(c *strata.Cache[string, int64]) error { return c.InvalidateAll(t.Context()) },
	}
	lost := 0
	for i := 0; i < kit.Rounds(60) || lost == 0 && i < 600; i++ {
		one, other := caches[i%2], caches[1-i%2]
		version.Add(1)
		if err := drops[i%3](other); err != nil {
			t.Fatal(err)
		}
		hold, done := make(chan struct{}), make(chan error, 1)
		held.Store(&hold)
		go func() {
			_, err := one.GetOrLoad(t.Context(), "k", nil, tagged, strata.SkipRead())
			done <- err
		}()
		<-begun
		flood(t, c, i)
		version.Add(1)
		if err := drops[(i/3)%3](other); err != nil {
			t.Fatal(err)
		}
		close(hold)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		awaitAtLeast(t, one, version.Load(), tagged)
		flood(t, c, i)
		if in := other.Explain(t.Context(), "k").L2; !in.Present {
			lost++
		}
		awaitAtLeast(t, other, version.Load(), tagged)
	}
	if lost == 0 {
		t.Error("no entry was evicted: the test proves nothing")
	}
	t.Logf("%d entries were evicted", lost)
}

// awaitAtLeast reads until the message of the last drop has arrived.
func awaitAtLeast(t *testing.T, c *strata.Cache[string, int64], version int64, tagged strata.CallOption) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; { // a second, and patience on a busy machine
		v, err := c.GetOrLoad(t.Context(), "k", nil, tagged)
		if err != nil {
			t.Fatal(err)
		}
		if v >= version {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("got %d long after %d was to be loaded", v, version)
		}
	}
}
