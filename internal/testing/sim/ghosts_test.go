package sim_test

import (
	"slices"
	"testing"

	"github.com/strata-cache/strata/internal/testing/sim"
)

// queue is a list of keys, oldest first.
type queue []uint64

func (q queue) has(key uint64) bool { return slices.Contains(q, key) }

func (q *queue) push(key uint64) { *q = append(*q, key) }

func (q *queue) pop() uint64 {
	key := (*q)[0]
	*q = (*q)[1:]
	return key
}

// cut takes key out and reports whether it was there.
func (q *queue) cut(key uint64) bool {
	n := len(*q)
	*q = slices.DeleteFunc(slices.Clone(*q), func(k uint64) bool { return k == key })
	return len(*q) < n
}

// naiveS3 is S3-FIFO as the pseudocode of its paper has it.
type naiveS3 struct {
	capacity            int
	small, main, ghosts queue
	counts              map[uint64]int
}

func (p *naiveS3) Len() int { return len(p.small) + len(p.main) }

func (p *naiveS3) smallSize() int { return max(1, p.capacity/10) }

func (p *naiveS3) Access(key uint64) bool {
	if p.small.has(key) || p.main.has(key) {
		p.counts[key] = min(3, p.counts[key]+1)
		return true
	}
	for p.Len() == p.capacity {
		if len(p.small) >= p.smallSize() || len(p.main) == 0 {
			p.evictSmall()
		} else {
			p.evictMain()
		}
	}
	p.counts[key] = 0
	if p.ghosts.cut(key) {
		p.main.push(key)
	} else {
		p.small.push(key)
	}
	return false
}

func (p *naiveS3) evictSmall() {
	for n := p.Len(); p.Len() == n && len(p.small) > 0; {
		key := p.small.pop()
		if p.counts[key] > 1 {
			p.counts[key] = 0
			if p.main.push(key); len(p.main) > p.capacity-p.smallSize() {
				p.evictMain()
			}
			continue
		}
		if p.ghosts.push(key); len(p.ghosts) > max(1, p.capacity-p.smallSize()) {
			p.ghosts.pop()
		}
	}
}

func (p *naiveS3) evictMain() {
	for {
		key := p.main.pop()
		if p.counts[key] == 0 {
			return
		}
		p.counts[key]--
		p.main.push(key)
	}
}

func TestS3FIFOAgreesWithItsReference(t *testing.T) {
	agree(t, func(c int) cache { return sim.NewS3FIFO(c) }, func(c int) cache {
		return &naiveS3{capacity: c, counts: map[uint64]int{}}
	})
}

// naiveARC is ARC as figure 4 of its paper has it.
type naiveARC struct {
	c              int
	p              float64
	t1, t2, b1, b2 queue
}

func (p *naiveARC) Len() int { return len(p.t1) + len(p.t2) }

func (p *naiveARC) Access(key uint64) bool {
	n1, n2 := float64(len(p.b1)), float64(len(p.b2))
	switch {
	case p.t1.cut(key) || p.t2.cut(key):
		p.t2.push(key)
		return true
	case p.b1.has(key):
		p.p = min(float64(p.c), p.p+max(n2/n1, 1))
		p.replace(false)
		p.b1.cut(key)
		p.t2.push(key)
	case p.b2.has(key):
		p.p = max(0, p.p-max(n1/n2, 1))
		p.replace(true)
		p.b2.cut(key)
		p.t2.push(key)
	default:
		p.insert(key)
	}
	return false
}

func (p *naiveARC) insert(key uint64) {
	l1, all := len(p.t1)+len(p.b1), len(p.t1)+len(p.b1)+len(p.t2)+len(p.b2)
	switch {
	case l1 == p.c && len(p.t1) < p.c:
		p.b1.pop()
		p.replace(false)
	case l1 == p.c:
		p.t1.pop()
	case all >= p.c:
		if all == 2*p.c {
			p.b2.pop()
		}
		p.replace(false)
	}
	p.t1.push(key)
}

func (p *naiveARC) replace(inB2 bool) {
	if n := float64(len(p.t1)); n >= 1 && (inB2 && n == p.p || n > p.p) {
		p.b1.push(p.t1.pop())
	} else {
		p.b2.push(p.t2.pop())
	}
}

func TestARCAgreesWithItsReference(t *testing.T) {
	agree(t, func(c int) cache { return sim.NewARC(c) }, func(c int) cache { return &naiveARC{c: c} })
}

// naiveLIRS has a stack of all keys by last use, and the kind of each key: hot, cold or ghost.
type naiveLIRS struct {
	capacity            int
	stack, cold, ghosts queue
	hot                 map[uint64]bool
}

func (p *naiveLIRS) Len() int { return len(p.hot) + len(p.cold) }

func (p *naiveLIRS) Access(key uint64) bool {
	inStack, inCold := p.stack.cut(key), p.cold.cut(key)
	hit := p.hot[key] || inCold
	if !hit && p.Len() == p.capacity {
		p.evict()
	}
	p.stack.push(key)
	switch limit := p.capacity - max(1, p.capacity/100); {
	case p.hot[key]:
	case inStack && (inCold || p.ghosts.cut(key)) || !hit && len(p.hot) < limit:
		p.hot[key] = true
		p.prune()
		if len(p.hot) > limit {
			oldest := p.stack.pop()
			delete(p.hot, oldest)
			p.cold.push(oldest)
		}
	default:
		p.cold.push(key)
	}
	p.prune()
	return hit
}

func (p *naiveLIRS) evict() {
	key := p.cold.pop()
	if !p.stack.has(key) {
		return
	}
	if p.ghosts.push(key); len(p.ghosts) > 2*p.capacity {
		p.stack.cut(p.ghosts.pop())
	}
}

// prune removes the keys below the hot key with the oldest last use.
func (p *naiveLIRS) prune() {
	for len(p.stack) > 0 && !p.hot[p.stack[0]] {
		p.ghosts.cut(p.stack.pop())
	}
}

func TestLIRSAgreesWithItsReference(t *testing.T) {
	agree(t, func(c int) cache { return sim.NewLIRS(c) }, func(c int) cache {
		return &naiveLIRS{capacity: c, hot: map[uint64]bool{}}
	})
}
