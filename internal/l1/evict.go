package l1

// change is what a writer has added to its shard, or removed, and not settled
// yet.
type change struct{ entries, weight int64 }

// settle adds a change to the counts of the shard and of the cache. It needs
// the shard's mutex. A writer settles once, after it has evicted: in a full
// cache most changes come to nothing, and then the counts that all processors
// share are not written to.
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

// over reports whether a bound is exceeded, counting what the caller has not
// settled.
func (c *Cache[K, V]) over(d change) bool {
	return c.entries.Load()+d.entries > c.maxEntries.Load() || c.weight.Load()+d.weight > c.maxWeight.Load()
}

// crowded reports whether a shard holds about its share, or more, of that
// which is too much. Evicting only from such shards keeps them even; the eighth
// of slack lets nearly all writers evict where they have the lock already.
func (c *Cache[K, V]) crowded(s *shard[K, V], d change) bool {
	n := int64(len(c.shards))
	if total := c.entries.Load() + d.entries; total > c.maxEntries.Load() {
		return s.entries.Load()+d.entries >= (total-total/8)/n
	}
	total := c.weight.Load() + d.weight
	return s.weight.Load()+d.weight >= (total-total/8)/n
}

// evict removes entries from a shard while the cache is over a bound and the
// shard is crowded, or while it has any if forced. It spares keep, and returns
// the change for the caller to settle. It needs the shard's mutex.
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

// evictAround evicts from the shards after the given one, then from all,
// until the cache is within its bounds. The bounds hold when the last of
// several writers returns: it sees the entries of all others, and spares only
// its own, which fits.
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

// Resize changes the bounds, evicts what does not fit, and returns that for
// the caller to give to Notify. Zero means that the other bound holds alone;
// if neither is positive nothing changes. The number of shards stays.
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

// Clear removes everything and notifies.
func (c *Cache[K, V]) Clear() { c.clear(false) }

// Close removes everything, notifies, and ends the goroutines of the cache.
// From then on Get misses and Set refuses. A second Close does no harm.
func (c *Cache[K, V]) Close() {
	c.clear(true)
	c.sweeper.close()
	c.clock.close()
}

// clear empties the shards, one after the other, and closes them for good if
// asked to.
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

// unlink takes a list of removed entries apart, so that who still holds one of
// them does not hold all, and notifies.
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
