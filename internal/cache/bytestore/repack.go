package bytestore

import (
	"hash/maphash"
	"slices"
	"sync"
)

// largeObject is the size from which the runtime gives memory to an object in pages.
const largeObject = 32 << 10

// classes returns the sizes in which the runtime gives memory to objects of 128 bytes and more.
var classes = sync.OnceValue(func() (all []int) { // read-only
	for n := 128; n <= largeObject; n = all[len(all)-1] + 1 {
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

// mostMoved is the largest number of chunks whose entries are moved under one lock: a shard with more has them swept
// first, chunk by chunk.
const mostMoved = 2 * shardChunks

// outgrown reports whether a shard has chunks that are larger than new ones are, and too many of them to move their entries
// under one lock. Entries with chunks of their own do not move.
func (s *shard) outgrown(c *Store) (has, tooMany bool) {
	if has = int64(s.largest) > c.chunk.Load(); !has {
		return false, false
	}
	shared := 0
	for n := range s.chunks {
		if !s.chunks[n].own {
			shared += len(s.chunks[n].data)
		}
	}
	return true, shared > mostMoved*s.largest
}

// refit moves the entries to chunks of the present size, if the shard has larger ones, and reports whether it did. It needs as much
// memory as the shard has, until the old chunks are given back. The lock is held.
func (s *shard) refit(c *Store) bool {
	has, tooMany := s.outgrown(c)
	if !has || tooMany {
		return false
	}
	memory := s.memory()
	if !c.take(memory) {
		return false
	}
	s.repack(c, s.used())
	c.give(memory)
	return true
}

// repacker moves the entries of a shard to new chunks.
type repacker struct {
	c     *Store
	s     *shard
	chunk int   // size of the new chunks
	left  int   // bytes that chunks and index may still take
	now   int64 // see Store.over
	// kept and begun are the numbers of entries and of chunks that stay, slots and table the lengths of the index and of the
	// table for them.
	kept, begun, slots, table int
}

// repack moves entries to chunks of the present size, until chunks, their table and the index have so many bytes beyond
// the ones of an empty shard: first those that were read, beginning with the youngest. The others leave. Entries with chunks of their own stay in
// them. The lock is held.
//
// Old and new chunks are there at the same time, and only the difference is given back.
func (s *shard) repack(c *Store, most int) {
	s.giveSpare(c)
	before := s.memory()
	r := repacker{c: c, s: s, chunk: int(c.chunk.Load()), left: most, now: c.now(), slots: minSlots}
	var old [queues]list
	for q := range queues {
		if n := s.queues[q].active; n != 0 {
			s.activate(q, 0)
		}
		old[q] = s.queues[q].chunks
		s.reverse(&old[q])
	}
	s.queues = [queues]queue{}
	for _, read := range []bool{true, false} {
		for _, q := range []int{main, small} {
			var rest list
			for n := s.pop(&old[q]); n != 0; n = s.pop(&old[q]) {
				if kept := r.move(n, q, read); !kept {
					s.push(&rest, n)
				}
			}
			old[q] = rest
		}
	}
	for q := range queues {
		s.reverse(&s.queues[q].chunks) // the youngest came first
		// Not before: their numbers are no numbers of new chunks as long as an entry may be in them.
		for n := s.pop(&old[q]); n != 0; n = s.pop(&old[q]) {
			s.drop(c, n)
		}
	}
	s.largest = r.chunk
	s.shrinkTable(r.table)
	s.shrinkIndex(r.slots)
	c.give(before - s.memory())
}

// move moves the entries of a chunk that were read, or lets the others go or moves them. It reports whether it has kept the
// chunk as it is.
func (r *repacker) move(n, q int, wasRead bool) (kept bool) {
	s, c, ch := r.s, r.c, r.s.chunks[n]
	for at := 0; at < ch.end; {
		e := read(ch.data[at:])
		from := at
		at += e.size
		hash := maphash.Bytes(c.seed, e.key)
		i := s.index.at(hash, placeOf(n, from))
		if i < 0 || (readsIn(s.index.slots[i]) > 0) != wasRead {
			continue // replaced, deleted, or of the other turn
		}
		ended := c.over(&e, r.now)
		switch {
		case ended:
		case ch.own:
			if r.allow(len(ch.data)) {
				s.begin(q, n, ch.end, true)
				return true
			}
		default:
			if p := r.place(q, e.size); p != 0 {
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
	return false
}

// allow counts an entry, and the chunk that it begins, if the bytes of that are left. The chunk has memory bytes; zero for none.
func (r *repacker) allow(memory int) bool {
	slots, table, cost := r.slots, r.table, memory
	if r.kept >= slots-slots/8 {
		cost += slots * slotBytes
		slots *= 2
	}
	begun := r.begun
	if memory > 0 {
		begun++
	}
	if begun >= table {
		table = tableFor(begun + 1)
		cost += tableMemory(table) - tableMemory(r.table)
	}
	if r.left < cost {
		return false
	}
	r.left -= cost
	r.kept++
	r.begun, r.slots, r.table = begun, slots, table
	return true
}

// place returns a place for an entry of a size, or zero without enough bytes left.
func (r *repacker) place(q, size int) (p place) {
	s, memory := r.s, r.chunk
	own := size >= memory/4
	if own {
		memory = memoryOf(size)
	} else if n := s.queues[q].active; n != 0 && s.chunks[n].end+size <= len(s.chunks[n].data) {
		if !r.allow(0) {
			return 0
		}
		p, _ = s.fit(q, size)
		return p
	}
	if !s.hasNumber() || !r.allow(memory) {
		return 0
	}
	n := s.add(r.c, memory)
	s.begin(q, n, size, own)
	if own {
		return placeOf(n, 0)
	}
	p, _ = s.fit(q, size)
	return p
}
