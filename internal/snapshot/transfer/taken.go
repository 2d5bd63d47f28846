package transfer

import (
	"sync"
)

// Taken are the entries that one call has taken into a cache, by the hashes of their keys.
// Its zero value has none. It is safe for concurrent use.
type Taken struct {
	mu        sync.Mutex
	keys      map[uint64]struct{}
	withdrawn int
}

// Add adds an entry.
func (t *Taken) Add(key uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys == nil {
		t.keys = make(map[uint64]struct{})
	}
	t.keys[key] = struct{}{}
}

// Withdraw notes that the entry of a key was made absent by a drop that a snapshot has told
// of. An entry of another call is not counted.
func (t *Taken) Withdraw(key uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ours := t.keys[key]; ours {
		delete(t.keys, key)
		t.withdrawn++
	}
}

// Withdrawn returns the number of entries added, and withdrawn since.
func (t *Taken) Withdrawn() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.withdrawn
}

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
