package l1

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/evict"
)

// change is a difference of a shard, and of the cache.
type change struct{ entries, weight int64 }

// reserve adds a change to the totals of the cache, unless that would exceed a
// bound. It needs the mutex of the shard that changes.
//
// Invariant: the totals never exceed the bounds, and no table holds an entry that
// the totals do not count. So an insertion reserves its room first, and the room
// of an evicted entry is given up, or passed on, only after its removal.
func (c *core) reserve(d change) bool {
	if !raise(&c.entries, d.entries, c.maxEntries.Load()) {
		return false
	}
	if !raise(&c.weight, d.weight, c.maxWeight.Load()) {
		c.entries.Add(-max(0, d.entries))
		return false
	}
	c.release(change{min(0, d.entries), min(0, d.weight)})
	return true
}

// raise adds d to a total if d is positive; it reports false instead of exceeding
// the bound.
func raise(total *atomic.Int64, d, bound int64) bool {
	for d > 0 {
		n := total.Load()
		if n > bound-d {
			return false
		}
		if total.CompareAndSwap(n, n+d) {
			return true
		}
	}
	return true
}

// release adds a negative change to the totals. In a full cache most changes sum
// to zero, and then the totals, which all processors share, are not written to.
func (c *core) release(d change) {
	if d.entries != 0 {
		c.entries.Add(d.entries)
	}
	if d.weight != 0 {
		c.weight.Add(d.weight)
	}
}

// over reports whether a change would exceed a bound.
func (c *core) over(d change) bool {
	return c.entries.Load()+d.entries > c.maxEntries.Load() || c.weight.Load()+d.weight > c.maxWeight.Load()
}

// crowded reports whether a shard that holds so much holds about its share, or more, of the bound
// that a change would exceed. Eviction from crowded shards alone keeps the shards
// even. The slack of one eighth lets nearly all writers evict from the shard that
// they have locked already.
func (c *core) crowded(held, d change) bool {
	n := int64(len(c.shards))
	if total := c.entries.Load() + d.entries; total > c.maxEntries.Load() {
		return held.entries >= (total-total/8)/n
	}
	total := c.weight.Load() + d.weight
	return held.weight >= (total-total/8)/n
}

// room reserves d, the change of an insertion into a shard, and evicts from the
// shard as long as the bounds need it. It fails if the shard is
// not crowded, unless forced, or has nothing more to evict; what it has evicted is
// gone all the same. It needs the shard's mutex.
func (c *core) room(s *shard, d change, how eviction, gone []removed) ([]removed, bool) {
	var freed change
	for !c.reserve(change{d.entries + freed.entries, d.weight + freed.weight}) {
		if c.evictPPM > 0 && freed == (change{}) {
			c.owe(d)
		}
		var less change
		if gone, less = c.evictOne(s, d, how, gone); less.entries == 0 {
			c.release(freed)
			return gone, false
		}
		c.pay(less)
		freed.entries += less.entries
		freed.weight += less.weight
	}
	return gone, true
}

// eviction says how a shard makes room.
type eviction struct {
	at     evict.Standing // of the new entry
	forced bool           // also if the shard is not crowded
	keep   *evict.Head    // stays
}

// evictOne takes one entry out of a shard, and returns the change for the totals of
// the cache; zero if there is no entry to evict.
func (c *core) evictOne(s *shard, d change, how eviction, gone []removed) ([]removed, change) {
	if !how.forced && !c.crowded(s.held, d) {
		return gone, change{}
	}
	now := c.clock.now()
	victim := s.order.Evict(how.at, how.keep, now)
	if victim.Head == nil {
		return gone, change{}
	}
	less := s.left(victim)
	if victim.Born != 0 {
		c.ages.Add(time.Duration(c.clock.exact() - victim.Born))
	}
	return c.note(s, gone, victim.Head, c.reasonAt(Evicted, victim.Head, now)), less
}

