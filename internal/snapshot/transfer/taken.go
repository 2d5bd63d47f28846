package transfer

import "sync"

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
