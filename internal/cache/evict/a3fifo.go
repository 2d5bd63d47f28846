package evict

import "math/bits"

const (
	// leastSmall and mostSmall bound the share of the small queue, in percent.
	leastSmall, mostSmall = 1, 99
	// margin is a share of the capacity, in percent. A returning key lengthens a queue that
	// was too short for it by no more than this share: a longer one would have kept the key.
	margin = 8
	// growthShare is the part of a shard's entries by which the small queue grows at once.
	growthShare = 1024
	// promoteUses is the number of hits in the small queue that take an entry to
	// the main queue.
	promoteUses = 2
	// handSteps bounds the work of one eviction: after that many second chances the
	// oldest entry is the victim, whether used or not.
	handSteps = 32
	// An entry is heavy if it is larger than heavyShare percent of the entries in its shard
	// together, and than heavyMean mean ones.
	heavyShare, heavyMean = 1, 2
	// clockBits is the number of bits that the capacity takes in a node's mark, and coarser how many
	// more it may take until the marks get another unit.
	clockBits, coarser = 22, 4

	// losing and missed are two shares. Promotions do not pay if less than losing of
	// the trials end with a hit. They do harm if missed or more of main's victims
	// come back.
	losing, missed = 0.2, 0.1
	// spare: main has room to give while so many of its victims do not come back.
	spare = 0.97
	// passing: one promotion in so many passes the brake, so that it can end.
	passing = 64
)

// The queue that a node is in: the low two bits of its mark. An entry on trial is in
// main: it was promoted in the place of another, and not seen to be hit since.
const (
	inSmall   = 1
	inMain    = 2
	onTrial   = 3
	queueBits = 2
	queueMask = 1<<queueBits - 1
)

// a3fifo is the policy A3-FIFO for one shard: see the documentation of the package.
//
// Times are of two clocks: clock sums the sizes of inserted entries, mainClock the
// sizes of the entries that main has evicted. Sizes are weights, or one for each
// entry if only their number is bounded. All methods need the shard's mutex.
type a3fifo struct {
	nodes    *slab
	weighted bool
	// full says that the cache had no room when the last entry was admitted, cut that an entry was
	// evicted since.
	full, cut bool
	// shift is the number of low bits of the clock left out of a node's mark.
	shift uint8
	// share is the shard's part of the bound. room is the size that the last evictions have left,
	// for a new entry or for a guard: zero if the cache was not full yet, or if the shard has lost half
	// of its entries since.
	share, room int64
	small, main list
	// part is the share of the capacity beyond which the small queue makes room. It is no size: the
	// capacity of a cache with room is its bound, which may be a thousand times as large as the
	// contents when another bound makes it full.
	part  float64
	clock uint64
	// mainClock is the sum of the sizes that main has evicted.
	mainClock uint64
	ghosts    ghosts
	brake     brake
}

// fit makes the policy ready for a share of the bound, and forgets the ghosts. The
// sizes are summed anew if the bound was of another kind.
func (p *a3fifo) fit(share int64, weighted bool) {
	same := p.weighted == weighted
	change := func() { p.share, p.room, p.weighted = max(1, share), 0, weighted }
	if same {
		p.resized(change)
	} else {
		change() // a length in other units means nothing
	}
	if shift := shiftOf(p.share); shift != p.shift {
		p.remark(shift)
	}
	p.ghosts = ghosts{}
	for _, l := range []*list{&p.small, &p.main} {
		if same {
			break
		}
		l.size = 0
		for i := l.head; i != 0; i = p.nodes.node(i).next {
			l.size += p.size(i)
		}
	}
	p.setTarget(p.target())
}

// resized changes the capacity. The small queue keeps its share in a smaller shard, and its length in a larger one: the share that
// a small shard has learned, in few steps, may be wrong for a large one, and takes many steps to forget.
func (p *a3fifo) resized(change func()) {
	length := p.target()
	change()
	p.setTarget(min(length, p.target()))
}

// shiftOf returns the unit of marks for a capacity.
func shiftOf(capacity int64) uint8 { return uint8(max(0, bits.Len64(uint64(capacity))-clockBits)) }

