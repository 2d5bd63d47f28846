package strata_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/memory"
	"github.com/strata-cache/strata/snapshot"
	"github.com/strata-cache/strata/stratatest"
)

// TestCallsOfOtherLibrariesHaveTheirCounterparts runs, with the tests below, the code of
// the pages docs/guide/coming-from.md and docs/guide/coming-from-memory.md.
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
	_, err = c.GetOrLoad(ctx, id, nil)
	must(err)
	_, err = c.GetMany(ctx, ids, nil)
	must(err)
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
	addsOnce(ctx, t, c, id)
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
}

// TestOptionsOfOtherLibrariesHaveTheirCounterparts makes caches with options that the calls
// above do not have.
func TestOptionsOfOtherLibrariesHaveTheirCounterparts(t *testing.T) {
	ctx, id := t.Context(), int64(7)
	load := func(context.Context, int64) (string, error) { return "Ann", nil }
	weigh := func(_ int64, name string) int64 { return int64(len(name)) + 1 }
	// Each library sets options that exclude options of another library.
	for _, set := range []func(o *strata.Options[int64, string]){
		func(o *strata.Options[int64, string]) {
			o.Name = "names"
			o.TTL = strata.NoExpiry
			o.Memory.MaxWeight = 1 << 20
			o.Memory.Weigh = weigh
			o.Loader = load
			o.Stale.OnError = -1
		},
		func(o *strata.Options[int64, string]) {
			o.RefreshEvery = 10 * time.Second
			o.Limits.Lease = 5 * time.Second
			o.Memory.Policy = memory.LRU
			o.Memory.DetectMutation = true
			o.Loader = load
			o.Stale.WhileRevalidate = time.Minute
		},
		func(o *strata.Options[int64, string]) {
			o.Loader = load
			o.Stale.WhileRevalidate = -1
		},
	} {
		o := strata.Options[int64, string]{Name: "names", TTL: time.Minute}
		set(&o)
		c, err := strata.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if name, err := c.GetOrLoad(ctx, id, nil); name != "Ann" || err != nil {
			t.Errorf("GetOrLoad: %q, %v", name, err)
		}
		if name, err := c.GetOrLoad(ctx, id, load, strata.WithTTL(time.Hour)); name != "Ann" || err != nil {
			t.Errorf("WithTTL: %q, %v", name, err)
		}
		if name, err := c.GetOrLoad(ctx, id, load, strata.SkipRead()); name != "Ann" || err != nil {
			t.Errorf("SkipRead: %q, %v", name, err)
		}
		if o.Loader != nil {
			if err := c.Refresh(ctx, id); err != nil {
				t.Errorf("Refresh: %v", err)
			}
		}
		if err := c.SetMany(ctx, map[int64]string{id: "Ann"}); err != nil || c.Len() != 1 || c.Touch(id) != 1 {
			t.Errorf("SetMany: %v, %d entries", err, c.Len())
		}
		file := filepath.Join(t.TempDir(), "names.snapshot")
		if _, err := snapshot.Save(ctx, file, snapshot.Options{}, c); err != nil {
			t.Error(err)
		}
		if _, err := snapshot.Load(ctx, file, snapshot.Options{}, c); err != nil {
			t.Error(err)
		}
		snapshot.Handler(snapshot.HandlerOptions{}, c)
		if err := c.Set(ctx, id, "Ann", strata.WithTTL(strata.NoExpiry)); err != nil {
			t.Error(err)
		}
		if err := errors.Join(c.SetNotFound(ctx, id), c.Close(ctx)); err != nil {
			t.Error(err)
		}
	}
}

// TestCachesInMemoryHaveTheirCounterparts runs the calls of package memory.
func TestCachesInMemoryHaveTheirCounterparts(t *testing.T) {
	m, err := memory.New(memory.Options[int64, string]{MaxEntries: 10_000, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	id := int64(7)
	m.Set(id, "Ann")
	if got, stored := m.SetIfAbsent(id, "Bob"); got != "Ann" || stored {
		t.Errorf("SetIfAbsent: %q, %v", got, stored)
	}
	if m.Delete(id); m.Len() != 0 {
		t.Errorf("%d entries after Delete", m.Len())
	}
	m.SetIfAbsent(id, "Ann")
	got, ok := m.Get(id)
	if peeked, also := m.Peek(id); got != "Ann" || peeked != got || !ok || !also {
		t.Errorf("Get: %q, %v; Peek: %q, %v", got, ok, peeked, also)
	}
	n := 0
	m.All()(func(int64, string) bool { n++; return true })
	m.Hottest(10)(func(int64, string) bool { n++; return true })
	if err := m.Resize(20_000, 0); err != nil || n != 2 {
		t.Errorf("Resize: %v; %d iterations over one entry", err, n)
	}
	if m.Clear(); m.Len() != 0 {
		t.Errorf("%d entries after Clear", m.Len())
	}
	evicted := 0
	small, err := memory.New(memory.Options[int64, string]{MaxEntries: 1, OnEvict: func(int64, string, memory.Reason) { evicted++ }})
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	small.Set(1, "Ann")
	small.Set(2, "Bob")
	if evicted != 1 {
		t.Errorf("OnEvict was called %d times", evicted)
	}
}

// TestCachesOfBytesHaveTheirCounterparts runs the calls of ByteCache.
func TestCachesOfBytesHaveTheirCounterparts(t *testing.T) {
	b, err := memory.NewByteCache(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	key, value, buffer := []byte("7"), []byte("Ann"), make([]byte, 0, 16)
	stored := b.Set(key, value)
	stored = b.SetTTL(key, value, time.Minute) && stored
	got, ok := b.AppendGet(buffer[:0], key)
	if !stored || !ok || string(got) != "Ann" {
		t.Errorf("stored %v; AppendGet: %q, %v", stored, got, ok)
	}
	n := 0
	b.All()(func([]byte, []byte) bool { n++; return true })
	if ratio := b.Stats().HitRatio(); n != 1 || b.Len() != 1 || ratio != 1 {
		t.Errorf("%d entries in All, Len %d, hit ratio %v", n, b.Len(), ratio)
	}
	if !b.Delete(key) {
		t.Error("Delete found nothing")
	}
}

// addsOnce has the calls for an Add of other libraries.
func addsOnce(ctx context.Context, t *testing.T, c *strata.Cache[int64, string], id int64) {
	t.Helper()
	if err := c.Invalidate(ctx, id); err != nil {
		t.Error(err)
	}
	if added, err := c.Add(ctx, id, "Ann"); !added || err != nil {
		t.Errorf("Add: %v, %v", added, err)
	}
	if added, err := c.Add(ctx, id, "Ann", strata.WithTTL(time.Hour)); added || err != nil {
		t.Errorf("a second Add: %v, %v", added, err)
	}
}
