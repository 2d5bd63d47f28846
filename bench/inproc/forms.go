package inproc

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/bench/internal/rig"
	"github.com/strata-cache/strata/memory"
)

const (
	formEntries = 1_000_000
	formCalls   = 1_000_000
	formTimes   = 5 // measurements, for a median
)

// person is a value with pointers: each text is one.
type person struct {
	ID, At     int64
	Name, City string
}

// flat is the same value without pointers.
type flat struct {
	ID, At     int64
	Name, City [16]byte
}

func personOf(i int) person {
	return person{ID: int64(i), At: int64(i) * 1e6, Name: "name " + strconv.Itoa(i), City: "city " + strconv.Itoa(i%1000)}
}

func flatOf(i int) (f flat) {
	p := personOf(i)
	f.ID, f.At = p.ID, p.At
	copy(f.Name[:], p.Name)
	copy(f.City[:], p.City)
	return f
}

// personCodec writes persons as bytes.
type personCodec struct{}

func (personCodec) Name() string { return "person" }

func (personCodec) Append(b []byte, p person) ([]byte, error) {
	b = binary.AppendVarint(binary.AppendVarint(b, p.ID), p.At)
	b = append(append(b, byte(len(p.Name))), p.Name...)
	return append(b, p.City...), nil
}

func (personCodec) Decode(b []byte) (p person, err error) {
	var n int
	p.ID, n = binary.Varint(b)
	b = b[n:]
	p.At, n = binary.Varint(b)
	b = b[n:]
	end := 1 + int(b[0])
	p.Name, p.City = string(b[1:end]), string(b[end:])
	return p, nil
}

// form is one way to hold the same data.
type form struct {
	name, belongs string // what callers get is shared with others, or their own
	open          func(entries int) (set func(key string, i int), get func(key string) bool, err error)
}

func forms() []form {
	return []form{
		{"values with pointers", "shared", func(n int) (func(string, int), func(string) bool, error) {
			c, err := strata.New(strata.Options[string, person]{TTL: strata.NoExpiry, Memory: strata.Memory[string, person]{MaxEntries: int64(n)}})
			return setter(c, personOf), getter(c), err
		}},
		{"values without", "own", func(n int) (func(string, int), func(string) bool, error) {
			c, err := strata.New(strata.Options[string, flat]{TTL: strata.NoExpiry, Memory: strata.Memory[string, flat]{MaxEntries: int64(n)}})
			return setter(c, flatOf), getter(c), err
		}},
		{"Memory.Encoded", "own", func(n int) (func(string, int), func(string) bool, error) {
			c, err := strata.New(strata.Options[string, person]{
				TTL:    strata.NoExpiry,
				Memory: strata.Memory[string, person]{Encoded: true, MaxWeight: int64(n) * 100}, Remote: strata.Remote[string, person]{Codec: personCodec{}},
			})
			return setter(c, personOf), getter(c), err
		}},
		{"memory.ByteCache", "own", func(n int) (func(string, int), func(string) bool, error) {
			c, err := memory.NewByteCache(int64(n) * 100)
			set := func(key string, i int) {
				b, _ := personCodec{}.Append(nil, personOf(i))
				c.Set([]byte(key), b)
			}
			get := func(key string) bool {
				var room [64]byte
				b, ok := c.AppendGet(room[:0], []byte(key))
				if ok {
					_, _ = personCodec{}.Decode(b)
				}
				return ok
			}
			return set, get, err
		}},
	}
}

func setter[V any](c *strata.Cache[string, V], of func(int) V) func(string, int) {
	return func(key string, i int) { _ = c.Set(context.Background(), key, of(i)) }
}

func getter[V any](c *strata.Cache[string, V]) func(string) bool {
	return func(key string) bool { _, ok := c.Get(context.Background(), key); return ok }
}

// Forms prints what the same data costs as values with pointers, as values without, and as bytes.
func Forms(o Options) error {
	entries := o.quick(o.scaled(formEntries))
	o.printf("# forms\n%s.\n%s persons with two numbers and two texts, with string keys, held in four ways, one after the other. Time\n"+
		"of a read and of a write by one goroutine, with what the caller must do to have the value; what the heap and the memory\n"+
		"of the process grow by; time of runtime.GC and its longest stop; medians of %d. held: what reads find.\n\n",
		rig.Machine(), count(entries), formTimes)
	o.printf("%-22s%9s%9s%9s%9s%9s%11s%8s%9s\n", "", "read ns", "write ns", "heap MB", "RSS MB", "GC ms", "stop µs", "held", "value")
	for _, f := range forms() {
		if err := o.form(f, entries); err != nil {
			return err
		}
	}
	return nil
}

// form prints one row.
func (o Options) form(f form, entries int) error {
	key := userKeys(entries)
	heapBefore, rssBefore := heap(), resident()
	set, get, err := f.open(entries)
	if err != nil {
		return fmt.Errorf("inproc: %s: %w", f.name, err)
	}
	for i := range entries {
		set(strings.Clone(key(i)), i)
	}
	grown, rss := heap()-heapBefore, resident()-rssBefore
	var reads, writes, collections, stops samples
	held := 0
	for range formTimes {
		begun := time.Now()
		for range formCalls {
			if get(key(rand.IntN(entries))) {
				held++
			}
		}
		reads.wall = append(reads.wall, float64(time.Since(begun))/formCalls)
		begun = time.Now()
		for range formCalls {
			i := rand.IntN(entries)
			set(key(i), i)
		}
		writes.wall = append(writes.wall, float64(time.Since(begun))/formCalls)
		before := longestStops()
		begun = time.Now()
		runtime.GC()
		collections.wall = append(collections.wall, float64(time.Since(begun))/1e6)
		stops.wall = append(stops.wall, longestSince(before)*1e6)
	}
	o.printf("%-22s%9.0f%9.0f%9.0f%9.0f%9.1f%11.0f%7.1f%%%9s\n", f.name, reads.ns(), writes.ns(), grown/1e6, rss/1e6,
		collections.ns(), stops.ns(), 100*float64(held)/(formTimes*formCalls), f.belongs)
	return nil
}

// userKeys returns the keys of entries. They are parts of one text, so that the collector finds no work in
// them.
func userKeys(entries int) (key func(i int) string) {
	var all strings.Builder
	ends := make([]uint32, 1, entries+1)
	for i := range entries {
		fmt.Fprint(&all, "user:", i)
		ends = append(ends, uint32(all.Len()))
	}
	text := all.String()
	return func(i int) string { return text[ends[i]:ends[i+1]] }
}

// resident returns the memory of the process that is not swapped out, in bytes; zero where the system
// does not tell.
func resident() float64 {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	pages, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return float64(pages * os.Getpagesize())
}

// longestStops returns the histogram of the stops of the program by the collector.
func longestStops() []uint64 {
	return append([]uint64(nil), stops().Counts...)
}

func stops() *metrics.Float64Histogram {
	s := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(s)
	return s[0].Value.Float64Histogram()
}

// longestSince returns the upper bound of the longest stop since before, in seconds.
func longestSince(before []uint64) float64 {
	h := stops()
	for i := len(h.Counts) - 1; i >= 0; i-- {
		if h.Counts[i] > before[i] && !math.IsInf(h.Buckets[i+1], 0) {
			return h.Buckets[i+1]
		}
	}
	return 0
}
