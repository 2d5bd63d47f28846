package l1

// over reports whether a bound is exceeded.
func (c *Cache[K, V]) over() bool {
	return c.entries.Load() > c.maxEntries.Load() || c.weight.Load() > c.maxWeight.Load()
}

// crowded reports whether a shard holds about its share, or more, of that
// which is too much. Evicting only from such shards keeps them even; the eighth
// of slack lets nearly all writers evict where they have the lock already.
func (c *Cache[K, V]) crowded(s *shard[K, V]) bool {
	n := int64(len(c.shards))
	if total := c.entries.Load(); total > c.maxEntries.Load() {
		return s.entries.Load() >= (total-total/8)/n
	}
	total := c.weight.Load()
	return s.weight.Load() >= (total-total/8)/n
}

// evict removes entries from a shard while the cache is over a bound and the
// shard is crowded, or while it has any if forced. It spares keep, and needs
// the shard's mutex.
func (c *Cache[K, V]) evict(s *shard[K, V], keep *Entry[K, V], forced bool, removed []Removed[K, V]) []Removed[K, V] {
	for c.over() && (forced || c.crowded(s)) {
		e := s.queue.victim(keep)
		if e == nil {
			break
		}
		c.drop(s, e)
		removed = c.note(s, removed, e, Evicted)
	}
	return removed
}

// evictAround evicts from the shards after the given one, then from all,
// until the cache is within its bounds. The bounds hold when the last of
// several writers returns: it sees the entries of all others, and spares only
// its own, which fits.
func (c *Cache[K, V]) evictAround(own int, keep *Entry[K, V], removed []Removed[K, V]) []Removed[K, V] {
	for _, forced := range []bool{false, true} {
		for i := range c.shards {
			s := &c.shards[(own+1+i)%len(c.shards)]
			if s.entries.Load() == 0 || !forced && !c.crowded(s) {
				continue
			}
			s.mu.Lock()
			removed = c.evict(s, keep, forced, removed)
			s.mu.Unlock()
			if !c.over() {
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
	if !c.over() {
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
		head, entries, weight := s.empty()
		c.entries.Add(-entries)
		c.weight.Add(-weight)
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
