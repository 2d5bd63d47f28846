package hello

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/memory"
)

// Reports is a cache of large values that nothing asks for again: an export, or a crawler. Filled, it takes
// the memory from what else the process has, unless a guard bounds it. Create it with [NewReports].
type Reports struct {
	cache *strata.Cache[uint64, []byte]
	guard *memory.Guard
	next  atomic.Uint64
	bytes atomic.Int64
}

// The sizes of reports, each drawn at random, and the time between two rounds of Fill.
const (
	leastReport, mostReport = 1 << 10, 63 << 10
	fillEvery               = 50 * time.Millisecond
)

// NewReports returns an empty cache, which only the guard bounds.
func NewReports(g *memory.Guard) (*Reports, error) {
	c, err := strata.New(strata.Options[uint64, []byte]{
		Name: "reports", TTL: time.Hour,
		Memory: strata.Memory[uint64, []byte]{MaxEntries: 1 << 30, Guard: g},
	})
	if err != nil {
		return nil, err
	}
	return &Reports{cache: c, guard: g}, nil
}

// Fill stores new reports until ctx ends: so many bytes a second.
func (r *Reports) Fill(ctx context.Context, perSecond int64) error {
	t := time.NewTicker(fillEvery)
	defer t.Stop()
	begun, stored := time.Now(), int64(0)
	for {
		// What a late tick has missed is stored with the next one, but no more than a second of it.
		due := int64(time.Since(begun).Seconds() * float64(perSecond))
		if due > stored+perSecond {
			stored = due - perSecond
		}
		for stored < due && ctx.Err() == nil {
			report := make([]byte, leastReport+rand.IntN(mostReport-leastReport))
			binary.LittleEndian.PutUint64(report, rand.Uint64())
			if err := r.cache.Set(ctx, r.next.Add(1), report); err != nil && ctx.Err() == nil {
				return err
			}
			stored += int64(len(report))
			r.bytes.Add(int64(len(report)))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// Clear drops all reports.
func (r *Reports) Clear(ctx context.Context) error { return r.cache.InvalidateAll(ctx) }

// Cache returns the cache, for pages and metrics.
func (r *Reports) Cache() *strata.Cache[uint64, []byte] { return r.cache }

// Close closes the cache.
func (r *Reports) Close(ctx context.Context) error { return r.cache.Close(ctx) }

// Memory is the memory of the process, and what its guard does.
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
	g, c := r.guard.Stats(), r.cache.Stats()
	return Memory{
		Used:  int64(read[0].Value.Uint64() - read[1].Value.Uint64()), //nolint:gosec // the memory of a process
		Limit: g.Limit, Ceiling: g.Ceiling, Heap: g.Heap,
		// Nothing but the guard evicts reports.
		Evicted: int64(g.Evicted), Reports: int64(min(c.Evicted, g.Evicted)), //nolint:gosec // small
		Held: c.Entries, Stored: r.bytes.Load(),
	}
}
