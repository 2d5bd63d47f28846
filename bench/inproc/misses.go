package inproc

import (
	"context"
	"fmt"
	"math"

	"github.com/maypok86/otter/v2"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/bench/internal/peers"
	"github.com/strata-cache/strata/bench/internal/rig"
	"github.com/strata-cache/strata/memory"
)

// Sizes of the caches of the table of misses.
const (
	missCapacity = 10_000
	missMany     = 100 // keys of a call for many
)

// operation is a row of the table: one operation in two or three caches. Each
// way does it n times, beginning with operation number from.
type operation struct {
	name  string
	batch int
	ways  []way
}

type way struct {
	name string
	do   func(from, n int) error
}

// missSubjects are the caches of the table, with a TTL of an hour and defaults.
type missSubjects struct {
	ctx    context.Context
	cache  *strata.Cache[uint64, uint64]
	memory *memory.Cache[uint64, uint64]
	otter  *otter.Cache[uint64, uint64]
	keys   []uint64 // that all hold
}

// Misses prints the costs of calls with loaders, and of changes.
func Misses(o Options) error {
	o.header("misses", "One goroutine, uint64 keys, TTL 1h, defaults otherwise; loaders that return at once. ns and CPU ns",
		"of a call, what it allocates, and strata's time / otter's. The collector runs before each turn.")
	s, err := openMisses(context.Background())
	if err != nil {
		return err
	}
	defer s.close()
	o.printf("\n%-34s%-15s%10s%10s%9s%8s%8s\n", "", "", "ns", "CPU ns", "bytes", "allocs", "ratio")
	for _, op := range s.operations() {
		if err := o.compare(op); err != nil {
			return err
		}
	}
	return nil
}

func openMisses(ctx context.Context) (*missSubjects, error) {
	s := &missSubjects{ctx: ctx}
	var err error
	if s.cache, err = strata.New(strata.Options[uint64, uint64]{
		TTL: hour, Memory: strata.Memory[uint64, uint64]{MaxEntries: missCapacity},
	}); err != nil {
		return nil, err
	}
	if s.memory, err = memory.New(memory.Options[uint64, uint64]{MaxEntries: missCapacity, TTL: hour}); err != nil {
		return nil, err
	}
	if s.otter, err = otter.New(&otter.Options[uint64, uint64]{
		MaximumSize: missCapacity, ExpiryCalculator: otter.ExpiryWriting[uint64, uint64](hour),
	}); err != nil {
		return nil, err
	}
	return s, s.hold()
}

// hold stores some keys in all caches, with room to spare. Misses use larger
// numbers as keys.
func (s *missSubjects) hold() error {
	s.keys = make([]uint64, missCapacity/5)
	for i := range s.keys {
		k := uint64(i)
		s.keys[i] = k
		s.memory.Set(k, k)
		s.otter.Set(k, k)
		if err := s.cache.Set(s.ctx, k, k); err != nil {
			return err
		}
	}
	return nil
}

func (s *missSubjects) close() {
	_ = s.cache.Close(s.ctx)
	s.memory.Close()
	s.otter.StopAllGoroutines()
}

// held returns a key that all caches hold, fresh one that none ever held.
func (s *missSubjects) held(i int) uint64  { return s.keys[i%len(s.keys)] }
func (s *missSubjects) fresh(i int) uint64 { return 1<<32 + uint64(i) }

// held100 returns a hundred keys that all caches hold, in turn.
func (s *missSubjects) held100(i int) []uint64 {
	from := i * missMany % len(s.keys)
	return s.keys[from : from+missMany]
}

// fresh100 puts a hundred keys that never were held into keys.
func (s *missSubjects) fresh100(keys []uint64, i int) []uint64 {
	keys = keys[:0]
	for j := range missMany {
		keys = append(keys, 1<<48+uint64(i*missMany+j))
	}
	return keys
}

func loadOne(_ context.Context, key uint64) (uint64, error) { return key, nil }

func loadMany(_ context.Context, keys []uint64) (map[uint64]uint64, error) {
	values := make(map[uint64]uint64, len(keys))
	for _, k := range keys {
		values[k] = k
	}
	return values, nil
}

// repeat makes a way of one call.
func repeat(name string, call func(i int) error) way {
	return way{name, func(from, n int) error {
		for i := from; i < from+n; i++ {
			if err := call(i); err != nil {
				return err
			}
		}
		return nil
	}}
}

