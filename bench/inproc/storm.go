package inproc

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/strata-cache/strata/bench/internal/peers"
	"github.com/strata-cache/strata/bench/internal/rig"
)

// Sizes of the table of storms.
const (
	stormKeys     = 1_000_000
	stormCapacity = 100_000
	stormStream   = 1 << 19
	stormBatch    = 250
	stormHot      = 100 // keys of the writer and the reader
)

// numbers is a cache of the table of storms.
type numbers = subject[uint64, uint64]

// pair is the same operations on harmless keys and on the keys of a storm, on a cache each.
type pair struct {
	name       string
	goroutines int
	capacity   int
	prepare    func(calm, storm numbers)
	calm       func(numbers) contestant
	storm      func(numbers) contestant
}

// stormPeers are the columns.
func stormPeers() []peers.Peer[uint64, uint64] {
	columns := []string{peers.Strata, peers.StrataCache, peers.Otter, "theine", peers.Xsync, peers.ShardedMap}
	return slices.DeleteFunc(peers.All[uint64, uint64](), func(p peers.Peer[uint64, uint64]) bool {
		return !slices.Contains(columns, p.Name)
	})
}

// Storm prints by how much some kinds of load slow operations down.
func Storm(o Options) error {
	o.header("storm", "ns of an operation under each storm, and how many times that of the same operations on benign keys.")
	o.printf("\n%-24s", "")
	for _, p := range stormPeers() {
		o.printf("%12s", shortPeer(p.Name))
	}
	o.printf("\n")
	for _, p := range o.pairs() {
		if err := o.playPair(p); err != nil {
			return err
		}
	}
	if err := o.besideWriter(); err != nil {
		return err
	}
	o.printf("%s", `
equal low bits: 1 M keys, the low 20 bits 0, against spread ones; write, read, and read with room
for a tenth. one hot key: 16 goroutines, against 1000 keys. new keys: each read misses and is
followed by a write, against 1 M keys of which nine in ten miss; maps have no bound, so theirs all
hit. writer: a reader of 100 keys beside a goroutine that writes them, against one alone. 2x64: the
Zipf mix with 10 % writes by 64 goroutines, against as many operations by 2.
`)
	return nil
}

func shortPeer(name string) string {
	switch name {
	case peers.Strata:
		return "memory"
	case peers.StrataCache:
		return "Cache"
	case peers.ShardedMap:
		return "128 maps"
	}
	return name
}

// pairs returns the rows, all but the writer.
func (o Options) pairs() []pair {
	keys, capacity := o.quick(o.scaled(stormKeys)), o.quick(o.scaled(stormCapacity))
	low, spread := make([]uint64, keys), make([]uint64, keys)
	for i := range low {
		// Multiples of 2⁶⁴ / φ spread over all bits.
		const golden = 0x9e3779b97f4a7c15
		low[i], spread[i] = uint64(i)<<20, uint64(i+1)*golden
	}
	order := rig.Zipf(o.scaled(stormStream), keys, 0, 1)
	lowStream, spreadStream := pick(low, order), pick(spread, order)
	zipf := keysOf[uint64](rig.Zipf(o.scaled(stormStream), keys, mixSkew, 1))
	hot, warm := make([]uint64, o.scaled(stormStream)), keysOf[uint64](rig.Zipf(o.scaled(stormStream), 1000, 0, 1))
	all, tenth := make([]bool, len(zipf)), make([]bool, len(zipf))
	mark(all, 1000)
	mark(tenth, 100)
	none := make([]bool, len(zipf))
	fillBoth := func(a, b []uint64) func(x, y numbers) {
		return func(x, y numbers) {
			x.Mix(a, make([]bool, len(a)), 1)
			y.Mix(b, make([]bool, len(b)), 1)
		}
	}
	flood := fresh{keys: make([]uint64, stormBatch)}
	return []pair{
		{"equal low bits, write", 1, keys, fillBoth(spread, low), mixing(spreadStream, all), mixing(lowStream, all)},
		{"equal low bits, read", 1, keys, fillBoth(spread, low), mixing(spreadStream, none), mixing(lowStream, none)},
		{"equal low bits, miss", 1, capacity, fillBoth(spread, low), mixing(spreadStream, none), mixing(lowStream, none)},
		{"one hot key, read", sharers, capacity, fillBoth(warm, hot), mixing(warm, none), mixing(hot, none)},
		{"one hot key, 10% write", sharers, capacity, fillBoth(warm, hot), mixing(warm, tenth), mixing(hot, tenth)},
		{"new keys, miss", 1, capacity, fillBoth(spread, spread), mixing(spreadStream, none), flood.missing},
		{"2x64", 1, capacity, fillBoth(zipf, zipf), fanned(2, zipf, tenth), fanned(64, zipf, tenth)},
	}
}

func pick(keys []uint64, order []int32) []uint64 {
	picked := make([]uint64, len(order))
	for i, n := range order {
		picked[i] = keys[n]
	}
	return picked
}

