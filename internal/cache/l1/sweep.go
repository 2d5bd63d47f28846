package l1

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// sweepBatch is the number of entries checked under one hold of a lock.
const sweepBatch = 256

// sweeper is the state of the goroutine that removes dead entries, and evicts entries
// left to it (rest).
//
// States: not running (no entry has a deadline); searching the wheels; sleeping
// until the tick of the first wheel slot that holds an entry. Invariant: for
// every deadline in a wheel, the goroutine will wake up by the end of its tick:
// a writer that adds a deadline before next starts or wakes it, and next is
// never unless the goroutine sleeps.
type sweeper struct {
	// next is the tick until which the goroutine sleeps; never while it
	// searches the wheels or does not run. A writer that adds an earlier
	// deadline wakes it.
	next atomic.Int64

	mu      sync.Mutex // guards running and closed
	running bool
	closed  bool
	wake    chan struct{} // capacity one
	done    chan struct{}
	wg      sync.WaitGroup
}

// init makes a sweeper that does not run.
func (w *sweeper) init() {
	w.next.Store(evict.Never)
	w.wake = make(chan struct{}, 1)
	w.done = make(chan struct{})
}

// close ends the goroutine and waits for it.
func (w *sweeper) close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.done)
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// leave reports whether the goroutine may end: no writer has sent a wake-up
// since the goroutine found no deadline.
func (w *sweeper) leave() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.wake:
		return false
	default:
		w.running = false
		return true
	}
}

// wakeSweeper wakes or starts the sweeper for a deadline already in a wheel.
// Most calls do nothing, because a new deadline is rarely before all others.
//
// While the sweeper searches the wheels, next is never. So a deadline that it
// may have missed wakes it.
func (c *core) wakeSweeper(dead int64) {
	w := &c.sweeper
	if evict.TickOf(dead) >= w.next.Load() {
		return
	}
	c.workSweeper()
}

// workSweeper wakes or starts the sweeper, so that it looks for work.
func (c *core) workSweeper() {
	w := &c.sweeper
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if !w.running {
		w.running = true
		w.wg.Go(c.sweep)
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// sweep removes dead entries, and evicts the entries owed, until no entry has a
// deadline and none is owed, or until Close.
func (c *core) sweep() {
	w := &c.sweeper
	ended := false
	defer func() {
		if !ended { // the callback called runtime.Goexit: continue in a new goroutine
			w.mu.Lock()
			defer w.mu.Unlock()
			w.wg.Go(c.sweep)
		}
	}()
	timer := time.NewTimer(time.Hour) // reset before its channel is read
	defer timer.Stop()
	for {
		w.next.Store(evict.Never)
		c.removeDead()
		if !c.settleBehind() {
			select {
			case <-w.done:
				ended = true
				return
			default:
			}
			continue
		}
		at := c.firstTick()
		if at == evict.Never {
			if w.leave() {
				ended = true
				return
			}
			continue
		}
		w.next.Store(at)
		timer.Reset(max(time.Duration((at+1)*evict.TickLength-c.clock.exact()), 1))
		select {
		case <-w.done:
			ended = true
			return
		case <-w.wake:
		case <-timer.C:
		}
	}
}

// firstTick returns the first tick with a deadline in any shard, or never.
func (c *core) firstTick() int64 {
	first := evict.Never
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		first = min(first, s.order.NextTick())
		s.mu.Unlock()
	}
	return first
}

// removeDead removes the dead entries of all past ticks and calls Notify for
// each.
func (c *core) removeDead() {
	now := c.clock.exact()
	for i := range c.shards {
		for more := true; more; {
			var dead []removed
			dead, more = c.sweepShard(&c.shards[i], now)
			c.tell(dead)
		}
	}
}

// sweepShard checks one batch of a shard's entries, returns the dead ones,
// which it has removed, and reports whether there are more to check.
func (c *core) sweepShard(s *shard, now int64) (dead []removed, more bool) {
	s.mu.Lock()
	defer s.unlock()
	for range sweepBatch {
		h := s.order.Overdue(now)
		if h == nil {
			return dead, false
		}
		if !c.idle.Over(h, now) {
			s.order.Rearm(h, now)
			continue
		}
		c.drop(s, h)
		dead = c.note(s, dead, h, Expired)
	}
	return dead, true
}

// Ward is a cache as the guard of the memory sees it; see guard.Cache.
type Ward core

// WardOf returns the ward of c.
func WardOf[K comparable, V any](c *Cache[K, V]) *Ward { return (*Ward)(&c.core) }

// pokeOne is how many keys there are for one whose stores poke the guard.
const pokeOne = 64

// Guarded makes one in 64 stores, by the hash of the key, call poke, which must not take long. With nil
// the cache has no guard any more: no store pokes, and nothing is owed.
func (w *Ward) Guarded(poke func()) {
	if poke == nil {
		w.poke.Store(nil)
		w.rest.guarded.Store(false)
		w.rest.guard.set(change{})
		return
	}
	w.poke.Store(&poke)
}

// Usage returns the units that Owe counts, and the hits since the cache was made. A unit is one of
// weight if the cache was made with a bound of weights, and else an entry: the guard learns how many bytes a unit has, so Resize
// does not change the unit. Pinned entries have no units.
func (w *Ward) Usage() (units int64, hits uint64) {
	units = w.entries.Load()
	if w.rest.weighs {
		units = w.weight.Load()
	}
	return max(0, units-w.pinned.Load()), w.counts.sum(countHits)
}

// Shed returns how many entries and units debts of Owe have evicted.
func (w *Ward) Shed() (entries, units int64) {
	entries = w.shed.entries.Load()
	if w.rest.weighs {
		return entries, w.shed.weight.Load()
	}
	return entries, entries
}

// Owe makes the next stores, or Settle, evict so many units, in place of what was owed before. The policy
// chooses the entries. The bounds stay.
//
// From the first debt on, and until the guard leaves, the policy takes the cache for full: else new
// entries would fill the room of the evicted ones as they come, used or not.
func (w *Ward) Owe(units int64) {
	d := change{entries: units}
	if w.rest.weighs {
		d = change{weight: units}
	}
	w.rest.guard.set(d)
	if units > 0 {
		w.rest.guarded.Store(true)
	}
}

// Settle evicts what is owed, and calls Notify for each entry.
func (w *Ward) Settle() {
	for done := false; !done; {
		var gone []removed
		gone, done = (*core)(w).settle(sliceEntries, nil, nil)
		(*core)(w).tell(gone)
	}
}
