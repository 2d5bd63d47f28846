package l1

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// shard is a slice of the cache by hash. The table pointer has a cache line of
// its own: readers load it on every Get, writers change it only when the table
// grows.
type shard struct {
	table atomic.Pointer[table]
	_     [56]byte

	// entries is published under mu when a writer is done. Writers of other shards read it to find
	// a shard that holds more than its share.
	entries atomic.Int64

	mu     sync.Mutex // guards all below, and changes to the table
	held   change     // the entries in the shard, and their weight
	order  evict.Order
	closed bool
	number uint32 // of the shard

	evicted, expired, rejected uint64
	stores                     uint64 // tried; with them the next shard begins with a line of its own
}

// hit tells a policy that listens of a hit, and notes that there was one.
func (c *core) hit(h *evict.Head) {
	s := c.lockOf(h)
	if s.order.Holds(h) { // else it has left since it was found
		s.order.Hit(h)
		if h.Uses() == 0 {
			h.SetUses(1)
		}
	}
	s.mu.Unlock()
}

// hottest returns the last n entries that the shard would evict, the hottest first.
func (s *shard) hottest(n int, now int64) []evict.Ranked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order.Hottest(n, now)
}

// publish makes the count known to other shards. Most writers of a full cache have
// changed nothing, and write nothing.
func (s *shard) publish() {
	if s.entries.Load() != s.held.entries {
		s.entries.Store(s.held.entries)
	}
}

// unlock ends the work of a writer.
func (s *shard) unlock() {
	s.publish()
	s.mu.Unlock()
}

// insert adds an entry, with a stamp in its State; its key must be absent. evicted says
// that the cache was full.
func (s *shard) insert(a *arrival, stamp uint32, evicted bool) {
	h, hash := a.head, a.hash
	h.State.Store(stamp | evict.InShard(s.number))
	s.order.Add(h, hash, a.weight, a.at, evicted, a.now)
	s.held.entries++
	s.held.weight += a.counted()
	t := s.table.Load()
	// Readers go on with the old table until the new one is complete: they never see a part of it.
	if n := s.order.Len(); n > t.room() {
		t = s.rebuilt(s.grown(n))
		t.insert(h, hash)
		s.table.Store(t)
		return
	}
	t.insert(h, hash)
}

// grown returns the number of entries for which to rebuild a full table of n entries:
// twice as many, but little more than the shard's share has room for, which most shards fill
// and few exceed.
func (s *shard) grown(n int) int {
	if all := int(s.order.Expected(s.held.weight, 2*int64(n))); all < 2*n {
		return max(all, n) + max(all, n)/16
	}
	return 2 * n
}

// replace puts h, with a State, in the place of old, which is in the shard and has the
// same key. h inherits the standing of old.
func (s *shard) replace(old, h *evict.Head, state uint32, weight, now int64) {
	hash := s.order.Hash(old)
	h.State.Store(state)
	s.held.weight += evict.Counted(weight) - evict.Counted(s.order.Weight(old))
	s.order.Replace(old, h, weight, now)
	s.table.Load().replace(old, h, hash)
}

// remove takes out an entry of the shard.
func (s *shard) remove(h *evict.Head) change { return s.left(s.order.Remove(h)) }

// left takes an entry out of the table after it has left the order, and returns the
// change of the totals. A table with less than an eighth of its room in use is
// replaced by a smaller one.
func (s *shard) left(gone evict.Gone) change {
	t := s.table.Load()
	t.remove(gone.Head, gone.Hash)
	if n := s.order.Len(); len(t.groups) > 1 && n < t.room()/8 {
		s.table.Store(s.rebuilt(2 * n))
	}
	s.held.entries--
	s.held.weight -= gone.Weight
	return change{-1, -gone.Weight}
}

// rebuilt returns a table of the same entries with room for n.
func (s *shard) rebuilt(n int) *table {
	t := newTable(n)
	s.table.Load().each(func(h *evict.Head) bool {
		t.insert(h, s.order.Hash(h))
		return true
	})
	return t
}

// empty takes out all entries at once, and returns the table that holds them and
// the change of the totals.
func (s *shard) empty() (*table, change) {
	old := s.table.Load()
	s.table.Store(newTable(0))
	s.order.Empty()
	less := change{-s.held.entries, -s.held.weight}
	s.held = change{}
	s.publish()
	return old, less
}

// used records the hit of an entry with the given State, before its deadline at now,
// and reports whether the entry is alive: its idle life has not ended either.
func (c *core) used(h *evict.Head, state uint32, now int64) (alive bool) {
	switch {
	case c.idle.Life == 0:
	case c.idle.Settled(state, now):
		return true
	case !c.idle.Read(h, now):
		return false
	}
	if c.listens {
		c.hit(h)
	} else {
		h.Touch()
	}
	return true
}

// Cool takes one of the uses that h counts, and reports whether there was one: an
// unread entry, cooled again and again, has none after MaxUses times, and with a
// listening policy after the first.
func (c *core) Cool(h *evict.Head) bool {
	n := h.Uses()
	if n > 0 {
		h.SetUses(n - 1)
	}
	return n > 0
}

// hottest returns up to n living entries in descending order of their ranks.
func (c *core) hottest(n int) (all []evict.Ranked) {
	where := c.where.Load()
	for i := range c.shards {
		all = append(all, c.shards[i].hottest(n, c.clock.now())...)
	}
	if !c.settled(where) {
		return c.hottest(n) // some entries were seen twice
	}
	slices.SortStableFunc(all, func(a, b evict.Ranked) int { return cmp.Compare(b.Rank, a.Rank) })
	return all[:min(n, len(all))]
}