// remark changes the unit of all marks.
func (p *a3fifo) remark(shift uint8) {
	p.each(func(i uint32) {
		x := p.nodes.node(i)
		x.mark = uint32((p.clock-uint64(p.idle(i)))>>shift)<<queueBits | x.mark&queueMask
	})
	p.shift = shift
}

// sizeOf returns the size of an entry of a given weight, size the size of a node's
// entry.
func (p *a3fifo) sizeOf(weight int64) int64 {
	if p.weighted {
		return weight
	}
	return 1
}

func (p *a3fifo) size(i uint32) int64 { return p.sizeOf(p.nodes.weight(i)) }

// total is the size of all entries.
func (p *a3fifo) total() int64 { return p.small.size + p.main.size }

// capacity is the size for which the shard has room. In a full cache it is the size of its entries:
// shards differ, and the bound may be of another kind. It is no more than the last evictions have
// left: a guard evicts many at once, and between two such cuts main must not take keys without a
// trial. A cache that was full a moment ago has the room that it had then, or its share.
func (p *a3fifo) capacity() int64 {
	switch {
	case p.full && p.room > 0:
		return max(1, min(p.room, p.total()))
	case p.full:
		return max(1, p.total())
	case p.room > 0:
		return max(p.room, p.total())
	}
	return max(p.share, p.total())
}

// mainTarget is the size that main is filled to.
func (p *a3fifo) mainTarget() int64 {
	c := p.capacity()
	return c - p.targetOf(c)
}

// mean is the mean size of an entry, at least one.
func (p *a3fifo) mean() int64 {
	return max(1, p.total()/int64(max(1, p.small.n+p.main.n)))
}

// target is the size beyond which the small queue makes room.
func (p *a3fifo) target() int64 { return p.targetOf(p.capacity()) }

func (p *a3fifo) targetOf(capacity int64) int64 {
	return max(1, int64(p.part*float64(capacity)+0.5))
}

// setTarget sets the target of the small queue, within its bounds.
func (p *a3fifo) setTarget(target int64) {
	c := p.capacity()
	least := max(1, c*leastSmall/100)
	if p.weighted {
		least = min(max(least, 2*p.mean()), max(1, c/4))
	}
	p.part = float64(max(least, min(target, percent(c, mostSmall)))) / float64(c)
}

// percent returns a share of a size, without an overflow.
func percent(size, share int64) int64 { return size/100*share + size%100*share/100 }

// idle returns the time, by the clock, for which a node has been in its place.
func (p *a3fifo) idle(i uint32) int64 {
	const wrap = 1<<(32-queueBits) - 1
	return int64((uint32(p.clock>>p.shift)-p.nodes.node(i).mark>>queueBits)&wrap) << p.shift
}

// put adds a node to the tail of a queue and sets its mark to now.
func (p *a3fifo) put(i uint32, queue uint32) {
	p.nodes.node(i).mark = uint32(p.clock>>p.shift)<<queueBits | queue
	p.queue(queue).push(p.nodes, i, p.size(i))
}

// queue returns the list with a number.
func (p *a3fifo) queue(queue uint32) *list {
	if queue == inSmall {
		return &p.small
	}
	return &p.main
}

// remove takes a node out of its queue.
func (p *a3fifo) remove(i uint32) {
	p.queue(p.nodes.node(i).mark&queueMask).remove(p.nodes, i, p.size(i))
}

// resize corrects the sum of sizes when the weight of a node changes.
func (p *a3fifo) resize(i uint32, old, weight int64) {
	if p.weighted {
		p.queue(p.nodes.node(i).mark & queueMask).size += weight - old
	}
}

