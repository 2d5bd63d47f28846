package l1

// Outcome is the result of a store.
type Outcome uint8

// Outcomes of SetIf.
const (
	// Stored: the entry is in the cache.
	Stored Outcome = iota + 1
	// Lost: the key does not hold the expected entry. Nothing was changed.
	Lost
	// TooHeavy: the entry can never fit. The entry that the key held is
	// removed.
	TooHeavy
	// Closed: the cache is closed.
	Closed
)

// Set stores an entry and returns the entries that it removed, for the caller
// to pass to Notify once it holds no lock. It reports false if the entry was
// not stored, because the cache is closed or because the entry alone is heavier
// than the bound; in the second case the entry that the key held is removed
// too. The entry just stored is never evicted by its own Set. A negative weight
// counts as zero.
func (c *Cache[K, V]) Set(e *Entry[K, V], weight int64) (gone []Removed[K, V], ok bool) {
	gone, o := c.store(e, weight, nil, false)
	return gone, o == Stored
}

// SetIf is Set on the condition that the key still holds old; nil stands for no
// living entry.
func (c *Cache[K, V]) SetIf(old, e *Entry[K, V], weight int64) ([]Removed[K, V], Outcome) {
	return c.store(e, weight, old, true)
}

// store implements Set and SetIf. While the shard has no room and others hold more
// than their share, it evicts from those, with no lock held.
func (c *Cache[K, V]) store(e *Entry[K, V], weight int64, old *Entry[K, V], conditional bool) ([]Removed[K, V], Outcome) {
	hash := c.hash(e.Key)
	a := arrival{head: headOf(e), hash: uint32(hash), weight: max(0, weight)}
	if conditional || c.notify != nil || e.Dead != Forever {
		a.now = c.clock.exact()
	}
	var gone []removed
	for {
		var o Outcome
		gone, o = c.try(&a, hash, e.Key, headOf(old), conditional, gone)
		if o == 0 {
			gone = c.evictAround(int(hash>>c.shift), change{1, a.weight}, a.now, gone)
			a.forced = true
			continue
		}
		if o == Stored {
			c.wakeSweeper(e.Dead)
		}
		return c.list(gone), o
	}
}

// try stores an arrival, or returns zero if there is no room for it.
func (c *Cache[K, V]) try(a *arrival, hash uint64, key K, old *head, conditional bool, gone []removed) ([]removed, Outcome) {
	s := c.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return gone, Closed
	}
	held := headOf(c.find(hash, key))
	if conditional && held != old && !(old == nil && held.Dead <= a.now) {
		return gone, Lost
	}
	if a.weight > c.maxWeight.Load() {
		return append(gone, c.withdraw(s, held, a.now)...), TooHeavy
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
// and flags differ. So e inherits the weight of old, and Notify is not called.
func (c *Cache[K, V]) Swap(old, e *Entry[K, V]) bool {
	return c.swap(headOf(old), headOf(e))
}

// Delete removes the entry of key and returns it for the caller to pass to
// Notify. It reports whether the entry was alive; the reason for a dead one is
// Expired.
func (c *Cache[K, V]) Delete(key K) (e *Entry[K, V], alive bool) {
	hash := c.hash(key)
	s := c.shard(hash)
	if c.find(hash, key) == nil {
		return nil, false // a writer that is not done yet comes after this
	}
	now := c.clock.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if e = c.find(hash, key); e == nil {
		return nil, false
	}
	c.drop(s, headOf(e))
	if now >= e.Dead {
		s.expired++
		return e, false
	}
	return e, true
}

// DeleteEntry removes e if its key still holds it, and reports whether it did.
func (c *Cache[K, V]) DeleteEntry(e *Entry[K, V]) bool {
	return c.deleteHead(headOf(e))
}

// DeleteFunc removes the living entries for which f returns true, calls Notify
// for each, and returns their number. f is called without any lock; an entry
// that is replaced while f runs stays.
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
// evicted entries for the caller to pass to Notify. Zero means that the other
// bound holds alone; if neither is positive, nothing changes. The number of
// shards stays the same.
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
