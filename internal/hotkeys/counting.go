package hotkeys

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/panel"
)

const (
	// kept is the number of keys of which sums are kept, shown that of those in a panel.Hot.
	kept, shown = 256, 20
	// countFor is for how long keys are counted after the last question for them.
	countFor = time.Minute
	// leastEvery is the sample of reads of a cache with few: one in 64. More reads are thinned
	// out, so that about 5000 a second are counted, at some 100 ns each.
	leastEvery, mostEvery = 64, 1 << 20
	period                = 100 * time.Millisecond
	perPeriod             = 500
)

// Counting counts a sample of the reads of a cache, and the durations of all its loads, while
// they are asked for. Create it with [Count]. It is safe for concurrent use.
type Counting[K comparable] struct {
	since time.Time
	every atomic.Uint64 // one read in so many is counted; a power of two
	asked atomic.Int64  // when [Counting.Hot] was last called, in nanoseconds since since

	mu       sync.Mutex // guards below
	reads    *Sketch[K]
	loads    *Sketch[K] // by nanoseconds
	sampled  uint64
	loadTime time.Duration
	period   time.Duration // since since: when the present period began
	n        int           // samples in it
}

// Count begins to count.
func Count[K comparable]() *Counting[K] {
	c := &Counting[K]{since: time.Now(), reads: New[K](kept), loads: New[K](kept)}
	c.every.Store(leastEvery)
	return c
}

// Sampled counts a read that was chosen from 64, and has a number. It reports false if it is
// time to stop: the keys have not been asked for lately.
func (c *Counting[K]) Sampled(key K, number uint64) (goOn bool) {
	if number&(c.every.Load()-1) != 0 {
		return true
	}
	now := time.Since(c.since)
	if now-time.Duration(c.asked.Load()) > countFor {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	every := c.every.Load()
	c.reads.Add(key, every)
	c.sampled++
	if c.n++; now-c.period < period {
		return true
	}
	switch {
	case c.n > perPeriod && every < mostEvery:
		c.every.Store(2 * every)
	case c.n < perPeriod/4 && every > leastEvery:
		c.every.Store(every / 2)
	}
	c.period, c.n = now, 0
	return true
}

// Read counts a read with the chance of a sample.
func (c *Counting[K]) Read(key K) (goOn bool) { return c.Sampled(key, rand.Uint64()) }

// Load counts a load of key that took so long.
func (c *Counting[K]) Load(key K, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loads.Add(key, uint64(max(took, 0)))
	c.loadTime += took
}

// Hot returns the keys with the most reads, and those whose loads take longest. text is the
// text of a key.
func (c *Counting[K]) Hot(text func(K) string) panel.Hot {
	c.asked.Store(int64(time.Since(c.since)))
	c.mu.Lock()
	defer c.mu.Unlock()
	h := panel.Hot{Since: c.since, Sampled: c.sampled, Every: int(c.every.Load()), LoadTime: c.loadTime}
	for _, r := range c.reads.Top(shown) {
		l := c.loads.Of(r.Key)
		h.ByReads = append(h.ByReads, panel.HotKey{
			Key: text(r.Key), Reads: r.Sum, Over: r.Over, Loads: l.Times, LoadTime: time.Duration(l.Sum - l.Over),
		})
	}
	for _, l := range c.loads.Top(shown) {
		r := c.reads.Of(l.Key)
		h.ByLoadTime = append(h.ByLoadTime, panel.HotKey{
			Key: text(l.Key), Reads: r.Sum - r.Over, Loads: l.Times, LoadTime: time.Duration(l.Sum), Over: l.Over,
		})
	}
	return h
}
