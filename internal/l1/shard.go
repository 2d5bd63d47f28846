package l1

import (
	"sync"
	"sync/atomic"
)

// shard is a slice of the cache by hash. The table pointer has a cache line of
// its own: readers load it on every Get, writers change it only when the table
// grows.
type shard struct {
	table atomic.Pointer[table]
	_     [56]byte

	// entries and weight change only under mu, together with the totals of the
	// cache. Writers of other shards read them to find a shard that holds more
	// than its share.
	entries, weight atomic.Int64

	mu     sync.Mutex // guards all below, and changes to the table
	nodes  slab
	policy policy
	wheel  wheel
	closed bool
	number uint32 // of the shard

	evicted, expired, rejected uint64
	_                          [48]byte
}

// len returns the number of entries in the policy's queues.
func (s *shard) len() int { return s.policy.small.n + s.policy.main.n }

// hashOf returns the hash of an entry that is in the shard.
func (s *shard) hashOf(h *head) uint32 { return s.nodes.node(h.node).hash }

// insert adds an entry; its key must be absent. evicted says that the cache was
// full, promote that the policy is to take the entry into its main queue.
func (s *shard) insert(h *head, hash uint32, weight int64, promote, evicted bool) {
	h.state.Store(s.number << usesBits)
	s.nodes.add(h, hash, weight)
	s.policy.insert(h.node, promote, evicted)
	s.wheel.add(&s.nodes, h.node)
	t := s.table.Load()
	if n := s.len(); n > t.room() {
		t = s.rebuilt(s.grown(n))
		t.insert(h, hash)
		s.table.Store(t)
		return
	}
	t.insert(h, hash)
}

// grown returns for how many entries a full table of n entries is to be rebuilt:
// twice as many, but little more than the shard's share, which most shards fill
// and few exceed.
func (s *shard) grown(n int) int {
	if share := int(s.policy.share); !s.policy.weighted && share < 2*n {
		return max(share, n) + max(share, n)/16
	}
	return 2 * n
}

// replace puts h in the place of old, which is in the shard and has the same key.
// h inherits node, uses and place of old.
func (s *shard) replace(old, h *head) {
	hash := s.hashOf(old)
	h.state.Store(old.state.Load())
	s.nodes.replace(old, h)
	s.table.Load().replace(old, h, hash)
	if old.Dead != h.Dead {
		s.wheel.move(&s.nodes, h.node)
	}
}

// reweigh changes the weight of an entry that is in the shard.
func (s *shard) reweigh(h *head, weight int64) {
	old := s.nodes.weight(h.node)
	s.nodes.setWeight(h.node, weight)
	s.policy.resize(h.node, old, weight)
}

// remove takes out an entry that is in the shard.
func (s *shard) remove(h *head) {
	s.policy.remove(h.node)
	s.clear(h)
}

// clear takes out an entry that the policy has given up already. A table with less
// than an eighth of its room in use is replaced by a smaller one.
func (s *shard) clear(h *head) {
	t := s.table.Load()
	t.remove(h, s.hashOf(h))
	s.wheel.remove(&s.nodes, h.node)
	s.nodes.remove(h.node)
	if n := s.len(); len(t.groups) > 1 && n < t.room()/8 {
		s.table.Store(s.rebuilt(2 * n))
	}
}

// rebuilt returns a table of the same entries with room for n.
func (s *shard) rebuilt(n int) *table {
	t := newTable(n)
	s.table.Load().each(func(h *head) bool {
		t.insert(h, s.hashOf(h))
		return true
	})
	return t
}

// empty takes out all entries at once, and returns the table that holds them.
func (s *shard) empty() *table {
	old := s.table.Load()
	s.table.Store(newTable(0))
	p := &s.policy
	s.nodes = slab{}
	share, weighted := p.share, p.weighted
	*p = policy{nodes: p.nodes}
	p.fit(share, weighted)
	s.wheel = wheel{tick: s.wheel.tick}
	return old
}
