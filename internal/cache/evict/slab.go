package evict

// chunkNodes is the number of nodes that a slab allocates at once; a power of
// two.
const (
	chunkBits  = 7
	chunkNodes = 1 << chunkBits
	chunkMask  = chunkNodes - 1
)

// node is the part of an entry that only writers need: its place in a queue of
// the policy. Nodes are linked by numbers instead of pointers, so the garbage
// collector does not look at them, and a new entry of the same key takes over the
// node without relinking anything. The number zero stands for no node.
type node struct {
	prev, next uint32
	// hash is the low half of the key's hash, which is enough to find the entry
	// in its table and in the history.
	hash uint32
	// mark is the time of the policy's insert clock, and in its low bits the
	// queue. See a3fifo.
	mark uint32
}

// chunk holds a number of nodes. All pointers come first: the collector stops
// after the last one.
type chunk struct {
	heads   [chunkNodes]*Head
	timers  *[chunkNodes]timer // nil until an entry of the chunk has a deadline
	weights *[chunkNodes]int64 // nil while all entries of the chunk weigh one
	born    [chunkNodes >> sampleBits]int64
	nodes   [chunkNodes]node
}

// slab holds the nodes of one shard. The zero slab is empty. Adding and removing
// take constant time, and adding allocates once per chunkNodes nodes. A slab keeps
// its largest size until the shard is emptied: 24 bytes an entry, 32 with
// deadlines.
type slab struct {
	idle   Idle
	chunks []*chunk
	free   uint32 // the first of the free nodes, which are linked by next
	used   uint32 // all nodes up to this number have been used
}

// node returns the node with a number.
func (b *slab) node(i uint32) *node { return &b.chunks[i>>chunkBits].nodes[i&chunkMask] }

// head returns the entry of a node.
func (b *slab) head(i uint32) *Head { return b.chunks[i>>chunkBits].heads[i&chunkMask] }

// over reports whether the entry of a node has ended at now.
func (b *slab) over(i uint32, now int64) bool { return b.idle.Over(b.head(i), now) }

// holds reports whether h is the entry of its node.
func (b *slab) holds(h *Head) bool { return h.node != 0 && h.node <= b.used && b.head(h.node) == h }

// sampleBits says that one node in 2^sampleBits keeps the time at which its value was stored.
// Nodes are given to entries without regard to their keys, so these are a sample.
const (
	sampleBits = 6
	sampleMask = 1<<sampleBits - 1
)

// sampled reports whether a node keeps the time at which its value was stored.
func sampled(i uint32) bool { return i&sampleMask == 0 }

// bornAt returns the place of that time, of a sampled node.
func (b *slab) bornAt(i uint32) *int64 {
	return &b.chunks[i>>chunkBits].born[i&chunkMask>>sampleBits]
}

// add gives an entry a node.
func (b *slab) add(h *Head, hash uint32, weight int64) {
	i := b.free
	if i != 0 {
		b.free = b.node(i).next
	} else {
		b.used++
		i = b.used
		if int(i>>chunkBits) == len(b.chunks) {
			b.chunks = append(b.chunks, new(chunk))
		}
	}
	h.node = i
	b.chunks[i>>chunkBits].heads[i&chunkMask] = h
	*b.node(i) = node{hash: hash}
	b.setWeight(i, weight)
}

// replace gives the node of old to h.
func (b *slab) replace(old, h *Head) {
	i := old.node
	h.node = i
	b.chunks[i>>chunkBits].heads[i&chunkMask] = h
}

// remove frees a node.
func (b *slab) remove(i uint32) {
	b.chunks[i>>chunkBits].heads[i&chunkMask] = nil
	b.node(i).next = b.free
	b.free = i
}

// weight returns the weight of a node's entry.
func (b *slab) weight(i uint32) int64 {
	if w := b.chunks[i>>chunkBits].weights; w != nil {
		return w[i&chunkMask]
	}
	return 1
}

// setWeight sets the weight of a node's entry.
func (b *slab) setWeight(i uint32, weight int64) {
	c := b.chunks[i>>chunkBits]
	if c.weights == nil {
		if weight == 1 {
			return
		}
		c.weights = new([chunkNodes]int64)
		for i := range c.weights {
			c.weights[i] = 1
		}
	}
	c.weights[i&chunkMask] = weight
}

// timed reports whether timer does not allocate.
func (b *slab) timed(i uint32) bool { return b.chunks[i>>chunkBits].timers != nil }

// timer returns the timer of a node.
func (b *slab) timer(i uint32) *timer {
	c := b.chunks[i>>chunkBits]
	if c.timers == nil {
		c.timers = new([chunkNodes]timer)
	}
	return &c.timers[i&chunkMask]
}

// list is a queue of nodes, the oldest at its head. The sizes of its nodes are in
// the unit of the policy.
type list struct {
	head, tail uint32
	n          int
	size       int64
}

// push puts a node at the tail.
func (l *list) push(b *slab, i uint32, size int64) {
	x := b.node(i)
	x.prev, x.next = l.tail, 0
	if l.tail == 0 {
		l.head = i
	} else {
		b.node(l.tail).next = i
	}
	l.tail = i
	l.n++
	l.size += size
}

// remove takes a node out.
func (l *list) remove(b *slab, i uint32, size int64) {
	x := b.node(i)
	if x.prev == 0 {
		l.head = x.next
	} else {
		b.node(x.prev).next = x.next
	}
	if x.next == 0 {
		l.tail = x.prev
	} else {
		b.node(x.next).prev = x.prev
	}
	l.n--
	l.size -= size
}
