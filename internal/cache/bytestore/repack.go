package bytestore

import (
	"hash/maphash"
	"slices"
	"sync"
)

// largeObject is the size from which the runtime gives memory to an object in pages.
const largeObject = 32 << 10

// classes returns the sizes in which the runtime gives memory to objects of a kibibyte and more.
var classes = sync.OnceValue(func() (all []int) { // read-only
	for n := 1 << 10; n <= largeObject; n = all[len(all)-1] + 1 {
		all = append(all, cap(append([]byte(nil), make([]byte, n)...)))
	}
	return all
})

// memoryOf returns the memory of an object of a size.
func memoryOf(size int) int {
	if size < largeObject {
		i, _ := slices.BinarySearch(classes(), size)
		return classes()[i]
	}
	return (size + page - 1) &^ (page - 1)
}

// slotPart is the memory of the index for an entry, at most: after it has grown it is half as full as before.
const slotPart = 2 * slotBytes * 8 / 7

// repack moves entries to chunks of the present size, until chunks and index have so many bytes: first those that were read,
// beginning with the youngest. The others leave. The lock is held.
func (s *shard) repack(c *Store, most int) {
	s.giveSpare(c)
	var old [queues][]int
	for q := range queues {
		f := &s.queues[q].chunks
		old[q] = slices.Clone(f.numbers[f.head:])
		if n := s.queues[q].active; n != 0 {
			old[q] = append(old[q], n)
		}
		slices.Reverse(old[q])
	}
	s.queues = [queues]queue{}
	for _, read := range []bool{true, false} {
		for _, q := range []int{main, small} {
			for _, n := range old[q] {
				most = s.repackChunk(c, n, q, read, most)
			}
		}
	}
	for q := range queues {
		slices.Reverse(s.queues[q].chunks.numbers) // the youngest came first
	}
	// Not before: their numbers are no numbers of new chunks as long as an entry may be in them.
	for _, n := range slices.Concat(old[main], old[small]) {
		s.release(c, n)
	}
	s.shrinkIndex(c)
}

// repackChunk moves the entries of a chunk that were read, or lets the others go or moves them, and returns how many bytes are
// left.
func (s *shard) repackChunk(c *Store, n, q int, wasRead bool, most int) (left int) {
	ch, now := s.chunks[n], c.now()
	for at := 0; at < ch.end; {
		e := read(ch.data[at:])
		from := at
		at += e.size
		hash := maphash.Bytes(c.seed, e.key)
		i := s.index.at(hash, placeOf(n, from))
		if i < 0 || (readsIn(s.index.slots[i]) > 0) != wasRead {
			continue // replaced, deleted, or of the other turn
		}
		ended := c.over(&e, now)
		if p := place(0); !ended {
			if p, most = s.repackTo(c, q, e.size, most); p != 0 {
				copy(s.chunks[p.chunk()].data[p.offset():], ch.data[from:at])
				s.index.slots[i] = makeSlot(hash, p, readsIn(s.index.slots[i]))
				continue
			}
		}
		c.left(&e, ended)
		if s.index.remove(i); ended {
			s.expired++
		} else {
			s.evicted++
		}
	}
	return most
}

// repackTo returns a place for an entry of a size, and how many bytes are left; zero without enough of them. It
// takes memory for new chunks although there may be no room: the old chunks give theirs back soon.
func (s *shard) repackTo(c *Store, q, size, most int) (p place, left int) {
	memory := int(c.chunk.Load())
	own := size >= memory/4
	if own {
		memory = memoryOf(size)
	}
	if most -= slotPart; most < 0 {
		return 0, most
	}
	if !own {
		if p, ok := s.fit(q, size); ok {
			return p, most
		}
	}
	if most < memory || !s.hasNumber() {
		return 0, most
	}
	c.give(-memory)
	n := s.addChunk(c, memory)
	s.chunks[n].own, s.chunks[n].queue = own, uint8(q)
	s.queues[q].bytes += memory
	if own {
		s.chunks[n].end = size
		s.queues[q].chunks.push(n)
		return placeOf(n, 0), most - memory
	}
	s.activate(q, n)
	p, _ = s.fit(q, size)
	return p, most - memory
}
