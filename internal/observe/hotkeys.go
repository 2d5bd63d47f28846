package observe

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// HotKeys counts the hottest keys of a cache while they are watched; otherwise a read or a load costs
// one look at a pointer. Its zero value counts nothing. It is safe for concurrent use.
type HotKeys[K comparable] struct {
	counting atomic.Pointer[Counting[K]] // nil while nothing is counted

	starting sync.Mutex // guards the begin and the end of counting
	sample   func(func(key K, number uint64))
}

// Watch counts for a minute from now on. sample takes a function to call for one in 64 reads, with
// a number of the read; sample(nil) ends the calls.
func (k *HotKeys[K]) Watch(sample func(func(key K, number uint64))) { k.watch(sample) }

func (k *HotKeys[K]) watch(sample func(func(key K, number uint64))) *Counting[K] {
	k.starting.Lock()
	defer k.starting.Unlock()
	n := k.counting.Load()
	if n == nil {
		n = newCounting[K]()
		k.sample = sample
		k.counting.Store(n)
		sample(func(key K, number uint64) {
			if !n.sampled(key, number) {
				k.stop(n)
			}
		})
	}
	n.watch()
	return n
}

// Hot is Watch, and returns the hottest keys of the last five to ten minutes, as far as they were
// watched. name returns the name of a key; without it hashes stand for keys.
func (k *HotKeys[K]) Hot(sample func(func(key K, number uint64)), name func(key K) (string, error)) Hot {
	return k.watch(sample).hot(name)
}

// stop ends the counting of n.
func (k *HotKeys[K]) stop(n *Counting[K]) {
	if k.starting.TryLock() { // else keys are watched from this moment on
		defer k.starting.Unlock()
		if k.counting.CompareAndSwap(n, nil) {
			k.sample(nil)
		}
	}
}

// Read counts a read that sample of Watch does not see: as seldom as other reads are counted.
func (k *HotKeys[K]) Read(key K) {
	if n := k.counting.Load(); n != nil && !n.read(key) {
		k.stop(n)
	}
}

// Load counts a load of key that took so long.
func (k *HotKeys[K]) Load(key K, took time.Duration) {
	if n := k.counting.Load(); n != nil {
		n.load(key, took)
	}
}

const (
	// keptCounters is the number of keys with sums in a window, shownKeys the number of keys in a Hot.
	keptCounters, shownKeys = 256, 20
	// turn is the length of a window. The sums of the present one and of the one before it are
	// shown: they cover five to ten minutes.
	turn = 5 * time.Minute
	// countFor is for how long keys are counted after the last call of Watch.
	countFor = time.Minute
	// leastEvery is the sample of reads of a cache with few: one in 64. More reads are thinned
	// out, so that about 5000 a second are counted, at some 100 ns each.
	leastEvery, mostEvery = 64, 1 << 20
	period                = 100 * time.Millisecond
	perPeriod             = 500
)

// Counting counts a sample of the reads of a cache, and the durations of all its loads, while
// [Keys.Watch] is called. It is safe for concurrent use.
type Counting[K comparable] struct {
	since time.Time
	seed  maphash.Seed
	every atomic.Uint64 // one read in so many is counted; a power of two
	asked atomic.Int64  // when watch was last called, in nanoseconds since since

	mu             sync.Mutex // guards below
	earlier, later *window[K]
	period         time.Duration // since since: when the present period began
	n              int           // samples in it
}

// window has the sums of a time.
type window[K comparable] struct {
	begun    time.Duration // since Counting.since
	reads    *Sketch[K]
	loads    *Sketch[K] // by nanoseconds
	sampled  uint64
	all      uint64 // reads that the samples stand for
	loadTime time.Duration
}

func newWindow[K comparable](begun time.Duration) *window[K] {
	return &window[K]{begun: begun, reads: NewSketch[K](keptCounters), loads: NewSketch[K](keptCounters)}
}

// newCounting begins to count.
func newCounting[K comparable]() *Counting[K] {
	c := &Counting[K]{since: time.Now(), seed: maphash.MakeSeed(), earlier: newWindow[K](0), later: newWindow[K](0)}
	c.every.Store(leastEvery)
	return c
}

