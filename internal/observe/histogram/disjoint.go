package histogram

import "sync"

// Disjoint takes foreign values out of the misses that they are, too. A Tier counts a foreign
// value before its cache counts the miss, so the difference of the two numbers might fall. The
// parts here never do.
type Disjoint struct {
	mu              sync.Mutex
	misses, foreign uint64 // so far; foreign is a part of misses
}

// Split returns the misses without foreign values, and those with one.
func (d *Disjoint) Split(misses, foreign uint64) (rest, counted uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	misses, foreign = max(misses, d.misses), max(foreign, d.foreign)
	d.foreign += min(foreign-d.foreign, misses-d.misses)
	d.misses = misses
	return misses - d.foreign, d.foreign
}
