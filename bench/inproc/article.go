package inproc

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"

	"github.com/strata-cache/strata/bench/internal/peers"
)

// Sizes of the table of the article.
const (
	articleEntries = 1_000_000
	articleBatch   = 250
)

// small is the value that the article stores.
type small struct {
	Int  int
	Bool bool
	Str  string
}

func smallOf(i int) small {
	return small{Int: i, Bool: i%2 == 0, Str: "value " + strconv.Itoa(i)}
}

// smallEntry returns entry i, with memory of its own.
func smallEntry(i int) (string, small) { return "user:" + strconv.Itoa(i), smallOf(i) }

// smallCodec writes values for caches of bytes.
func smallCodec() peers.Codec[small] {
	return peers.Codec[small]{
		Append: func(b []byte, v small) []byte {
			b = binary.AppendVarint(b, int64(v.Int))
			if v.Bool {
				return append(append(b, 1), v.Str...)
			}
			return append(append(b, 0), v.Str...)
		},
		Decode: func(b []byte) small {
			i, n := binary.Varint(b)
			return small{Int: int(i), Bool: b[n] == 1, Str: string(b[n+1:])}
		},
		Size: 32, // a key, a number, a flag, a text
	}
}

// articleShares are the shares of writes, of a thousand.
func articleShares() []int { return []int{100, 1} }

// Article prints the table of an article about in-memory caches: 1 M structs with
// string keys, time with 10 % and 0.1 % writes, and memory.
func Article(o Options) error {
	entries := o.quick(o.scaled(articleEntries))
	o.header("article", fmt.Sprintf("%s structs of a number, a flag and a text, with string keys; %d goroutines; ns of an operation with",
		count(entries), runtime.GOMAXPROCS(0)),
		"10 % and with 0.1 % writes, of existing keys, ±spread, and strata's time / that of the row; what",
		"all entries add to the heap, keys and texts with them. Caches have room for just as many entries.",
		"held: what is there after filling and writing.")
	all := append(peers.All[string, small](), peers.Boxed[string, small]())
	all = append(all, peers.Bytes(smallCodec())...)
	subjects, heaps, err := openArticle(all, entries)
	if err != nil {
		return err
	}
	defer closeAll(subjects)
	stream := uniform[string](entries)
	writes := make([]bool, len(stream))
	var cells []cell
	for _, share := range articleShares() {
		mark(writes, share)
		name := fmt.Sprintf("Article/permille=%d", share)
		c, err := o.play(name, runtime.GOMAXPROCS(0), articleBatch, structMixers(subjects, stream, writes))
		if err != nil {
			return err
		}
		cells = append(cells, c)
	}
	o.printf("\n%-20s%21s%21s%9s%9s%9s\n", "", "10 % writes", "0.1 % writes", "MB", "ratio", "held")
	for i, s := range subjects {
		o.printf("%-20s", s.name)
		for _, c := range cells {
			row := c.rows[s.name]
			r, _ := c.ratio(wall, peers.Strata, s.name)
			o.printf("%8s ±%3.0f%% %6.2f", digits(row.ns()), 100*row.spread(), r)
		}
		o.printf("%9.0f%9.2f%8.1f%%\n", heaps[i]/1e6, heaps[0]/heaps[i], 100*cells[1].rows[s.name].hits)
	}
	return nil
}

// openArticle opens and fills the peers that take part, and returns the bytes
// that each adds to the heap.
func openArticle(all []peers.Peer[string, small], entries int) (subjects []subject[string, small], heaps []float64, err error) {
	for _, p := range all {
		if p.Kind.Is(peers.Coarse) || p.Kind.Is(peers.Sharded) {
			continue
		}
		before := heap()
		c, err := p.Open(peers.Config{Capacity: entries})
		if err != nil {
			closeAll(subjects)
			return nil, nil, fmt.Errorf("inproc: %s: %w", p.Name, err)
		}
		load(c, entries, smallEntry)
		grown := heap() - before
		if off, ok := c.(peers.OffHeap); ok {
			grown += float64(off.OffHeap())
		}
		subjects, heaps = append(subjects, subject[string, small]{c, p.Name, p.Kind}), append(heaps, grown)
	}
	return subjects, heaps, nil
}

// heap returns the bytes in use after two collections: the second one frees the
// memory of finalizers and pools.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func structMixers(subjects []subject[string, small], stream []string, writes []bool) []contestant {
	value := small{Int: rand.Int(), Str: strings.Repeat("v", 8)}
	all := make([]contestant, len(subjects))
	for i, s := range subjects {
		l := spaced(runtime.GOMAXPROCS(0), len(stream))
		all[i] = contestant{name: s.name, hits: l.share, call: func(g, _ int) error {
			from, to := l[g].jump(articleBatch, len(stream))
			l[g].hits += s.Mix(stream[from:to], writes[from:to], value)
			l[g].reads += reads(writes[from:to])
			return nil
		}}
	}
	return all
}

// reads counts the operations that are not writes.
func reads(writes []bool) (n int) {
	for _, w := range writes {
		if !w {
			n++
		}
	}
	return n
}