// The shards in use are the first of core.shards: all of them, or, while weights are
// counted, as many as the entries need. How many entries fit into a bound of weights is
// known when they have come, and with few entries a shard the queues of the policy are
// too short, and one heavy entry is a large part of a shard. So such a cache begins with
// one shard, and each time when one has twice shardEntries, all are divided in two. They
// stay divided.
//
// core.where holds in its low bits the shift that makes a shard's number of a hash without
// its last bit. A shard's entries go to two neighbours, so the order of all entries by
// the bits of their hashes stays, and no entry goes to a lower shard.
//
// Invariant: while entries are moved, where has the bit moving, and the divider holds the
// mutexes of all shards concerned. A reader without a lock may then miss an entry that is
// there, and looks again when the entries have been moved (settled). An entry that it
// finds is right: no table is changed, each is replaced. A writer looks whether its shard is still
// the right one once it has the lock (lock, lockOf).
const (
	whereShift = 1<<6 - 1
	moving     = 1 << 6
)

// use makes the first n shards the ones in use. n is a power of two.
func (c *core) use(n int) { c.where.Store(uint32(whereShift - bits.TrailingZeros(uint(n)))) }

// inUse returns the number of shards in use.
func (c *core) inUse() int { return 1 << (whereShift - c.where.Load()&whereShift) }

// settled reports whether no entry has moved to another shard since where was loaded. It
// waits until none is moving.
func (c *core) settled(where uint32) bool {
	if where&moving == 0 && where == c.where.Load() {
		return true
	}
	c.dividing.Lock()
	defer c.dividing.Unlock()
	return false
}

// shardOf returns the shard in which an entry was stored; the first shard for an entry
// never stored.
func (c *core) shardOf(h *evict.Head) *shard { return &c.shards[min(h.Shard(), len(c.shards)-1)] }

// shard returns the shard of a hash.
func (c *core) shard(hash uint64) *shard {
	return &c.shards[hash>>1>>(c.where.Load()&whereShift)]
}

// lock locks the shard of a hash.
func (c *core) lock(hash uint64) *shard {
	for {
		s := c.shard(hash)
		s.mu.Lock()
		if s == c.shard(hash) {
			return s
		}
		s.mu.Unlock()
	}
}

// lockOf locks the shard of an entry.
func (c *core) lockOf(h *evict.Head) *shard {
	for {
		s := c.shardOf(h)
		s.mu.Lock()
		if s == c.shardOf(h) {
			return s
		}
		s.mu.Unlock()
	}
}

// divide divides each shard in use in two, unless another writer does so. hash returns the
// hash of an entry's key.
func (c *core) divide(hash func(*evict.Head) uint64) {
	if !c.dividing.TryLock() {
		return
	}
	defer c.dividing.Unlock()
	old := c.where.Load()
	n := 2 * c.inUse()
	if n > len(c.shards) || c.entries.Load() < int64(n)*shardEntries {
		return
	}
	for i := range n {
		c.shards[i].mu.Lock()
		defer c.shards[i].unlock()
	}
	if c.shards[0].closed {
		return
	}
	c.where.Store(old | moving)
	for i := n/2 - 1; i >= 0; i-- { // the pair of shards that the entries go to is empty, but for the first shard itself
		c.part(&c.shards[i], c.shards[2*i:2*i+2], func(h *evict.Head) uint64 { return hash(h) >> 1 >> (old&whereShift - 1) & 1 })
	}
	c.use(n)
	for i := range n {
		c.shards[i].order.Fit(c.policy, c.share(), c.weighted())
	}
}

// part moves the entries of a shard to a pair of shards, of which it may be the first. It needs
// the mutexes of all.
func (c *core) part(s *shard, pair []shard, which func(*evict.Head) uint64) {
	t, now := s.table.Load(), c.clock.exact()
	to := make(map[*evict.Head]uint64, s.held.entries)
	var sums [2]change
	t.each(func(h *evict.Head) bool {
		x := which(h)
		to[h] = x
		sums[x].entries++
		sums[x].weight += evict.Counted(s.order.Weight(h))
		return true
	})
	s.order.Part(func(h *evict.Head) *evict.Order { return &pair[to[h]].order }, now)
	s.held = change{}
	tables := [2]*table{newTable(int(sums[0].entries)), newTable(int(sums[1].entries))}
	for h, x := range to {
		tables[x].insert(h, pair[x].order.Hash(h))
		h.SetShard(pair[x].number)
	}
	s.table.Store(noEntries)
	for x := range pair {
		pair[x].table.Store(tables[x])
		pair[x].held = sums[x]
	}
}

// walk is a walk over the tables of all shards in use, in their order.
type walk struct {
	where uint32 // by which at counts
	at    int
}

// next returns the next shard of a walk, and its table; nil at the end.
//
// The entries of a shard that was passed are in shards that come before the next one,
// also after a division.
func (c *core) next(w *walk) (*shard, *table) {
	for {
		where := c.where.Load()
		if w.where == 0 {
			w.where = where
		}
		if where&moving == 0 {
			w.at <<= w.where&whereShift - where&whereShift
			w.where = where
			if w.at >= c.inUse() {
				return nil, nil
			}
			s := &c.shards[w.at]
			if t := s.table.Load(); where == c.where.Load() {
				w.at++
				return s, t
			}
		}
		c.settled(where)
	}
}
