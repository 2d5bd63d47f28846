package test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

// traffic is an even stream of reads of warm entries, a hundredth of them of
// keys that were not read before.
type traffic struct {
	*testing.T
	c      *strata.Cache[string, int64]
	raw    *redis.Client
	keys   []string
	load   strata.Loader[string, int64] // of the warm keys
	n      int                          // reads so far
	next   int                          // of keys
	missed int
}

const (
	tickEvery = 10 * time.Millisecond
	tickReads = 500
	missEvery = 100
)

// stream is the result of a part of the traffic.
type stream struct {
	reads, commands int64
	took            time.Duration
	peak            float64 // commands of Redis in a second, at most
}

func (s stream) perSecond() float64 { return float64(s.commands) / s.took.Seconds() }

func (s stream) perRead() float64 { return float64(s.commands) / float64(s.reads) }

// commands returns the number of commands that Redis has carried out, also in
// scripts.
func (f *traffic) commands() int64 {
	f.Helper()
	stats, err := f.raw.Do(f.Context(), "INFO", "stats").String()
	if err != nil {
		f.Fatal(err)
	}
	_, rest, _ := strings.Cut(stats, "total_commands_processed:")
	number, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		f.Fatalf("INFO stats: %v", err)
	}
	return n
}

// flow reads tick by tick until done, which it asks after each, returns true.
// Ticks that a slow machine misses are not made up for.
func (f *traffic) flow(done func(reads int) bool) (s stream) {
	f.Helper()
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	begun, first := time.Now(), f.commands()
	mark, marked := begun, first
	for reads := 0; ; {
		<-tick.C
		for range tickReads {
			f.read()
		}
		reads += tickReads
		over := done(reads)
		if since := time.Since(mark); over || since > 500*time.Millisecond {
			n := f.commands()
			s.peak = max(s.peak, float64(n-marked)/since.Seconds())
			mark, marked = time.Now(), n
		}
		if over {
			s.reads, s.commands, s.took = int64(reads), marked-first, time.Since(begun)
			return s
		}
	}
}

func (f *traffic) read() {
	f.n++
	if f.n%missEvery == 0 {
		f.missed++
		mustGet(f, f.c, fmt.Sprint("new", f.missed), func(context.Context, string) (int64, error) { return 1, nil })
		return
	}
	f.next++
	mustGet(f, f.c, f.keys[f.next%len(f.keys)], f.load)
}

// pass is enough reads to read each key.
func (f *traffic) pass(reads int) bool { return reads >= len(f.keys)*missEvery/(missEvery-1)+missEvery }

// TestRejoinReloadsMissedKeysAndLeavesRedisInPeace cuts the bus of an instance
// with 100 000 entries while another invalidates 10 of them. When it is back,
// those are loaded again, L2 confirms the entries that share a lane with them,
// and all else is served as before.
func TestRejoinReloadsMissedKeysAndLeavesRedisInPeace(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	const entries, invalidated = 100_000, 10
	r := servers.StartRedis(t)
	bus := &servers.Line{}
	roomy := func(o *strata.Options[string, int64]) { o.Memory.MaxEntries = 2 * entries }
	c, _ := instance(t, r, roomy, func(o *strata.Options[string, int64]) {
		o.Remote.Bus = redis.NewBus(r.Client(t, func(o *redis.Options) { o.DialContext = bus.DialContext }))
	})
	peer, _ := instance(t, r, roomy)
	joined(t, "warm", peer, c)
	f := &traffic{T: t, c: c, raw: r.Client(t)}
	values := map[string]int64{}
	for i := range entries {
		key := fmt.Sprint("k", i)
		f.keys, values[key] = append(f.keys, key), 1
	}
	if err := c.SetMany(t.Context(), values); err != nil {
		t.Fatal(err)
	}
	var loads atomic.Int64
	f.load = func(context.Context, string) (int64, error) {
		loads.Add(1)
		return 2, nil
	}
	usual := f.flow(f.pass)
	if n := loads.Load(); n != 0 {
		t.Fatalf("%d loads of warm entries", n)
	}

	bus.Cut()
	eventually(t, "the gap is noticed", func() bool { return !c.Stats().Connected })
	missed := f.keys[entries/2 : entries/2+invalidated]
	if err := peer.Invalidate(t.Context(), missed...); err != nil {
		t.Fatal(err)
	}
	cut := f.flow(func(reads int) bool { return reads >= entries/2 })
	if n := loads.Load(); n != 0 {
		t.Errorf("%d loads of warm entries while the bus was cut", n)
	}

	before := c.Stats()
	bus.Join()
	back := -1 // reads until the instance is connected
	rejoin := f.flow(func(reads int) bool {
		if back < 0 && c.Stats().Connected {
			back = reads
		}
		return back >= 0 && f.pass(reads-back)
	})
	confirmed := c.Stats().L2.Hits - before.L2.Hits
	if n := loads.Load(); n != invalidated {
		t.Errorf("%d loads after the bus was back; want one for each of the %d keys invalidated meanwhile", n, invalidated)
	}
	for _, key := range missed {
		if v := mustGet(t, c, key, f.load); v != 2 {
			t.Errorf("%s is %d still", key, v)
		}
	}
	if confirmed == 0 || confirmed > entries/20 {
		t.Errorf("%d of %d entries were confirmed by L2; want those in the lanes of %d keys", confirmed, entries, invalidated)
	}
	if more := rejoin.perRead() / usual.perRead(); more >= 2 {
		t.Errorf("Redis carried out %.2f times the usual number of commands per read", more)
	}
	again := f.flow(f.pass)

	t.Logf("%d loads, %d entries confirmed by L2", loads.Load(), confirmed)
	for _, p := range []struct {
		name string
		stream
	}{{"usual", usual}, {"cut", cut}, {"rejoin", rejoin}, {"afterwards", again}} {
		t.Logf("%-10s %7d reads in %v, Redis: %6.0f commands/s (peak %6.0f), %.4f per read, %.2f times the usual",
			p.name, p.reads, p.took.Round(time.Millisecond), p.perSecond(), p.peak, p.perRead(), p.perRead()/usual.perRead())
	}
}
