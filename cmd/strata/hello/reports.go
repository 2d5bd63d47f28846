package hello

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/memory"
)

// Reports is a cache of large values that nothing asks for again, such as exports. Filled, it takes the memory
// from the rest of the process, unless a guard bounds it. Create it with [NewReports]. Its methods are safe for
// concurrent use.
type Reports struct {
	cache *strata.Cache[uint64, []byte]
	guard *memory.Guard
	next  atomic.Uint64
	bytes atomic.Int64

	mu  sync.Mutex // guards below
	end func()     // ends the filling, and waits for its end; nil while nothing is filled
}

// The sizes of reports, each drawn at random, and the time between two rounds of filling.
const (
	leastReport, mostReport = 1 << 10, 63 << 10
	fillEvery               = 50 * time.Millisecond
)

// NewReports returns an empty cache, which only its guard bounds. The guard has a limit in bytes, and is for
// other caches of the process, too: see [Reports.Guard].
func NewReports(limit int64) (*Reports, error) {
	g, err := memory.NewGuard(memory.GuardOptions{Limit: limit})
	if err != nil {
		return nil, err
	}
	c, err := strata.New(strata.Options[uint64, []byte]{
		Name: "reports", TTL: time.Hour,
		Memory: strata.Memory[uint64, []byte]{MaxEntries: 1 << 30, Guard: g},
	})
	if err != nil {
		g.Close()
		return nil, err
	}
	return &Reports{cache: c, guard: g}, nil
}

// Guard returns the guard; nil of nil Reports.
func (r *Reports) Guard() *memory.Guard {
	if r == nil {
		return nil
	}
	return r.guard
}

// Cache returns the cache, for pages and metrics.
func (r *Reports) Cache() *strata.Cache[uint64, []byte] { return r.cache }

// Fill begins to store new reports, so many bytes a second, unless it has begun already.
func (r *Reports) Fill(perSecond int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var filling sync.WaitGroup
	filling.Go(func() { r.fill(ctx, perSecond) })
	r.end = func() { cancel(); filling.Wait() }
}

// Fills reports whether reports are being stored.
func (r *Reports) Fills() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end != nil
}

// fill stores reports until ctx ends.
func (r *Reports) fill(ctx context.Context, perSecond int64) {
	t := time.NewTicker(fillEvery)
	defer t.Stop()
	begun, stored := time.Now(), int64(0)
	for {
		// The next tick stores the part of a late one, but no more than a second of it.
		due := int64(time.Since(begun).Seconds() * float64(perSecond))
		stored = max(stored, due-perSecond)
		for stored < due && ctx.Err() == nil {
			report := make([]byte, leastReport+rand.IntN(mostReport-leastReport))
			binary.LittleEndian.PutUint64(report, rand.Uint64())
			_ = r.cache.Set(ctx, r.next.Add(1), report) // it is stored in memory alone, which only ctx can end
			stored += int64(len(report))
			r.bytes.Add(int64(len(report)))
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// Clear ends the filling, and drops all reports.
func (r *Reports) Clear(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil {
		r.end()
		r.end = nil
	}
	return r.cache.InvalidateAll(ctx)
}

// Close ends the filling, the guard and the cache. It does nothing with nil Reports.
func (r *Reports) Close(ctx context.Context) error {
	if r == nil {
		return nil
	}
	_ = r.Clear(ctx) // it concerns this memory alone
	r.guard.Close()
	return r.cache.Close(ctx)
}

// Memory is the memory of the process, and the work of its guard.
type Memory struct {
	// Used are the bytes that the runtime of Go has from the system, which GOMEMLIMIT bounds.
	Used int64 `json:"used"`
	// Limit, Ceiling and Heap are as in memory.GuardStats, in bytes.
	Limit   int64 `json:"limit"`
	Ceiling int64 `json:"ceiling"`
	Heap    int64 `json:"heap"`
	// Evicted counts entries that the guard has evicted, Reports those among them that were reports.
	Evicted int64 `json:"evicted"`
	Reports int64 `json:"reports"`
	// Held is the number of reports in memory, Stored the bytes of all that were ever stored.
	Held   int64 `json:"held"`
	Stored int64 `json:"stored"`
}

// Memory returns the present numbers.
func (r *Reports) Memory() Memory {
	read := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(read)
	g := r.guard.Stats()
	c := r.cache.Stats() // afterwards: a report that the guard counts is counted here before
	return Memory{
		Used:  int64(read[0].Value.Uint64() - read[1].Value.Uint64()),
		Limit: g.Limit, Ceiling: g.Ceiling, Heap: g.Heap,
		Evicted: int64(g.Evicted), Reports: int64(min(c.Evicted, g.Evicted)), // nothing but the guard evicts reports
		Held: c.Entries, Stored: r.bytes.Load(),
	}
}

// Watch looks at the memory until peak is called, which returns the numbers: the most for Used and Heap, and the
// differences of all counts.
func (r *Reports) Watch() (peak func() Memory) {
	const every = 20 * time.Millisecond
	ctx, end := context.WithCancel(context.Background())
	var work sync.WaitGroup
	before := r.Memory()
	most := before
	work.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			m := r.Memory()
			m.Used, m.Heap = max(most.Used, m.Used), max(most.Heap, m.Heap)
			most = m
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
		}
	})
	return func() Memory {
		end()
		work.Wait()
		most.Evicted -= before.Evicted
		most.Reports -= before.Reports
		most.Stored -= before.Stored
		return most
	}
}
