package l1

import (
	"cmp"
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

	// entries and weight are published under mu when a writer is done. Writers of
	// other shards read them to find a shard that holds more than its share.
	entries, weight atomic.Int64

	mu     sync.Mutex // guards all below, and changes to the table
	held   change     // the entries in the shard, and their weight
	order  evict.Order
	closed bool
	number uint32 // of the shard

	evicted, expired, rejected uint64
}

// hit tells a policy that listens of a hit, and notes that there was one.
func (s *shard) hit(h *evict.Head) {
	s.mu.Lock()
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

// publish makes the counts known to other shards. Most writers of a full cache have
// changed nothing, and write nothing.
func (s *shard) publish() {
	if s.entries.Load() != s.held.entries {
		s.entries.Store(s.held.entries)
	}
	if s.weight.Load() != s.held.weight {
		s.weight.Store(s.held.weight)
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
// twice as many, but little more than the shard's share, which most shards fill
// and few exceed.
func (s *shard) grown(n int) int {
	if share := int(s.order.Share()); share > 0 && share < 2*n {
		return max(share, n) + max(share, n)/16
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

// hit tells a policy that listens of a hit.
func (c *core) hit(h *evict.Head) { c.shardOf(h).hit(h) }

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
	for i := range c.shards {
		all = append(all, c.shards[i].hottest(n, c.clock.now())...)
	}
	slices.SortStableFunc(all, func(a, b evict.Ranked) int { return cmp.Compare(b.Rank, a.Rank) })
	return all[:min(n, len(all))]
}
