package evict

// Order is the order in which the entries of one shard leave. Call Fit before any
// other method, and do not copy an Order. It is not safe for concurrent use: all
// methods need the shard's mutex, while readers write the uses of heads at any time.
//
// Invariant: from Add to its removal an entry is in exactly one queue of the policy, or
// in none if it is pinned, and, if it has an end, in one slot of the wheel: the slot of
// the end or an earlier one.
type Order struct {
	nodes    slab
	n        int
	pins     int // pinned entries
	share    int64
	weighted bool
	kind     Policy
	policy   policy
	listener listener // the policy, if it must be told of hits; else nil
	a3fifo   a3fifo   // the policy, if it is the default: next to the nodes that it uses
	wheel    wheel
}

// Pinned is the weight of an entry exempt from eviction. It counts as one.
const Pinned = -1

// Counted returns the number with which an entry of a weight counts towards the bound.
func Counted(weight int64) int64 {
	if weight == Pinned {
		return 1
	}
	return weight
}

// Gone is an entry after it has left an Order.
type Gone struct {
	Head *Head
	Hash uint32
	// Weight is the counted weight.
	Weight int64
	// Born is the time of the entry's Stored; zero if the entry is not in the sample.
	Born int64
}

// Fit makes the order ready for a share of the cache's bound: a sum of weights if
// weighted, or a number of entries. It forgets evicted keys. If the bound was of the other kind it
// takes time in proportion to the entries. The policy of the first call stays.
func (o *Order) Fit(p Policy, share int64, weighted bool) {
	if o.policy == nil {
		o.use(p)
	}
	o.share, o.weighted = share, weighted
	o.policy.fit(share, weighted)
}

// SetIdle says how long entries live without being read. It may be called once, before
// an entry is added.
func (o *Order) SetIdle(i Idle) { o.nodes.idle = i }

// Expected returns how many entries the share has room for: if weights are counted, entries that weigh as much
// as the present ones, whose sum of weights is given. It counts no further than most.
func (o *Order) Expected(weight, most int64) int64 {
	if !o.weighted {
		return min(most, max(1, o.share))
	}
	if weight <= 0 {
		return most
	}
	return int64(min(float64(most), float64(o.share)/float64(weight)*float64(o.n))) // integers may overflow
}

// Len returns the number of entries.
func (o *Order) Len() int { return o.n }

// Standing is the decision of the policy where a new entry begins.
type Standing struct {
	queue  uint32
	weight int64 // of the entry; zero for none
}

// Admit tells the policy of a new key before room is made for its entry. full says
// that the cache has no room for it. Call Admit once per entry, and give the result to
// Evict and Add.
func (o *Order) Admit(hash uint32, weight int64, full bool) Standing {
	return Standing{o.policy.admit(hash, weight, full), weight}
}

// Refuses reports whether the policy prefers its entries to a new one, of a key without an
// entry, for which the cache has no room. Only A3FIFO refuses, and only heavy entries. It
// remembers the key. Call Refuses before Admit, if the caller can do without the entry.
func (o *Order) Refuses(hash uint32, weight int64) bool {
	return o.kind == A3FIFO && weight > 0 && o.a3fifo.refuses(hash, weight)
}

// Add adds an entry at now. evicted says that another had to leave for it.
func (o *Order) Add(h *Head, hash uint32, weight int64, at Standing, evicted bool, now int64) {
	o.nodes.add(h, hash, weight)
	o.n++
	if weight == Pinned {
		o.pins++
	} else {
		o.policy.insert(h.node, at.queue, evicted)
	}
	o.wheel.add(&o.nodes, h.node, now)
}

