package transfer

import "sync"

// maxDropped is the number of drops that a Dropped holds.
const maxDropped = 10_000

// Dropped holds the keys dropped since the last look at it. Its zero value is empty. It is
// safe for concurrent use.
type Dropped[K any] struct {
	mu   sync.Mutex
	keys []K
	more bool
}

// Add adds a key.
func (d *Dropped[K]) Add(key K) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.more {
		return
	}
	if d.keys = append(d.keys, key); len(d.keys) > maxDropped {
		d.keys, d.more = nil, true
	}
}

// Take returns the keys since the last call. more says that there were too many, and that
// none is returned.
func (d *Dropped[K]) Take() (keys []K, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keys, more = d.keys, d.more
	d.keys, d.more = nil, false
	return keys, more
}