// mixing goes through a stream.
func mixing(stream []uint64, writes []bool) func(numbers) contestant {
	return func(s numbers) contestant {
		l := spaced(sharers, len(stream))
		return contestant{name: s.name, hits: l.share, call: func(g, _ int) error {
			from, to := l[g].jump(stormBatch, len(stream))
			l[g].hits += s.Mix(stream[from:to], writes[from:to], 1)
			l[g].reads += stormBatch
			return nil
		}}
	}
}

// fresh makes keys that no cache has had.
type fresh struct {
	last uint64
	keys []uint64
}

func (f *fresh) missing(s numbers) contestant {
	f.last = 1 << 40
	writes := make([]bool, stormBatch)
	return contestant{name: s.name, hits: func() float64 { return 0 }, call: func(int, int) error {
		for i := range f.keys {
			f.last++
			f.keys[i] = f.last
		}
		s.Mix(f.keys, writes, 1)
		return nil
	}}
}

// fanned has goroutines share the operations of a call. Their number does not
// depend on the number of goroutines.
func fanned(goroutines int, stream []uint64, writes []bool) func(numbers) contestant {
	const batches = 128
	return func(s numbers) contestant {
		l := spaced(goroutines, len(stream))
		return contestant{name: s.name, hits: l.share, call: func(int, int) error {
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					for range batches / goroutines {
						from, to := l[g].jump(stormBatch, len(stream))
						s.Mix(stream[from:to], writes[from:to], 1)
						runtime.Gosched()
					}
				})
			}
			wg.Wait()
			return nil
		}}
	}
}

// playPair plays a row for all peers and prints it.
func (o Options) playPair(p pair) error {
	var contestants []contestant
	var open []numbers
	defer func() { closeAll(open) }()
	for _, peer := range stormPeers() {
		var both [2]numbers
		for i := range both {
			c, err := peer.Open(peers.Config{Capacity: p.capacity})
			if err != nil {
				return fmt.Errorf("inproc: %s: %w", peer.Name, err)
			}
			both[i] = numbers{c, peer.Name, peer.Kind}
			open = append(open, both[i])
		}
		p.prepare(both[0], both[1])
		calm, storm := p.calm(both[0]), p.storm(both[1])
		calm.name += calmSuffix
		contestants = append(contestants, calm, storm)
	}
	c, err := o.play("Storm/"+p.name, p.goroutines, stormBatch, contestants)
	if err != nil {
		return err
	}
	// A call of the row 2x64 has 128 batches, see fanned.
	o.stormLine(p.name, c, map[bool]float64{true: 128, false: 1}[p.name == "2x64"])
	return nil
}

// calmSuffix marks the contestants on harmless keys.
const calmSuffix = ", calm"

// stormLine prints a row. per is the number of batches in a call.
func (o Options) stormLine(name string, c cell, per float64) {
	o.printf("%-24s", name)
	for _, p := range stormPeers() {
		r, _ := c.ratio(wall, p.Name, p.Name+calmSuffix)
		o.printf("%7s%5.2f", digits(c.rows[p.Name].ns()/per), r)
	}
	o.printf("\n")
}

// writer writes keys to a cache until it is stopped.
type writer struct {
	stop atomic.Bool
	wg   sync.WaitGroup
}

func (w *writer) start(s numbers, keys []uint64) {
	w.stop.Store(false)
	all := make([]bool, len(keys))
	mark(all, 1000)
	w.wg.Go(func() {
		for !w.stop.Load() {
			s.Mix(keys, all, 1)
		}
	})
}

func (w *writer) end() {
	w.stop.Store(true)
	w.wg.Wait()
}

// besideWriter plays the row of the reader and the writer.
func (o Options) besideWriter() error {
	var w writer
	defer w.end()
	stream := keysOf[uint64](rig.Zipf(o.scaled(stormStream), stormHot, 0, 1))
	keys := ownKeys[uint64](stormHot)
	none := make([]bool, len(stream))
	var contestants []contestant
	var open []numbers
	defer func() { closeAll(open) }()
	for _, peer := range stormPeers() {
		c, err := peer.Open(peers.Config{Capacity: 10 * stormHot})
		if err != nil {
			return fmt.Errorf("inproc: %s: %w", peer.Name, err)
		}
		s := numbers{c, peer.Name, peer.Kind}
		open = append(open, s)
		fill([]numbers{s}, keys)
		alone, beside := mixing(stream, none)(s), mixing(stream, none)(s)
		alone.name += calmSuffix
		// A turn alone must not run beside the writer of the turn before.
		alone.before = w.end
		beside.before = func() { w.end(); w.start(s, keys) }
		contestants = append(contestants, alone, beside)
	}
	c, err := o.play("Storm/writer", 1, stormBatch, contestants)
	if err != nil {
		return err
	}
	o.stormLine("writer of 100 hot keys", c, 1)
	return nil
}
