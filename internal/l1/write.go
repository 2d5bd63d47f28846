package l1

import "hash/maphash"

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
func (c *Cache[K, V]) Set(e *Entry[K, V], weight int64) (removed []Removed[K, V], ok bool) {
	removed, o := c.store(e, weight, nil, false)
	return removed, o == Stored
}

// SetIf is Set on the condition that the key still holds old; nil stands for no
// living entry.
func (c *Cache[K, V]) SetIf(old, e *Entry[K, V], weight int64) ([]Removed[K, V], Outcome) {
	return c.store(e, weight, old, true)
}

// store implements Set and SetIf.
func (c *Cache[K, V]) store(e *Entry[K, V], weight int64, old *Entry[K, V], conditional bool) ([]Removed[K, V], Outcome) {
	e.hash, e.weight = maphash.Comparable(c.seed, e.Key), max(0, weight)
	var now int64
	if conditional || c.notify != nil {
		now = c.clock.exact()
	}
	own := int(e.hash >> c.shift)
	s := &c.shards[own]

	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, Closed
	}
	held := s.find(e.hash, e.Key)
	if conditional && held != old && !(old == nil && held.Dead <= now) {
		s.mu.Unlock()
		return nil, Lost
	}
	if e.weight > c.maxWeight.Load() {
		s.rejected++
		removed := c.withdraw(s, held, now)
		s.mu.Unlock()
		return removed, TooHeavy
	}
	removed, d := c.place(s, held, e, now)
	removed, d = c.evict(s, e, false, removed, d)
	c.settle(s, d)
	s.mu.Unlock()

	if c.over(change{}) {
		removed = c.evictAround(own, e, removed)
	}
	c.wakeSweeper(e.Dead)
	return removed, Stored
}

// place stores e instead of held, which may be nil. It needs the shard's mutex.
func (c *Cache[K, V]) place(s *shard[K, V], held, e *Entry[K, V], now int64) ([]Removed[K, V], change) {
	if held == nil {
		s.insert(e)
		return nil, change{1, e.weight}
	}
	s.replace(held, e)
	return c.note(s, nil, held, reasonAt(Replaced, held, now)), change{0, e.weight - held.weight}
}

// withdraw removes held, the entry of a key that was set to an entry too heavy
// to be kept. It needs the shard's mutex.
func (c *Cache[K, V]) withdraw(s *shard[K, V], held *Entry[K, V], now int64) []Removed[K, V] {
	if held == nil {
		return nil
	}
	c.drop(s, held)
	return c.note(s, nil, held, reasonAt(Rejected, held, now))
}

// drop removes an entry from its shard and the totals. It needs the shard's
// mutex.
func (c *Cache[K, V]) drop(s *shard[K, V], e *Entry[K, V]) {
	s.remove(e)
	c.settle(s, change{-1, -e.weight})
}

// note counts a removal and, if there is a Notify function, adds it to the
// list. It needs the shard's mutex.
func (c *Cache[K, V]) note(s *shard[K, V], removed []Removed[K, V], e *Entry[K, V], r Reason) []Removed[K, V] {
	switch r {
	case Evicted:
		s.evicted++
	case Expired:
		s.expired++
	}
	if c.notify == nil {
		return nil
	}
	return append(removed, Removed[K, V]{e, r})
}

// reasonAt returns r, or Expired if the entry was dead at now.
func reasonAt[K comparable, V any](r Reason, e *Entry[K, V], now int64) Reason {
	if e.Dead <= now {
		return Expired
	}
	return r
}

// Swap puts e in the place of old if the key still holds old, and reports
// whether it did. Both have the same key and the same value; only lives, stamp
// and flags differ. So e inherits the weight of old, and Notify is not called.
func (c *Cache[K, V]) Swap(old, e *Entry[K, V]) bool {
	e.hash, e.weight = old.hash, old.weight
	s := c.shard(e.hash)
	s.mu.Lock()
	if !s.holds(old) {
		s.mu.Unlock()
		return false
	}
	s.replace(old, e)
	s.mu.Unlock()
	c.wakeSweeper(e.Dead)
	return true
}

// Delete removes the entry of key and returns it for the caller to pass to
// Notify. It reports whether the entry was alive; the reason for a dead one is
// Expired.
func (c *Cache[K, V]) Delete(key K) (e *Entry[K, V], alive bool) {
	hash := maphash.Comparable(c.seed, key)
	s := c.shard(hash)
	now := c.clock.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e = s.find(hash, key)
	if e == nil {
		return nil, false
	}
	c.drop(s, e)
	if now >= e.Dead {
		s.expired++
		return e, false
	}
	return e, true
}

// DeleteEntry removes e if its key still holds it, and reports whether it did.
func (c *Cache[K, V]) DeleteEntry(e *Entry[K, V]) bool {
	s := c.shard(e.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.holds(e) {
		return false
	}
	c.drop(s, e)
	return true
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

// Notify calls Config.Notify for each removed entry. The caller holds no lock.
func (c *Cache[K, V]) Notify(removed []Removed[K, V]) {
	if c.notify == nil {
		return
	}
	for _, r := range removed {
		c.notifyOne(r)
	}
}

// notifyOne recovers from a panic of the callback, so that it does not stop the
// rest of the list or the sweeper.
func (c *Cache[K, V]) notifyOne(r Removed[K, V]) {
	defer func() {
		if recover() != nil {
			c.panics.Add(1)
		}
	}()
	c.notify(r.Entry, r.Reason)
}
