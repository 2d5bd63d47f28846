package bytestore

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/strata-cache/strata/internal/testing/kit"
)

// request is one read of a key, whose value has a size.
type request struct {
	key  uint64
	size int
}

// requests are reads of keys by Zipf's law, with sizes by a lognormal distribution, and as many keys that
// are read once.
func requests(n int) (all []request, bytes int) {
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.05, 10, 40_000)
	sizes := map[uint64]int{}
	for i := range n {
		key := zipf.Uint64()
		if r.IntN(4) == 0 {
			key = 1<<32 + uint64(i)
		}
		size, seen := sizes[key]
		if !seen {
			size = min(60_000, 16+int(300*math.Exp(r.NormFloat64())))
			sizes[key] = size
			bytes += size + 8
		}
		all = append(all, request{key, size})
	}
	return all, bytes
}

// hitsOfFIFO returns the hits of a first-in, first-out queue with room for some bytes of keys and values.
func hitsOfFIFO(all []request, room int) (hits int) {
	held := map[uint64]bool{}
	var queue []request
	for _, q := range all {
		if held[q.key] {
			hits++
			continue
		}
		held[q.key] = true
		queue = append(queue, q)
		for room -= q.size + 8; room < 0; queue = queue[1:] {
			room += queue[0].size + 8
			delete(held, queue[0].key)
		}
	}
	return hits
}

// TestHitsMoreThanFIFO compares the store, with all that it needs for itself, with a queue that needs
// nothing beside keys and values.
func TestHitsMoreThanFIFO(t *testing.T) {
	kit.Alone(t)
	all, bytes := requests(400_000)
	for _, share := range []int{200, 50, 20, 7} {
		room := bytes / share
		c, hits, buffer, key := newStore(t, int64(room)), 0, []byte(nil), make([]byte, 8)
		for _, q := range all {
			binary.LittleEndian.PutUint64(key, q.key)
			var ok bool
			if buffer, ok = c.AppendGet(buffer[:0], key); ok {
				hits++
				continue
			}
			c.Set(key, make([]byte, q.size), 0)
		}
		ours, fifo := float64(hits)/float64(len(all)), float64(hitsOfFIFO(all, room))/float64(len(all))
		t.Logf("%8d bytes: %.2f %%, first in, first out %.2f %%", room, 100*ours, 100*fifo)
		if ours < fifo+0.015 {
			t.Errorf("with %d bytes %.2f %% are hits, first in, first out has %.2f %%", room, 100*ours, 100*fifo)
		}
	}
}
