package inproc

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/strata-cache/strata/bench/internal/peers"
	"github.com/strata-cache/strata/internal/testing/sim"
)

// Sizes of the caches, in thousandths of the distinct keys of a trace. Sizes
// below leastSize are left out.
const leastSize = 40

func ratioSizes() []int { return []int{5, 20, 50, 150} }

// sharers is the number of goroutines that share one cursor in the last column.
const sharers, sharedLabel = 16, "16 goroutines"

// player plays a trace and returns the number of hits.
type player struct {
	name string
	play func(keys []uint64, capacity int) (hits int, err error)
}

// players returns all columns: the bounded peers, and strata again with more
// goroutines. Peers with parts that fill unevenly are left out, as small caches
// would hold less than their size there.
func players() []player {
	var all []player
	var ours peers.Peer[uint64, uint64]
	for _, p := range peers.All[uint64, uint64]() {
		if p.Name == peers.Strata {
			ours = p
		}
		if !p.Kind.Is(peers.Bounded) || p.Kind&(peers.Coarse|peers.Sharded) != 0 || p.Name == peers.StrataCache {
			continue
		}
		all = append(all, player{p.Name, func(keys []uint64, capacity int) (int, error) { return alone(p, keys, capacity) }})
	}
	return append(all, player{sharedLabel, func(keys []uint64, capacity int) (int, error) { return together(ours, keys, capacity) }})
}

// alone has one goroutine read each key and, if it is not there, write it.
// Peers with buffers apply them before the next read, so that no hit is lost to a delay.
func alone(p peers.Peer[uint64, uint64], keys []uint64, capacity int) (hits int, err error) {
	c, err := p.Open(peers.Config{Capacity: capacity, Synchronous: true})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	for _, k := range keys {
		if _, ok := c.Get(k); ok {
			hits++
			continue
		}
		c.Set(k, k)
		c.Settle()
	}
	return hits, nil
}

// together has 16 goroutines do the same with one cursor that they share.
func together(p peers.Peer[uint64, uint64], keys []uint64, capacity int) (int, error) {
	c, err := p.Open(peers.Config{Capacity: capacity})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var cursor, hits atomic.Int64
	var wg sync.WaitGroup
	for range sharers {
		wg.Go(func() {
			for {
				i := cursor.Add(1) - 1
				if i >= int64(len(keys)) {
					return
				}
				if _, ok := c.Get(keys[i]); ok {
					hits.Add(1)
				} else {
					c.Set(keys[i], keys[i])
				}
			}
		})
	}
	wg.Wait()
	return int(hits.Load()), nil
}

// ratioRow is a trace at a size.
type ratioRow struct {
	trace    string
	size     int // thousandths
	capacity int
	hits     []float64 // percent, by player
}

// HitRatio prints the shares of hits on the traces of a folder.
func HitRatio(o Options) error {
	paths, err := sim.Files(o.Traces)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, sim.ErrNoTraces) {
		o.printf("hitratio: skipped, for there is no *%s in the folder of -traces:\n%q\n", sim.Suffix, o.Traces)
		return nil
	}
	if err != nil {
		return err
	}
	all := players()
	o.printf("# hitratio\nHits in %% of all requests; size: cache by distinct keys, in %%. One goroutine, except the last\n" +
		"column: strata with 16 that share one cursor. LRU and 2Q are golang-lru's,\nS3-FIFO and SIEVE golang-fifo's.\n\n")
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.name
	}
	o.ratioHead(names)
	var rows []ratioRow
	for _, path := range paths {
		keys, err := sim.ReadFile(path, 0)
		if err != nil {
			return err
		}
		more, err := playTrace(sim.Name(path), keys, all)
		if err != nil {
			return err
		}
		for _, r := range more {
			o.ratioLine(r.trace, fmt.Sprintf("%.1f", float64(r.size)/10), r.hits)
		}
		rows = append(rows, more...)
	}
	if len(rows) > 0 {
		o.ratioSummary(names, rows)
	}
	return nil
}

// short are the names of columns.
func short(name string) string {
	switch name {
	case peers.Strata:
		return "strata"
	case "ristretto":
		return "ristr."
	case "golang-lru":
		return "LRU"
	case "golang-lru 2Q":
		return "2Q"
	case "S3-FIFO, g.-fifo":
		return "S3-FIFO"
	case "SIEVE, g.-fifo":
		return "SIEVE"
	case sharedLabel:
		return "16 g."
	}
	return name
}

func (o Options) ratioHead(names []string) {
	o.printf("%-13s%4s", "", "size")
	for _, n := range names {
		o.printf("%9s", short(n))
	}
	o.printf("\n")
}

func (o Options) ratioLine(name, size string, hits []float64) {
	o.printf("%-13s%4s", name, size)
	for _, h := range hits {
		o.printf("%9.2f", h)
	}
	o.printf("\n")
}

// playTrace plays a trace at all sizes, several at a time: nothing is timed.
func playTrace(name string, keys []uint64, all []player) ([]ratioRow, error) {
	distinct := distinctOf(keys)
	var rows []ratioRow
	for _, size := range ratioSizes() {
		if capacity := distinct * size / 1000; capacity >= leastSize {
			rows = append(rows, ratioRow{name, size, capacity, make([]float64, len(all))})
		}
	}
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range rows {
		for j, p := range all {
			turns <- struct{}{}
			wg.Go(func() {
				defer func() { <-turns }()
				hits, err := p.play(keys, rows[i].capacity)
				if err != nil {
					err = fmt.Errorf("inproc: %s: %w", p.name, err)
					failed.Store(&err)
				}
				rows[i].hits[j] = 100 * float64(hits) / float64(len(keys))
			})
		}
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return rows, nil
}

func distinctOf(keys []uint64) int {
	seen := make(map[uint64]struct{})
	for _, k := range keys {
		seen[k] = struct{}{}
	}
	return len(seen)
}

// ratioSummary prints means: of all rows, strata's advance, and the worst trace.
func (o Options) ratioSummary(names []string, rows []ratioRow) {
	ours := slices.Index(names, peers.Strata)
	average, ahead, worst := make([]float64, len(names)), make([]float64, len(names)), make([]float64, len(names))
	byTrace := map[string][]ratioRow{}
	for _, r := range rows {
		byTrace[r.trace] = append(byTrace[r.trace], r)
	}
	for j := range names {
		worst[j] = math.Inf(1)
		for _, r := range rows {
			average[j] += r.hits[j] / float64(len(rows))
		}
		for _, rs := range byTrace {
			d := 0.0
			for _, r := range rs {
				d += (r.hits[ours] - r.hits[j]) / float64(len(rs))
			}
			worst[j] = min(worst[j], d)
		}
	}
	for j := range names {
		ahead[j] = average[ours] - average[j]
	}
	o.printf("\n")
	o.ratioLine("mean", "", average)
	o.ratioLine("strata ahead", "", ahead)
	o.ratioLine("worst trace", "", worst)
	lost := 0.0
	for _, r := range rows {
		if r.capacity >= 512 {
			lost = max(lost, r.hits[ours]-r.hits[len(names)-1])
		}
	}
	o.printf("most that 16 goroutines lose at a capacity of 512 or more: %.2f points\n", lost)
}
