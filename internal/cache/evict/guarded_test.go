package evict

import "testing"

// TestCacheThatHasGrownSinceAGuardsCutHasRoomForEntriesInUse: a guard cuts a small cache, and again when the cache is
// twenty times as large. Main has room then, and one hit is enough to stay.
func TestCacheThatHasGrownSinceAGuardsCutHasRoomForEntriesInUse(t *testing.T) {
	b := newBed(1<<30, false)
	cut := func(n int) (used int) {
		for range n {
			i := b.evict(Standing{}, 0, 0)
			if b.keys[i]%2 == 1 {
				used++
			}
			b.nodes.remove(i)
		}
		return used
	}
	// With a guard a cache counts as full at all times, and no entry leaves for a new one.
	store := func(from, to int) {
		for k := from; k < to; k++ {
			hash := uint32(k+1) * 0x9e3779b1
			queue := b.admit(hash, 1, true)
			h := &Head{Dead: Forever}
			h.SetUses(uint32(k % 2))
			b.nodes.add(h, hash, 1)
			b.keys[h.node] = k
			b.insert(h.node, queue, true)
		}
	}
	store(0, 100)
	cut(10)
	store(100, 2000)
	if used := cut(500); used > 5 {
		t.Errorf("%d of 500 entries that leave were in use, and as many were not", used)
	}
}