// Replace gives the place of old to h, an entry of the same key, with a new weight, at
// now. The stamp of h is not earlier than the stamp of old.
func (o *Order) Replace(old, h *Head, weight, now int64) {
	before := o.nodes.weight(old.node)
	o.nodes.replace(old, h)
	// A timer may run out early: Overdue and Rearm then move it. So a key written again
	// and again leaves the wheel alone.
	if h.Dead < old.Dead || old.Dead != Forever && h.Dead == Forever {
		o.wheel.remove(&o.nodes, h.node)
		o.wheel.add(&o.nodes, h.node, now)
	}
	if weight != before {
		o.reweigh(h.node, before, weight)
	}
}

// reweigh changes the weight of a node. A node that becomes pinned leaves its queue; a
// node that ceases to be pinned enters a queue like a new entry.
func (o *Order) reweigh(i uint32, before, weight int64) {
	if weight == Pinned {
		o.pins++
		o.policy.remove(i)
	}
	o.nodes.setWeight(i, weight)
	switch {
	case before == Pinned:
		o.pins--
		o.policy.insert(i, o.policy.admit(o.nodes.node(i).hash, weight, false), false)
	case weight != Pinned:
		o.policy.resize(i, before, weight)
	}
}

// Sampled reports whether h, an entry of this order, is in the sample of one in 64 of which
// the order keeps the time of the store.
func (o *Order) Sampled(h *Head) bool { return sampled(h.node) }

// Stored notes that h, an entry of this order and of the sample, was stored at now.
func (o *Order) Stored(h *Head, now int64) { *o.nodes.bornAt(h.node) = now }

// Pinned reports whether h, an entry of this order, is pinned.
func (o *Order) Pinned(h *Head) bool { return o.nodes.weight(h.node) == Pinned }

// Unpin makes all pinned entries ordinary ones of weight one, and returns their number.
// It takes time in proportion to the entries.
func (o *Order) Unpin() (n int) {
	for i := uint32(1); i <= o.nodes.used; i++ {
		if o.nodes.head(i) != nil && o.nodes.weight(i) == Pinned {
			o.reweigh(i, Pinned, 1)
			n++
		}
	}
	return n
}

// Remove takes an entry out.
func (o *Order) Remove(h *Head) Gone {
	if o.Pinned(h) {
		o.pins--
	} else {
		o.policy.remove(h.node)
	}
	return o.clear(h.node)
}

// Evict takes out the entry that the policy gives up next. It takes out none, and returns
// a nil Head, only if the order has no entries but pinned ones and keep. keep may be
// foreign to this order. An entry dead at now goes first where the policy meets one.
func (o *Order) Evict(at Standing, keep *Head, now int64) Gone {
	var spared uint32
	if keep != nil && o.Holds(keep) && !o.Pinned(keep) { // a pinned one is in no queue
		spared = keep.node
	}
	if i := o.policy.evict(at, spared, now); i != 0 {
		return o.clear(i)
	}
	return Gone{}
}

// clear frees a node that has left its queue.
func (o *Order) clear(i uint32) Gone {
	gone := Gone{Head: o.nodes.head(i), Hash: o.nodes.node(i).hash, Weight: Counted(o.nodes.weight(i))}
	if sampled(i) {
		gone.Born = *o.nodes.bornAt(i)
	}
	o.wheel.remove(&o.nodes, i)
	o.nodes.remove(i)
	o.n--
	o.shrink()
	return gone
}

// Hit records the hit of an entry.
func (o *Order) Hit(h *Head) {
	if o.listener == nil || o.Pinned(h) {
		h.Touch()
		return
	}
	o.listener.hit(h.node)
}

// Ranked is an entry with its rank: the larger, the more it is used.
type Ranked struct {
	Head *Head
	Rank uint64
}

// Hottest returns up to n entries alive at now, the last one to be evicted first, with
// falling ranks; none if the policy does not listen. Pinned entries with a read come before
// all others, and pinned entries without a read behind them.
func (o *Order) Hottest(n int, now int64) (all []Ranked) {
	if o.listener == nil || n <= 0 {
		return nil
	}
	add := func(i uint32, rank uint64) bool {
		if !o.nodes.over(i, now) {
			all = append(all, Ranked{o.nodes.head(i), rank})
		}
		return len(all) < n
	}
	if o.eachPinned(true, add) {
		more := true
		o.listener.hottest(func(i uint32, rank uint64) bool {
			more = add(i, rank)
			return more
		})
		if more {
			o.eachPinned(false, add)
		}
	}
	return all
}

