package strata_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/memory"
	"github.com/strata-cache/strata/stratatest"
)

// TestCallsOfOtherLibrariesHaveTheirCounterparts runs the code of the page
// docs/guide/coming-from.md.
func TestCallsOfOtherLibrariesHaveTheirCounterparts(t *testing.T) {
	synctest.Test(t, callsOfOtherLibraries)
}

func callsOfOtherLibraries(t *testing.T) {
	ctx := t.Context()
	tier, hub := stratatest.NewTier(), stratatest.NewBus()
	tier.Announce(hub)
	bus := hub.Connect()
	loadMany := func(_ context.Context, ids []int64) (map[int64]string, error) {
		names := make(map[int64]string, len(ids))
		for _, id := range ids {
			names[id] = "Ann"
		}
		return names, nil
	}
	weigh := func(_ int64, name string) int64 { return int64(len(name)) + 1 }
	evicted := func(strata.Event) {}

	o := strata.Options[int64, string]{Name: "names"}
	o.TTL = time.Minute
	o.IdleTTL = time.Minute
	o.Jitter = 0.1
	o.RefreshAt = 0.8
	o.RefreshSpread = 1
	o.Stale.OnError = time.Hour
	o.ErrorTTL = time.Second
	o.NotFoundTTL = 10 * time.Second
	o.Limits.SoftTimeout = 100 * time.Millisecond
	o.Limits.HardTimeout = 5 * time.Second
	o.Memory.MaxEntries = 10_000
	o.Memory.MaxWeight = 1 << 20
	o.Memory.Weigh = weigh
	o.Memory.EvictShare = 0.1
	o.Memory.TTL = 10 * time.Second
	o.Memory.Clone = strings.Clone
	o.Remote.Tier = tier
	o.Remote.Bus = bus
	o.Remote.BreakFor = 5 * time.Second
	o.Remote.Codec = codec.String()
	o.Hooks = &strata.Hooks{Evict: evicted}
	o.ManyLoader = loadMany
	o.BatchSize = 100
	o.BatchWait = 5 * time.Millisecond
	c, err := strata.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	synctest.Wait() // the bus is connected

	load := func(ctx context.Context, id int64) (string, error) {
		if id < 0 {
			return "", fmt.Errorf("no person %d: %w", id, strata.ErrNotFound)
		}
		if _, ok := c.Previous(ctx); ok {
			return "", strata.ErrNotModified
		}
		strata.Loading(ctx).SetTTL(time.Hour)
		return "Ann", nil
	}
	o.Loader = load
	id, ids := int64(7), []int64{7, 8}

	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	name, err := c.GetOrLoad(ctx, id, load)
	if must(err); name != "Ann" {
		t.Errorf("GetOrLoad: %q", name)
	}
	for _, opt := range []strata.CallOption{strata.WithTags("team 7"), strata.NoMemory(), strata.NoRemote(), strata.WithTTL(time.Hour)} {
		_, err = c.GetOrLoad(ctx, id, load, opt)
		must(err)
	}
	names, err := c.GetMany(ctx, ids, loadMany)
	var partial *strata.PartialError[int64]
	if errors.As(err, &partial) || err != nil || len(names) != 2 {
		t.Errorf("GetMany: %v, %v", names, err)
	}
	must(c.Set(ctx, id, "Ann"))
	must(c.Set(ctx, id, "Ann", strata.WithTTL(time.Hour)))
	if _, ok := c.Get(ctx, id); !ok {
		t.Error("Get finds nothing")
	}
	must(c.Expire(ctx, id))
	if _, ok := c.Get(ctx, id, strata.AllowStale()); !ok {
		t.Error("a stale value is not allowed")
	}
	write := func(context.Context) (string, error) { return "Bob", nil }
	must(c.Update(ctx, id, write))
	must(c.InvalidateTags(ctx, "team 7"))
	n := 0
	c.All()(func(int64, string) bool { n++; return true })
	c.Keys()(func(int64) bool { n++; return true })
	c.Hottest(10)(func(int64, string) bool { n++; return true })
	if n != 6 {
		t.Errorf("%d iterations over two entries by All, Keys and Hottest", n)
	}
	must(c.ExpireAll(ctx))
	must(c.Invalidate(ctx, id))
	must(c.InvalidateAll(ctx))
	if c.Stats().Reads == 0 {
		t.Error("no reads")
	}
	engine, err := memory.New(memory.Options[int64, string]{MaxEntries: 10_000, TTL: time.Minute})
	must(err)
	engine.Close()
}
