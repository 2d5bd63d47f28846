package bytestore

import (
	"bytes"
	"sync/atomic"
)

// A slot of an index: the place of an entry in its low 32 bits, above it 30 bits of the hash, and
// two bits that count reads. The zero slot is free: there is no chunk 0.
type slot = uint64

const (
	hashShift = 32
	hashMask  = 1<<30 - 1
	readShift = 62
	maxReads  = 3
	// placeBits is the number of bits of a place for the offset in a chunk, in units of align.
	placeBits = 14
	maxChunks = 1 << (32 - placeBits)
	// minSlots is the length of a new index.
	minSlots = 64
)

func makeSlot(hash uint64, at place, reads uint64) slot {
	return uint64(at) | hash&hashMask<<hashShift | reads<<readShift
}

// place is where an entry is: a chunk, and an offset in it.
type place uint32

func placeOf(chunk, offset int) place { return place(chunk<<placeBits | offset/align) }

func placeIn(s slot) place { return place(s & (1<<hashShift - 1)) }

func (p place) chunk() int { return int(p >> placeBits) }

func (p place) offset() int { return int(p&(1<<placeBits-1)) * align }

func hashIn(s slot) uint64 { return s >> hashShift & hashMask }

func readsIn(s slot) uint64 { return s >> readShift }

// index finds slots by hashes. Its length is a power of two. Readers count reads in it side by
// side, so all they read is read atomically.
//
// The slots of a run are in the order of their homes (Amble and Knuth, Ordered hash tables, 1974). So a
// look for a hash ends at the first slot with a later home: at seven eighths of the length a miss
// looks at 4.5 slots in place of 32.
type index struct {
	slots []slot
	used  int
}

func (x *index) home(hash uint64) int { return int(hash & uint64(len(x.slots)-1)) }

// full reports whether another slot would make probes long.
func (x *index) full() bool { return x.used >= len(x.slots)-len(x.slots)/8 }

// past reports whether slot s at i has a later home than a hash looked for, whose home is steps before i.
func (x *index) past(s slot, i, steps int) bool {
	return (i-x.home(hashIn(s)))&(len(x.slots)-1) < steps
}

// add adds a slot. The index is not full.
func (x *index) add(s slot) {
	mask := len(x.slots) - 1
	i := x.home(hashIn(s))
	for steps := 0; x.slots[i] != 0; i = (i + 1) & mask {
		if here := x.slots[i]; x.past(here, i, steps) {
			x.slots[i] = s
			s, steps = here, (i-x.home(hashIn(here)))&mask
		}
		steps++
	}
	x.slots[i] = s
	x.used++
}

// at returns the number of the slot with a hash and a place, or -1.
func (x *index) at(hash uint64, p place) int {
	mask := len(x.slots) - 1
	i := x.home(hash)
	for steps := 0; ; steps++ {
		s := atomic.LoadUint64(&x.slots[i])
		switch {
		case s == 0 || x.past(s, i, steps):
			return -1
		case placeIn(s) == p && hashIn(s) == hash&hashMask:
			return i
		}
		i = (i + 1) & mask
	}
}

// remove removes slot i. The slots behind it that are not at home move up.
func (x *index) remove(i int) {
	mask := len(x.slots) - 1
	x.used--
	for j := (i + 1) & mask; x.slots[j] != 0 && x.home(hashIn(x.slots[j])) != j; j = (j + 1) & mask {
		x.slots[i] = x.slots[j]
		i = j
	}
	x.slots[i] = 0
}

// grow moves all slots to a longer index.
func (x *index) grow(slots []slot) {
	old := x.slots
	x.slots, x.used = slots, 0
	for _, s := range old {
		if s != 0 {
			x.add(s)
		}
	}
}

// find returns the number of the slot of key, and its entry; -1 for none. It needs the lock of the
// shard, for reading at least.
func (s *shard) find(hash uint64, key []byte) (int, entry) {
	slots, mask, tag := s.index.slots, len(s.index.slots)-1, hash&hashMask
	i := int(tag) & mask
	for steps := 0; ; steps++ {
		x := atomic.LoadUint64(&slots[i])
		if x == 0 {
			return -1, entry{}
		}
		if h := hashIn(x); h == tag {
			p := placeIn(x)
			if e := read(s.chunks[p.chunk()].data[p.offset():]); bytes.Equal(e.key, key) {
				return i, e
			}
		} else if (i-int(h))&mask < steps { // a later home
			return -1, entry{}
		}
		i = (i + 1) & mask
	}
}

// noteRead counts a read of the entry of slot i.
func (x *index) noteRead(i int) {
	if s := atomic.LoadUint64(&x.slots[i]); readsIn(s) < maxReads {
		atomic.CompareAndSwapUint64(&x.slots[i], s, s+1<<readShift)
	}
}
