package evict

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPartKeepsTheStandingOfEntries divides an order in two, and compares the entries of each
// with what they were: their order, uses and pins.
func TestPartKeepsTheStandingOfEntries(t *testing.T) {
	for p := range policies {
		for _, weighted := range []bool{false, true} {
			t.Run(fmt.Sprint(p, " ", weighted), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(uint64(p), 3))
				r := &row{t: t, keys: map[*Head]int{}}
				r.Fit(p, 300, weighted)
				for range 2000 {
					r.step(rnd, 300)
				}
				r.Fit(p, 300, weighted)
				ends := []int64{Forever, 7 * TickLength, 900 * TickLength}
				for i := range 40 { // with timers
					h := &Head{Dead: ends[i%3]}
					r.Add(h, uint32(i), 1, r.Admit(uint32(i), 1, false), false, 0)
					r.keys[h] = -1
					for range i {
						r.Hit(h)
					}
				}
				checkPart(t, &r.Order, r.keys)
			})
		}
	}
}

// checkPart moves the entries with an odd hash out of an order.
func checkPart(t *testing.T, o *Order, held map[*Head]int) {
	to := new(Order)
	to.Fit(o.kind, o.share, o.weighted)
	orders, moved := [2]*Order{o, to}, [2]map[*Head]bool{{}, {}}
	var before [2][]standingOf
	for h := range held {
		moved[o.Hash(h)&1][h] = true
	}
	o.policy.each(func(i uint32) {
		x := o.nodes.node(i).hash & 1
		before[x] = append(before[x], standing(o, i))
	})
	o.Part(func(h *Head) *Order { return orders[o.Hash(h)&1] }, 0)
	for x, y := range orders {
		y.Fit(y.kind, y.share/2, y.weighted)
		if err := y.Validate(moved[x], 0); err != nil {
			t.Fatalf("part %d: %v", x, err)
		}
		var after []standingOf
		y.policy.each(func(i uint32) { after = append(after, standing(y, i)) })
		if y.kind == Random {
			continue // has no order
		}
		if !slices.Equal(after, before[x]) {
			t.Fatalf("part %d: %v, before %v", x, after, before[x])
		}
	}
}

// standingOf is what a policy knows of an entry.
type standingOf struct {
	head        *Head
	weight      int64
	queue, uses uint64
	idle        int64
}

func standing(o *Order, i uint32) standingOf {
	s := standingOf{head: o.nodes.head(i), weight: o.nodes.weight(i)}
	switch p := o.policy.(type) {
	case *a3fifo:
		s.queue, s.idle = uint64(o.nodes.node(i).mark&queueMask), p.idle(i)
	case *lfu:
		s.uses = p.buckets[o.nodes.node(i).mark].uses
	}
	return s
}
