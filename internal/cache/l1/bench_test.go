package l1

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
)

// benchSize is the number of entries in benchmarks: about 2 MB with integers,
// so that most of them stay in a processor's own cache.
const benchSize = 1 << 14

func keyInt(i int) int       { return i }
func keyString(i int) string { return fmt.Sprintf("user:%012d", i) }

// order returns keys in the order of reading: uniform, or Zipf with s = 1.01.
func order[K any](key func(int) K, zipf bool, span int) []K {
	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.01, 1, uint64(span-1))
	keys := make([]K, 1<<16)
	for i := range keys {
		n := r.IntN(span)
		if zipf {
			n = int(z.Uint64())
		}
		keys[i] = key(n)
	}
	return keys
}

// parallel reads keys from all goroutines; each starts at another place.
func parallel[K any](b *testing.B, keys []K, read func(K)) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.Int(); pb.Next(); i++ {
			read(keys[i&(len(keys)-1)])
		}
	})
}

// BenchmarkHit measures a whole Get that hits, for -cpu goroutines, including
// taking the key from a slice. All entries have a deadline.
func BenchmarkHit(b *testing.B) {
	b.Run("int/uniform", func(b *testing.B) { benchHit(b, keyInt, false) })
	b.Run("int/zipf", func(b *testing.B) { benchHit(b, keyInt, true) })
	b.Run("string/uniform", func(b *testing.B) { benchHit(b, keyString, false) })
	b.Run("string/zipf", func(b *testing.B) { benchHit(b, keyString, true) })
}

func benchHit[K comparable](b *testing.B, key func(int) K, zipf bool) {
	c := New(Config[K, int]{MaxEntries: 4 * benchSize})
	defer c.Close()
	for i := range benchSize {
		c.Set(until(key(i), i, After(c.Now(), time.Hour)), 1)
	}
	parallel(b, order(key, zipf, benchSize), func(k K) {
		if e, _ := c.Get(k); e == nil {
			panic("missed")
		}
	})
}

// BenchmarkLockedMapHit measures the alternative to the engine: maps under
// read-write mutexes, as many as the engine has shards, with the same entries,
// without clock, policy and counts.
func BenchmarkLockedMapHit(b *testing.B) {
	b.Run("int/uniform", func(b *testing.B) { benchLockedMap(b, keyInt, false) })
	b.Run("int/zipf", func(b *testing.B) { benchLockedMap(b, keyInt, true) })
	b.Run("string/uniform", func(b *testing.B) { benchLockedMap(b, keyString, false) })
	b.Run("string/zipf", func(b *testing.B) { benchLockedMap(b, keyString, true) })
}

type lockedMap[K comparable] struct {
	mu sync.RWMutex
	m  map[K]*Entry[K, int]
	_  [64]byte
}

func benchLockedMap[K comparable](b *testing.B, key func(int) K, zipf bool) {
	seed := maphash.MakeSeed()
	shards := make([]lockedMap[K], shardCount(4*benchSize))
	pick := func(k K) *lockedMap[K] {
		return &shards[maphash.Comparable(seed, k)%uint64(len(shards))]
	}
	for i := range benchSize {
		s := pick(key(i))
		if s.m == nil {
			s.m = map[K]*Entry[K, int]{}
		}
		s.m[key(i)] = forever(key(i), i)
	}
	parallel(b, order(key, zipf, benchSize), func(k K) {
		s := pick(k)
		s.mu.RLock()
		e := s.m[k]
		s.mu.RUnlock()
		if e == nil {
			panic("missed")
		}
	})
}

// BenchmarkMiss measures a Get of a key never stored before.
func BenchmarkMiss(b *testing.B) {
	c := New(Config[int, int]{MaxEntries: 4 * benchSize})
	defer c.Close()
	for i := range benchSize {
		c.Set(forever(i, i), 1)
	}
	parallel(b, order(keyInt, false, benchSize), func(k int) { c.Get(^k) })
}

// BenchmarkSet measures the allocation of the entry, the clock and the store.
func BenchmarkSet(b *testing.B) {
	for _, x := range []struct {
		name    string
		span    int // keys
		entries int64
		ttl     time.Duration
	}{
		{"replace", benchSize, 4 * benchSize, 0},
		{"replace/ttl", benchSize, 4 * benchSize, time.Hour},
		{"evict", 1 << 20, benchSize, 0},
		{"evict/ttl", 1 << 20, benchSize, time.Hour},
	} {
		b.Run(x.name, func(b *testing.B) {
			c := New(Config[int, int]{MaxEntries: x.entries})
			defer c.Close()
			parallel(b, order(keyInt, false, x.span), func(k int) {
				dead := Forever
				if x.ttl != 0 {
					dead = After(c.Now(), x.ttl)
				}
				c.Set(until(k, k, dead), 1)
			})
		})
	}
}

// BenchmarkReadThrough measures Get, and Set on a miss, with a cache a quarter
// as large as the key space.
func BenchmarkReadThrough(b *testing.B) {
	c := New(Config[int, int]{MaxEntries: benchSize})
	defer c.Close()
	parallel(b, order(keyInt, true, 1<<20), func(k int) {
		if e, _ := c.Get(k); e == nil {
			c.Set(forever(k, k), 1)
		}
	})
	st := c.Stats()
	b.ReportMetric(float64(st.Hits)/float64(st.Hits+st.Misses), "hits/op")
}

// BenchmarkEntry reports the memory per entry of a full cache, including table
// and wheel.
func BenchmarkEntry(b *testing.B) {
	const n = 200_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		c := New(Config[int, int]{MaxEntries: n})
		for i := range n {
			c.Set(until(i, i, After(0, time.Hour)), 1)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/entry")
		c.Close()
	}
}

// BenchmarkClock compares the busy clock with the system's clock.
func BenchmarkClock(b *testing.B) {
	var c clock
	c.init()
	defer c.close()
	b.Run("busy", func(b *testing.B) {
		for b.Loop() {
			c.now()
		}
	})
	b.Run("system", func(b *testing.B) {
		for b.Loop() {
			c.exact()
		}
	})
}

// BenchmarkStriped measures one addition, for -cpu goroutines.
func BenchmarkStriped(b *testing.B) {
	s := newStriped(false)
	parallel(b, make([]int, 1), func(int) { s.add(0) })
}
