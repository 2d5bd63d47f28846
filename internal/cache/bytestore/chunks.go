package bytestore

import "unsafe"

// chunk is memory for entries.
type chunk struct {
	data  []byte // nil for a number that is not in use
	end   int    // of the entries
	next  uint32 // the number that follows in a list; 0 for none
	queue uint8
	own   bool // it has one large entry
}

// chunkTable is the chunks of a shard.
//
// Invariant: a number in use is in one list or active in one queue, and no other number is in any but unused.
type chunkTable struct {
	chunks []chunk // by number; number 0 is none
	unused list    // numbers of chunks without memory
	spare  list    // chunks with memory and no entries
	inUse  int     // chunks with memory
	taken  int     // their memory
	// largest is the size of the largest chunk that is not of one entry, or was when the shard was repacked.
	largest int
}

// queue is the chunks of one kind, in the order in which they were begun. It fills the last one.
type queue struct {
	chunks list
	active int // the chunk with room; 0 for none. It is not among chunks.
	bytes  int // of all of them
}

// list is numbers of chunks, linked in the chunks themselves: lists as long as there once were chunks would
// take memory when the chunks have gone.
type list struct{ first, last uint32 }

// push puts number n behind a list.
func (t *chunkTable) push(l *list, n int) {
	if l.first == 0 {
		l.first = uint32(n)
	} else {
		t.chunks[l.last].next = uint32(n)
	}
	l.last = uint32(n)
}

// pushFirst puts number n before a list.
func (t *chunkTable) pushFirst(l *list, n int) {
	if l.first == 0 {
		l.last = uint32(n)
	}
	t.chunks[n].next = l.first
	l.first = uint32(n)
}

// pop takes the first number from a list; 0 if it is empty.
func (t *chunkTable) pop(l *list) (n int) {
	if n = int(l.first); n != 0 {
		l.first, t.chunks[n].next = t.chunks[n].next, 0
	}
	return n
}

// reverse turns a list round.
func (t *chunkTable) reverse(l *list) {
	var r list
	for n := t.pop(l); n != 0; n = t.pop(l) {
		t.pushFirst(&r, n)
	}
	*l = r
}

const (
	chunkBytes = int(unsafe.Sizeof(chunk{}))
	// minTable is the length of a new table of chunks.
	minTable = 4
	// pointersBytes is the header of the runtime before an object with pointers.
	pointersBytes = 8
)

// tableMemory returns the memory of a table of n chunks.
func tableMemory(n int) int {
	if n == 0 {
		return 0
	}
	return memoryOf(n*chunkBytes + pointersBytes)
}

// tableFor returns the length of a table for n chunks and half as many again.
func tableFor(n int) int {
	return min(maxChunks, (memoryOf(max(minTable, n+n/2)*chunkBytes+pointersBytes)-pointersBytes)/chunkBytes)
}

// growth returns the memory of the table that another chunk takes beside its own.
func (t *chunkTable) growth() int {
	if t.unused.first != 0 || len(t.chunks) < cap(t.chunks) {
		return 0
	}
	return tableMemory(tableFor(len(t.chunks))) - tableMemory(cap(t.chunks))
}

// hasNumber reports whether there is a number for another chunk.
func (t *chunkTable) hasNumber() bool { return t.unused.first != 0 || len(t.chunks) < maxChunks }

// add returns an empty chunk, whose memory is taken, and the growth of the table.
func (t *chunkTable) add(c *Store, memory int) (n int) {
	if n = t.pop(&t.unused); n == 0 {
		if len(t.chunks) == cap(t.chunks) {
			t.chunks = append(make([]chunk, 0, tableFor(len(t.chunks))), t.chunks...)
		}
		n = max(1, len(t.chunks))
		t.chunks = t.chunks[:n+1]
	}
	t.chunks[n] = chunk{data: make([]byte, memory)}
	t.inUse++
	t.taken += memory
	c.chunks.Add(1)
	return n
}

// drop drops a chunk that is in no list, and returns the memory that it had.
func (t *chunkTable) drop(c *Store, n int) (memory int) {
	memory = len(t.chunks[n].data)
	c.chunks.Add(-1)
	t.inUse--
	t.taken -= memory
	t.chunks[n] = chunk{}
	t.pushFirst(&t.unused, n)
	return memory
}

// newChunk returns an empty chunk, or 0 without memory for it.
func (s *shard) newChunk(c *Store, memory int, own bool) (n int) {
	for !own {
		if n = s.pop(&s.spare); n == 0 {
			break
		}
		if len(s.chunks[n].data) == memory {
			return n
		}
		s.release(c, n) // chunks had another size when it was made
	}
	if !s.hasNumber() || !c.take(memory+s.growth()) {
		return 0
	}
	if !own {
		s.largest = max(s.largest, memory)
		c.growChunks()
	}
	return s.add(c, memory)
}

// release gives back the memory of a chunk that is in no list.
func (s *shard) release(c *Store, n int) { c.give(s.drop(c, n)) }

// giveSpare gives back the memory of spare chunks.
func (s *shard) giveSpare(c *Store) {
	for n := s.pop(&s.spare); n != 0; n = s.pop(&s.spare) {
		s.release(c, n)
	}
}

// shrinkTable makes the table of chunks as short as length, if that is shorter, and the caller gives the memory back. It is
// zero, or more than the number of chunks. Chunks get other numbers then, so no caller has one.
func (s *shard) shrinkTable(length int) {
	old := s.chunks
	if length >= cap(old) {
		return
	}
	numbers := make([]uint32, len(old)) // of the chunks in the new table
	s.chunks, s.unused = nil, list{}
	if length > 0 {
		s.chunks = make([]chunk, 1, length)
	}
	for n := range old {
		if old[n].data != nil {
			numbers[n] = uint32(len(s.chunks))
			s.chunks = append(s.chunks, old[n])
		}
	}
	for n := range s.chunks {
		s.chunks[n].next = numbers[s.chunks[n].next]
	}
	for _, l := range []*list{&s.spare, &s.queues[small].chunks, &s.queues[main].chunks} {
		if l.first != 0 {
			*l = list{numbers[l.first], numbers[l.last]}
		}
	}
	for q := range queues {
		if n := s.queues[q].active; n != 0 {
			s.queues[q].active = int(numbers[n])
		}
	}
	for i, x := range s.index.slots {
		if x != 0 {
			p := placeIn(x)
			s.index.slots[i] = x&^(1<<hashShift-1) | uint64(placeOf(int(numbers[p.chunk()]), p.offset()))
		}
	}
}
