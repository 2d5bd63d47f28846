package inproc

import (
	"fmt"
	"runtime"
	"time"

	"github.com/strata-cache/strata/bench/internal/peers"
	"github.com/strata-cache/strata/bench/internal/rig"
)

// Sizes of the table of the collector.
const (
	gcEntries = 5_000_000
	gcTimes   = 5 // collections, for a median
)

// GC prints the time of a collection with many entries, and the bytes of an entry.
func GC(o Options) error {
	entries := o.quick(o.scaled(gcEntries))
	o.printf("# gc\n%s.\nOne cache at a time, with room for just as many entries as are set. Time of runtime.GC, the median\n"+
		"of %d, ±spread, with %s uint64 keys and values; ratio: strata / that of the row.\n\n", rig.Machine(), gcTimes, count(entries))
	o.printf("%-20s%12s%8s%14s%8s%12s\n", "", "ms", "ratio", "bytes/entry", "ratio", "held")
	var times, bytes float64
	for _, p := range peers.All[uint64, uint64]() {
		if p.Kind.Is(peers.Coarse) {
			continue
		}
		ms, each, held, err := collect(p, entries, numberEntry)
		if err != nil {
			return err
		}
		if p.Name == peers.Strata {
			times, bytes = ms.ns(), each
		}
		o.printf("%-20s%7.1f ±%2.0f%%%8.2f%14.0f%8.2f%12d\n", p.Name, ms.ns(), 100*ms.spread(), times/ms.ns(), each, bytes/each, held)
	}
	o.printf("\nThe same for caches of bytes, with string keys and structs of a number, a flag and a text.\n\n")
	for _, p := range peers.Bytes(smallCodec()) {
		ms, each, held, err := collect(p, entries, smallEntry)
		if err != nil {
			return err
		}
		o.printf("%-20s%7.1f ±%2.0f%%%8s%14.0f%8s%12d\n", p.Name, ms.ns(), 100*ms.spread(), "", each, "", held)
	}
	return o.bytesPerEntry()
}

// collect fills a cache and runs the collector. It returns the milliseconds of
// each collection, the bytes of an entry, and the number of entries.
func collect[K peers.Key, V any](p peers.Peer[K, V], entries int, entry func(int) (K, V)) (ms samples, bytes float64, held int, err error) {
	before := heap()
	c, err := p.Open(peers.Config{Capacity: entries})
	if err != nil {
		return ms, 0, 0, fmt.Errorf("inproc: %s: %w", p.Name, err)
	}
	defer c.Close()
	held = load(c, entries, entry)
	grown := heap() - before
	for range gcTimes {
		start := time.Now()
		runtime.GC()
		ms.wall = append(ms.wall, float64(time.Since(start))/1e6)
	}
	return ms, grown / float64(max(held, 1)), held, nil
}

// numberEntry returns entry i.
func numberEntry(i int) (key, value uint64) { return uint64(i), uint64(i) }

// bytesPerEntry prints the second table.
func (o Options) bytesPerEntry() error {
	sizes := []int{o.quick(o.scaled(50_000)), o.quick(o.scaled(1_000_000))}
	o.printf("\nBytes of an entry; uint64: key and value, string: keys of 11 bytes or less, each memory of its own,\n" +
		"with structs of 32 bytes and a text; TTL 1h.\n\n")
	o.printf("%-20s%18s%18s%18s%18s\n%-20s", "", "uint64", "uint64, TTL", "string", "string, TTL", "")
	for range 4 {
		o.printf("%9s%9s", count(sizes[0]), count(sizes[1]))
	}
	numbers, texts := peers.All[uint64, uint64](), peers.All[string, small]()
	for _, p := range texts {
		if p.Kind.Is(peers.Coarse) {
			continue
		}
		o.printf("\n%-20s", p.Name)
		for _, ttl := range []time.Duration{0, hour} {
			if err := weigh(o, numbers, p.Name, sizes, ttl, numberEntry); err != nil {
				return err
			}
		}
		for _, ttl := range []time.Duration{0, hour} {
			if err := weigh(o, texts, p.Name, sizes, ttl, smallEntry); err != nil {
				return err
			}
		}
	}
	o.printf("\n")
	return nil
}

// weigh prints the bytes of an entry of the peer of a name, by size.
func weigh[K peers.Key, V any](o Options, all []peers.Peer[K, V], name string, sizes []int, ttl time.Duration, entry func(int) (K, V)) error {
	for _, n := range sizes {
		text := "-"
		for _, p := range all {
			if p.Name != name || ttl > 0 && !p.Kind.Is(peers.Expires) {
				continue
			}
			bytes, err := weight(p, peers.Config{Capacity: n, TTL: ttl}, entry)
			if err != nil {
				return err
			}
			text = fmt.Sprintf("%.0f", bytes)
		}
		o.printf("%9s", text)
	}
	return nil
}

func weight[K peers.Key, V any](p peers.Peer[K, V], config peers.Config, entry func(int) (K, V)) (float64, error) {
	before := heap()
	c, err := p.Open(config)
	if err != nil {
		return 0, fmt.Errorf("inproc: %s: %w", p.Name, err)
	}
	defer c.Close()
	held := load(c, config.Capacity, entry)
	grown := heap() - before
	return grown / float64(max(held, 1)), nil
}
