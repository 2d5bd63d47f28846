package l1

// change is the difference that a writer has made to its shard and not settled
// yet.
type change struct{ entries, weight int64 }

// settle adds a change to the counts of the shard and of the cache. It needs
// the shard's mutex. A writer settles once, after it has evicted: in a full
// cache most changes sum to zero, and then the counts that all processors share
// are not written to.
func (c *Cache[K, V]) settle(s *shard[K, V], d change) {
	if d.entries != 0 {
		s.entries.Add(d.entries)
		c.entries.Add(d.entries)
	}
	if d.weight != 0 {
		s.weight.Add(d.weight)
		c.weight.Add(d.weight)
	}
}

// over reports whether a bound is exceeded, including d, the caller's unsettled
// change.
func (c *Cache[K, V]) over(d change) bool {
	return c.entries.Load()+d.entries > c.maxEntries.Load() || c.weight.Load()+d.weight > c.maxWeight.Load()
}

// crowded reports whether a shard holds about its share, or more, of the
// exceeded bound. Eviction from crowded shards alone keeps the shards even. The
// slack of one eighth lets nearly all writers evict from the shard that they
// have locked already.
func (c *Cache[K, V]) crowded(s *shard[K, V], d change) bool {
	n := int64(len(c.shards))
	if total := c.entries.Load() + d.entries; total > c.maxEntries.Load() {
		return s.entries.Load()+d.entries >= (total-total/8)/n
	}
	total := c.weight.Load() + d.weight
	return s.weight.Load()+d.weight >= (total-total/8)/n
}

// evict removes entries from a shard while the cache is over a bound and the
// shard is crowded. If forced, it evicts from a shard that is not crowded too.
// It spares keep, and returns the change for the caller to settle. It needs the
// shard's mutex.
func (c *Cache[K, V]) evict(s *shard[K, V], keep *Entry[K, V], forced bool, removed []Removed[K, V], d change) ([]Removed[K, V], change) {
	for c.over(d) && (forced || c.crowded(s, d)) {
		e := s.queue.victim(keep)
		if e == nil {
			break
		}
		s.remove(e)
		d.entries--
		d.weight -= e.weight
		removed = c.note(s, removed, e, Evicted)
	}
	return removed, d
}

// evictAround evicts until the cache is within its bounds: first from crowded
// shards, beginning after the given one, then from all. The bounds hold when
// the last of several writers returns: that writer sees the entries of all
// others and spares only its own, which fits.
func (c *Cache[K, V]) evictAround(own int, keep *Entry[K, V], removed []Removed[K, V]) []Removed[K, V] {
	for _, forced := range []bool{false, true} {
		for i := range c.shards {
			s := &c.shards[(own+1+i)%len(c.shards)]
			if s.entries.Load() == 0 || !forced && !c.crowded(s, change{}) {
				continue
			}
			s.mu.Lock()
			var d change
			removed, d = c.evict(s, keep, forced, removed, d)
			c.settle(s, d)
			s.mu.Unlock()
			if !c.over(change{}) {
				return removed
			}
		}
	}
	return removed
}

// Resize changes the bounds, evicts until the entries fit, and returns the
// evicted entries for the caller to pass to Notify. Zero means that the other
// bound holds alone; if neither is positive, nothing changes. The number of
// shards stays the same.
func (c *Cache[K, V]) Resize(maxEntries, maxWeight int64) []Removed[K, V] {
	if maxEntries <= 0 && maxWeight <= 0 {
		return nil
	}
	c.setBounds(maxEntries, maxWeight)
	if !c.over(change{}) {
		return nil
	}
	return c.evictAround(0, nil, nil)
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

// clear empties the shards one after the other and, if closing, closes each.
func (c *Cache[K, V]) clear(closing bool) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.closed = s.closed || closing
		c.settle(s, change{-s.entries.Load(), -s.weight.Load()})
		head := s.empty()
		s.mu.Unlock()
		c.unlink(head)
	}
}

// unlink separates a list of removed entries and calls Notify for each. A
// pointer to one of them then does not keep the others in memory.
func (c *Cache[K, V]) unlink(head *Entry[K, V]) {
	for e := head; e != nil; {
		next := e.next
		e.prev, e.next, e.wnext, e.wprev = nil, nil, nil, nil
		if c.notify != nil {
			c.notifyOne(Removed[K, V]{e, Cleared})
		}
		e = next
	}
}
