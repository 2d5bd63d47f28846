package strata

import (
	"context"
	"sync"
	"time"
)

// purger frees the memory of entries that a drop of everything, or of a tag, has
// made absent. Such a drop sets a watermark and looks at no entry, so that it takes
// no time. Without the purger its entries would keep their room until they are
// read, expire or are evicted. With its pass it is ready.
type purger struct {
	pass func() // removes those entries; written once

	mu      sync.Mutex // guards below
	running bool
	again   bool // a drop came during a pass
	closed  bool
	passes  sync.WaitGroup
}

const (
	// purgeDelay is the time from a drop to its pass, so that one pass serves a burst
	// of drops. Loads that ran at the drop have lost their right to store, or compare
	// their tags when they land.
	purgeDelay = 100 * time.Millisecond
	// purgeShare bounds the time of one processor that passes take to one part
	// in purgeShare, however many drops come.
	purgeShare = 50
)

// wake starts passes. If passes are running, one more follows. Passes end when ctx
// does. It does not block.
func (p *purger) wake(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.again = true; p.running || p.closed {
		return
	}
	p.running = true
	p.passes.Go(func() { p.run(ctx) })
}

// run makes passes until no drop has come since the last pass began.
func (p *purger) run(ctx context.Context) {
	pause := purgeDelay
	for p.next() {
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		p.begin()
		start := time.Now()
		p.pass()
		pause = max(purgeDelay, purgeShare*time.Since(start))
	}
}

// next reports whether another pass is needed, and ends the run if none is.
func (p *purger) next() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = p.again
	return p.again
}

// begin notes that the pass which starts now serves all drops so far.
func (p *purger) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again = false
}

// close keeps further passes from starting and waits for the running one. The
// context of wake has ended.
func (p *purger) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.passes.Wait()
}

// purge removes the entries of L1 that drops of everything or of tags made absent.
func (c *Cache[K, V]) purge() {
	c.memory.DeleteFunc(func(e *entry[K, V]) bool {
		return c.open.Err() == nil && (c.generation.Invalidates(e.Value.Stamp()) || c.tagsDropped(e))
	})
}

// wakePurger starts a purge of L1.
func (c *core) wakePurger() { c.purger.wake(c.open) }
