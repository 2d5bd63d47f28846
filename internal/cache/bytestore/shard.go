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
	chunks       []chunk // by number; number 0 is none
	unused       []int   // numbers of chunks without memory
	spare        []int   // chunks with memory and no entries
	queues       [queues]queue
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

// chunk is memory for entries.
type chunk struct {
	data  []byte // nil for a number that is not in use
	end   int    // of the entries
	queue uint8
	own   bool // it has one large entry
}

// queue is the chunks of one kind, in the order in which they were begun. It fills the last one.
type queue struct {
	chunks fifo
	active int // the chunk with room; 0 for none. It is not among chunks.
	bytes  int // of all of them
}

// fifo is a queue of numbers.
type fifo struct {
	numbers []int
	head    int
}

func (f *fifo) len() int { return len(f.numbers) - f.head }

func (f *fifo) push(n int) {
	if f.head > len(f.numbers)/2 {
		f.numbers = append(f.numbers[:0], f.numbers[f.head:]...)
		f.head = 0
	}
	f.numbers = append(f.numbers, n)
}

func (f *fifo) pop() int {
	f.head++
	return f.numbers[f.head-1]
}

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
	s.chunks = make([]chunk, 1)
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
	for sweeps := 0; ; sweeps++ {
		if !own {
			if p, ok := s.fit(q, size); ok {
				return p, 0
			}
		}
		if n := s.newChunk(c, memory, own); n != 0 {
			s.chunks[n].own, s.chunks[n].queue = own, uint8(q)
			s.queues[q].bytes += memory
			if own {
				s.chunks[n].end = size
				s.queues[q].chunks.push(n)
				return placeOf(n, 0), 0
			}
			s.activate(q, n)
			continue
		}
		// A shard with much less than its part of the memory leaves it to the others to free some.
		if poor := int64(s.bytes())*int64(len(c.shards))*2 < c.budget.Load(); poor && len(c.shards) > 1 || !s.sweep(c, sweeps >= patience) {
			return 0, memory
		}
		if own {
			s.giveSpare(c)
		}
	}
}

// patience is the number of chunks that one store looks through for entries that were not read.
// After that it lets entries go whether they were read or not.
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
		s.queues[q].chunks.push(old)
	}
	s.queues[q].active = n
}

// newChunk returns an empty chunk, or 0 without memory for it.
func (s *shard) newChunk(c *Store, memory int, own bool) (n int) {
	for !own && len(s.spare) > 0 {
		last := len(s.spare) - 1
		n, s.spare = s.spare[last], s.spare[:last]
		if len(s.chunks[n].data) == memory {
			return n
		}
		s.release(c, n) // it was made before a Resize
	}
	if !s.hasNumber() || !c.take(memory) {
		return 0
	}
	return s.addChunk(c, memory)
}

// hasNumber reports whether there is a number for another chunk.
func (s *shard) hasNumber() bool { return len(s.unused) > 0 || len(s.chunks) < maxChunks }

// addChunk returns an empty chunk, whose memory is taken.
func (s *shard) addChunk(c *Store, memory int) (n int) {
	if last := len(s.unused) - 1; last >= 0 {
		n, s.unused = s.unused[last], s.unused[:last]
	} else {
		n, s.chunks = len(s.chunks), append(s.chunks, chunk{})
	}
	s.chunks[n] = chunk{data: make([]byte, memory)}
	c.chunks.Add(1)
	return n
}

// inUse returns the number of chunks that have memory.
func (s *shard) inUse() int { return len(s.chunks) - 1 - len(s.unused) }

// release gives back the memory of a chunk that no queue has.
func (s *shard) release(c *Store, n int) {
	c.give(len(s.chunks[n].data))
	c.chunks.Add(-1)
	s.chunks[n] = chunk{}
	s.unused = append(s.unused, n)
}

// giveSpare gives back the memory of spare chunks.
func (s *shard) giveSpare(c *Store) {
	for _, n := range s.spare {
		s.release(c, n)
	}
	s.spare = s.spare[:0]
}

// growIndex doubles the index. If the shard cannot free the memory for it, growIndex returns how
// much it needs.
func (s *shard) growIndex(c *Store) (need int) {
	old := len(s.index.slots)
	for memory := 2 * old * slotBytes; !c.take(memory); {
		if !s.index.full() {
			return 0 // sweeps have removed entries
		}
		if !s.sweep(c, false) {
			return memory
		}
		s.giveSpare(c)
	}
	s.setIndex(c, 2*old)
	return 0
}

// makeRoom sweeps a chunk, and gives back the memory that the shard has no use for.
func (s *shard) makeRoom(c *Store) {
	s.sweep(c, false)
	s.giveSpare(c)
	s.shrinkIndex(c)
}

// memory returns the memory of the chunks and of the index.
func (s *shard) memory() (n int64) {
	for i := range s.chunks {
		n += int64(len(s.chunks[i].data))
	}
	return n + int64(len(s.index.slots)*slotBytes)
}

// shrinkIndex makes the index as small as its slots let it be.
func (s *shard) shrinkIndex(c *Store) {
	n := len(s.index.slots)
	for n > minSlots && s.index.used < n/4 {
		n /= 2
	}
	if n < len(s.index.slots) {
		c.give(-n * slotBytes)
		s.setIndex(c, n)
	}
}

// setIndex moves all slots to an index of n slots, whose memory is taken, and gives back the memory of
// the old one.
func (s *shard) setIndex(c *Store, n int) {
	old := len(s.index.slots)
	s.index.grow(make([]slot, n))
	s.ghosts = make([]uint32, n/ghostSlots)
	c.give(old * slotBytes)
}

// sweep lets the entries of the oldest chunk of a queue go that were not read, or all with force,
// and reports whether there was a chunk. Entries that were read move to main. A chunk without entries
// left becomes spare.
func (s *shard) sweep(c *Store, force bool) (swept bool) {
	q := main
	if s.queues[small].bytes*smallPart >= s.bytes() || s.queues[main].chunks.len() == 0 {
		q = small
	}
	if s.queues[q].chunks.len() == 0 {
		if s.queues[q].active == 0 {
			q = small + main - q
		}
		if n := s.queues[q].active; s.queues[q].chunks.len() == 0 && n != 0 {
			s.queues[q].chunks.push(n)
			s.queues[q].active = 0
		}
	}
	if s.queues[q].chunks.len() == 0 {
		return false
	}
	n := s.queues[q].chunks.pop()
	s.queues[q].bytes -= len(s.chunks[n].data)
	keep := s.sift(c, n, q, force)
	ch := &s.chunks[n]
	switch own := ch.own; {
	case keep == 0 && own:
		s.release(c, n)
	case keep == 0:
		ch.end = 0
		s.spare = append(s.spare, n)
	default:
		ch.end, ch.queue = keep, main
		s.queues[main].bytes += len(ch.data)
		if own {
			s.queues[main].chunks.push(n)
		} else {
			s.activate(main, n)
		}
	}
	return true
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
