package l1

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/evict"
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
	if !raise(&c.entries, d.entries, &c.maxEntries) {
		return false
	}
	if !raise(&c.weight, d.weight, &c.maxWeight) {
		c.entries.Add(-max(0, d.entries))
		return false
	}
	c.release(change{min(0, d.entries), min(0, d.weight)})
	return true
}

// raise adds d to a total if d is positive; it reports false instead of exceeding
// the bound. A bound lowered meanwhile counts.
func raise(total *atomic.Int64, d int64, bound *atomic.Int64) bool {
	for d > 0 {
		n := total.Load()
		if n > bound.Load()-d {
			return false
		}
		if !total.CompareAndSwap(n, n+d) {
			continue
		}
		if n+d <= bound.Load() {
			return true
		}
		total.Add(-d)
		return false
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
	missing := lack(c, d)
	return missing.entries > 0 || missing.weight > 0
}

// lack returns by how much a change would exceed the bounds; less than zero is room. Sums may overflow, and the room does
// not.
func lack(c *core, d change) change {
	return change{d.entries - (c.maxEntries.Load() - c.entries.Load()), d.weight - (c.maxWeight.Load() - c.weight.Load())}
}

// crowded reports whether a shard that holds so many entries has about its share of them, or more. Eviction from crowded
// shards alone keeps the shards even. The slack of one eighth lets nearly all writers evict from the shard that
// they have locked already.
//
// Entries count, and not weights, also for a bound of weights: keys are hashed, so the numbers are even. By weights a shard with a heavy
// entry would make the room for all others, until that entry is gone, however much it is used.
func (c *core) crowded(held int64) bool {
	total := c.entries.Load()
	return held >= (total-total/8)/int64(c.inUse())
}

// room reserves the change that an arrival needs, and evicts from its shard as long as the
// bounds need it. It fails if the shard is not crowded, unless forced, or has nothing more to
// evict; entries evicted by then are gone even so. It needs the shard's mutex.
//
// It also fails, and a.sliced says so, after sliceEntries evictions: the caller gives the
// mutex to others and calls room again. The room of the entries evicted till then is the
// arrival's, and counted in the totals.
func (c *core) room(s *shard, a *arrival, how eviction, gone []removed) ([]removed, bool) {
	for n := 0; !c.reserve(change{a.need.entries + a.freed.entries, a.need.weight + a.freed.weight}); n++ {
		if a.sliced = n == sliceEntries; a.sliced {
			return gone, false
		}
		// One insertion owes a share at most once, with the first room that it does not find.
		if c.rest.ppm > 0 && a.freed == (change{}) {
			c.owe(a.need)
		}
		var less change
		if gone, less = c.evictOne(s, how, gone); less.entries == 0 {
			c.giveUp(a)
			return gone, false
		}
		c.pay(less)
		a.evicted = true
		a.freed.entries += less.entries
		a.freed.weight += less.weight
	}
	a.freed = change{}
	return gone, true
}

// giveUp leaves the room of the entries evicted for an arrival to any writer.
func (c *core) giveUp(a *arrival) {
	c.release(a.freed)
	a.freed = change{}
}

// eviction says how a shard makes room.
type eviction struct {
	at     evict.Standing // of the new entry
	forced bool           // also if the shard is not crowded
	keep   *evict.Head    // stays
	now    int64          // zero: the clock is asked
}

// evictOne takes one entry out of a shard, and returns the change for the totals of
// the cache; zero if there is no entry to evict.
func (c *core) evictOne(s *shard, how eviction, gone []removed) ([]removed, change) {
	if !how.forced && !c.crowded(s.held.entries) {
		return gone, change{}
	}
	now := how.now
	if now == 0 {
		now = c.clock.now()
	}
	keep := how.keep
	if keep != nil && c.shardOf(keep) != s {
		keep = nil // its node belongs to the lock of another shard
	}
	victim := s.order.Evict(how.at, keep, now)
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
// first from crowded shards, then a part of the missing room from each. Other writers may take the room before
// the caller does. keep stays, if there is one.
func (c *core) evictAround(own int, d change, keep *evict.Head, gone []removed) []removed {
	for i := range c.shards {
		s := &c.shards[(own+1+i)%len(c.shards)]
		if !c.over(d) {
			return gone
		}
		// A count without a lock again: an empty or small shard is not worth one.
		if n := s.entries.Load(); n > 0 && c.crowded(n) {
			gone = c.shrink(s, d, eviction{keep: keep}, gone)
		}
	}
	// A shard that makes all the room for a heavy entry loses its entries in use, while the others keep entries of no use.
	for n := 1; n > 0 && c.over(d); {
		missing := lack(c, d)
		gone, n = c.slice(change{max(0, missing.entries), max(0, missing.weight)}, keep, gone)
	}
	return gone
}

// shrink evicts from one shard until d fits.
func (c *core) shrink(s *shard, d change, how eviction, gone []removed) []removed {
	if c.rest.ppm > 0 {
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
		if gone, less = c.evictOne(s, how, gone); less.entries == 0 {
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
	if w := c.wanted(); c.pinned.Load() > min(w.entries, w.weight) {
		c.unpin() // together they exceed the bounds
	}
	gone, done := c.settle(resizeEvicts, nil, nil)
	if !done {
		c.leaveBehind()
		return gone
	}
	return c.evictAround(0, change{}, nil, gone) // room that writers have reserved by the earlier bounds
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

// Many entries are evicted in slices: for a lowered bound, and for a share of the cache
// (Config.EvictShare). A slice takes one lock for as long as it takes to evict a few
// entries, from the shard that holds the most. The caller evicts the first slices itself,
// and the goroutine of the sweeper evicts the rest.
//
// Invariant: the totals never exceed the bounds. So Resize lowers a bound step by step:
// a slice takes the room of an evicted entry from the bound at once, before another
// writer can have it.

const (
	// sliceEntries is the largest number of entries that a slice evicts: some 0.1 ms.
	sliceEntries = 256
	// storeEvicts and resizeEvicts are the entries beyond which a store and Resize leave
	// evictions to the goroutine.
	storeEvicts, resizeEvicts = 4 * sliceEntries, 64 * sliceEntries
)

// rest is the part of the cache that must still be evicted.
type rest struct {
	// ppm is Config.EvictShare in millionths, weighs whether the guard counts weights. Both are written once.
	ppm    int64
	weighs bool
	// share is a share of the cache, guard what the guard of the memory wants.
	share, guard debt
	// left says that the sweeper evicts the rest, and no store is about to.
	left atomic.Bool

	mu sync.Mutex // guards the following, and changes of the bounds
	// wanted are the bounds given to Resize. The present bounds are never lower.
	wanted change
	// lowering says that a bound is above the wanted one.
	lowering atomic.Bool
	// guarded says that the cache has a guard, and has owed it something.
	guarded atomic.Bool
}

// debt is the remainder of what must be evicted; zero or less if nothing remains.
type debt struct{ entries, weight atomic.Int64 }

// rest returns what remains.
func (d *debt) rest() change { return change{max(0, d.entries.Load()), max(0, d.weight.Load())} }

// pay takes an evicted entry, a negative change, off the debt, and reports whether anything remained.
func (d *debt) pay(less change) (was bool) {
	if d.entries.Load() > 0 {
		d.entries.Add(less.entries)
		was = true
	}
	if d.weight.Load() > 0 {
		d.weight.Add(less.weight)
		was = true
	}
	return was
}

// set replaces what remains.
func (d *debt) set(to change) {
	d.entries.Store(to.entries)
	d.weight.Store(to.weight)
}

// bound returns n, at most most, or Forever if n is zero or less: no bound.
func bound(n, most int64) int64 {
	if n <= 0 {
		return Forever
	}
	return min(n, most)
}

// setBounds sets the bounds; zero or less means none. A bound below the totals is
// lowered to the totals only, since these never exceed the bounds.
func (c *core) setBounds(entries, weight int64) {
	r := &c.rest
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = change{bound(entries, Forever), bound(weight, maxBound)}
	c.maxEntries.Store(max(r.wanted.entries, min(c.maxEntries.Load(), c.entries.Load())))
	c.maxWeight.Store(max(r.wanted.weight, min(c.maxWeight.Load(), c.weight.Load())))
	r.lowering.Store(c.maxEntries.Load() > r.wanted.entries || c.maxWeight.Load() > r.wanted.weight)
}

// wanted returns the bounds that the cache has, or will have soon.
func (c *core) wanted() change {
	c.rest.mu.Lock()
	defer c.rest.mu.Unlock()
	return c.rest.wanted
}

// lower takes the room of an evicted entry, a negative change, from bounds above the
// wanted ones, before other writers can have it.
func (c *core) lower(less change) {
	r := &c.rest
	r.mu.Lock()
	defer r.mu.Unlock()
	c.maxEntries.Store(max(r.wanted.entries, c.maxEntries.Load()+less.entries))
	c.maxWeight.Store(max(r.wanted.weight, c.maxWeight.Load()+less.weight))
	// A writer may have reserved its room by the bound before the first step.
	over := c.entries.Load()+less.entries > r.wanted.entries || c.weight.Load()+less.weight > r.wanted.weight
	r.lowering.Store(over || c.maxEntries.Load() > r.wanted.entries || c.maxWeight.Load() > r.wanted.weight)
}

// million is the unit of rest.ppm.
const million = 1_000_000

// owe notes that a store has found no room for d: from now on a share of each bound that
// d would exceed, rounded down, must be evicted, unless such a share is on its way.
func (c *core) owe(d change) {
	part := func(bound int64) int64 {
		bound = min(bound, maxBound)
		return bound/million*c.rest.ppm + bound%million*c.rest.ppm/million
	}
	if d == (change{}) || c.rest.share.rest() != (change{}) {
		return
	}
	missing := lack(c, d)
	if missing.entries > 0 {
		c.rest.share.entries.Store(part(c.maxEntries.Load()))
	}
	if missing.weight > 0 {
		c.rest.share.weight.Store(part(c.maxWeight.Load()))
	}
}

// owes returns the entries and the weight that must be evicted.
func (c *core) owes() (d change) {
	r := &c.rest
	d = r.share.rest()
	if r.guarded.Load() {
		g := r.guard.rest()
		d = change{max(d.entries, g.entries), max(d.weight, g.weight)}
	}
	if r.lowering.Load() {
		w := c.wanted()
		d.entries = max(d.entries, c.maxEntries.Load()-w.entries, c.entries.Load()-w.entries)
		d.weight = max(d.weight, c.maxWeight.Load()-w.weight, c.weight.Load()-w.weight)
	}
	return d
}

// pay notes the eviction of an entry, a negative change: it is taken off all that is owed.
func (c *core) pay(less change) {
	if c.rest.ppm > 0 {
		c.rest.share.pay(less)
	}
	if c.rest.guarded.Load() && c.rest.guard.pay(less) {
		c.shed.entries.Add(-less.entries)
		c.shed.weight.Add(-less.weight)
	}
}

// forgive is called when nothing is left that may be evicted.
func (c *core) forgive() {
	c.rest.share.set(change{})
	c.rest.guard.set(change{})
	// A change as large as this lowers the bounds to the wanted ones in one step.
	if c.rest.lowering.Load() {
		c.lower(change{-Forever / 2, -Forever / 2})
	}
}

// settle evicts until nothing is owed, in slices, but no more than most entries and a slice. keep
// stays, if there is one. It reports whether nothing is owed any more.
func (c *core) settle(most int, keep *evict.Head, gone []removed) ([]removed, bool) {
	for n := 0; ; {
		d := c.owes()
		if d == (change{}) {
			return gone, true
		}
		if n >= most {
			return gone, false
		}
		var evicted int
		if gone, evicted = c.slice(d, keep, gone); evicted > 0 {
			n += evicted
			continue
		}
		if c.rest.lowering.Load() && c.pinned.Load() > 0 {
			c.unpin() // together they exceed the bounds
			continue
		}
		c.forgive()
	}
}

// slice evicts entries from the shard that holds the most, or from the next shard with
// any to evict, and returns their number.
func (c *core) slice(d change, keep *evict.Head, gone []removed) (_ []removed, n int) {
	first, most := 0, int64(-1)
	// The counts are read without the locks of the shards: the choice need not be exact.
	for i := range c.shards {
		if held := c.shards[i].entries.Load(); held > most {
			first, most = i, held
		}
	}
	for i := range c.shards {
		if gone, n = c.sliceOf(&c.shards[(first+i)%len(c.shards)], d, keep, gone); n > 0 {
			return gone, n
		}
	}
	return gone, 0
}

// sliceOf evicts from one shard: no more than its part of d, so that the shards stay even.
func (c *core) sliceOf(s *shard, d change, keep *evict.Head, gone []removed) (_ []removed, n int) {
	in := int64(c.inUse())
	part := func(n int64) int64 { return (n + in - 1) / in }
	d = change{part(d.entries), part(d.weight)}
	s.mu.Lock()
	defer s.unlock()
	for n < sliceEntries && (d.entries > 0 || d.weight > 0) {
		var less change
		if gone, less = c.evictOne(s, eviction{forced: true, keep: keep}, gone); less.entries == 0 {
			break
		}
		c.pay(less)
		if c.rest.lowering.Load() {
			c.lower(less)
		}
		c.release(less)
		d.entries += less.entries
		d.weight += less.weight
		if n++; c.owes() == (change{}) {
			break // others have paid as well, or the guard has left
		}
	}
	return gone, n
}

// settleStore evicts some entries, for a store of keep, and leaves the rest to the
// sweeper.
func (c *core) settleStore(keep *evict.Head, gone []removed) []removed {
	gone, done := c.settle(storeEvicts, keep, gone)
	if !done {
		c.leaveBehind()
	}
	return gone
}

// leaveBehind leaves the evictions to the sweeper.
func (c *core) leaveBehind() {
	c.rest.left.Store(true)
	c.workSweeper()
}

// settleBehind evicts some entries, if evictions were left to the sweeper, and reports
// whether the work is done.
func (c *core) settleBehind() bool {
	if !c.rest.left.Swap(false) {
		return true
	}
	gone, done := c.settle(sliceEntries, nil, nil)
	c.tell(gone)
	if !done {
		c.rest.left.Store(true)
		runtime.Gosched()
	}
	return done
}
