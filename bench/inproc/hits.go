package inproc

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/strata-cache/strata/bench/internal/peers"
)

// hour is the TTL of caches with a TTL.
const hour = time.Hour

// hitBatch is the number of reads in a call. It divides the cost of the
// interface and of the timing.
const hitBatch = 500

// Hits prints the time of a read that finds its entry.
func Hits(o Options) error {
	o.header("hits", "ns of a read that finds its entry, ±spread, and strata's time / that of the row.",
		"Columns: without a TTL and with one of an hour, on 1 goroutine and on 2 (wall time of both).",
		"! = does not hold all entries, though it has room for twice as many.")
	var all, ttl []cell
	for _, table := range []func(Options, int) ([]cell, error){hitTable[uint64], hitTable[string]} {
		for _, entries := range []int{1000, 50_000} {
			cells, err := table(o, o.scaled(entries))
			if err != nil {
				return err
			}
			all, ttl = append(all, cells...), append(ttl, cells[2:]...)
		}
	}
	o.printf("\nGeometric means of strata / peer over sizes and keys:%11s%11s%11s%11s\n", "all", "no TTL", "TTL", "TTL, 1 g.")
	var none, one []cell
	for i, c := range all {
		switch i % 4 {
		case 0, 1:
			none = append(none, c)
		case 2:
			one = append(one, c)
		}
	}
	for _, peer := range []string{peers.Otter, peers.OtterCoarse, peers.RWMutex, peers.Xsync, peers.ShardedMap} {
		o.printf("%-53s", "  "+peers.Strata+" / "+peer)
		for _, cells := range [][]cell{all, none, ttl, one} {
			o.printf("%11s", mean(geomean(cells, wall, peers.Strata, peer)))
		}
		o.printf("\n")
	}
	return nil
}

// hitTable prints the table of one type of keys and one number of entries: four
// cells.
func hitTable[K peers.Key](o Options, entries int) ([]cell, error) {
	var cells []cell
	for _, ttl := range []time.Duration{0, hour} {
		more, err := hitCells[K](o, entries, ttl)
		if err != nil {
			return nil, err
		}
		cells = append(cells, more...)
	}
	o.printf("\n%s keys, %s entries\n%-20s", kindOf[K](), count(entries), "")
	for _, column := range []string{"no TTL, 1", "no TTL, 2", "TTL, 1", "TTL, 2"} {
		o.printf("%19s", column)
	}
	for _, row := range union(cells) {
		o.printf("\n%-20s", row)
		for _, c := range cells {
			o.printf("%19s", c.hitColumn(row))
		}
	}
	o.printf("\n")
	return cells, nil
}

func (c cell) hitColumn(row string) string {
	s := c.rows[row]
	if s == nil {
		return "-"
	}
	r, _ := c.ratio(wall, peers.Strata, row)
	mark := ""
	if s.hits < 0.9999 {
		mark = "!"
	}
	return fmt.Sprintf("%s%s ±%3.0f%% %5.2f", mark, digits(s.ns()), 100*s.spread(), r)
}

// hitCells measures with 1 goroutine and with 2.
func hitCells[K peers.Key](o Options, entries int, ttl time.Duration) ([]cell, error) {
	subjects, err := openAll(peers.All[K, uint64](), peers.Config{Capacity: 2 * entries, TTL: ttl}, suits(ttl > 0))
	if err != nil {
		return nil, err
	}
	defer closeAll(subjects)
	fill(subjects, ownKeys[K](entries))
	stream := uniform[K](entries)
	var cells []cell
	for _, goroutines := range []int{1, 2} {
		name := fmt.Sprintf("Hits/keys=%s/entries=%s/ttl=%v/goroutines=%d", kindOf[K](), count(entries), ttl > 0, goroutines)
		c, err := o.play(name, goroutines, hitBatch, readers(subjects, stream, goroutines))
		if err != nil {
			return nil, err
		}
		cells = append(cells, c)
	}
	return cells, nil
}

// fill stores keys in all subjects.
func fill[K peers.Key](subjects []subject[K, uint64], keys []K) {
	for _, s := range subjects {
		load(s, len(keys), func(i int) (K, uint64) { return keys[i], uint64(i) })
	}
}

// uniform returns all keys in random order, as often as makes some thousands.
func uniform[K peers.Key](entries int) []K {
	const seed, least = 1, 8192
	r := rand.New(rand.NewPCG(seed, seed))
	var order []int32
	for len(order) < least {
		for _, i := range r.Perm(entries) {
			order = append(order, int32(i))
		}
	}
	return keysOf[K](order)
}

// readers makes contestants that read the stream.
func readers[K peers.Key](subjects []subject[K, uint64], stream []K, goroutines int) []contestant {
	all := make([]contestant, len(subjects))
	for i, s := range subjects {
		l := spaced(goroutines, len(stream))
		all[i] = contestant{name: s.name, hits: l.share, call: func(g, _ int) error {
			from, to := l[g].next(hitBatch, len(stream))
			n, _ := s.Hits(stream[from:to])
			l[g].reads, l[g].hits = l[g].reads+hitBatch, l[g].hits+n
			return nil
		}}
	}
	return all
}
