package evict

import "fmt"

// fifo evicts the entry added first. Hits change nothing.
type fifo struct {
	unsized
	nodes *slab
	queue list // the sizes are one
}

func (p *fifo) insert(i, _ uint32, _ bool) { p.queue.push(p.nodes, i, 1) }

func (p *fifo) remove(i uint32) { p.queue.remove(p.nodes, i, 1) }

func (p *fifo) evict(_ Standing, keep uint32, _ int64) uint32 {
	i := p.queue.head
	if i != 0 && i == keep {
		i = p.nodes.node(i).next
	}
	if i != 0 {
		p.remove(i)
	}
	return i
}

func (p *fifo) each(yield func(uint32)) {
	for i := p.queue.head; i != 0; i = p.nodes.node(i).next {
		yield(i)
	}
}

func (p *fifo) take(_ policy, _, ours uint32) { p.insert(ours, 0, false) }

func (p *fifo) validate(entries map[*Head]bool) error {
	if p.queue.n != len(entries) {
		return fmt.Errorf("queue holds %d, want %d", p.queue.n, len(entries))
	}
	return p.queue.validate(p.nodes, entries, func(uint32) int64 { return 1 })
}

// lru evicts the entry with the oldest last use. Adding is a use.
type lru struct{ fifo }

func (p *lru) hit(i uint32) {
	// The last one used is often used again, and is in its place already.
	if p.queue.tail != i {
		p.remove(i)
		p.queue.push(p.nodes, i, 1)
	}
}

// hottest ranks nodes by their place in the queue.
func (p *lru) hottest(yield func(i uint32, rank uint64) bool) {
	rank := ^uint64(0)
	for i := p.queue.tail; i != 0 && yield(i, rank); i = p.nodes.node(i).prev {
		rank--
	}
}
