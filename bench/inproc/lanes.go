package inproc

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"

	"github.com/strata-cache/strata/bench/internal/peers"
)

// lane is the position of one goroutine in the operations, with its counts of
// reads and hits.
type lane struct {
	at, reads, hits int
	random          uint64
	_               [96]byte // a cache line and the one beside it
}

// lanes are the goroutines of one peer in one cell.
type lanes []lane

// share returns the share of hits among the reads since the last call.
func (l lanes) share() float64 {
	reads, hits := 0, 0
	for i := range l {
		reads, hits = reads+l[i].reads, hits+l[i].hits
		l[i].reads, l[i].hits = 0, 0
	}
	return float64(hits) / float64(max(reads, 1))
}

// next returns the bounds of the lane's next batch of n operations.
func (l *lane) next(batch, n int) (from, to int) {
	from = l.at
	if from+batch > n {
		from = 0
	}
	l.at = from + batch
	return from, from + batch
}

// jump returns the bounds of a batch anywhere among n operations. A goroutine
// that went through them in turn would meet keys again at the same distance each
// time, and a slow one only the keys that it has just had.
func (l *lane) jump(batch, n int) (from, to int) {
	// The generator of Knuth's MMIX costs little beside a batch. Its low bits repeat
	// soon, so the high ones are used.
	l.random = l.random*6364136223846793005 + 1442695040888963407
	from = int((l.random >> 33) % uint64(n-batch+1))
	return from, from + batch
}

// spaced returns lanes that begin at places apart from each other.
func spaced(goroutines, n int) lanes {
	l := make(lanes, goroutines)
	for g := range l {
		l[g].at, l[g].random = g*(n/goroutines), rand.Uint64()
	}
	return l
}

// subject is an open peer.
type subject[K peers.Key, V any] struct {
	peers.Cache[K, V]
	name string
	kind peers.Kind
}

// openAll opens the peers that fit.
func openAll[K peers.Key, V any](all []peers.Peer[K, V], c peers.Config, fit func(peers.Kind) bool) ([]subject[K, V], error) {
	var open []subject[K, V]
	for _, p := range all {
		if !fit(p.Kind) {
			continue
		}
		one, err := p.Open(c)
		if err != nil {
			closeAll(open)
			return nil, fmt.Errorf("inproc: %s: %w", p.Name, err)
		}
		open = append(open, subject[K, V]{one, p.Name, p.Kind})
	}
	return open, nil
}

func closeAll[K peers.Key, V any](all []subject[K, V]) {
	for _, s := range all {
		s.Close()
	}
	clear(all)
	runtime.GC()
}

// load stores n entries and returns the number of entries that the cache has
// then. Some caches drop writes that come too fast, so load repeats these until
// that no longer helps.
func load[K peers.Key, V any](c peers.Cache[K, V], n int, entry func(int) (K, V)) (held int) {
	for i := range n {
		c.Set(entry(i))
	}
	c.Settle()
	for before := -1; held > before && held < n; {
		before, held = held, 0
		for i := range n {
			k, v := entry(i)
			if _, ok := c.Get(k); ok {
				held++
			} else {
				c.Set(k, v)
			}
		}
		c.Settle()
	}
	return held
}

// suits returns the condition for taking part with a TTL or without. Maps
// always take part.
func suits(ttl bool) func(peers.Kind) bool {
	return func(k peers.Kind) bool {
		if ttl {
			return k.Is(peers.Expires) || !k.Is(peers.Bounded)
		}
		return !k.Is(peers.Coarse)
	}
}

// keysOf returns keys for numbers. Texts lie behind each other in memory of
// their own, which is not the memory of the keys in the cache.
func keysOf[K peers.Key](numbers []int32) []K {
	keys := make([]K, len(numbers))
	switch keys := any(keys).(type) {
	case []uint64:
		for i, n := range numbers {
			keys[i] = uint64(n)
		}
	case []string:
		texts(keys, numbers)
	}
	return keys
}

func texts(keys []string, numbers []int32) {
	var b strings.Builder
	ends := make([]int, len(numbers))
	for i, n := range numbers {
		b.WriteString("user:")
		b.WriteString(strconv.Itoa(int(n)))
		ends[i] = b.Len()
	}
	all, from := b.String(), 0
	for i, end := range ends {
		keys[i], from = all[from:end], end
	}
}

// ownKeys returns the keys 0 to n-1, each text an allocation of its own.
func ownKeys[K peers.Key](n int) []K {
	keys := make([]K, n)
	switch keys := any(keys).(type) {
	case []uint64:
		for i := range keys {
			keys[i] = uint64(i)
		}
	case []string:
		for i := range keys {
			keys[i] = "user:" + strconv.Itoa(i)
		}
	}
	return keys
}

// kindOf names a type of keys.
func kindOf[K peers.Key]() string {
	var k K
	return fmt.Sprintf("%T", k)
}

// count writes a number of entries: 50k, 1M.
func count(n int) string {
	switch {
	case n >= 1e6 && n%1e6 == 0:
		return strconv.Itoa(n/1e6) + "M"
	case n >= 1e3 && n%1e3 == 0:
		return strconv.Itoa(n/1e3) + "k"
	}
	return strconv.Itoa(n)
}
