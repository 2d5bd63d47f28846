package evict

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
)

// TestEveryPolicyEvictsWhatIsNotPinned replaces, reads, pins, unpins, weighs anew and
// removes entries in random order, and evicts beside entries that must stay. An order may
// give up nothing only if it holds no other entries.
func TestEveryPolicyEvictsWhatIsNotPinned(t *testing.T) {
	for p := range policies {
		for _, most := range []int{1, 2, 3, 5, 40} {
			t.Run(fmt.Sprint(p, " ", most), func(t *testing.T) {
				kit.Watch(t, time.Minute)
				r := &row{t: t, keys: map[*Head]int{}}
				r.Fit(p, int64(most), false)
				rnd := rand.New(rand.NewPCG(uint64(p), uint64(most)))
				for range 4000 {
					r.step(rnd, most)
					r.check()
				}
			})
		}
	}
}

// weights are of all classes of entries.
var weights = []int64{Pinned, Pinned, 0, 1, 1, 2, 50} // read-only

// step does a random operation on an order of up to most entries.
func (r *row) step(rnd *rand.Rand, most int) {
	weight := weights[rnd.IntN(len(weights))]
	h := r.any(rnd)
	switch op := rnd.IntN(100); {
	case h == nil || op < 30 && r.Len() < most:
		h = &Head{Dead: Forever}
		hash := uint32(rnd.IntN(3*most)) * 0x9e3779b1
		full := r.Len() == most
		r.Add(h, hash, weight, r.Admit(hash, weight, full), full, 0)
		r.keys[h] = len(r.heads)
		r.heads = append(r.heads, h)
	case op < 55:
		x := &Head{Dead: Forever}
		r.Replace(h, x, weight, 0)
		r.keys[x] = r.keys[h]
		delete(r.keys, h)
	case op < 70:
		r.Hit(h)
	case op < 75:
		delete(r.keys, r.Remove(h).Head)
	case op < 94:
		r.evictBeside([]*Head{nil, h, h, {}}[rnd.IntN(4)], uint32(rnd.IntN(4)))
	case op < 97:
		r.Fit(r.kind, rnd.Int64N(60), rnd.IntN(2) == 0)
	case op < 99:
		r.Unpin()
	default:
		r.Empty()
		clear(r.keys)
	}
}

// evictBeside evicts one entry, in favour of a new entry for a queue, and checks that it may
// go.
func (r *row) evictBeside(keep *Head, queue uint32) {
	may := 0
	for h := range r.keys {
		if h != keep && !r.Pinned(h) {
			may++
		}
	}
	pinned := map[*Head]bool{}
	for h := range r.keys {
		pinned[h] = r.Pinned(h)
	}
	gone := r.Evict(Standing{queue, weights[may%len(weights)]}, keep, 0).Head
	_, held := r.keys[gone]
	switch {
	case gone == nil && may > 0:
		r.t.Fatalf("%v gives up none of %d entries", r.kind, may)
	case gone != nil && (!held || gone == keep || pinned[gone]):
		r.t.Fatalf("%v gives up an entry that is held: %v, to stay: %v, pinned: %v", r.kind, held, gone == keep, pinned[gone])
	}
	delete(r.keys, gone)
}
