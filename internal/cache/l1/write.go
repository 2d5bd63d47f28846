package l1

import (
	"runtime"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// Outcome is the result of a store.
type Outcome uint8

// Outcomes of a store.
const (
	// Stored: the entry is in the cache.
	Stored Outcome = iota + 1
	// Lost: the key does not hold the expected entry. Nothing was changed.
	Lost
	// TooHeavy: the entry does not fit beside the pinned entries, even if all others go,
	// or other writers have taken the room mostRounds times. The entry that the key held
	// is removed.
	TooHeavy
	// Closed: the cache is closed.
	Closed
	// Refused: the cache is full, and the policy prefers its entries to a heavy one that was
	// offered. Nothing was changed.
	Refused
)

// Set stores an entry and returns the entries that it removed, for the caller
// to pass to Notify once it holds no lock. It reports false if the entry was
// not stored, because the cache is closed or because the entry alone is heavier
// than the bound; in the second case the entry that the key held is removed
// too. The entry just stored is never evicted by its own Set. An entry of weight Pinned
// is exempt from eviction, and counts as one; another negative weight counts as zero.
func (c *Cache[K, V]) Set(e *Entry[K, V], weight int64) (gone []Removed[K, V], ok bool) {
	gone, o := c.store(e, arrival{weight: weight}, nil, false)
	return gone, o == Stored
}

// Offer is Set for an entry that its caller can do without. If the key has no entry and the
// cache has no room, the policy may prefer its entries to a heavy one: Offer then reports false,
// and the policy remembers the key, so that it takes an entry that is offered often
// enough. An entry of weight Pinned is never refused so. lately is a time of this
// cache's clock from before the call, by which evictions find expired entries; zero if the caller
// has none.
func (c *Cache[K, V]) Offer(e *Entry[K, V], weight, lately int64) (gone []Removed[K, V], ok bool) {
	gone, o := c.store(e, arrival{weight: weight, offered: true, now: lately}, nil, false)
	return gone, o == Stored
}

// Renew is Set, but does not count as a use of the key. If the key holds a living entry, the
// new one takes its place in the order of eviction, and its idle life goes on.
func (c *Cache[K, V]) Renew(e *Entry[K, V], weight int64) (gone []Removed[K, V], ok bool) {
	gone, o := c.store(e, arrival{weight: weight, unused: true}, nil, false)
	return gone, o == Stored
}

// SetIf is Set on the condition that the key still holds old; nil stands for no
// living entry.
func (c *Cache[K, V]) SetIf(old, e *Entry[K, V], weight int64) ([]Removed[K, V], Outcome) {
	return c.store(e, arrival{weight: weight}, old, true)
}

// mostRounds bounds the looks of a store for room. One round is enough unless other
// writers take the room that the store has made, or are about to insert entries for
// reserved room. Then these make progress.
const mostRounds = 4096

// store implements Set, Renew and SetIf: a has the weight. While the shard has no room and other
// shards hold more than their share, it evicts from the others, with no lock held.
func (c *Cache[K, V]) store(e *Entry[K, V], a arrival, old *Entry[K, V], conditional bool) ([]Removed[K, V], Outcome) {
	hash := c.hash(e.Key)
	c.find(hash, e.Key) // loads the slots into the processor's cache before the lock is taken
	a.head, a.hash = headOf(e), uint32(hash)
	if a.weight < 0 && a.weight != evict.Pinned {
		a.weight = 0
	}
	if e.Dead != Forever {
		c.clock.need() // before the entry is published
	}
	if conditional || c.notify != nil || c.idle.Life != 0 {
		a.now = c.clock.exact()
	}
	var gone []removed
	for {
		var o Outcome
		var paces bool
		gone, o, paces = c.try(&a, hash, e.Key, headOf(old), conditional, gone)
		if paces {
			c.clock.pace()
		}
		if a.sliced {
			continue
		}
		if o == 0 {
			gone = c.evictAround(int(c.shard(hash).number), a.need, a.held, gone)
			a.forced = true
			if a.rounds++; a.rounds > 1 {
				runtime.Gosched() // to the writers that have taken the room
			}
			continue
		}
		if o == Stored {
			c.wakeSweeper(c.idle.End(&e.Head, a.now))
			if a.crowded {
				c.divide(func(h *evict.Head) uint64 { return c.hash(entryOf[K, V](h).Key) })
			}
		}
		if poke := c.poke.Load(); poke != nil && a.hash%pokeOne == 0 {
			(*poke)()
		}
		if c.rest.ppm > 0 || c.rest.guarded.Load() {
			gone = c.settleStore(a.head, gone)
		}
		return c.list(gone), o
	}
}

// try stores an arrival, or returns zero without room for it. paces says that it is the turn of this store to keep the
// time, with no lock held.
func (c *Cache[K, V]) try(a *arrival, hash uint64, key K, old *evict.Head, conditional bool, gone []removed) (_ []removed, _ Outcome, paces bool) {
	s := c.lock(hash)
	defer s.unlock()
	a.sliced = false
	s.stores++
	gone, o := c.tryOver(s, a, headOf(c.find(hash, key)), old, conditional, gone)
	if o != 0 && o != Stored {
		c.giveUp(a)
	}
	return gone, o, s.stores%paceStores == 0
}

// tryOver is try for an arrival with the key of held, which is nil if the shard has no
// entry of it. It needs the shard's mutex.
func (c *core) tryOver(s *shard, a *arrival, held, old *evict.Head, conditional bool, gone []removed) ([]removed, Outcome) {
	if s.closed {
		return gone, Closed
	}
	if conditional && held != old && !(old == nil && c.idle.Over(held, a.now)) {
		return gone, Lost
	}
	if a.rounds > mostRounds || c.pinnedOut(s, a, held) {
		return append(gone, c.withdraw(s, held, a.now)...), TooHeavy
	}
	if a.offered && held == nil && !a.admitted && c.over(a.change()) && s.order.Refuses(a.hash, a.weight) {
		s.rejected++
		return gone, Refused
	}
	gone, ok := c.place(s, a, held, gone)
	if !ok {
		return gone, 0
	}
	return gone, Stored
}

// list gives removed entries their types back.
func (c *Cache[K, V]) list(gone []removed) []Removed[K, V] {
	if len(gone) == 0 {
		return nil
	}
	l := make([]Removed[K, V], len(gone))
	for i, r := range gone {
		l[i] = Removed[K, V]{entryOf[K, V](r.head), r.reason}
	}
	return l
}

// Swap puts e in the place of old if the key still holds old, and reports
// whether it did. Both have the same key and the same value; only lives, stamp
// and flags differ. So e inherits the weight and the idle life of old, and Notify is not
// called.
func (c *Cache[K, V]) Swap(old, e *Entry[K, V]) bool {
	if e.Dead != Forever {
		c.clock.need()
	}
	return c.swap(headOf(old), headOf(e))
}

// Delete removes the entry of key and returns it for the caller to pass to
// Notify. It reports whether the entry was alive; the reason for a dead entry is
// Expired.
func (c *Cache[K, V]) Delete(key K) (e *Entry[K, V], alive bool) {
	hash := c.hash(key)
	if c.find(hash, key) == nil {
		return nil, false // an unfinished writer comes after this
	}
	now := c.clock.now()
	s := c.lock(hash)
	defer s.unlock()
	if e = c.find(hash, key); e == nil {
		return nil, false
	}
	return e, c.dropAt(s, headOf(e), now)
}

// dropAt removes an entry from its shard, and reports whether it was alive. It needs the
// shard's mutex.
func (c *core) dropAt(s *shard, h *evict.Head, now int64) (alive bool) {
	c.drop(s, h)
	if c.idle.Over(h, now) {
		s.expired++
		return false
	}
	return true
}

// DeleteEntry removes e if its key still holds it, and reports whether it did.
func (c *Cache[K, V]) DeleteEntry(e *Entry[K, V]) bool {
	return c.deleteHead(headOf(e))
}

// DeleteFunc removes the living entries for which f returns true, calls Notify
// for each, and returns their number. f is called without any lock. If the entry of a
// key is replaced while f runs, the new one stays.
func (c *Cache[K, V]) DeleteFunc(f func(*Entry[K, V]) bool) (n int) {
	for e := range c.All() {
		if f(e) && c.DeleteEntry(e) {
			n++
			c.Notify([]Removed[K, V]{{e, Deleted}})
		}
	}
	return n
}

// Resize changes the bounds, evicts until the entries fit, and returns the
// evicted entries for the caller to pass to Notify. Beyond resizeEvicts entries the
// sweeper evicts the rest, and tells Notify; until then the bound is in between.
// Zero means that the other bound holds alone; if neither is positive, nothing changes. The
// number of shards stays the same.
func (c *Cache[K, V]) Resize(maxEntries, maxWeight int64) []Removed[K, V] {
	return c.list(c.resize(maxEntries, maxWeight))
}

// Clear removes all entries and calls Notify for each.
func (c *Cache[K, V]) Clear() { c.clear(false) }

// Close removes all entries, calls Notify for each, and ends the goroutines of
// the cache. After Close, Get misses and Set stores nothing. A second Close
// does no harm.
func (c *Cache[K, V]) Close() {
	c.clear(true)
	c.sweeper.close()
	c.clock.close()
}

// Notify calls Config.Notify for each removed entry. The caller holds no lock.
func (c *Cache[K, V]) Notify(gone []Removed[K, V]) {
	if c.notify == nil {
		return
	}
	for _, r := range gone {
		c.tellOne(removed{headOf(r.Entry), r.Reason})
	}
}

// arrival is an entry on its way into the cache.
type arrival struct {
	head   *evict.Head
	hash   uint32
	weight int64
	now    int64 // exact if anything but an eviction depends on it; see Offer
	// admitted says that the policy has seen the arrival. at is its decision. The policy
	// sees an arrival once, also if the arrival must wait for room.
	admitted bool
	at       evict.Standing
	forced   bool
	unused   bool // see Renew
	offered  bool // see Offer
	rounds   int  // rounds without room; see mostRounds
	// need is the change that found no room, and held the entry to be replaced, if any.
	need change
	held *evict.Head
	// freed is the room of entries that its shard has evicted for it, a negative change, and evicted
	// says that there were any. sliced says that the shard has more to evict: see room.
	freed           change
	evicted, sliced bool
	// crowded says that the shard has got so many entries that shards should be divided.
	crowded bool
}

// counted returns the number with which the weight counts.
func (a *arrival) counted() int64 { return evict.Counted(a.weight) }

// change returns the change by an arrival with a new key.
func (a *arrival) change() change { return change{1, a.counted()} }

// pinnedOut reports whether an arrival would not fit beside the pinned entries, even if
// all others went. held is the entry of its key, or nil: it goes in any case.
func (c *core) pinnedOut(s *shard, a *arrival, held *evict.Head) bool {
	pinned := c.pinned.Load()
	if held != nil && s.order.Pinned(held) {
		pinned--
	}
	return a.counted() > c.maxWeight.Load()-pinned || pinned >= c.maxEntries.Load()
}

// repin counts pinned entries when an entry of one weight replaces an entry of another.
func (c *core) repin(before, weight int64) {
	if was, is := before == evict.Pinned, weight == evict.Pinned; was && !is {
		c.pinned.Add(-1)
	} else if is && !was {
		c.pinned.Add(1)
	}
}

// place stores an arrival in its shard instead of held, which may be nil, and reports
// false without room for it. It needs the shard's mutex.
func (c *core) place(s *shard, a *arrival, held *evict.Head, gone []removed) ([]removed, bool) {
	if held != nil {
		return c.replace(s, a, held, gone)
	}
	guarded := c.rest.guarded.Load()
	if !a.admitted {
		a.admitted = true
		a.at = s.order.Admit(a.hash, a.weight, guarded || c.over(a.change()))
	}
	a.need, a.held = a.change(), nil
	gone, ok := c.room(s, a, eviction{a.at, a.forced, nil, a.now}, gone)
	if !ok {
		return gone, false
	}
	if a.weight == evict.Pinned {
		c.pinned.Add(1)
	}
	s.insert(a, c.idle.Stamp(a.now), guarded || a.evicted)
	a.crowded = s.held.entries >= 2*shardEntries && c.inUse() < len(c.shards)
	c.stored(s, a)
	return gone, true
}

// stored keeps the time of the store, if the arrival is in the sample.
func (c *core) stored(s *shard, a *arrival) {
	if s.order.Sampled(a.head) {
		s.order.Stored(a.head, c.clock.exact())
	}
}

// replace stores an arrival instead of held, which has the same key.
func (c *core) replace(s *shard, a *arrival, held *evict.Head, gone []removed) ([]removed, bool) {
	a.need, a.held = change{0, a.counted() - evict.Counted(s.order.Weight(held))}, held
	gone, ok := c.room(s, a, eviction{evict.Standing{}, a.forced, held, a.now}, gone)
	if !ok {
		return gone, false
	}
	c.repin(s.order.Weight(held), a.weight)
	state := held.State.Load()
	if !a.unused || c.idle.Over(held, a.now) {
		state = state&(1<<evict.StampShift-1) | c.idle.Stamp(a.now)
	}
	s.replace(held, a.head, state, a.weight, a.now)
	c.stored(s, a)
	if !a.unused {
		s.order.Hit(a.head)
	}
	return c.note(s, gone, held, c.reasonAt(Replaced, held, a.now)), true
}

// withdraw removes held, the entry of a key, after the key was set to an entry too heavy
// to be kept. It needs the shard's mutex.
func (c *core) withdraw(s *shard, held *evict.Head, now int64) []removed {
	s.rejected++
	if held == nil {
		return nil
	}
	c.drop(s, held)
	return c.note(s, nil, held, c.reasonAt(Rejected, held, now))
}

// drop removes an entry from its shard and the totals. It needs the shard's
// mutex.
func (c *core) drop(s *shard, h *evict.Head) {
	if s.order.Pinned(h) {
		c.pinned.Add(-1)
	}
	c.release(s.remove(h))
}

// swap puts h in the place of old if the shard still holds old, and reports
// whether it did.
func (c *core) swap(old, h *evict.Head) bool {
	var now int64
	if c.idle.Life != 0 {
		now = c.clock.now()
	}
	s := c.lockOf(old)
	if !s.order.Holds(old) {
		s.mu.Unlock()
		return false
	}
	s.replace(old, h, old.State.Load(), s.order.Weight(old), now)
	s.unlock()
	c.wakeSweeper(c.idle.End(h, now))
	return true
}

// deleteHead removes h if the shard holds it, and reports whether it did.
func (c *core) deleteHead(h *evict.Head) bool {
	s := c.lockOf(h)
	defer s.unlock()
	if !s.order.Holds(h) {
		return false
	}
	c.drop(s, h)
	return true
}
