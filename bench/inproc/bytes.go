package inproc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/VictoriaMetrics/fastcache"
	"github.com/allegro/bigcache/v3"
	"github.com/coocood/freecache"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/testing/sim"
	"github.com/strata-cache/strata/internal/testing/sim/sized"
	"github.com/strata-cache/strata/memory"
)

// leastRoom is the smallest bound of a row, in bytes, largestValue the largest size that a key of a trace without
// sizes gets.
const leastRoom, largestValue = 256 << 10, 60_000

// byteStore is a cache of bytes that is open. get appends the value to dst.
type byteStore struct {
	get   func(dst, key []byte) (value []byte, ok bool)
	set   func(key, value []byte)
	close func()
}

// byteStores are the columns that are caches, our own first. A column has no figure for a room below least.
func byteStores() []struct {
	name  string
	least int64
	open  func(room int64) (byteStore, error)
} {
	return []struct {
		name  string
		least int64
		open  func(room int64) (byteStore, error)
	}{
		{"bytes", 0, openByteCache},
		{"encoded", 0, openEncoded},
		{"freecache", 512 << 10, openFreecache},
		{"fastcache", 32 << 20, openFastcache},
		{"bigcache", 1 << 20, openBigcache},
	}
}

func nothing() {}

func openByteCache(room int64) (s byteStore, err error) {
	m, err := memory.NewByteCache(room)
	return byteStore{get: m.AppendGet, set: func(key, value []byte) { m.Set(key, value) }, close: nothing}, err
}

func openEncoded(room int64) (s byteStore, err error) {
	c, err := strata.New(strata.Options[string, []byte]{
		TTL: strata.NoExpiry, Memory: strata.Memory[string, []byte]{Encoded: true, MaxWeight: room},
		Remote: strata.Remote[string, []byte]{Codec: codec.Bytes()},
	})
	ctx := context.Background()
	return byteStore{
		get:   func(_, key []byte) ([]byte, bool) { return c.Get(ctx, string(key)) },
		set:   func(key, value []byte) { _ = c.Set(ctx, string(key), value) }, // a value that is too large is not stored
		close: func() { _ = c.Close(ctx) },
	}, err
}

func openFreecache(room int64) (byteStore, error) {
	m := freecache.NewCache(int(room))
	return byteStore{
		get: func(_, key []byte) ([]byte, bool) {
			v, err := m.Get(key)
			return v, err == nil
		},
		set:   func(key, value []byte) { _ = m.Set(key, value, 0) }, // it takes no more than 1/1024 of its memory
		close: nothing,
	}, nil
}

func openFastcache(room int64) (byteStore, error) {
	m := fastcache.New(int(room))
	return byteStore{get: m.HasGet, set: m.Set, close: m.Reset}, nil
}

// openBigcache has parts of a mebibyte: the usual 1024 parts would have a few values each.
func openBigcache(room int64) (byteStore, error) {
	parts := 1
	for int64(parts)<<21 <= room && parts < 1024 {
		parts *= 2
	}
	o := bigcache.DefaultConfig(0)
	o.Shards, o.LifeWindow, o.CleanWindow = parts, math.MaxInt64, 0
	o.MaxEntriesInWindow, o.MaxEntrySize, o.HardMaxCacheSize = parts, 512, int(room>>20)
	o.Verbose, o.Logger = false, log.New(io.Discard, "", 0)
	m, err := bigcache.New(context.Background(), o)
	return byteStore{
		get: func(_, key []byte) ([]byte, bool) {
			v, err := m.Get(string(key))
			return v, err == nil
		},
		set:   func(key, value []byte) { _ = m.Set(string(key), value) },
		close: func() { _ = m.Close() },
	}, err
}

// playBytes reads each object and, if it is not there, writes it. It returns the number of hits.
func playBytes(s byteStore, t *sized.Trace) (hits int, err error) {
	defer s.close()
	largest := int64(0)
	for _, r := range t.Requests {
		largest = max(largest, r.Size)
	}
	value, dst := make([]byte, largest), make([]byte, 0, largest)
	var key [8]byte
	for _, r := range t.Requests {
		binary.LittleEndian.PutUint64(key[:], r.Key)
		got, ok := s.get(dst[:0], key[:])
		switch {
		case !ok:
			s.set(key[:], value[:r.Size])
		case int64(len(got)) != r.Size:
			return hits, fmt.Errorf("%d bytes of key %d, not %d", len(got), r.Key, r.Size)
		default:
			hits++
		}
	}
	return hits, nil
}

// Simulated columns: policies that are charged for keys and values alone.
func simulated() []string { return []string{"fifo", "lru"} }