// watch makes the counting go on for countFor.
func (c *Counting[K]) watch() {
	now := time.Since(c.since)
	c.asked.Store(int64(now))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roll(now)
}

// roll begins a window if the present one is over. The mutex is held.
func (c *Counting[K]) roll(now time.Duration) {
	if now-c.later.begun < turn {
		return
	}
	c.earlier, c.later = c.later, newWindow[K](now)
	// Nothing was counted for a while: the window before is too old to be shown.
	if now-c.earlier.begun >= 2*turn {
		c.earlier = newWindow[K](now)
	}
}

// sampled counts the read with a number, if the number is a multiple of every. It reports false if
// it is time to stop: the keys have not been watched lately.
func (c *Counting[K]) sampled(key K, number uint64) (goOn bool) {
	if number&(c.every.Load()-1) != 0 {
		return true
	}
	now := time.Since(c.since)
	// No page shows the keys: reads need not pay for the counting.
	if now-time.Duration(c.asked.Load()) > countFor {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roll(now)
	every := c.every.Load()
	c.later.reads.Add(key, every)
	c.later.sampled++
	c.later.all += every
	if c.n++; now-c.period < period {
		return true
	}
	switch {
	// The two bounds are far apart, so that a steady load does not make every go up and down.
	case c.n > perPeriod && every < mostEvery:
		c.every.Store(2 * every)
	case c.n < perPeriod/4 && every > leastEvery:
		c.every.Store(every / 2)
	}
	c.period, c.n = now, 0
	return true
}

// read counts a read under a random number, so one in every reads is counted.
func (c *Counting[K]) read(key K) (goOn bool) { return c.sampled(key, rand.Uint64()) }

// load counts a load of key that took so long.
func (c *Counting[K]) load(key K, took time.Duration) {
	now := time.Since(c.since)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roll(now)
	c.later.loads.Add(key, uint64(max(took, 0)))
	c.later.loadTime += took
}

// hot returns the keys with the most reads, and the keys with the longest loads.
func (c *Counting[K]) hot(name func(key K) (string, error)) Hot {
	h, byReads, byLoadTime := c.top()
	for i, key := range byReads {
		h.ByReads[i].Key = c.text(key, name)
	}
	for i, key := range byLoadTime {
		h.ByLoadTime[i].Key = c.text(key, name)
	}
	return h
}

// text is key as text: its name, or a hash of it without one.
func (c *Counting[K]) text(key K, name func(key K) (string, error)) string {
	if name == nil {
		return fmt.Sprintf("#%016x", maphash.Comparable(c.seed, key))
	}
	text, err := name(key)
	if err != nil {
		text = fmt.Sprint(key)
	}
	return OneLine(text, MaxKey)
}

// top returns the hottest keys. Their texts are missing, since no callback runs under the mutex.
func (c *Counting[K]) top() (h Hot, byReads, byLoadTime []K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, b := c.earlier, c.later
	h = Hot{
		Since: c.since.Add(a.begun), Sampled: a.sampled + b.sampled, Every: int(c.every.Load()),
		Reads: a.all + b.all, LoadTime: a.loadTime + b.loadTime,
	}
	for _, r := range firstCounters(MergedCounters(a.reads, b.reads)) {
		x, y := a.loads.Of(r.Key), b.loads.Of(r.Key)
		byReads = append(byReads, r.Key)
		h.ByReads = append(h.ByReads, HotKey{
			Reads: r.Sum, Over: r.Over, Loads: x.Times + y.Times, LoadTime: time.Duration(x.Sum - x.Over + y.Sum - y.Over),
		})
	}
	for _, l := range firstCounters(MergedCounters(a.loads, b.loads)) {
		x, y := a.reads.Of(l.Key), b.reads.Of(l.Key)
		byLoadTime = append(byLoadTime, l.Key)
		h.ByLoadTime = append(h.ByLoadTime, HotKey{
			Reads: x.Sum - x.Over + y.Sum - y.Over, Loads: l.Times, LoadTime: time.Duration(l.Sum), Over: l.Over,
		})
	}
	return h, byReads, byLoadTime
}

func firstCounters[K comparable](all []Counter[K]) []Counter[K] {
	return all[:min(len(all), shownKeys)]
}
