package l1

import (
	"math/bits"
	"sync/atomic"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// groupSlots is the number of entries in a group. Seven pointers and the word
// of tags fill one cache line.
const groupSlots = 7

// groupLoad is the number of entries per group beyond which a table grows.
const groupLoad = 5

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
// insertion raised, so there are no tombstones. A count at overMax stays there
// until the table is rebuilt, which costs searches one more group.
type group struct {
	tags  atomic.Uint64
	slots [groupSlots]atomic.Pointer[evict.Head]
}

// table is an open hash table of groups. Readers search it at any time; only
// the holder of the shard's mutex changes it. Within one table an entry never
// moves, and another entry of the same key takes its very slot, so a search
// finds a key if it is present throughout. Growing makes another table.
//
// The layout follows Swiss tables (Kulukundis, CppCon 2017) and F14 (Bronson
// and Shi, 2019), from which the overflow count is taken.
//
// The search by key is [Cache.find], which must be generic. Of a hash, the table
// uses the low half.
type table struct {
	groups []group
}

// noEntries is the table of all shards without an entry, read-only. It has no room: the first entry
// makes a table of its own.
var noEntries = &table{groups: make([]group, 1)}

// newTable makes a table with room for n entries. The number of groups need not
// be a power of two: so a table of known size wastes nothing.
func newTable(n int) *table {
	if n == 0 {
		return noEntries
	}
	return &table{groups: make([]group, max(1, (n+groupLoad-1)/groupLoad))}
}

// room returns the number of entries beyond which the table should grow.
func (t *table) room() int {
	if t == noEntries {
		return 0
	}
	return len(t.groups) * groupLoad
}

// tagOf returns the tag of a hash: its low byte, or one if the byte is zero,
// since a zero tag means an empty slot.
func tagOf(hash uint32) uint64 { return uint64(max(1, hash&0xff)) }

// home returns the number of the group where the search for a hash begins. It is
// taken from the high bits: the multiplication of Lemire, "Fast random integer
// generation in an interval" (2019).
func (t *table) home(hash uint32) int { return int(uint64(hash) * uint64(len(t.groups)) >> 32) }

// after returns the number of the group after a group.
func (t *table) after(at int) int {
	if at++; at == len(t.groups) {
		return 0
	}
	return at
}

// matches marks the slots that may have the given tag: it sets the highest bit
// of each such byte. It may also mark a wrong slot above a true match; callers
// compare keys anyway.
func matches(tags, tag uint64) uint64 {
	x := tags ^ tag*lowBits
	return (x - lowBits) &^ x & highBits
}

// slotOf returns the number of the lowest marked slot.
func slotOf(marks uint64) int { return bits.TrailingZeros64(marks) >> 3 }

// locate returns the group and slot that hold h, and the number of groups that
// the search passed before.
func (t *table) locate(h *evict.Head, hash uint32) (g *group, slot, passed int) {
	tag, at := tagOf(hash), t.home(hash)
	for passed = range t.groups {
		g := &t.groups[at]
		tags := g.tags.Load()
		for m := matches(tags, tag); m != 0; m &= m - 1 {
			if slot := slotOf(m); g.slots[slot].Load() == h {
				return g, slot, passed
			}
		}
		if tags>>overShift == 0 {
			break
		}
		at = t.after(at)
	}
	return nil, 0, 0
}

// insert adds h; its key must be absent, and there must be room: it panics in a full
// table, which no count of entries allows.
func (t *table) insert(h *evict.Head, hash uint32) {
	at := t.home(hash)
	for range t.groups {
		g := &t.groups[at]
		tags := g.tags.Load()
		free := matches(tags, 0)
		if free == 0 {
			if tags>>overShift < overMax {
				g.tags.Store(tags + overOne)
			}
			at = t.after(at)
			continue
		}
		slot := slotOf(free)
		g.slots[slot].Store(h) // before the tag, so that a reader of the tag sees the entry
		g.tags.Store(tags | tagOf(hash)<<(slot*8))
		return
	}
	panic("l1: insertion into a full table")
}

// replace puts h into the slot of old, which has the same key.
func (t *table) replace(old, h *evict.Head, hash uint32) {
	if g, slot, _ := t.locate(old, hash); g != nil {
		g.slots[slot].Store(h)
	}
}

// remove takes h out.
func (t *table) remove(h *evict.Head, hash uint32) {
	g, slot, passed := t.locate(h, hash)
	if g == nil {
		return
	}
	g.slots[slot].Store(nil)
	g.tags.Store(g.tags.Load() &^ (0xff << (slot * 8)))
	for at := t.home(hash); passed > 0; passed-- {
		p := &t.groups[at]
		if tags := p.tags.Load(); tags>>overShift < overMax {
			p.tags.Store(tags - overOne)
		}
		at = t.after(at)
	}
}

// each calls f for every entry until f returns false, and reports whether it
// visited all entries.
func (t *table) each(f func(*evict.Head) bool) bool {
	for i := range t.groups {
		for j := range t.groups[i].slots {
			if h := t.groups[i].slots[j].Load(); h != nil && !f(h) {
				return false
			}
		}
	}
	return true
}
