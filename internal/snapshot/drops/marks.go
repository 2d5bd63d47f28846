package drops

import (
	"math"
	"math/bits"
	"slices"
	"sync"
)

const (
	// fewMarks and manyMarks are the sizes of a slice of marks, in bits, as powers of two. A
	// cache begins with 128 KiB for its own drops, and has 512 KiB once it gives or takes
	// snapshots. The drops learned from another instance have 512 KiB, too.
	fewMarks, manyMarks = 20, 22
	// maxSlices is the number of slices.
	maxSlices = 4
)

// marks are the drops not remembered one by one. A mark is the highest bits of a hash, and has the
// stamp of the last drop in its slice. Drops before a snapshot and drops after it have their marks
// in different slices, so that later drops do not make earlier ones look later. The zero marks with
// a size are empty. They are safe for concurrent use.
type marks struct {
	size uint

	mu      sync.Mutex // guards below
	slices  []slice    // in the order of their ends
	horizon int64      // stamp of drops without a mark any more
}

// slice is the marks of drops with stamps up to an end.
type slice struct {
	size   uint // number of bits of a hash
	end    int64
	latest int64 // the highest stamp
	set    int   // number of marks
	bits   []uint64
}

// add adds the drop of all hashes that begin with the bits of begin, of which there are size, and
// reports whether the drop is new.
func (m *marks) add(begin uint64, size uint, stamp int64) (fresh bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin()
	i := 0
	for m.slices[i].end < stamp { // the last one ends with time
		i++
	}
	fresh = m.slices[i].add(begin, size, stamp, m.size)
	// A slice half full of marks would take every second key for dropped. Instead, everything up to
	// its last drop counts as dropped, and marks begin anew.
	if s := &m.slices[i]; s.set > 1<<s.size/2 {
		m.horizon = max(m.horizon, s.latest)
		for j := range m.slices[:i+1] {
			m.slices[j] = slice{end: m.slices[j].end}
		}
	}
	return fresh
}

// begin makes the first slice. mu is held.
func (m *marks) begin() {
	if len(m.slices) == 0 {
		m.slices = []slice{{end: math.MaxInt64}}
	}
}

// add is marks.add for a slice, which gets a size if it is empty.
func (s *slice) add(begin uint64, size uint, stamp int64, newSize uint) (fresh bool) {
	if s.bits == nil {
		s.size, s.bits = newSize, make([]uint64, 1<<newSize/64)
	}
	n := uint64(1)
	// A shorter mark stands for more hashes, and a longer one is cut: both drop more than was told,
	// never less.
	if size > s.size {
		begin >>= size - s.size
	} else {
		begin, n = begin<<(s.size-size), 1<<(s.size-size)
	}
	for at := begin; at < begin+n; at++ {
		if s.bits[at/64]&(1<<(at%64)) == 0 {
			s.bits[at/64] |= 1 << (at % 64)
			s.set++
			fresh = true
		}
	}
	s.latest = max(s.latest, stamp)
	return fresh
}

// cut begins a slice for stamps above end. If there are too many, two become one.
func (m *marks) cut(end int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin()
	i := slices.IndexFunc(m.slices, func(s slice) bool { return end <= s.end })
	if m.slices[i].end == end {
		return
	}
	lower, upper := slice{end: end}, m.slices[i]
	if upper.latest <= end { // else its marks are of stamps above end, as far as is known
		lower, upper = upper, slice{end: upper.end}
		lower.end = end
	}
	m.slices[i] = upper
	if m.slices = slices.Insert(m.slices, i, lower); len(m.slices) > maxSlices {
		m.merge()
	}
}

// merge makes the two slices with the nearest ends one, and leaves the last slice out. mu
// is held.
func (m *marks) merge() {
	at := 0
	// Slices with near ends lose the least: their drops get the later stamp of both.
	for i := range len(m.slices) - 2 {
		if m.slices[i+1].end-m.slices[i].end < m.slices[at+1].end-m.slices[at].end {
			at = i
		}
	}
	older, newer := m.slices[at], m.slices[at+1]
	m.slices = slices.Delete(m.slices, at, at+1)
	if older.bits == nil {
		return
	}
	older.end = newer.end
	newer.each(func(mark uint64) { older.add(mark, newer.size, newer.latest, 0) })
	m.slices[at] = older
}

// last returns a stamp at least as high as the stamp of the last drop of a hash; zero if
// there was no drop.
func (m *marks) last(hash uint64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range slices.Backward(m.slices) {
		at := hash >> (64 - s.size)
		if s.bits != nil && s.bits[at/64]&(1<<(at%64)) != 0 {
			return max(s.latest, m.horizon)
		}
	}
	return m.horizon
}

// stamp returns the stamp of the last of all drops.
func (m *marks) stamp() (last int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last = m.horizon
	for _, s := range m.slices {
		last = max(last, s.latest)
	}
	return last
}

// ended returns the stamp of the drops without a mark any more.
func (m *marks) ended() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.horizon
}

// widen sets a larger size for slices made from now on.
func (m *marks) widen(size uint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size = size
}

// each calls f with each mark in order.
func (s *slice) each(f func(at uint64)) {
	for i, word := range s.bits {
		for ; word != 0; word &= word - 1 {
			f(uint64(i)*64 + uint64(bits.TrailingZeros64(word)))
		}
	}
}

// ends returns the ends of the slices. The last one is the end of all time.
func (m *marks) ends() (all []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.slices {
		all = append(all, s.end)
	}
	if len(all) == 0 {
		all = []int64{math.MaxInt64}
	}
	return all
}
