package l1

import (
	"sync"
	"sync/atomic"
	"time"
)

// sweepBatch is the number of entries looked at under one hold of a lock.
const sweepBatch = 256

// sweeper is the life of the goroutine that removes dead entries. It runs
// while there are entries with a deadline, and sleeps until the first wheel
// slot that holds any.
type sweeper struct {
	// next is the tick it sleeps for; never while it looks for one or does not
	// run. Who adds an earlier deadline wakes it.
	next atomic.Int64

	mu      sync.Mutex // guards running and closed
	running bool
	closed  bool
	kick    chan struct{} // holds one
	done    chan struct{}
	wg      sync.WaitGroup
}

// init makes a sweeper that does not run.
func (w *sweeper) init() {
	w.next.Store(never)
	w.kick = make(chan struct{}, 1)
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

// leave reports whether the goroutine may end: nobody has called since it
// found that there is nothing to do.
func (w *sweeper) leave() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.kick:
		return false
	default:
		w.running = false
		return true
	}
}

// wakeSweeper tells the sweeper of a deadline that is in a wheel already. It
// does nothing most of the time: deadlines rarely come before all others.
//
// A deadline that the sweeper missed while it looked through the shards finds
// next at never, and calls.
func (c *Cache[K, V]) wakeSweeper(dead int64) {
	w := &c.sweeper
	if tickOf(dead) >= w.next.Load() {
		return
	}
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
	case w.kick <- struct{}{}:
	default:
	}
}

// sweep removes dead entries until there are none with a deadline, or until
// Close.
func (c *Cache[K, V]) sweep() {
	w := &c.sweeper
	ended := false
	defer func() {
		if !ended { // Notify has ended the goroutine: go on with another
			w.mu.Lock()
			defer w.mu.Unlock()
			w.wg.Go(c.sweep)
		}
	}()
	timer := time.NewTimer(time.Hour) // set anew before it is looked at
	defer timer.Stop()
	for {
		w.next.Store(never)
		c.removeDead()
		at := c.firstTick()
		if at == never {
			if w.leave() {
				ended = true
				return
			}
			continue
		}
		w.next.Store(at)
		timer.Reset(max(time.Duration((at+1)*tickLength-c.clock.exact()), 1))
		select {
		case <-w.done:
			ended = true
			return
		case <-w.kick:
		case <-timer.C:
		}
	}
}

// firstTick is the first tick that has a deadline in any shard, or never.
func (c *Cache[K, V]) firstTick() int64 {
	first := never
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		first = min(first, s.wheel.next())
		s.mu.Unlock()
	}
	return first
}

// removeDead removes and notifies of the entries whose tick is over.
func (c *Cache[K, V]) removeDead() {
	now := c.clock.exact()
	for i := range c.shards {
		for more := true; more; {
			var dead []Removed[K, V]
			dead, more = c.sweepShard(&c.shards[i], now)
			c.Notify(dead)
		}
	}
}

// sweepShard looks at one batch of a shard's entries and reports whether there
// are more.
func (c *Cache[K, V]) sweepShard(s *shard[K, V], now int64) (dead []Removed[K, V], more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range sweepBatch {
		e := s.wheel.pop(now / tickLength)
		if e == nil {
			return dead, false
		}
		if e.Dead > now {
			s.wheel.add(e)
			continue
		}
		c.drop(s, e)
		dead = c.note(s, dead, e, Expired)
	}
	return dead, true
}
