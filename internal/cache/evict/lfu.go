package evict

import "fmt"

// lfu evicts the entry with the fewest uses since it was added; among several, the one
// with the oldest last use. Adding is a use. Uses are counted in full, and forgotten
// when an entry leaves.
//
// Nodes with the same number of uses are in one bucket, and buckets are in a list, so
// that each operation takes constant time (Shah, Mitra, Matani, "An O(1) algorithm for
// implementing the LFU cache eviction scheme", 2010). The mark of a node is the number
// of its bucket. Bucket zero stands for the two ends of the list.
//
// Invariant: buckets are in the order of their uses, and none but the ends is empty.
type lfu struct {
	unsized
	nodes   *slab
	buckets []bucket
	free    uint32 // the first of the free buckets, which are linked by next
}

// bucket is the queue of the nodes with a number of uses.
type bucket struct {
	list       // the sizes are one
	uses       uint64
	prev, next uint32
}

func (p *lfu) insert(i, _ uint32, _ bool) {
	if p.buckets == nil {
		p.buckets = make([]bucket, 1)
	}
	p.put(i, 0, 1)
}

func (p *lfu) hit(i uint32) {
	at := p.nodes.node(i).mark
	b := &p.buckets[at]
	if uses := b.uses + 1; b.n > 1 || p.buckets[b.next].uses == uses {
		b.remove(p.nodes, i, 1)
		p.put(i, at, uses)
		p.tidy(at)
	} else {
		b.uses = uses // the bucket stays the node's own
	}
}

func (p *lfu) remove(i uint32) {
	at := p.nodes.node(i).mark
	p.buckets[at].remove(p.nodes, i, 1)
	p.tidy(at)
}

// put adds a node to the bucket for a number of uses. If there is no such bucket, put makes it
// behind the bucket before.
func (p *lfu) put(i, before uint32, uses uint64) {
	at := p.buckets[before].next
	// Uses rise by one at a time, so the bucket is the next one or does not exist.
	if at == 0 || p.buckets[at].uses != uses {
		at = p.make(before, uses)
	}
	p.nodes.node(i).mark = at
	p.buckets[at].push(p.nodes, i, 1)
}

// make adds an empty bucket to the list, after another.
func (p *lfu) make(before uint32, uses uint64) uint32 {
	at := p.free
	if at != 0 {
		p.free = p.buckets[at].next
	} else {
		at = uint32(len(p.buckets))
		p.buckets = append(p.buckets, bucket{})
	}
	next := p.buckets[before].next
	p.buckets[at] = bucket{uses: uses, prev: before, next: next}
	p.buckets[before].next, p.buckets[next].prev = at, at
	return at
}

// tidy frees a bucket if it is empty.
func (p *lfu) tidy(at uint32) {
	b := &p.buckets[at]
	if b.n > 0 {
		return
	}
	p.buckets[b.prev].next, p.buckets[b.next].prev = b.next, b.prev
	b.next, p.free = p.free, at
}

func (p *lfu) evict(_ Standing, keep uint32, _ int64) uint32 {
	if p.buckets == nil {
		return 0
	}
	at := p.buckets[0].next
	i := p.buckets[at].head
	if i != 0 && i == keep {
		// The kept entry is alone in its bucket. The next bucket is not empty, unless it stands for
		// the end.
		if i = p.nodes.node(i).next; i == 0 {
			i = p.buckets[p.buckets[at].next].head
		}
	}
	if i != 0 {
		p.remove(i)
	}
	return i
}

func (p *lfu) each(yield func(uint32)) {
	if p.buckets == nil {
		return
	}
	for at := p.buckets[0].next; at != 0; at = p.buckets[at].next {
		for i := p.buckets[at].head; i != 0; i = p.nodes.node(i).next {
			yield(i)
		}
	}
}

// take needs nodes with rising uses: the last bucket is the node's, or it gets one behind.
func (p *lfu) take(from policy, theirs, ours uint32) {
	if p.buckets == nil {
		p.buckets = make([]bucket, 1)
	}
	f := from.(*lfu)
	uses, last := f.buckets[f.nodes.node(theirs).mark].uses, p.buckets[0].prev
	if p.buckets[last].uses == uses {
		last = p.buckets[last].prev
	}
	p.put(ours, last, uses)
}

// hottest ranks nodes by their uses.
func (p *lfu) hottest(yield func(i uint32, rank uint64) bool) {
	if p.buckets == nil {
		return
	}
	for at := p.buckets[0].prev; at != 0; at = p.buckets[at].prev {
		b := &p.buckets[at]
		for i := b.tail; i != 0; i = p.nodes.node(i).prev {
			if !yield(i, b.uses) {
				return
			}
		}
	}
}

func (p *lfu) validate(entries map[*Head]bool) error {
	if p.buckets == nil {
		return nil
	}
	held, lost := 0, len(p.buckets)-1
	for at, last := p.buckets[0].next, uint32(0); at != 0; last, at = at, p.buckets[at].next {
		b := &p.buckets[at]
		if b.prev != last || b.uses <= p.buckets[last].uses || b.n == 0 {
			return fmt.Errorf("bucket %d of %d uses is empty or does not belong after %d", at, b.uses, last)
		}
		if err := b.validate(p.nodes, entries, func(uint32) int64 { return 1 }); err != nil {
			return err
		}
		lost--
		held += b.n
	}
	for at := p.free; at != 0; at = p.buckets[at].next {
		lost--
	}
	if held != len(entries) || lost != 0 || p.buckets[0].n != 0 {
		return fmt.Errorf("%d nodes in buckets, want %d; %d buckets are lost", held, len(entries), lost)
	}
	return nil
}