// admit advances the clock for a new entry of the given hash and weight, adapts the
// queues if it is a returning ghost, and returns the queue for it. full says that
// the cache has no room for it.
func (p *a3fifo) admit(hash uint32, weight int64, full bool) (queue uint32) {
	size := max(0, p.sizeOf(weight)) // a pinned entry has none
	switch {
	case full && (p.cut || !p.full):
		p.room, p.cut = p.total(), false
	case full && p.total() > p.room+p.room/4: // it has grown under a guard
		p.resized(func() { p.room = p.total() })
	case !full && p.total() < p.room/2:
		p.room = 0
	}
	if p.full != full {
		p.full = full
		p.setTarget(p.target())
		// The bound may be so much larger than the contents that all marks are alike in its unit.
		if shift := shiftOf(p.capacity()); full && shift < p.shift {
			p.remark(shift)
		}
	}
	if p.total()>>p.shift >= 1<<(clockBits+coarser) { // weights have become larger
		p.remark(shiftOf(p.total()))
	}
	p.clock += uint64(size)
	g, ok := p.ghosts.take(hash, p.clock, p.mainClock)
	if !ok {
		return inSmall
	}
	near := max(1, percent(p.capacity(), margin))
	if g.fromMain {
		p.returned(g.age, near)
		return inSmall
	}
	if g.age <= p.small.size+near || p.brake.gone > spare && g.age <= percent(p.capacity(), mostSmall) {
		p.setTarget(p.target() + p.growth())
	}
	if p.main.size+size <= p.mainTarget() {
		return inMain
	}
	v := p.hand(0)
	if v == 0 || float64(g.age)*float64(size) >= float64(p.idle(v))*float64(p.size(v)) || p.brake.holds(hash, p.clock) {
		return inSmall
	}
	return onTrial
}

// refuses reports whether a full shard does without a new entry. A heavy one may push out many
// that are in use, so it must prove its use first: it is taken when main has evicted it
// before, or when it comes back sooner than main's victim was read, each time multiplied
// by the size. Till then only its key is remembered.
func (p *a3fifo) refuses(hash uint32, weight int64) bool {
	if !p.weighted || weight <= p.total()/100*heavyShare || weight <= heavyMean*p.mean() {
		return false
	}
	if g, ok := p.ghosts.take(hash, p.clock, p.mainClock); ok {
		v := p.hand(0)
		if g.fromMain || v == 0 || float64(g.age)*float64(weight) < float64(p.idle(v))*float64(p.size(v)) {
			return false
		}
	}
	p.remember(hash, false, p.clock)
	return true
}

// growth is the size by which the small queue is lengthened at once. In a large shard one entry
// is too little where recency alone counts. But loops over few more keys than fit ask for a
// longer and for a shorter queue in turn, and large steps lose much: main's victims come back.
func (p *a3fifo) growth() int64 {
	if p.brake.returns >= missed/2 {
		return p.mean()
	}
	return p.mean() * max(1, int64(p.small.n+p.main.n)/growthShare)
}

// returned learns from the return of a key that main has evicted.
func (p *a3fifo) returned(age, near int64) {
	if age < near {
		p.setTarget(p.target() - p.mean())
	}
	if age < p.main.size {
		p.brake.back(p.main.n)
	}
}

// insert adds the node of a new entry to a queue. evicted says that the cache was full.
//
// The small queue fills main once. Later holes are what heavy entries have left, and
// main had to make room for these: only proven entries fill it again.
func (p *a3fifo) insert(i, queue uint32, evicted bool) {
	x := p.small.head
	hole := p.weighted && p.room > 0
	if queue == inSmall && !evicted && !hole && x != 0 && p.small.size >= p.target() {
		p.move(x)
	}
	p.put(i, queue)
}

// move takes a node from the small queue to main. Its mark stays: the entry has
// not been proven since.
func (p *a3fifo) move(i uint32) {
	p.small.remove(p.nodes, i, p.size(i))
	x := p.nodes.node(i)
	x.mark = x.mark&^queueMask | inMain
	p.main.push(p.nodes, i, p.size(i))
}

// hand moves hit entries from main's head to the tail, and returns the first entry
// without a hit; zero if handSteps do not find one. It never returns keep.
func (p *a3fifo) hand(keep uint32) uint32 {
	for range handSteps {
		i := p.main.head
		if i == 0 {
			return 0
		}
		if i != keep {
			h := p.nodes.head(i)
			u := h.Uses()
			if u == 0 {
				return i
			}
			h.SetUses(u - 1)
			p.judge(i, true)
		}
		p.main.remove(p.nodes, i, p.size(i))
		p.put(i, inMain)
	}
	return 0
}

// judge ends the trial of an entry, if it is on one.
func (p *a3fifo) judge(i uint32, hit bool) {
	if p.nodes.node(i).mark&queueMask == onTrial {
		p.brake.judge(hit, p.main.n)
	}
}

