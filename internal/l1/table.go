package l1

import (
	"math/bits"
	"sync/atomic"
)

// groupSlots is the number of entries in a group. Seven pointers and the word
// of tags fill one cache line.
const groupSlots = 7

// groupLoad is the number of entries per group beyond which a table grows.
const groupLoad = 6

const (
	lowBits   = 0x0001010101010101 // the lowest bit of every tag
	highBits  = 0x0080808080808080 // the highest bit of every tag
	overShift = 56
	overOne   = 1 << overShift
	overMax   = 0xff
)

// group is one cache line of a table. tags holds one byte of each slot's hash,
// zero for an empty slot, so that one load rules out most slots. Its top byte
// is the overflow count: the number of stored entries that found the group full
// at insertion and went on to a later group. A search ends at the first group
// with an overflow count of zero, and a removal lowers the counts that the
// insertion raised, so there are no tombstones. A count that has reached
// overMax stays there until the table is rebuilt, which costs searches one more
// group.
type group[K comparable, V any] struct {
	tags  atomic.Uint64
	slots [groupSlots]atomic.Pointer[Entry[K, V]]
}

// table is an open hash table of groups. Readers search it at any time; only
// the holder of the shard's mutex changes it. Within one table an entry never
// moves, and another entry of the same key takes its very slot, so a key that
// is present throughout a search is found. Growing makes another table.
//
// The layout follows Swiss tables (Kulukundis, CppCon 2017) and F14 (Bronson
// and Shi, 2019), from which the overflow count is taken.
//
// The gain, in ns per hit with Zipf keys on two processors: the engine's whole
// Get, with clock, policy and counts, against the bare look-up in Go maps under
// as many read-write mutexes (BenchmarkHit, BenchmarkLockedMapHit, the least of
// three runs).
//
//	           int 1 goroutine   2    string 1   2
//	engine             17        11         29   18
//	locked maps        18        29         31   36
type table[K comparable, V any] struct {
	groups []group[K, V]
	mask   uint64
}

// newTable makes a table that has room for n entries.
func newTable[K comparable, V any](n int) *table[K, V] {
	size := uint64(1)
	for int(size)*groupLoad < n {
		size *= 2
	}
	return &table[K, V]{groups: make([]group[K, V], size), mask: size - 1}
}

// room returns the number of entries beyond which the table should grow.
func (t *table[K, V]) room() int { return len(t.groups) * groupLoad }

// tagOf returns the tag of a hash: its low byte, or one if that is zero, since
// a zero tag means an empty slot.
func tagOf(hash uint64) uint64 {
	return max(1, hash&0xff)
}

// home returns the number of the group where the search for a hash begins. Its
// bits are not those of the tag and, except in enormous tables, not those of
// the shard number.
func home(hash uint64) uint64 { return hash >> 8 }

// matches marks the slots that may have the given tag: it sets the highest bit
// of each such byte. It may also mark a wrong slot above a true match; callers
// compare keys anyway.
func matches(tags, tag uint64) uint64 {
	x := tags ^ tag*lowBits
	return (x - lowBits) &^ x & highBits
}

// slotOf returns the number of the lowest marked slot.
func slotOf(marks uint64) int { return bits.TrailingZeros64(marks) >> 3 }

// find returns the entry of key, or nil. It takes no lock.
func (t *table[K, V]) find(hash uint64, key K) *Entry[K, V] {
	tag, at := tagOf(hash), home(hash)
	for range t.groups {
		g := &t.groups[at&t.mask]
		tags := g.tags.Load()
		for m := matches(tags, tag); m != 0; m &= m - 1 {
			if e := g.slots[slotOf(m)].Load(); e != nil && e.Key == key {
				return e
			}
		}
		if tags>>overShift == 0 {
			return nil
		}
		at++
	}
	return nil
}

// locate returns the group and slot that hold e, and the number of groups that
// the search passed before.
func (t *table[K, V]) locate(e *Entry[K, V]) (g *group[K, V], slot int, passed uint64) {
	tag, at := tagOf(e.hash), home(e.hash)
	for passed = range uint64(len(t.groups)) {
		g := &t.groups[(at+passed)&t.mask]
		tags := g.tags.Load()
		for m := matches(tags, tag); m != 0; m &= m - 1 {
			if slot := slotOf(m); g.slots[slot].Load() == e {
				return g, slot, passed
			}
		}
		if tags>>overShift == 0 {
			break
		}
	}
	return nil, 0, 0
}

// insert adds e; its key must be absent, and there must be room.
func (t *table[K, V]) insert(e *Entry[K, V]) {
	for at := home(e.hash); ; at++ {
		g := &t.groups[at&t.mask]
		tags := g.tags.Load()
		free := matches(tags, 0)
		if free == 0 {
			if tags>>overShift < overMax {
				g.tags.Store(tags + overOne)
			}
			continue
		}
		slot := slotOf(free)
		g.slots[slot].Store(e) // before the tag, so that a reader of the tag sees the entry
		g.tags.Store(tags | tagOf(e.hash)<<(slot*8))
		return
	}
}

// replace puts e into the slot of old, which has the same key, and reports
// whether old was in the table.
func (t *table[K, V]) replace(old, e *Entry[K, V]) bool {
	g, slot, _ := t.locate(old)
	if g == nil {
		return false
	}
	g.slots[slot].Store(e)
	return true
}

// remove takes e out and reports whether e was in the table.
func (t *table[K, V]) remove(e *Entry[K, V]) bool {
	g, slot, passed := t.locate(e)
	if g == nil {
		return false
	}
	g.slots[slot].Store(nil)
	g.tags.Store(g.tags.Load() &^ (0xff << (slot * 8)))
	for i := range passed {
		p := &t.groups[(home(e.hash)+i)&t.mask]
		if tags := p.tags.Load(); tags>>overShift < overMax {
			p.tags.Store(tags - overOne)
		}
	}
	return true
}

// each calls f for every entry until f returns false, and reports whether it
// visited all entries.
func (t *table[K, V]) each(f func(*Entry[K, V]) bool) bool {
	for i := range t.groups {
		for j := range t.groups[i].slots {
			if e := t.groups[i].slots[j].Load(); e != nil && !f(e) {
				return false
			}
		}
	}
	return true
}

// copied returns a table with the same entries and room for n.
func (t *table[K, V]) copied(n int) *table[K, V] {
	bigger := newTable[K, V](n)
	t.each(func(e *Entry[K, V]) bool {
		bigger.insert(e)
		return true
	})
	return bigger
}
