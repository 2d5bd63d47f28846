package inproc

import (
	"fmt"
	"math/rand/v2"
	"runtime"

	"github.com/strata-cache/strata/bench/internal/peers"
	"github.com/strata-cache/strata/bench/internal/rig"
)

// Sizes of the mix.
const (
	mixKeys     = 1_000_000
	mixCapacity = 100_000
	mixStream   = 1 << 21
	mixBatch    = 250
	mixSkew     = 0.99
)

// mixReads are the shares of reads, in percent.
func mixReads() []int { return []int{100, 90, 75, 50, 0} }

// width is a number of processors and of goroutines.
type width struct{ procs, goroutines int }

func (w width) String() string { return fmt.Sprintf("%dx%d", w.procs, w.goroutines) }

// Mix prints the time of an operation for several shares of writes, and the
// share of reads that hit.
func Mix(o Options) error {
	ttl := "No TTL."
	if o.TTL > 0 {
		ttl = fmt.Sprintf("TTL %v.", o.TTL)
	}
	o.header("mix", fmt.Sprintf("Zipf %v over %s keys, capacity %s; a read that misses is followed by a write. %s",
		mixSkew, count(mixKeys), count(mixCapacity), ttl),
		"For each share of reads: wall ns and CPU ns of an operation, and the hit ratio in %.",
		"Rows without a bound hold all keys they have seen, so their hit ratio is no merit.")
	if p := runtime.GOMAXPROCS(0); p < 2 {
		o.printf("There is only %d processor: 2x2 and 2x16 say little.\n", p)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var most, others []cell
	for _, table := range []func(Options) (a, b []cell, err error){mixOf[string], mixOf[uint64]} {
		a, b, err := table(o)
		if err != nil {
			return err
		}
		most, others = append(most, a...), append(others, b...)
	}
	o.printf("\nGeometric means of strata / peer:%26s%24s\n", "reads 75 % and more", "reads below")
	for _, peer := range []string{peers.Otter, peers.ShardedMap, peers.Xsync, "theine", "ristretto"} {
		o.printf("  %-33s", peers.Strata+" / "+peer)
		for _, cells := range [][]cell{most, others} {
			o.printf("%12s%12s", fmt.Sprintf("wall %.2f", geomean(cells, wall, peers.Strata, peer)),
				fmt.Sprintf("CPU %.2f", geomean(cells, cpu, peers.Strata, peer)))
		}
		o.printf("\n")
	}
	worst := 1.0
	for _, c := range append(most, others...) {
		if c.rows[peers.Otter].hits > 0 {
			worst = min(worst, c.rows[peers.Strata].hits-c.rows[peers.Otter].hits)
		}
	}
	o.printf("  least difference of the hit ratio to otter's in a cell: %+.2f points\n", 100*worst)
	return nil
}

// mixOf measures one type of keys. It returns the cells with reads of 75 % and
// more, and the others.
func mixOf[K peers.Key](o Options) (most, others []cell, err error) {
	c := peers.Config{Capacity: o.scaled(mixCapacity), TTL: o.TTL}
	subjects, err := openAll(peers.All[K, uint64](), c, suits(o.TTL > 0))
	if err != nil {
		return nil, nil, err
	}
	defer closeAll(subjects)
	const seed = 1
	stream := keysOf[K](rig.Zipf(o.scaled(mixStream), o.scaled(mixKeys), mixSkew, seed))
	writes := make([]bool, len(stream))
	for _, s := range subjects {
		s.Mix(stream[:len(stream)/2], writes[:len(stream)/2], 1)
		s.Settle()
	}
	for _, w := range []width{{1, 1}, {2, 2}, {2, 16}} {
		runtime.GOMAXPROCS(w.procs)
		var cells []cell
		for _, share := range mixReads() {
			mark(writes, 10*(100-share))
			name := fmt.Sprintf("Mix/keys=%s/procs=%d/goroutines=%d/reads=%d", kindOf[K](), w.procs, w.goroutines, share)
			c, err := o.play(name, w.goroutines, mixBatch, mixers(subjects, stream, writes, w))
			if err != nil {
				return nil, nil, err
			}
			cells = append(cells, c)
			if share >= 75 {
				most = append(most, c)
			} else {
				others = append(others, c)
			}
		}
		o.mixTable(kindOf[K](), w, cells)
	}
	return most, others, nil
}

// mark makes a share of operations writes.
func mark(writes []bool, permille int) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, uint64(permille)))
	for i := range writes {
		writes[i] = r.IntN(1000) < permille
	}
}

// mixers makes contestants that go through the stream. If there are more
// goroutines than processors, each gives way after a batch, or few of them
// would run in a turn.
func mixers[K peers.Key](subjects []subject[K, uint64], stream []K, writes []bool, w width) []contestant {
	all := make([]contestant, len(subjects))
	for i, s := range subjects {
		l := spaced(w.goroutines, len(stream))
		all[i] = contestant{name: s.name, hits: l.share, call: func(g, _ int) error {
			from, to := l[g].jump(mixBatch, len(stream))
			l[g].hits += s.Mix(stream[from:to], writes[from:to], 1)
			l[g].reads += reads(writes[from:to])
			if w.goroutines > w.procs {
				runtime.Gosched()
			}
			return nil
		}}
	}
	return all
}

func (o Options) mixTable(keys string, w width, cells []cell) {
	o.printf("\n%s keys, GOMAXPROCS x goroutines %v\n%-20s", keys, w, "")
	for _, reads := range mixReads() {
		o.printf("%16s", fmt.Sprintf("%d %% reads", reads))
	}
	for _, row := range union(cells) {
		o.printf("\n%-20s", row)
		for _, c := range cells {
			s := c.rows[row]
			o.printf("%6s%5.0f%5.1f", digits(s.ns()), s.cpuNs(), 100*s.hits)
		}
	}
	o.printf("\n")
}
