package evict

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Forever is later than every time: the deadline of an entry that lives until it is
// evicted or deleted.
const Forever int64 = math.MaxInt64

const (
	// MaxUses is the largest number of uses that a Head counts. It is a mask too: uses
	// are the low bits of State.
	MaxUses = 3
	// UsesBits is the number of those bits.
	UsesBits = 2

	// Idles is the bit of State for an entry with an idle life: reads prolong it.
	Idles = 1 << UsesBits
	// SettledBits are the bits of State that show whether a hit changes anything: it
	// changes nothing if all of MaxUses are set, and Idles is not.
	SettledBits = MaxUses | Idles

	// shardShift is the number of bits below the number of the shard.
	shardShift = UsesBits + 1
	shardBits  = StampShift - shardShift
	// MaxShards is the largest number of shards.
	MaxShards = 1 << shardBits
	// StampShift is the number of bits below the stamp; see Idle.
	StampShift = 14
)

// Head is the common part of all entries, independent of the types of key and value.
// An entry begins with its Head.
type Head struct {
	// Dead is the time from which the entry is never served.
	Dead int64
	// State is, in its low bits, the number of recent hits up to MaxUses, which
	// readers write; above them Idles, the number of the entry's shard, and, with Idles,
	// the time of the last read; see Idle.
	State atomic.Uint32
	// node is the entry's number in the slab of its Order. It is set before the
	// entry is published; zero before that.
	node uint32
}

// Uses returns the number of recent hits.
func (h *Head) Uses() uint32 { return h.State.Load() & MaxUses }

// SetUses changes the number of hits.
func (h *Head) SetUses(n uint32) {
	for u := h.State.Load(); !h.State.CompareAndSwap(u, u&^MaxUses|n); u = h.State.Load() {
	}
}

// Touch records a hit. It never writes the cache line of an entry with a full counter. Of two hits
// at the same moment one may not be counted, which is harmless. The later of two stamps is never
// lost.
func (h *Head) Touch() {
	if u := h.State.Load(); u&MaxUses < MaxUses {
		h.State.CompareAndSwap(u, u+1)
	}
}

// Shard returns the number of the entry's shard.
func (h *Head) Shard() int { return int(h.State.Load() >> shardShift & (MaxShards - 1)) }

// SetShard changes the number of the entry's shard.
func (h *Head) SetShard(n uint32) {
	const mask = (MaxShards - 1) << shardShift
	for u := h.State.Load(); !h.State.CompareAndSwap(u, u&^mask|InShard(n)); u = h.State.Load() {
	}
}

// InShard returns the bits of State for the number of a shard.
func InShard(n uint32) uint32 { return n << shardShift }

const (
	// stampMask selects the stamp from State>>StampShift.
	stampMask = 1<<(32-StampShift) - 1
	// ahead is the number of units by which a stamp may be later than the time of a
	// reader, which is late while its clock is coarse. A stamp that seems further ahead
	// is from a long time ago.
	ahead = 1024
)

// Idle is the time for which an entry lives without being read. The zero Idle means
// that reads do not matter.
//
// The time of the last read is in the high bits of Head.State, the stamp: a number of
// units since the start of the clock, modulo 2^18. A unit is a power of two of
// nanoseconds, between a sixteenth and an eighth of Life, so that a hit in the unit of
// the stamp writes nothing. Life counts from the begin of the unit. So an entry ends
// between 7/8 of Life and all of Life after its last read.
//
// Invariant: in one Head, a stamp is only replaced by a later one, and every writer of
// State keeps the stamp that it finds. So a read is lost only if at the same moment
// another entry replaces its entry, and inherits the stamp.
type Idle struct {
	// Life is in nanoseconds; zero means that reads do not matter.
	Life int64
	// Shift is the number of low bits of a time within one unit.
	Shift uint8
}

// NewIdle returns the Idle of a life. A life counts as none if it is zero or negative,
// or longer than a century.
func NewIdle(life time.Duration) Idle {
	const century = 100 * 365 * 24 * time.Hour
	if life <= 0 || life > century {
		return Idle{}
	}
	return Idle{Life: int64(life), Shift: uint8(max(0, bits.Len64(uint64(life)/8)-1))}
}

// Stamp returns the bits of State, Idles among them, for a read at now; none if reads do
// not matter.
func (i *Idle) Stamp(now int64) uint32 {
	if i.Life == 0 {
		return 0
	}
	return uint32(i.unit(now))<<StampShift | Idles
}

// unit returns the number of the unit of a time.
func (i *Idle) unit(now int64) int64 { return now >> (i.Shift & 63) }

// Settled reports whether a hit at now changes nothing in an entry with such a State and
// an idle life.
func (i *Idle) Settled(state uint32, now int64) bool {
	return state&^(MaxShards-1<<shardShift) == uint32(i.unit(now))<<StampShift|Idles|MaxUses
}

// age returns the number of units from the stamp of a state to now; less than zero if
// the stamp is later.
func (i *Idle) age(state uint32, now int64) int64 {
	age := (i.unit(now) - int64(state>>StampShift)) & stampMask
	if age > stampMask-ahead {
		age -= stampMask + 1
	}
	return age
}

// until returns the end of an entry with a state.
func (i *Idle) until(state uint32, now int64) int64 {
	return (i.unit(now)-i.age(state, now))<<i.Shift + i.Life
}

// End returns the time from which h is not served any more, unless a read comes before.
func (i *Idle) End(h *Head, now int64) int64 {
	if i.Life == 0 {
		return h.Dead
	}
	return min(h.Dead, i.until(h.State.Load(), now))
}

// Over reports whether h has ended at now.
func (i *Idle) Over(h *Head, now int64) bool { return i.End(h, now) <= now }

// Read records a read of h at now, which is before its deadline Dead, and reports
// whether its idle life had not ended either. It needs a Life.
func (i *Idle) Read(h *Head, now int64) (alive bool) {
	for {
		u := h.State.Load()
		age := i.age(u, now)
		if age > 0 && i.until(u, now) <= now {
			return false
		}
		if age <= 0 || h.State.CompareAndSwap(u, u&(1<<StampShift-1)|i.Stamp(now)) {
			return true
		}
	}
}

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
// take constant time, and adding allocates once per chunkNodes nodes. A node takes 24 bytes, 32 with
// deadlines. There are up to twice as many as entries; see Order.shrink.
type slab struct {
	idle   Idle
	chunks []*chunk
	free   uint32 // the first of the free nodes, which are linked by prev and next
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
		b.unlink(i)
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
	b.node(i).prev, b.node(i).next = 0, b.free
	if b.free != 0 {
		b.node(b.free).prev = i
	}
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
