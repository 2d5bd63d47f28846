package flight

import "sync"

// crowd tells whether anybody waits for any of some flights: one, or those of a
// batch.
type crowd struct {
	gone chan bool // holds the newest word, until somebody takes it

	mu      sync.Mutex // guards below
	flights int        // those that somebody waits for
}

func newCrowd() *crowd { return &crowd{gone: make(chan bool, 1)} }

// add notes that n flights more are waited for, and tells if that changes
// whether any is.
func (c *crowd) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.flights
	if c.flights += n; (before == 0) == (c.flights == 0) {
		return
	}
	select {
	case <-c.gone: // an older word that nobody has taken
	default:
	}
	c.gone <- c.flights == 0
}

// Gone returns a channel that tells when nobody waits for f any more (true), and
// when somebody does again (false), as of the last time it changed.
func (g *Group[K, V]) Gone(f *Flight[K, V]) <-chan bool {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.crowd == nil {
		f.join(newCrowd())
	}
	return f.crowd.gone
}

// join makes f one of the flights of c. The shard's mutex is held.
func (f *Flight[K, V]) join(c *crowd) {
	c.add(1)
	if f.crowd = c; f.waiters == 0 {
		c.add(-1)
	}
}

// count adds n to the callers who wait for f. The shard's mutex is held.
func (f *Flight[K, V]) count(n int) {
	before := f.waiters
	f.waiters += n
	switch {
	case f.crowd == nil:
	case before == 0:
		f.crowd.add(1)
	case f.waiters == 0:
		f.crowd.add(-1)
	}
}
