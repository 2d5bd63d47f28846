package l1

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// busyReads is the number of clock reads within busySpan from which it is
	// cheaper to have a goroutine publish the time: two wake-ups cost about as
	// much as a hundred reads of the system's clock.
	busyReads = 256
	busySpan  = int64(time.Millisecond)
	// coarseTick is the time between two publications.
	coarseTick = 500 * time.Microsecond
	// quietTicks is the number of publications nobody has read after which the
	// goroutine ends.
	quietTicks = 2
)

// clock tells the time since it was made, in nanoseconds, beginning with one. While reads are rare every read asks
// the system. While they are frequent, a goroutine publishes the time every
// coarseTick and reads cost one load. It needs no Close while idle.
//
// A published time is old by coarseTick and by what the scheduler adds before
// the goroutine runs. So that a process whose processors are all busy, or that
// was stopped for a while, does not go by an old time for long, readers
// publish too, through refresh, every so many reads.
type clock struct {
	start time.Time
	// published is the time to go by; zero means ask the system.
	published atomic.Int64
	// used is set by reads and cleared by the goroutine.
	used atomic.Uint32
	_    [40]byte

	// since and reads count the reads in the current busySpan. They are only a
	// guess when readers race.
	since, reads atomic.Int64

	mu      sync.Mutex // guards running and closed
	running bool
	closed  bool
	done    chan struct{}
	wg      sync.WaitGroup
}

// init starts the clock at one: zero is no time.
func (c *clock) init() {
	c.start = time.Now()
	c.done = make(chan struct{})
}

// exact is the time.
func (c *clock) exact() int64 { return int64(time.Since(c.start)) + 1 }

// now is the time, or what it was a moment ago.
func (c *clock) now() int64 {
	t := c.published.Load()
	if t == 0 {
		return c.idle()
	}
	if c.used.Load() == 0 {
		c.used.Store(1)
	}
	return t
}

// idle is the time, asked from the system; many such questions start the
// goroutine.
func (c *clock) idle() int64 {
	t := c.exact()
	if t-c.since.Load() >= busySpan {
		c.since.Store(t)
		c.reads.Store(0)
		return t
	}
	if c.reads.Add(1) == busyReads {
		c.run()
	}
	return t
}

// run starts the goroutine unless there is one.
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

// publish keeps the published time going until nobody reads it.
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

// refresh brings a published time up to date. It never takes it back, and
// never revives one that has ended.
func (c *clock) refresh() {
	t := c.exact()
	for old := c.published.Load(); old != 0 && old < t; old = c.published.Load() {
		if c.published.CompareAndSwap(old, t) {
			return
		}
	}
}

// close ends the goroutine and waits for it. The clock then still tells the
// time.
func (c *clock) close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.done)
	}
	c.mu.Unlock()
	c.wg.Wait()
}
