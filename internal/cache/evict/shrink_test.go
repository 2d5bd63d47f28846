package evict

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestShardThatWasLargeTakesAsMuchAsItsEntries removes most entries of a shard, some of them pinned or with a deadline, and checks
// that the order of the others, their uses and their weights are as before.
func TestShardThatWasLargeTakesAsMuchAsItsEntries(t *testing.T) {
	for p := range policies {
		for _, weighted := range []bool{false, true} {
			t.Run(fmt.Sprint(p, " ", weighted), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(uint64(p), 5))
				r := &row{t: t, keys: map[*Head]int{}}
				r.Fit(p, 3000, weighted)
				for range 3 {
					r.growAndShrink(rnd)
				}
			})
		}
	}
}

func (r *row) growAndShrink(rnd *rand.Rand) {
	ends := []int64{Forever, 7 * TickLength, 900 * TickLength}
	for i := range 3000 {
		h, weight := &Head{Dead: ends[i%3]}, 1+int64(i%5)
		if i%50 == 0 {
			weight = Pinned
		}
		r.Add(h, uint32(i), weight, r.Admit(uint32(i), weight, false), false, 0)
		r.keys[h] = i
		for range rnd.IntN(4) {
			r.Hit(h)
		}
	}
	r.evict(10, nil)
	var before, after []standingOf
	r.policy.each(func(i uint32) { before = append(before, standing(&r.Order, i)) })
	heads := make([]*Head, 0, len(r.keys))
	for h := range r.keys {
		heads = append(heads, h)
	}
	slices.SortFunc(heads, func(a, b *Head) int { return int(a.node) - int(b.node) })
	rnd.Shuffle(len(heads), func(i, j int) { heads[i], heads[j] = heads[j], heads[i] })
	for i, h := range heads[:len(heads)*19/20] {
		r.Remove(h)
		if delete(r.keys, h); i%100 == 0 {
			r.check()
		}
		if n := int(r.nodes.used); n > max(chunkNodes, 2*r.Len()+2) && n > 3000-i {
			r.t.Fatalf("%d nodes for %d entries", n, r.Len())
		}
	}
	r.check()
	r.policy.each(func(i uint32) { after = append(after, standing(&r.Order, i)) })
	before = slices.DeleteFunc(before, func(s standingOf) bool { _, held := r.keys[s.head]; return !held })
	if r.kind != Random && !slices.Equal(after, before) {
		r.t.Fatalf("the entries that are left are in another order, or stand otherwise: %v, before %v", after, before)
	}
	if p := &r.a3fifo; p.ghosts.room > 2*fewer*max(r.Len(), chunkNodes) {
		r.t.Errorf("a history for %d entries, of %d", p.ghosts.room, r.Len())
	}
}