// evictAround evicts from all shards, beginning after the given one, until d fits:
// first from crowded shards, then from any. Other writers may take the room before
// the caller does. keep stays, if there is one.
func (c *core) evictAround(own int, d change, keep *evict.Head, gone []removed) []removed {
	how := eviction{keep: keep}
	for _, how.forced = range []bool{false, true} {
		for i := range c.shards {
			s := &c.shards[(own+1+i)%len(c.shards)]
			if !c.over(d) {
				return gone
			}
			held := change{s.entries.Load(), s.weight.Load()}
			if held.entries > 0 && (how.forced || c.crowded(held, d)) {
				gone = c.shrink(s, d, how, gone)
			}
		}
	}
	return gone
}

// shrink evicts from one shard until d fits.
func (c *core) shrink(s *shard, d change, how eviction, gone []removed) []removed {
	if c.evictPPM > 0 {
		c.owe(d)
	}
	for n := sliceEntries; n == sliceEntries; {
		gone, n = c.shrinkOnce(s, d, how, gone)
	}
	return gone
}

// shrinkOnce is a slice of shrink, and returns the number of entries that it has evicted.
func (c *core) shrinkOnce(s *shard, d change, how eviction, gone []removed) (_ []removed, n int) {
	s.mu.Lock()
	defer s.unlock()
	for n < sliceEntries && c.over(d) {
		var less change
		if gone, less = c.evictOne(s, d, how, gone); less.entries == 0 {
			break
		}
		c.pay(less)
		c.release(less)
		n++
	}
	return gone, n
}

// resize changes the bounds, and evicts until the entries fit or the sweeper goes on.
func (c *core) resize(maxEntries, maxWeight int64) []removed {
	if maxEntries <= 0 && maxWeight <= 0 {
		return nil
	}
	c.setBounds(maxEntries, maxWeight)
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.order.Fit(c.policy, c.share(), c.weighted())
		s.mu.Unlock()
	}
	gone, done := c.settle(resizeEvicts, nil, nil)
	if !done {
		c.leaveBehind()
		return gone
	}
	return c.evictAround(0, change{}, nil, gone) // what writers have reserved by the bounds of before
}

// unpin makes all pinned entries ordinary ones: together they exceed the bounds.
func (c *core) unpin() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		c.pinned.Add(-int64(s.order.Unpin()))
		s.mu.Unlock()
	}
}

// used records the hit of an entry that has a State and has not reached its deadline at
// now, and reports whether its idle life has not ended either.
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

// Cool takes one of the uses that h counts, and reports whether there was one: an entry
// that is cooled again and again, and is not read, has none after MaxUses times, with a
// policy that listens after the first.
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

// clear empties the shards one after the other and, if closing, closes each.
func (c *core) clear(closing bool) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.closed = s.closed || closing
		c.pinned.Add(-int64(s.order.Unpin()))
		old, less := s.empty()
		c.release(less)
		s.mu.Unlock()
		if c.notify != nil {
			old.each(func(h *evict.Head) bool {
				c.tellOne(removed{h, Cleared})
				return true
			})
		}
	}
}

// note counts a removal and, if there is a Notify function, adds it to the
// list. It needs the shard's mutex.
func (c *core) note(s *shard, gone []removed, h *evict.Head, r Reason) []removed {
	switch r {
	case Evicted:
		s.evicted++
	case Expired:
		s.expired++
	}
	if c.notify == nil {
		return nil
	}
	return append(gone, removed{h, r})
}

// tell calls Config.Notify for each removed entry. The caller holds no lock.
func (c *core) tell(gone []removed) {
	for _, r := range gone {
		c.tellOne(r)
	}
}

// tellOne recovers from a panic of the callback, so that it does not stop the
// rest of the list or the sweeper.
func (c *core) tellOne(r removed) {
	defer func() {
		if recover() != nil {
			c.panics.Add(1)
		}
	}()
	c.notify(r.head, r.reason)
}

// reasonAt returns r, or Expired if the entry was dead at now.
func (c *core) reasonAt(r Reason, h *evict.Head, now int64) Reason {
	if c.idle.Over(h, now) {
		return Expired
	}
	return r
}