// HitBytes prints the shares of hits of caches of bytes that have the same memory.
func HitBytes(o Options) error {
	traces, err := o.sizedTraces()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, sim.ErrNoTraces) {
		o.printf("bytes: skipped, for there is no *%s in the folder of -traces:\n%q\n", sim.Suffix, o.Traces)
		return nil
	}
	if err != nil {
		return err
	}
	var names []string
	for _, s := range byteStores() {
		names = append(names, s.name)
	}
	names = append(names, simulated()...)
	o.printf("# bytes\nHits in %% of all requests, with a memory of so many MiB. Sizes are drawn for each key from a\nlog-normal " +
		"distribution with a median of 300 bytes, or the trace's own (*.kv). fifo and lru are\nsimulated, and have that memory for keys and values alone.\n\n")
	o.printf("%-16s%9s", "", "MiB")
	for _, n := range names {
		o.printf("%10s", n)
	}
	o.printf("\n")
	var rows []bytesRow
	for _, t := range traces {
		more, err := playSizes(t, names)
		if err != nil {
			return err
		}
		for _, r := range more {
			o.bytesLine(r.trace, fmt.Sprintf("%.2f", float64(r.room)/(1<<20)), r.hits)
		}
		rows = append(rows, more...)
	}
	o.bytesSummary(names, rows)
	return nil
}

// sizedTraces reads the traces of the folder, and of its folder "sized" if there is one.
func (o Options) sizedTraces() (all []*sized.Trace, err error) {
	paths, err := sim.Files(o.Traces)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		keys, err := sim.ReadFile(path, 0)
		if err != nil {
			return nil, err
		}
		all = append(all, sized.Of(sim.Name(path), keys, lognormal))
	}
	paths, err = filepath.Glob(filepath.Join(o.Traces, "sized", "*"+sized.Suffix))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		requests, err := sized.Read(f, 0)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, sized.NewTrace(strings.TrimSuffix(filepath.Base(path), ".gz"), requests, sized.Origin))
	}
	return all, nil
}

// lognormal is the size of the value of a key.
func lognormal(key uint64) int64 {
	r := rand.New(rand.NewPCG(key, 2))
	return min(largestValue, 16+int64(300*math.Exp(r.NormFloat64())))
}

// bytesRow is a trace with a memory.
type bytesRow struct {
	trace string
	room  int64
	hits  []float64 // percent, by column; NaN for none
}

// playSizes plays a trace with 0.5, 2, 5 and 15 % of its bytes, several columns at a time: nothing is timed.
func playSizes(t *sized.Trace, names []string) (rows []bytesRow, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, size := range ratioSizes() {
		room := t.Footprint / 1000 * int64(size)
		if room < leastRoom {
			continue
		}
		hits := make([]float64, len(names))
		rows = append(rows, bytesRow{t.Name, room, hits})
		for i, name := range names {
			turns <- struct{}{}
			wg.Go(func() {
				defer func() { <-turns }()
				h, e := playColumn(name, t, room)
				mu.Lock()
				defer mu.Unlock()
				hits[i] = h
				if e != nil {
					err = fmt.Errorf("inproc: %s: %w", name, e)
				}
			})
		}
	}
	wg.Wait()
	return rows, err
}

// playColumn returns the share of hits of one column, in percent, or NaN if it needs more room.
func playColumn(name string, t *sized.Trace, room int64) (float64, error) {
	if slices.Contains(simulated(), name) {
		p, err := sized.New(name, room, t)
		if err != nil {
			return 0, err
		}
		return sized.Run(p, t).Objects, nil
	}
	for _, c := range byteStores() {
		if c.name != name {
			continue
		}
		if room < c.least {
			return math.NaN(), nil
		}
		s, err := c.open(room)
		if err != nil {
			return 0, err
		}
		hits, err := playBytes(s, t)
		return 100 * float64(hits) / float64(len(t.Requests)), err
	}
	return 0, fmt.Errorf("no column %q", name)
}

func (o Options) bytesLine(name, room string, hits []float64) {
	o.printf("%-16s%9s", name, room)
	for _, h := range hits {
		if math.IsNaN(h) {
			o.printf("%10s", "-")
			continue
		}
		o.printf("%10.2f", h)
	}
	o.printf("\n")
}

// bytesSummary prints by how much our caches are ahead of each column, over the rows that it has.
func (o Options) bytesSummary(names []string, rows []bytesRow) {
	o.printf("\n")
	for ours := range 2 {
		ahead := make([]float64, len(names))
		for i := range names {
			n := 0.0
			for _, r := range rows {
				if !math.IsNaN(r.hits[i]) {
					ahead[i] += r.hits[ours] - r.hits[i]
					n++
				}
			}
			ahead[i] /= n
		}
		o.bytesLine(names[ours]+" ahead", "", ahead)
	}
}
