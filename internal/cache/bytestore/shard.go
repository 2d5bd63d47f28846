package bytestore

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"
)

// The queues of a shard.
const (
	small = iota
	main
	queues
)

// smallPart is the part of a shard's memory that the small queue keeps: one in so many.
const smallPart = 10

// shard is a part of a store.
type shard struct {
	mu sync.RWMutex // guards below, but for the counts of readers
	// The counts are in the line of the lock, which a reader has just written.
	hits, misses atomic.Uint64
	index        index
	chunkTable
	queues [queues]queue
	// ghosts are hashes of keys that left the small queue unread, at their low bits. Keys that come
	// back enter main.
	ghosts []uint32

	evicted, expired, rejected uint64
	// replacing is the place of an entry while room is made for its successor; 0 for none. The entry
	// stays until then.
	replacing place

	_ [lineBytes]byte // the lock of the next shard is in another line
}

const lineBytes = 64

const (
	shardBytes = int64(unsafe.Sizeof(shard{}))
	// slotBytes is the memory of a slot, with its part of the ghosts.
	slotBytes = 8 + 4/ghostSlots
	// ghostSlots is how many slots there are for each ghost.
	ghostSlots = 2
)

// spins is how often a lock is tried before its caller waits for it. A holder keeps it for a few waits for
// memory, which is shorter than to put a goroutine to sleep and to wake it: with one write in ten
// reads by two goroutines an operation takes 0.6 of the time.
const spins = 100

// lock and rlock take the lock of the shard.
func (s *shard) lock() {
	for range spins {
		if s.mu.TryLock() {
			return
		}
	}
	s.mu.Lock()
}

func (s *shard) rlock() {
	for range spins {
		if s.mu.TryRLock() {
			return
		}
	}
	s.mu.RLock()
}

func (s *shard) init() {
	s.chunkTable, s.queues = chunkTable{}, [queues]queue{}
	s.index = index{slots: make([]slot, minSlots)}
	s.ghosts = make([]uint32, minSlots/ghostSlots)
}

// put stores an entry. If the shard cannot free as much memory as that takes, put returns how much
// it needs. The lock is held, as in all methods below.
func (s *shard) put(c *Store, hash uint64, key, value []byte, deadline int64) (need int, ok bool) {
	size := sizeOf(key, value, deadline)
	i, old := s.find(hash, key)
	if i >= 0 && old.size == size {
		p := placeIn(s.index.slots[i])
		write(s.chunks[p.chunk()].data[p.offset():], key, value, deadline)
		return 0, true
	}
	if i < 0 && s.index.full() {
		if need := s.growIndex(c); need > 0 {
			return need, false
		}
	}
	var reads uint64
	if i >= 0 {
		s.replacing, reads = placeIn(s.index.slots[i]), readsIn(s.index.slots[i])
	}
	p, need := s.place(c, s.queueFor(hash, i), size)
	s.replacing = 0
	if need == 0 {
		write(s.chunks[p.chunk()].data[p.offset():], key, value, deadline)
	}
	// A sweep may have moved the slot of the old entry, or removed it.
	switch j, _ := s.find(hash, key); {
	case need > 0 && i >= 0 && j < 0:
		s.evicted++
	case need > 0:
	case j >= 0:
		s.index.slots[j] = makeSlot(hash, p, readsIn(s.index.slots[j]))
	default:
		s.index.add(makeSlot(hash, p, reads))
	}
	return need, need == 0
}

// queueFor returns the queue of a new entry: the one of the entry of slot i that it replaces, or
// small, unless its key was there not long ago.
func (s *shard) queueFor(hash uint64, i int) int {
	switch {
	case i >= 0:
		return int(s.chunks[placeIn(s.index.slots[i]).chunk()].queue)
	case s.ghosts[hash&hashMask%uint64(len(s.ghosts))] == uint32(hash&hashMask):
		return main
	}
	return small
}

// remember notes the hash of a key that leaves the small queue unread.
func (s *shard) remember(hash uint64) {
	s.ghosts[hash&hashMask%uint64(len(s.ghosts))] = uint32(hash & hashMask)
}

// place returns a place for an entry in a queue. If the shard cannot free the memory, place
// returns how much it needs.
func (s *shard) place(c *Store, q, size int) (p place, need int) {
	memory := int(c.chunk.Load())
	own := size >= memory/4
	if own {
		memory = memoryOf(size)
	}
	for vain := 0; ; {
		if !own {
			if p, ok := s.fit(q, size); ok {
				return p, 0
			}
		}
		if n := s.newChunk(c, memory, own); n != 0 {
			s.begin(q, n, size, own)
			if own {
				return placeOf(n, 0), 0
			}
			continue
		}
		// A shard with much less than its part of the memory leaves it to the others to free some.
		if poor := int64(s.bytes())*int64(len(c.shards))*2 < c.budget.Load(); poor && len(c.shards) > 1 {
			return 0, memory + s.growth()
		}
		swept, emptied := s.sweep(c, vain >= patience)
		if !swept {
			return 0, memory + s.growth()
		}
		if !emptied {
			vain++
		}
		if own {
			s.giveSpare(c)
		}
	}
}

// begin gives a new chunk to a queue: one for an entry of its own, of a size, or the active one.
func (s *shard) begin(q, n, size int, own bool) {
	ch := &s.chunks[n]
	ch.own, ch.queue = own, uint8(q)
	s.queues[q].bytes += len(ch.data)
	if !own {
		s.activate(q, n)
		return
	}
	ch.end = size
	s.push(&s.queues[q].chunks, n)
}

