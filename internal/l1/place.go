package l1

// arrival is an entry on its way into the cache.
type arrival struct {
	head   *head
	hash   uint32
	weight int64
	now    int64
	// admitted says that the policy has seen the arrival, and promote what it has
	// decided. One arrival is shown to it once, also if it must wait for room.
	admitted, promote bool
	forced            bool
}

// place stores an arrival in its shard instead of held, which may be nil, and
// reports false if there is no room. It needs the shard's mutex.
func (c *core) place(s *shard, a *arrival, held *head, gone []removed) ([]removed, bool) {
	if held != nil {
		return c.replace(s, a, held, gone)
	}
	if !a.admitted {
		a.admitted = true
		a.promote = s.policy.admit(a.hash, s.policy.sizeOf(a.weight))
	}
	before := s.evicted + s.expired
	gone, ok := c.room(s, change{1, a.weight}, eviction{a.promote, a.forced, 0, a.now}, gone)
	if !ok {
		return gone, false
	}
	s.entries.Add(1)
	s.weight.Add(a.weight)
	s.insert(a.head, a.hash, a.weight, a.promote, s.evicted+s.expired != before)
	return gone, true
}

// replace stores an arrival instead of held, which has the same key.
func (c *core) replace(s *shard, a *arrival, held *head, gone []removed) ([]removed, bool) {
	d := change{0, a.weight - s.nodes.weight(held.node)}
	gone, ok := c.room(s, d, eviction{false, a.forced, held.node, a.now}, gone)
	if !ok {
		return gone, false
	}
	s.weight.Add(d.weight)
	s.replace(held, a.head)
	s.reweigh(a.head, a.weight)
	a.head.touch()
	return c.note(s, gone, held, reasonAt(Replaced, held, a.now)), true
}

// withdraw removes held, the entry of a key that was set to an entry too heavy
// to be kept. It needs the shard's mutex.
func (c *core) withdraw(s *shard, held *head, now int64) []removed {
	s.rejected++
	if held == nil {
		return nil
	}
	c.drop(s, held)
	return c.note(s, nil, held, reasonAt(Rejected, held, now))
}

// drop removes an entry from its shard and the totals. It needs the shard's
// mutex.
func (c *core) drop(s *shard, h *head) {
	d := change{-1, -s.nodes.weight(h.node)}
	s.remove(h)
	s.entries.Add(d.entries)
	s.weight.Add(d.weight)
	c.release(d)
}

// swap puts h in the place of old if the shard still holds old, and reports
// whether it did.
func (c *core) swap(old, h *head) bool {
	s := c.shardOf(old)
	s.mu.Lock()
	if !s.nodes.holds(old) {
		s.mu.Unlock()
		return false
	}
	s.replace(old, h)
	s.mu.Unlock()
	c.wakeSweeper(h.Dead)
	return true
}

// deleteHead removes h if the shard holds it, and reports whether it did.
func (c *core) deleteHead(h *head) bool {
	s := c.shardOf(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.nodes.holds(h) {
		return false
	}
	c.drop(s, h)
	return true
}