// evict takes an entry out of its queue and returns its node; zero if there is none
// but keep. An entry dead at now goes first, wherever the hands meet one, and leaves no
// ghost.
//
// A queue makes room for what enters it: its size with the new entry is compared, or a
// heavy one would take its room from the other queue.
func (p *a3fifo) evict(at Standing, keep uint32, now int64) uint32 {
	p.cut = true
	incoming := max(1, p.sizeOf(at.weight))
	if at.queue&inMain != 0 && p.main.size+incoming > p.mainTarget() {
		if i := p.evictMain(keep, now); i != 0 {
			return i
		}
	}
	for range handSteps {
		i := p.small.head
		if i == 0 || p.small.size+incoming <= p.target() && p.main.n > 0 {
			break
		}
		if i != keep && !p.passes(i, now) {
			return p.drop(i, now)
		}
		p.nodes.head(i).SetUses(0)
		p.small.remove(p.nodes, i, p.size(i))
		p.put(i, inMain)
		if p.main.size > p.mainTarget() {
			break
		}
	}
	if i := p.evictMain(keep, now); i != 0 {
		return i
	}
	return p.other(&p.small, keep, now)
}

func (p *a3fifo) each(yield func(uint32)) {
	for _, l := range []*list{&p.small, &p.main} {
		for i := l.head; i != 0; i = p.nodes.node(i).next {
			yield(i)
		}
	}
}

// adopt makes the clocks and the experience of from its own. It has no ghosts.
func (p *a3fifo) adopt(from policy) {
	f := from.(*a3fifo)
	p.clock, p.mainClock, p.brake, p.full, p.part = f.clock, f.mainClock, f.brake, f.full, f.part
}

// take keeps the queue and the age of a node. Its mark is in the units of this shard.
func (p *a3fifo) take(from policy, theirs, ours uint32) {
	f := from.(*a3fifo)
	queue := f.nodes.node(theirs).mark & queueMask
	at := p.clock - uint64(f.idle(theirs))
	p.nodes.node(ours).mark = uint32(at>>p.shift)<<queueBits | queue
	p.queue(queue).push(p.nodes, ours, p.size(ours))
}

// passes reports whether the entry at the head of the small queue goes on to main.
func (p *a3fifo) passes(i uint32, now int64) bool {
	u := p.nodes.head(i).Uses()
	return !p.nodes.over(i, now) && (u >= promoteUses || u > 0 && p.main.size < p.mainTarget())
}

// evictMain takes the first entry without a hit out of main, or the oldest.
func (p *a3fifo) evictMain(keep uint32, now int64) uint32 {
	if i := p.main.head; i != 0 && i != keep && p.nodes.over(i, now) {
		return p.drop(i, now)
	}
	if i := p.hand(keep); i != 0 {
		return p.drop(i, now)
	}
	return p.other(&p.main, keep, now)
}

// other takes the oldest entry but keep out of a list.
func (p *a3fifo) other(l *list, keep uint32, now int64) uint32 {
	i := l.head
	if i == keep && i != 0 {
		i = p.nodes.node(i).next
	}
	if i == 0 {
		return 0
	}
	return p.drop(i, now)
}

// drop takes a node out of its queue, remembers its key unless it is dead, and
// returns it.
func (p *a3fifo) drop(i uint32, now int64) uint32 {
	x := p.nodes.node(i)
	fromMain := x.mark&queueMask != inSmall
	at := uint64(x.mark>>queueBits) << p.shift
	if fromMain {
		p.mainClock += uint64(p.size(i))
		at = p.mainClock
		p.brake.out(p.main.n)
		p.judge(i, false)
	}
	p.remove(i)
	if !p.nodes.over(i, now) {
		p.remember(x.hash, fromMain, at)
	}
	return i
}

// remember adds a ghost. The history is made with the first one, and again when
// the number of entries has doubled.
func (p *a3fifo) remember(hash uint32, fromMain bool, at uint64) {
	if n := p.small.n + p.main.n + 1; n > 2*p.ghosts.room {
		p.ghosts = newGhosts(n, max(1, p.total()))
	}
	p.ghosts.add(hash, fromMain, at)
}
