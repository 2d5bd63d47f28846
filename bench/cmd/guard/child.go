package main

import (
	"bufio"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/memory"
)

const (
	// workers are the goroutines that read and fill.
	workers = 16
	// mean is about the memory of one entry.
	mean = 1 << 10
	// zipf is the exponent of the distribution of keys.
	zipf = 1.01
)

// item is a value: a struct with parts of random sizes.
type item struct {
	ID    uint64
	Name  string
	Tags  []string
	Body  []byte
	Parts map[string]int
}

// load makes the value of a key. Its size depends on the key: lognormal, 1 KiB on average.
func load(key uint64) *item {
	r := rand.New(rand.NewPCG(key, 7))
	n := int(min(16<<10, math.Exp(6+r.NormFloat64())))
	x := &item{ID: key, Name: fmt.Sprint("item ", key), Body: make([]byte, n)}
	for i := range r.IntN(4) {
		x.Tags = append(x.Tags, fmt.Sprint("tag ", key%1000, i))
	}
	if r.IntN(4) == 0 {
		x.Parts = map[string]int{x.Name: n}
	}
	return x
}

// child runs one scenario in this process.
func (c config) child() (result, error) {
	if err := limitMemory(c.limit + c.hard); c.hard > 0 && err != nil {
		return result{}, err
	}
	r := result{Scenario: c.scenario, Guarded: c.guarded, Entries: c.entries}
	var g *memory.Guard
	if c.guarded {
		var err error
		if g, err = memory.NewGuard(memory.GuardOptions{Share: c.share, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}); err != nil {
			return r, err
		}
		defer g.Close()
	}
	first, err := newCache(c.entries, g)
	if err != nil {
		return r, err
	}
	second, err := newCache(c.entries, g)
	if err != nil {
		return r, err
	}
	begun := cpu()
	switch c.scenario {
	case "burst":
		r.Operations = burst(first, 2*c.limit)
		r.HitRatio = fill(c, first, time.Now().Add(time.Second), &r.Operations)
	case "cold":
		for key := range uint64(c.limit / 4 / mean) {
			first.Set(key, load(key))
			second.Set(key, load(key))
		}
		r.HitRatio = fill(c, first, time.Now().Add(time.Duration(c.seconds)*time.Second), &r.Operations)
	default:
		r.HitRatio = fill(c, first, time.Now().Add(time.Duration(c.seconds)*time.Second), &r.Operations)
	}
	r.GC, r.PeakRSS = gcShare(begun), peakRSS()
	r.Held, r.Hot = first.Len()+second.Len(), first.Len()
	s := g.Stats()
	r.Episodes, r.Evicted, r.EvictedBytes = s.Episodes, s.Evicted, s.EvictedBytes
	return r, nil
}

func newCache(entries int, g *memory.Guard) (*memory.Cache[uint64, *item], error) {
	return memory.New(memory.Options[uint64, *item]{MaxEntries: entries, Guard: g})
}

// fill reads keys, and loads what is missing, until the end. It returns the hit ratio of the second half.
func fill(c config, cache *memory.Cache[uint64, *item], end time.Time, operations *int64) float64 {
	half := time.Now().Add(time.Until(end) / 2)
	var hits, reads, all atomic.Int64
	var wg sync.WaitGroup
	for w := range uint64(workers) {
		wg.Go(func() {
			keys := rand.NewZipf(rand.New(rand.NewPCG(w, 1)), zipf, 1, uint64(c.keys)-1)
			for time.Now().Before(end) {
				n := int64(0)
				for range 100 {
					key := keys.Uint64()
					if _, ok := cache.Get(key); ok {
						n++
					} else {
						cache.Set(key, load(key))
					}
				}
				all.Add(100)
				if time.Now().After(half) {
					hits.Add(n)
					reads.Add(100)
				}
			}
		})
	}
	wg.Wait()
	*operations += all.Load()
	return float64(hits.Load()) / max(1, float64(reads.Load()))
}

// burst stores new keys with so many bytes, as fast as it can, and returns their number.
func burst(cache *memory.Cache[uint64, *item], bytes int64) int64 {
	var wg sync.WaitGroup
	each := uint64(bytes) / workers / mean
	for w := range uint64(workers) {
		wg.Go(func() {
			for i := range each {
				key := 1<<40 | w<<32 | i
				cache.Set(key, load(key))
			}
		})
	}
	wg.Wait()
	return int64(each) * workers
}

// cpu returns the CPU seconds of the collector, and of all.
func cpu() (n [2]float64) {
	s := []metrics.Sample{
		{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"},
	}
	metrics.Read(s)
	return [2]float64{s[0].Value.Float64(), s[1].Value.Float64() - s[2].Value.Float64()}
}

// gcShare is the collector's share of the CPU time in use since then.
func gcShare(then [2]float64) float64 {
	now := cpu()
	return (now[0] - then[0]) / max(1e-9, now[1]-then[1])
}

// peakRSS returns the largest resident size of this process; 0 if the system does not tell.
func peakRSS() (n int64) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			_, _ = fmt.Sscan(rest, &n)
		}
	}
	return n << 10
}
