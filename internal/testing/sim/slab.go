// Simulates eviction policies, and runs those of the engine. Each policy is a cache of keys without
// values, for one goroutine: Access(key) asks for a key, reports whether the cache
// held it, and puts it in if not. Each entry weighs 1. Each policy names the paper
// that it follows. Random choices are seeded, so a run can be repeated.
//
// Every constructor takes the capacity in entries, at least 1, and allocates for
// that capacity at once. No policy holds more keys than its capacity after an Access.

package sim

// none is the index of no entry.
const none = ^uint32(0)

// slab stores the entries of a policy and finds them by key. An index stays valid
// until drop. Policies keep further fields of an entry in slices of their own, at
// the same index.
type slab struct {
	index map[uint64]uint32
	keys  []uint64
	free  []uint32
}

// newSlab returns a slab with room for n entries.
func newSlab(n int) slab {
	s := slab{index: make(map[uint64]uint32, n), keys: make([]uint64, n), free: make([]uint32, n)}
	for i := range s.free {
		s.free[i] = uint32(n - 1 - i)
	}
	return s
}

// Has reports whether the slab has an entry for key.
func (s *slab) Has(key uint64) bool {
	_, ok := s.index[key]
	return ok
}

// Len returns the number of entries in the slab.
func (s *slab) Len() int { return len(s.index) }

// add stores a key that the slab does not have. The slab must have room.
func (s *slab) add(key uint64) uint32 {
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.keys[i] = key
	s.index[key] = i
	return i
}

// drop removes an entry and frees its index.
func (s *slab) drop(i uint32) {
	delete(s.index, s.keys[i])
	s.free = append(s.free, i)
}

// link is the place of an entry in a list.
type link struct{ prev, next uint32 }

// list is a doubly linked list of entries, oldest first. Lists of which each entry
// is in at most one may share their links.
type list struct {
	links       []link
	front, back uint32
	n           int
}

func newList(links []link) list { return list{links: links, front: none, back: none} }

// pushBack appends an entry. The entry must be in no list.
func (l *list) pushBack(i uint32) {
	l.links[i] = link{prev: l.back, next: none}
	if l.back == none {
		l.front = i
	} else {
		l.links[l.back].next = i
	}
	l.back = i
	l.n++
}

// remove takes an entry out of the list.
func (l *list) remove(i uint32) {
	at := l.links[i]
	if at.prev == none {
		l.front = at.next
	} else {
		l.links[at.prev].next = at.next
	}
	if at.next == none {
		l.back = at.prev
	} else {
		l.links[at.next].prev = at.prev
	}
	l.n--
}

// moveToBack makes an entry the youngest.
func (l *list) moveToBack(i uint32) {
	if l.back != i {
		l.remove(i)
		l.pushBack(i)
	}
}

// popFront takes the oldest entry out of the list, which must have one.
func (l *list) popFront() uint32 {
	i := l.front
	l.remove(i)
	return i
}

// mix spreads the bits of a key over all bits of the result (SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
