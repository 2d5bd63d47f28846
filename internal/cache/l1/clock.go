package l1

import (
	"sync"
	"sync/atomic"
	"time"
)

// timeless is the published time of a clock without use so far: before every
// deadline.
const timeless = 1

const (
	// paceReads is the number of hits on one stripe of counters after which a
	// reader calls pace, and paceStores the number of stores in one shard; powers of two.
	paceReads, paceStores = 64, 64
	// busyReads is the number of clock reads within busySpan from which a
	// goroutine that publishes the time is cheaper: two wake-ups cost about as
	// much as a hundred reads of the system's clock.
	busyReads = 256
	busySpan  = int64(time.Millisecond)
	// coarseTick is the time between two publications.
	coarseTick = 500 * time.Microsecond
	// quietTicks is the number of unread publications after which the goroutine
	// ends.
	quietTicks = 2
)

// clock tells the time since it was made, in nanoseconds, beginning with one.
// While reads are rare, every read asks the system. While reads are frequent, a
// goroutine publishes the time every coarseTick and a read costs one load. An
// idle clock needs no Close.
//
// A published time is late by up to coarseTick plus the delay of the scheduler.
// In a stopped process, or without an idle processor, that delay is long.
// Therefore readers look at the system's clock once per paceReads hits, and
// publish the time if it is late. As long as it is not, they write nothing.
type clock struct {
	start time.Time
	// published is the published time; zero means that readers ask the system.
	published atomic.Int64
	// used is set by reads and cleared by the goroutine.
	used atomic.Uint32
	_    [40]byte

	// since and paces count the calls of pace in the current busySpan. They are
	// approximate when readers race.
	since, paces atomic.Int64

	mu      sync.Mutex // guards running and closed
	running bool
	closed  bool
	done    chan struct{}
	wg      sync.WaitGroup
}

// init starts the clock.
func (c *clock) init() {
	c.start = time.Now()
	c.done = make(chan struct{})
}

// exact returns the system's time. It is at least two: zero stands for no time, and
// one is timeless.
func (c *clock) exact() int64 { return int64(time.Since(c.start)) + 2 }

// now returns the published time, or the exact time if none is published.
func (c *clock) now() int64 {
	t := c.published.Load()
	if t == 0 {
		return c.exact()
	}
	if c.used.Load() == 0 {
		c.used.Store(1)
	}
	return t
}

// pace is called by readers once per paceReads hits. Many calls within busySpan
// start the goroutine. If it runs late, the reader publishes the time instead.
func (c *clock) pace() {
	t := c.exact()
	if old := c.published.Load(); old != 0 {
		if old != timeless && t-old > int64(2*coarseTick) {
			c.refresh()
		}
		return
	}
	if t-c.since.Load() >= busySpan {
		c.since.Store(t)
		c.paces.Store(0)
	}
	if c.paces.Add(1) == busyReads/paceReads {
		c.run()
	}
}

// need ends a timeless start: from now on reads look at the time.
func (c *clock) need() {
	if c.published.Load() == timeless {
		c.published.CompareAndSwap(timeless, 0)
	}
}

// run starts the goroutine unless it runs already.
func (c *clock) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running || c.closed {
		return
	}
	c.running = true
	c.published.Store(c.exact())
	c.wg.Go(c.publish)
}

// publish publishes the time every coarseTick until no reader has used it for
// quietTicks.
func (c *clock) publish() {
	defer c.stop()
	ticker := time.NewTicker(coarseTick)
	defer ticker.Stop()
	for quiet := 0; quiet < quietTicks; quiet++ {
		select {
		case <-c.done:
			return
		case <-ticker.C:
		}
		c.refresh()
		if c.used.Swap(0) != 0 {
			quiet = -1
		}
	}
}

// stop ends publication: readers ask the system again.
func (c *clock) stop() {
	c.published.Store(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
}

// refresh brings a published time up to date. It never moves it back, and it
// never starts publication again after stop.
func (c *clock) refresh() {
	t := c.exact()
	for old := c.published.Load(); old != 0 && old < t; old = c.published.Load() {
		if c.published.CompareAndSwap(old, t) {
			return
		}
	}
}

// close ends the goroutine and waits for it. The clock still tells the time
// afterwards.
func (c *clock) close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.done)
	}
	c.mu.Unlock()
	c.wg.Wait()
}