// patience is the number of chunks with entries that were read that one store looks through. After that it
// lets entries go whether they were read or not.
const patience = 8

// bytes returns the memory of the chunks.
func (s *shard) bytes() int {
	return s.queues[small].bytes + s.queues[main].bytes
}

// fit returns a place in the active chunk of a queue, if there is room.
func (s *shard) fit(q, size int) (p place, ok bool) {
	n := s.queues[q].active
	if n == 0 || s.chunks[n].end+size > len(s.chunks[n].data) {
		return 0, false
	}
	p = placeOf(n, s.chunks[n].end)
	s.chunks[n].end += size
	return p, true
}

// activate makes chunk n the active one of a queue.
func (s *shard) activate(q, n int) {
	if old := s.queues[q].active; old != 0 {
		s.push(&s.queues[q].chunks, old)
	}
	s.queues[q].active = n
}

// growIndex doubles the index. If the shard cannot free the memory for it, growIndex returns how
// much it needs.
func (s *shard) growIndex(c *Store) (need int) {
	old := len(s.index.slots)
	for memory := 2 * old * slotBytes; !c.take(memory); {
		if !s.index.full() {
			return 0 // sweeps have removed entries
		}
		if swept, _ := s.sweep(c, false); !swept {
			return memory
		}
		s.giveSpare(c)
	}
	s.setIndex(2 * old)
	c.give(old * slotBytes)
	return 0
}

// makeRoom sweeps a chunk, and gives back the memory that the shard has no use for.
func (s *shard) makeRoom(c *Store) {
	s.sweep(c, false)
	s.giveSpare(c)
	before := s.memory()
	switch {
	case s.inUse == 0:
		s.shrinkTable(0)
	case s.inUse < cap(s.chunks)/4:
		s.shrinkTable(tableFor(s.inUse + 1))
	}
	n := len(s.index.slots)
	for n > minSlots && s.index.used < n/4 {
		n /= 2
	}
	s.shrinkIndex(n)
	c.give(before - s.memory())
}

// memory returns the memory of the chunks, of their table, and of the index.
func (s *shard) memory() int {
	return s.taken + tableMemory(cap(s.chunks)) + len(s.index.slots)*slotBytes
}

// used returns the memory beyond the memory of an empty shard.
func (s *shard) used() int { return s.memory() - minSlots*slotBytes }

// shrinkIndex moves all slots to an index of n slots, if that is shorter, and the caller gives the memory back.
func (s *shard) shrinkIndex(n int) {
	if n < len(s.index.slots) {
		s.setIndex(n)
	}
}

// setIndex moves all slots to an index of n slots.
func (s *shard) setIndex(n int) {
	s.index.grow(make([]slot, n))
	s.ghosts = make([]uint32, n/ghostSlots)
}

// sweep lets the entries of the oldest chunk of a queue go that were not read, or all with force,
// and reports whether there was a chunk. Entries that were read move to main. A chunk without entries
// left, which sweep reports too, becomes spare.
func (s *shard) sweep(c *Store, force bool) (swept, emptied bool) {
	q := main
	if s.queues[small].bytes*smallPart >= s.bytes() || s.queues[main].chunks.first == 0 {
		q = small
	}
	if s.queues[q].chunks.first == 0 {
		if s.queues[q].active == 0 {
			q = small + main - q
		}
		if n := s.queues[q].active; s.queues[q].chunks.first == 0 && n != 0 {
			s.push(&s.queues[q].chunks, n)
			s.queues[q].active = 0
		}
	}
	n := s.pop(&s.queues[q].chunks)
	if n == 0 {
		return false, false
	}
	s.queues[q].bytes -= len(s.chunks[n].data)
	keep := s.sift(c, n, q, force)
	ch := &s.chunks[n]
	switch own := ch.own; {
	case keep == 0 && own:
		s.release(c, n)
	case keep == 0:
		ch.end = 0
		s.pushFirst(&s.spare, n)
	default:
		ch.end, ch.queue = keep, main
		s.queues[main].bytes += len(ch.data)
		if own {
			s.push(&s.queues[main].chunks, n)
		} else {
			s.activate(main, n)
		}
	}
	return true, keep == 0
}

// sift moves up the entries of chunk n of a queue that stay, and returns their end. Entries that
// the active chunk of main has room for move there.
func (s *shard) sift(c *Store, n, q int, force bool) (keep int) {
	ch, now := &s.chunks[n], c.now()
	for at := 0; at < ch.end; {
		e := read(ch.data[at:])
		hash := maphash.Bytes(c.seed, e.key)
		from := at
		at += e.size
		i := s.index.at(hash, placeOf(n, from))
		if i < 0 {
			continue // replaced or deleted
		}
		reads, replaced := readsIn(s.index.slots[i]), placeOf(n, from) == s.replacing
		switch {
		case replaced && force:
			s.index.remove(i) // its successor is about to be stored
			continue
		case replaced:
			reads = max(1, reads)
		}
		if ended := c.over(&e, now); !replaced && (ended || reads == 0 || force) {
			c.left(&e, ended)
			s.index.remove(i)
			if ended {
				s.expired++
				continue
			}
			if s.evicted++; q == small {
				s.remember(hash)
			}
			continue
		}
		if reads--; q == small {
			reads = 0
		}
		p, moves := place(0), false
		if !ch.own {
			p, moves = s.fit(main, e.size)
		}
		if !moves {
			p = placeOf(n, keep)
			keep += e.size
		}
		copy(s.chunks[p.chunk()].data[p.offset():], ch.data[from:from+e.size])
		if s.index.slots[i] = makeSlot(hash, p, reads); replaced {
			s.replacing = p
		}
	}
	return keep
}
