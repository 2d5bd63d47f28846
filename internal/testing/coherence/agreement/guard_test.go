package agreement_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/memory"
)

// A guard looks at the heap of the process after collections, so these tests are in no bubble. They make the heap too large
// by one piece of memory, until the guard has evicted all that it may.

// floor is the number of entries that the guards leave.
const floor = 100

// until waits for cond, for a minute at most.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for begun := time.Now(); !cond(); runtime.Gosched() {
		if time.Since(begun) > time.Minute {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// newGuard returns a guard that has nothing to do until squeeze.
func newGuard(t *testing.T) *memory.Guard {
	t.Helper()
	g, err := memory.NewGuard(memory.GuardOptions{Limit: 192 << 20})
	lab.Must(t, err)
	t.Cleanup(g.Close)
	return g
}

// squeeze gives c a guard by Tune, makes the heap too large until c is at its floor, and takes the guard away again.
func squeeze(t *testing.T, c *strata.Cache[string, int64]) {
	t.Helper()
	g := newGuard(t)
	lab.Tune(t, c, strata.Tuning{Guard: g.Floor(floor)})
	ballast := make([]byte, 160<<20)
	until(t, "evictions down to the floor", func() bool {
		runtime.GC()
		return c.Len() <= floor
	})
	runtime.KeepAlive(ballast)
	if s := c.Stats().Guard; s.Evicted == 0 || !s.Active || c.Len() < floor {
		t.Errorf("%d entries are left, the floor is %d: %+v", c.Len(), floor, s)
	}
	lab.Tune(t, c, strata.Tuning{Guard: new(memory.Guard)})
}

// guardless skips a test with an encoded L1: the floor is a number of bytes there.
func guardless(t *testing.T) { lab.Plain(t, "the floor of its guard is in bytes") }

// TestGuardThatComesDuringASnapshotLeavesOutEvictedEntriesAlone gives a guard to the cache that is being saved, and to the one
// that is taking its entries in.
func TestGuardThatComesDuringASnapshotLeavesOutEvictedEntriesAlone(t *testing.T) {
	guardless(t)
	const keys = 2000
	var told atomic.Uint64
	hook := func(o *strata.Options[string, int64]) {
		o.Hooks = &strata.Hooks{Evict: func(e strata.Event) {
			if e.Reason == "evicted" {
				told.Add(1)
			}
		}}
	}
	giver, taker := plainCache(t, hook), plainCache(t, hook)
	for i := range keys {
		lab.Must(t, giver.Set(t.Context(), strconv.Itoa(i), int64(i)))
	}
	d, err := transfer.Parts(giver.Inside()).Source().Dump(t.Context(), 0, 1)
	lab.Must(t, err)
	defer d.Close()
	given, all := map[string]bool{}, []format.Entry(nil)
	for e, value := range d.Entries() {
		one := *e
		one.Key = []byte(string(e.Key))
		one.Value, err = value(nil)
		lab.Must(t, err)
		if given[string(e.Key)] || string(one.Value) != string(e.Key) {
			t.Fatalf("%s is given as %s; it was given before: %v", e.Key, one.Value, given[string(e.Key)])
		}
		given[string(e.Key)], all = true, append(all, one)
		if len(all) == 200 {
			squeeze(t, giver)
		}
	}
	for k := range giver.Keys() {
		if !given[k] {
			t.Errorf("%s, which was there all the time, is not given", k)
		}
	}
	r := lab.RestoreOf(t, taker)
	r.Cover(t.Context(), d.Position())
	dropped := string(all[0].Key)
	for i := range all {
		if r.Entry(&all[i], time.Second, false) != transfer.Stored {
			t.Errorf("%s is not taken in", all[i].Key)
		}
		if i == 150 {
			squeeze(t, taker)
			lab.Must(t, taker.Invalidate(t.Context(), dropped))
		}
	}
	if o := r.Entry(&all[0], time.Second, false); o != transfer.Changed {
		t.Errorf("what was dropped meanwhile is %v", o)
	}
	for k, v := range taker.All() {
		if strconv.Itoa(int(v)) != k || k == dropped {
			t.Errorf("%s is %d", k, v)
		}
	}
	until(t, "the hook hears of all", func() bool { return told.Load() == giver.Stats().Evicted+taker.Stats().Evicted })
}

// guardedFleet returns two instances that share keys. The way of the second to L2 can be ill.
func guardedFleet(t *testing.T) (s *lab.Shared, a, b *strata.Cache[string, int64], p *lab.Patient, keys []string) {
	t.Helper()
	s, p, keys = lab.NewTagged(t), &lab.Patient{}, lab.ManyKeys(1000)
	member := func(change ...changeOf) *strata.Cache[string, int64] {
		return lab.NewCache(t, append([]changeOf{func(o *strata.Options[string, int64]) {
			o.Remote.Tier, o.Remote.Bus, o.Remote.Timeout, o.TTL = s.Tier, s.Bus.Connect(), time.Minute, time.Hour
			o.Remote.BreakAfter = -1
		}}, change...)...)
	}
	a, b = member(), member(func(o *strata.Options[string, int64]) { o.Remote.Tier = p.On(s.Tier) })
	until(t, "the bus", func() bool { return a.Stats().Connected && b.Stats().Connected })
	for i, k := range keys { // no Set: news of it might come to b late
		o := &lab.Origin{}
		o.Value.Store(int64(i))
		lab.MustGet(t, a, k, tagging(o, fmt.Sprint("t", i%10)))
	}
	until(t, "entries that both keep", func() bool {
		present(t, a, keys...)
		present(t, b, keys...)
		return a.Len() == len(keys) && b.Len() == len(keys)
	})
	return s, a, b, p, keys
}

// wantAll checks the values that c has of keys, of which some were dropped by their numbers.
func wantAll(t *testing.T, c *strata.Cache[string, int64], keys []string, dropped func(i int) bool) {
	t.Helper()
	for _, k := range keys {
		i, err := strconv.Atoi(k[1:])
		lab.Must(t, err)
		v, ok := c.Get(t.Context(), k)
		if ok && dropped(i) || !ok && !dropped(i) || ok && v != int64(i) {
			t.Errorf("%s is %d, %v; dropped: %v", k, v, ok, dropped(i))
		}
	}
}

// TestGuardOfOneInstanceConcernsNoOther evicts on one instance entries that both have, and drops a part of the keys everywhere.
func TestGuardOfOneInstanceConcernsNoOther(t *testing.T) {
	guardless(t)
	_, a, b, p, keys := guardedFleet(t)
	asked := p.Asked.Load()
	squeeze(t, b)
	if n := p.Asked.Load() - asked; n != 0 || a.Len() != len(keys) {
		t.Errorf("evictions ask L2 %d times, and leave %d entries elsewhere", n, a.Len())
	}
	for i, k := range keys[:500] { // of some of which b has entries
		if i%2 == 0 {
			lab.Must(t, a.Invalidate(t.Context(), k))
		}
	}
	lab.Must(t, a.InvalidateTags(t.Context(), "t1"))
	dropped := func(i int) bool { return i%10 == 1 || i < 500 && i%2 == 0 }
	var gone []string
	for i, k := range keys {
		if dropped(i) {
			gone = append(gone, k)
		}
	}
	until(t, "the news of the drops", func() bool { return len(present(t, b, gone...)) == 0 })
	wantAll(t, b, keys, dropped)
	wantAll(t, a, keys, dropped)
	if n := b.Stats().L2.Hits; n < 2*uint64(len(keys))-uint64(floor)-700 {
		t.Errorf("%d reads have come from L2", n)
	}
}

// TestGuardBesideNoMemoryLeavesL1ToOtherCalls has calls that pass L1 by while the guard evicts.
func TestGuardBesideNoMemoryLeavesL1ToOtherCalls(t *testing.T) {
	guardless(t)
	_, a, b, _, keys := guardedFleet(t)
	ctx := t.Context()
	squeeze(t, b)
	left := map[string]bool{}
	for k := range b.Keys() {
		left[k] = true
	}
	for i, k := range keys {
		if v, ok := b.Get(ctx, k, strata.NoMemory()); !ok || v != int64(i) {
			t.Fatalf("%s past L1 is %d, %v", k, v, ok)
		}
		if v, err := b.GetOrLoad(ctx, k, lab.Never(t), strata.NoMemory()); err != nil || v != int64(i) {
			t.Fatalf("%s past L1 is %d, %v", k, v, err)
		}
	}
	for k := range b.Keys() {
		if !left[k] {
			t.Errorf("%s has come to L1", k)
		}
	}
	for i, k := range keys[:200] {
		lab.Must(t, b.Set(ctx, k, int64(-i), strata.NoMemory()))
	}
	for k := range b.Keys() {
		if !left[k] || slices.Contains(keys[:200], k) {
			t.Errorf("%s is in L1 after a Set past it", k)
		}
	}
	held := b.Len()
	for i, k := range keys[:200] {
		until(t, "news of a Set", func() bool { v, ok := a.Get(ctx, k); return ok && v == int64(-i) })
		if v, ok := b.Get(ctx, k); !ok || v != int64(-i) {
			t.Errorf("%s is %d, %v", k, v, ok)
		}
	}
	if n := b.Len(); n != held+200 {
		t.Errorf("%d entries; want the %d from before, and 200", n, held)
	}
	squeeze(t, b)
	wantAll(t, b, keys[200:], func(int) bool { return false })
}

// TestGuardThatEvictsDuringAnOutageOfL2LosesNoDrop drops keys at an instance without L2, and elsewhere. When L2 is back
// evicted entries come from there, and none that was dropped.
func TestGuardThatEvictsDuringAnOutageOfL2LosesNoDrop(t *testing.T) {
	guardless(t)
	_, a, b, p, keys := guardedFleet(t)
	ctx, dropped := t.Context(), func(i int) bool { return i < 50 || i >= 100 && i < 150 || i%10 == 7 }
	p.Fails.Store(true)
	for _, drop := range []func() error{
		func() error { return b.Invalidate(ctx, keys[:50]...) },
		func() error { return b.InvalidateTags(ctx, "t7") },
	} {
		if err := drop(); err == nil {
			t.Fatal("a drop is confirmed by an L2 that is down")
		}
	}
	until(t, "the memory of dropped entries", func() bool { return b.Len() == len(keys)-50-95 })
	squeeze(t, b)
	lab.Must(t, a.Invalidate(ctx, keys[100:150]...))
	for i, k := range keys {
		if v, ok := b.Get(ctx, k); ok && (v != int64(i) || i < 50 || i%10 == 7) {
			t.Errorf("without L2 %s is %d", k, v)
		}
	}
	if n := b.Stats().Pending; n == 0 || b.Len() > floor {
		t.Errorf("%d drops are pending, %d entries are there", n, b.Len())
	}
	p.Fails.Store(false)
	for i, k := range keys {
		if _, ok := b.Get(ctx, k); ok && (i < 50 || i%10 == 7) {
			t.Errorf("L2 is back, and so is %s", k)
		}
	}
	until(t, "the pending drops", func() bool { return b.Stats().Pending == 0 })
	until(t, "the news of the drops", func() bool {
		return len(present(t, b, keys[100:150]...)) == 0 && len(present(t, a, keys[49], keys[997])) == 0
	})
	before := b.Stats().L2.Hits
	squeeze(t, b)
	wantAll(t, b, keys, dropped)
	if n := b.Stats().L2.Hits - before; n < 500 {
		t.Errorf("%d evicted entries have come from L2", n)
	}
}