// operations returns the rows. Reads of held keys come first, as misses evict those keys.
func (s *missSubjects) operations() []operation {
	one, many := otter.LoaderFunc[uint64, uint64](loadOne), otter.BulkLoaderFunc[uint64, uint64](loadMany)
	ours, theirs := make([]uint64, 0, missMany), make([]uint64, 0, missMany)
	return []operation{{"GetOrLoad, hit", 1000, []way{
		repeat(peers.StrataCache, func(i int) error { _, err := s.cache.GetOrLoad(s.ctx, s.held(i), loadOne); return err }),
		repeat(peers.Otter, func(i int) error { _, err := s.otter.Get(s.ctx, s.held(i), one); return err }),
		repeat("memory.Get", func(i int) error { s.memory.Get(s.held(i)); return nil }),
	}}, {"GetMany, 100 hits", 10, []way{
		repeat(peers.StrataCache, func(i int) error { _, err := s.cache.GetMany(s.ctx, s.held100(i), loadMany); return err }),
		repeat(peers.Otter, func(i int) error { _, err := s.otter.BulkGet(s.ctx, s.held100(i), many); return err }),
	}}, {"Set of an existing key", 1000, []way{
		repeat(peers.StrataCache, func(i int) error { return s.cache.Set(s.ctx, s.held(i), uint64(i)) }),
		repeat(peers.Otter, func(i int) error { s.otter.Set(s.held(i), uint64(i)); return nil }),
		repeat("memory.Set", func(i int) error { s.memory.Set(s.held(i), uint64(i)); return nil }),
	}}, {"Invalidate of an absent key", 1000, []way{
		repeat(peers.StrataCache, func(i int) error { return s.cache.Invalidate(s.ctx, s.fresh(i)) }),
		repeat(peers.Otter, func(i int) error { s.otter.Invalidate(s.fresh(i)); return nil }),
		repeat("memory.Delete", func(i int) error { s.memory.Delete(s.fresh(i)); return nil }),
	}}, {"GetOrLoad, miss", 100, []way{
		repeat(peers.StrataCache, func(i int) error { _, err := s.cache.GetOrLoad(s.ctx, s.fresh(i), loadOne); return err }),
		repeat(peers.Otter, func(i int) error { _, err := s.otter.Get(s.ctx, s.fresh(i), one); return err }),
	}}, {"GetMany, 100 misses", 4, []way{
		repeat(peers.StrataCache, func(i int) error {
			ours = s.fresh100(ours, i)
			_, err := s.cache.GetMany(s.ctx, ours, loadMany)
			return err
		}),
		repeat(peers.Otter, func(i int) error {
			theirs = s.fresh100(theirs, i)
			_, err := s.otter.BulkGet(s.ctx, theirs, many)
			return err
		}),
	}}}
}

// compare plays one operation and prints its rows.
func (o Options) compare(op operation) error {
	c := rig.Contest{Load: rig.Load{Goroutines: 1, For: o.Slice, Every: math.MaxInt, Costs: true}}
	if o.Scale > 1 {
		c.Load.Calls = 2
	}
	for _, w := range op.ways {
		at := 0 // goes on over all turns, so that no operation comes twice
		c.Ways = append(c.Ways, rig.Way{Name: w.name, Call: func(int, int) error {
			at += op.batch
			return w.do(at-op.batch, op.batch)
		}})
	}
	for round := range o.Rounds + 1 {
		if err := c.Round(); err != nil {
			return fmt.Errorf("%s: %w", op.name, err)
		}
		if round == 0 {
			c.Forget()
		}
	}
	times := make([]float64, len(op.ways))
	for i, w := range op.ways {
		costs, n := c.Costs(i), float64(op.batch)
		s := samples{wall: each(c.Nanos(i), op.batch), cpu: []float64{costs.CPU / n}}
		times[i] = s.ns()
		name, ratio := "", ""
		if i == 0 {
			name = op.name
		}
		done := cell{"Misses/op=" + op.name, map[string]*samples{w.name: &s}, []string{w.name}}
		if err := done.write(o.Rounded); err != nil {
			return err
		}
		if i != 1 {
			// The second way is otter's.
			ratio = fmt.Sprintf("%.2f", times[i]/rig.Median(each(c.Nanos(1), op.batch)))
		}
		o.printf("%-34s%-15s%10s%10s%9.0f%8.1f%8s\n", name, w.name, digits(s.ns()), digits(s.cpuNs()), costs.Bytes/n, costs.Allocs/n, ratio)
	}
	return nil
}
