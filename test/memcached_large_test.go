//go:build unix

package test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// TestNotModifiedMovesNoPayloadOfMemcached counts the bytes that memcached reads and writes for
// ten instances with a large value, after one of them has found it unchanged.
func TestNotModifiedMovesNoPayloadOfMemcached(t *testing.T) {
	m := servers.StartMemcached(t)
	const size, n = 500_000, 10
	payload := strings.Repeat("0123456789", size/10)
	bus := stratatest.NewBus()
	var all [n]*strata.Cache[string, string]
	for i := range all {
		c, err := strata.New(strata.Options[string, string]{
			Name: "pages", TTL: time.Hour,
			Memory: strata.Memory[string, string]{MaxEntries: 100},
			Remote: strata.Remote[string, string]{Tier: memcached.NewTier(m.Client(t)), Bus: bus.Connect(), Timeout: 5 * time.Second},
			Stale:  strata.Stale{OnError: time.Hour},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		all[i] = c
	}
	watch := m.Client(t)
	total := func() (sum int64) {
		stats, err := watch.Stats(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range stats {
			for _, name := range []string{"bytes_read", "bytes_written"} {
				b, err := strconv.ParseInt(of[name], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				sum += b
			}
		}
		return sum
	}
	var last int64
	moved := func() int64 {
		// memcached counts a reply after it has sent it, so the counts lag behind the replies. The
		// loop asks for the counts until they differ by one answer only, its own.
		now := total()
		eventually(t, "all replies are counted", func() bool {
			before := now
			now = total()
			return now-before < size/50
		})
		since := now - last
		last = now
		return since
	}
	for _, c := range all { // an instance that joins the bus while it reads does not keep the value
		eventually(t, "the instance keeps the value", func() bool {
			mustGet(t, c, "k", func(context.Context, string) (string, error) { return payload, nil })
			return c.Explain(t.Context(), "k").L1.Present
		})
	}
	if got := moved(); got < n*size {
		t.Errorf("%d bytes moved at first, want the value to or from each of %d instances", got, n)
	}
	for round := range 3 {
		if err := all[round].Expire(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		for _, c := range all { // each instance must know that its entry is stale
			eventually(t, "the message is heard", func() bool { return c.Explain(t.Context(), "k").L1.Fresh <= 0 })
		}
		moved()
		for _, c := range all {
			if got := mustGet(t, c, "k", func(context.Context, string) (string, error) { return "", strata.ErrNotModified }); got != payload {
				t.Fatalf("round %d: got %d bytes", round, len(got))
			}
		}
		if got := moved(); got > size/5 {
			t.Errorf("round %d: %d bytes moved by %d instances that have the value of %d", round, got, n, size)
		}
	}
	other := strings.Repeat("9876543210", size/10)
	if err := all[0].Set(t.Context(), "k", other); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		eventually(t, "the new value is read", func() bool { v, ok := c.Get(t.Context(), "k"); return ok && v == other })
	}
}

// TestLargeValuesOfMemcachedLiveOnWithTheirStates: the item of a value gets each longer life.
func TestLargeValuesOfMemcachedLiveOnWithTheirStates(t *testing.T) {
	m := servers.StartMemcached(t)
	tier := memcached.NewTier(m.Client(t)).Bind(remote.Space{Name: "large", Instance: 1})
	ctx, value := t.Context(), []byte(strings.Repeat("v", 100_000))
	lease := func(replace remote.ID) remote.Lease {
		t.Helper()
		a, err := tier.Acquire(ctx, []remote.Request{{Key: "k", Replace: replace}}, time.Minute)
		if err != nil || a[0].Lease.Grant != remote.Granted {
			t.Fatalf("%+v, %v", a, err)
		}
		return a[0].Lease
	}
	l := lease(0)
	if refused, err := tier.Put(ctx, []remote.Put{{Key: "k", Data: value, Fresh: 2 * time.Second, Left: 2 * time.Second, Lease: l}}); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	next := lease(remote.ID(l.Token))
	if refused, err := tier.Extend(ctx, "k", time.Hour, time.Hour, next, remote.ID(l.Token)); err != nil || refused {
		t.Fatal(refused, err)
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); <-time.After(500 * time.Millisecond) {
		if held, err := tier.Get(ctx, []string{"k"}); err != nil || len(held[0].Data) != len(value) {
			t.Fatalf("%d bytes, %v", len(held[0].Data), err)
		}
	}
	if _, err := tier.Drop(ctx, []remote.Drop{{Key: "k"}}); err != nil {
		t.Fatal(err)
	}
	if held, err := tier.Get(ctx, []string{"k"}); err != nil || !held[0].Absent() {
		t.Fatalf("%+v, %v", held, err)
	}
}
