package l1

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/strata-cache/strata/internal/evict"
)

// Evictions of many entries are made in slices: what a lowered bound leaves over, and a
// share of the cache (Config.EvictShare). A slice takes one lock for as long as it takes to
// evict a few entries, from the shard that holds the most. The caller evicts the first
// slices itself, and the goroutine of the sweeper evicts the rest.
//
// Invariant: the totals never exceed the bounds. So Resize lowers a bound step by step:
// the room of an entry that a slice evicts is given to nobody.

const (
	// sliceEntries is the largest number of entries that a slice evicts: some 0.1 ms.
	sliceEntries = 256
	// storeEvicts and resizeEvicts are the entries beyond which a store and Resize leave
	// evictions to the goroutine.
	storeEvicts, resizeEvicts = 4 * sliceEntries, 64 * sliceEntries
)

// rest is what is still to be evicted.
type rest struct {
	// entries and weight are left of a share of the cache; zero or less if nothing is.
	entries, weight atomic.Int64
	// left says that the sweeper evicts it, and not a store that is about to.
	left atomic.Bool

	mu sync.Mutex // guards what follows, and changes of the bounds
	// wanted are the bounds that Resize was asked for. The bounds are not lower.
	wanted change
	// lowering says that a bound is above the wanted one.
	lowering atomic.Bool
}

// bound returns what a bound means for totals.
func bound(n, most int64) int64 {
	if n <= 0 {
		return Forever
	}
	return min(n, most)
}

// setBounds sets the bounds; zero or less means none. A bound that the totals exceed is
// lowered to these only.
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

// lower takes the room of an evicted entry, a negative change, from bounds that are above
// the wanted ones, before other writers can have it.
func (c *core) lower(less change) {
	r := &c.rest
	r.mu.Lock()
	defer r.mu.Unlock()
	c.maxEntries.Store(max(r.wanted.entries, c.maxEntries.Load()+less.entries))
	c.maxWeight.Store(max(r.wanted.weight, c.maxWeight.Load()+less.weight))
	r.lowering.Store(c.maxEntries.Load() > r.wanted.entries || c.maxWeight.Load() > r.wanted.weight)
}

// million is the unit of core.evictPPM.
const million = 1_000_000

// owe notes that a store has found no room for d: a share of each bound that d would
// exceed is to be evicted, rounded down, unless such a share is on its way.
func (c *core) owe(d change) {
	part := func(bound int64) int64 {
		bound = min(bound, maxBound)
		return bound/million*c.evictPPM + bound%million*c.evictPPM/million
	}
	if d == (change{}) || c.rest.entries.Load() > 0 || c.rest.weight.Load() > 0 {
		return
	}
	if bound := c.maxEntries.Load(); c.entries.Load()+d.entries > bound {
		c.rest.entries.Store(part(bound))
	}
	if bound := c.maxWeight.Load(); c.weight.Load()+d.weight > bound {
		c.rest.weight.Store(part(bound))
	}
}

// owes returns how much is to be evicted.
func (c *core) owes() (d change) {
	r := &c.rest
	d = change{max(0, r.entries.Load()), max(0, r.weight.Load())}
	if r.lowering.Load() {
		w := c.wanted()
		d.entries = max(d.entries, c.maxEntries.Load()-w.entries)
		d.weight = max(d.weight, c.maxWeight.Load()-w.weight)
	}
	return d
}

// pay notes the eviction of an entry, a negative change: so much less is owed of a share.
func (c *core) pay(less change) {
	if c.rest.entries.Load() > 0 {
		c.rest.entries.Add(less.entries)
	}
	if c.rest.weight.Load() > 0 {
		c.rest.weight.Add(less.weight)
	}
}

// forgive ends what cannot be paid: nothing is left that may be evicted.
func (c *core) forgive() {
	c.rest.entries.Store(0)
	c.rest.weight.Store(0)
	if c.rest.lowering.Load() {
		c.lower(change{-Forever / 2, -Forever / 2})
	}
}

// settle evicts what is owed, in slices, but no more than most entries and a slice. keep
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

// slice evicts entries from the shard that holds the most, or from the next one that has
// any to evict, and returns their number.
func (c *core) slice(d change, keep *evict.Head, gone []removed) (_ []removed, n int) {
	first, most := 0, int64(-1)
	for i := range c.shards {
		held := c.shards[i].entries.Load()
		if d.entries == 0 {
			held = c.shards[i].weight.Load()
		}
		if held > most {
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
	part := func(n int64) int64 { return (n + int64(len(c.shards)) - 1) / int64(len(c.shards)) }
	d = change{part(d.entries), part(d.weight)}
	s.mu.Lock()
	defer s.unlock()
	for n < sliceEntries && (d.entries > 0 || d.weight > 0) {
		var less change
		if gone, less = c.evictOne(s, change{}, eviction{forced: true, keep: keep}, gone); less.entries == 0 {
			break
		}
		c.pay(less)
		if c.rest.lowering.Load() {
			c.lower(less)
		}
		c.release(less)
		d.entries += less.entries
		d.weight += less.weight
		n++
	}
	return gone, n
}

// settleStore evicts some of what is owed, for a store of keep, and leaves the rest to the
// sweeper.
func (c *core) settleStore(keep *evict.Head, gone []removed) []removed {
	gone, done := c.settle(storeEvicts, keep, gone)
	if !done {
		c.leaveBehind()
	}
	return gone
}

// leaveBehind leaves what is owed to the sweeper.
func (c *core) leaveBehind() {
	c.rest.left.Store(true)
	c.workSweeper()
}

// settleBehind evicts some of what was left to the sweeper, and reports whether there is
// nothing more.
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
