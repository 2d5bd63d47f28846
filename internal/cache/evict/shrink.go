package evict

// shrink gives memory back when an entry has left and less than half of the nodes have one: the entries of the last two
// nodes get others, and a chunk without nodes goes. So a shard that was large once takes as much memory as a shard of twice
// its entries, and no removal takes long.
func (o *Order) shrink() {
	for range 2 {
		if o.nodes.used <= chunkNodes || 2*o.n >= int(o.nodes.used) {
			return
		}
		o.dropLast()
	}
}

// dropLast drops the last node. Its entry gets a free one.
func (o *Order) dropLast() {
	b := &o.nodes
	last := b.used
	if b.head(last) == nil {
		b.unlink(last)
	} else {
		free := b.free
		b.unlink(free)
		o.move(last, free)
	}
	b.used--
	if last&chunkMask == 0 { // it was the only one of its chunk
		b.chunks[last>>chunkBits] = nil
		b.chunks = b.chunks[:last>>chunkBits]
		o.policy.shrunk(o.n)
	}
}

// move gives the entry of node i the node j, with all that i has. No entry has j, and j is not among the free nodes.
func (o *Order) move(i, j uint32) {
	b := &o.nodes
	h := b.head(i)
	b.chunks[j>>chunkBits].heads[j&chunkMask], b.chunks[i>>chunkBits].heads[i&chunkMask] = h, nil
	h.node = j
	*b.node(j) = *b.node(i)
	b.setWeight(j, b.weight(i))
	if sampled(j) {
		at := int64(0) // not known
		if sampled(i) {
			at = *b.bornAt(i)
		}
		*b.bornAt(j) = at
	}
	o.wheel.moved(b, i, j)
	if b.weight(j) != Pinned {
		o.policy.moved(j)
	}
}

// unlink takes a node out of the free ones.
func (b *slab) unlink(i uint32) {
	x := b.node(i)
	if x.prev == 0 {
		b.free = x.next
	} else {
		b.node(x.prev).next = x.next
	}
	if x.next != 0 {
		b.node(x.next).prev = x.prev
	}
}

// moved is told that node j has the links of another one, which has left.
func (l *list) moved(b *slab, j uint32) {
	x := b.node(j)
	if x.prev == 0 {
		l.head = j
	} else {
		b.node(x.prev).next = j
	}
	if x.next == 0 {
		l.tail = j
	} else {
		b.node(x.next).prev = j
	}
}

// moved gives the place of node i to node j.
func (w *wheel) moved(b *slab, i, j uint32) {
	if !b.timed(i) {
		return
	}
	t := *b.timer(i)
	*b.timer(i) = timer{}
	switch {
	case t.prev == 0:
		return
	case t.prev&slotMark != 0:
		w.slots[t.prev&^slotMark] = j
	default:
		b.timer(t.prev).next = j
	}
	if t.next != 0 {
		b.timer(t.next).prev = j
	}
	*b.timer(j) = t
}

func (p *fifo) moved(j uint32) { p.queue.moved(p.nodes, j) }

func (p *lfu) moved(j uint32) { p.buckets[p.nodes.node(j).mark].moved(p.nodes, j) }

func (p *random) moved(j uint32) { p.all[p.nodes.node(j).mark] = j }

func (p *a3fifo) moved(j uint32) { p.queue(p.nodes.node(j).mark&queueMask).moved(p.nodes, j) }

// fewer says how many times as many entries a history or a list has room for if it is made anew.
const fewer = 4

func (unsized) shrunk(int) {}

func (p *random) shrunk(n int) {
	if cap(p.all) > fewer*max(n, chunkNodes) {
		p.all = append(make([]uint32, 0, 2*n), p.all...)
	}
}

// shrunk forgets the ghosts of a shard that was much larger: a history is as large as the shard was when it was made.
func (p *a3fifo) shrunk(n int) {
	if p.ghosts.room > fewer*max(n, chunkNodes) {
		p.ghosts = ghosts{}
	}
}