// eachPinned calls yield for the pinned nodes with a read, or for those without one, until
// yield returns false. eachPinned then returns false, too.
func (o *Order) eachPinned(read bool, yield func(i uint32, rank uint64) bool) bool {
	rank := uint64(0)
	if read {
		rank--
	}
	for i := uint32(1); o.pins > 0 && i <= o.nodes.used; i++ {
		if h := o.nodes.head(i); h != nil && o.nodes.weight(i) == Pinned && h.Uses() > 0 == read && !yield(i, rank) {
			return false
		}
	}
	return true
}

// Overdue takes the next timer that is due at now out of the wheel, and returns its entry;
// nil if no timer is due. The entry need not have ended: a read may have prolonged its
// idle life, or its end is more than one turn of the wheel away. Then the caller must give
// it to Rearm.
func (o *Order) Overdue(now int64) *Head {
	if i := o.wheel.pop(&o.nodes, now/TickLength); i != 0 {
		return o.nodes.head(i)
	}
	return nil
}

// Rearm sets the timer of an entry again, at now.
func (o *Order) Rearm(h *Head, now int64) { o.wheel.add(&o.nodes, h.node, now) }

// NextTick returns the first tick with a timer, or Never. It may be called only after
// Overdue has returned nil.
func (o *Order) NextTick() int64 { return o.wheel.next() }

// Part moves entries to other orders, with their standing, at now: each to the order that to
// returns for it, which may be this one. The others are of the same policy, had no entries
// before. It forgets no evicted key, and the others learn of none.
func (o *Order) Part(to func(*Head) *Order, now int64) {
	var all []uint32
	o.policy.each(func(i uint32) { all = append(all, i) })
	for i := uint32(1); o.pins > 0 && i <= o.nodes.used; i++ {
		if o.nodes.head(i) != nil && o.nodes.weight(i) == Pinned {
			all = append(all, i)
		}
	}
	for _, i := range all {
		if other := to(o.nodes.head(i)); other != o {
			if other.n == 0 {
				other.wheel.tick = o.wheel.tick
				other.policy.adopt(o.policy)
			}
			o.give(i, other, now)
		}
	}
}

// give moves one node to another order.
func (o *Order) give(i uint32, other *Order, now int64) {
	h, weight := o.nodes.head(i), o.nodes.weight(i)
	other.nodes.add(h, o.nodes.node(i).hash, weight)
	other.n++
	if sampled(h.node) && sampled(i) {
		*other.nodes.bornAt(h.node) = *o.nodes.bornAt(i)
	}
	if weight == Pinned {
		other.pins++
		o.pins--
	} else {
		other.policy.take(o.policy, i, h.node)
		o.policy.remove(i)
	}
	o.wheel.remove(&o.nodes, i)
	other.wheel.add(&other.nodes, h.node, now)
	o.nodes.remove(i)
	o.n--
}

// Empty takes out all entries at once.
func (o *Order) Empty() {
	kind, share, weighted := o.kind, o.share, o.weighted
	*o = Order{nodes: slab{idle: o.nodes.idle}, wheel: wheel{tick: o.wheel.tick}}
	o.Fit(kind, share, weighted)
}

// Holds reports whether h is an entry of this order.
func (o *Order) Holds(h *Head) bool { return o.nodes.holds(h) }

// Hash returns the hash that an entry was added with.
func (o *Order) Hash(h *Head) uint32 { return o.nodes.node(h.node).hash }

// Weight returns the weight of an entry, which may be Pinned.
func (o *Order) Weight(h *Head) int64 { return o.nodes.weight(h.node) }
