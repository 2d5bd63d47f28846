package histogram

import "sync"

// Disjoint splits misses into misses with a foreign value and others: a foreign value counts
// as a miss, too. A Tier counts a foreign value before its cache counts the miss, so the
// difference of the two numbers might fall. The parts here never do.
type Disjoint struct {
	mu              sync.Mutex
	misses, foreign uint64 // so far; foreign is a part of misses
}

// Split returns the number of misses without a foreign value, and the number of misses with one.
func (d *Disjoint) Split(misses, foreign uint64) (rest, counted uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	misses, foreign = max(misses, d.misses), max(foreign, d.foreign)
	d.foreign += min(foreign-d.foreign, misses-d.misses)
	d.misses = misses
	return misses - d.foreign, d.foreign
}
