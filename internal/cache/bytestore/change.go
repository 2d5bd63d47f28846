package bytestore

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
)

// Hooks are the functions of a user that keeps more in values than bytes of its own. They are called
// under the lock of a shard and must not call the store. The slices are valid during the call.
type Hooks struct {
	// Ended reports whether the entry with this value has ended, as if by a deadline. Nil means no.
	Ended func(value []byte) bool
	// Left is told of each entry that made room, or was found after its end. Nil tells nothing.
	Left func(key, value []byte, ended bool)
}

// Use gives the store its hooks. It is called before the first entry.
func (c *Store) Use(h Hooks) { c.hooks = h }

// over reports whether e has ended.
func (c *Store) over(e *entry, now int64) bool {
	return e.deadline != 0 && now >= e.deadline || c.hooks.Ended != nil && c.hooks.Ended(e.value)
}

// ended is over at present. It reads the clock for a deadline alone.
func (c *Store) ended(e *entry) bool {
	now := int64(0)
	if e.deadline != 0 {
		now = c.now()
	}
	return c.over(e, now)
}

// left tells of an entry that the store lets go by itself.
func (c *Store) left(e *entry, ended bool) {
	if c.hooks.Left != nil {
		c.hooks.Left(e.key, e.value, ended)
	}
}

// AppendPeek is [Store.AppendGet] without any trace: no read is counted, and an entry that has ended
// stays where it is.
func (c *Store) AppendPeek(dst, key []byte) ([]byte, bool) {
	hash := maphash.Bytes(c.seed, key)
	s := c.shard(hash)
	s.rlock()
	defer s.mu.RUnlock()
	i, e := s.find(hash, key)
	if i < 0 || c.ended(&e) {
		return dst, false
	}
	return append(dst, e.value...), true
}

// Touch is [Store.AppendGet] without the value, and the store's Stats do not count it.
func (c *Store) Touch(key []byte) bool {
	hash := maphash.Bytes(c.seed, key)
	s := c.shard(hash)
	s.rlock()
	defer s.mu.RUnlock()
	i, e := s.find(hash, key)
	if i < 0 || c.ended(&e) {
		return false
	}
	s.index.noteRead(i)
	return true
}

// Cool takes one of the reads that the store has counted of key, and reports whether there was one.
func (c *Store) Cool(key []byte) bool {
	hash := maphash.Bytes(c.seed, key)
	s := c.shard(hash)
	s.lock()
	defer s.mu.Unlock()
	i, _ := s.find(hash, key)
	if i < 0 || readsIn(s.index.slots[i]) == 0 {
		return false
	}
	s.index.slots[i] -= 1 << readShift
	return true
}

// Exchange is [Store.Set] without a deadline. If the key has an entry, Exchange first makes *old its
// value, unless old is nil, and reports had. An entry that makes room for its successor is one
// that Hooks.Left hears of: then had is false, and *old means nothing.
func (c *Store) Exchange(key, value []byte, old *[]byte) (had, stored bool) {
	return c.set(key, value, 0, old)
}

// Replace stores the value that change makes of the present one, and reports whether it did: not
// if the key has no entry, or change returns nil, or there is no memory for a longer value. Then
// nothing changes, unless the entry itself had to make room. change is called under a lock, as the functions of [Hooks] are, and may be called
// again with another value.
func (c *Store) Replace(key []byte, change func(value []byte) []byte) (done bool) {
	hash := maphash.Bytes(c.seed, key)
	s := c.shard(hash)
	for range mostRounds {
		s.lock()
		i, e := s.find(hash, key)
		var value []byte
		if i >= 0 && !c.ended(&e) {
			value = change(e.value)
		}
		if value == nil {
			s.mu.Unlock()
			return false
		}
		var before []byte
		if sizeOf(key, value, e.deadline) != e.size {
			before = slices.Clone(e.value)
		}
		need, ok := s.put(c, hash, key, value, e.deadline)
		if !ok {
			if i, _ := s.find(hash, key); i < 0 {
				c.left(&entry{key: key, value: before}, false) // it made room for its successor, and there is still too little
			}
		}
		s.mu.Unlock()
		if ok {
			return true
		}
		if !c.free(need) {
			break
		}
	}
	return false
}

// Remove removes the entry of key if want, unless it is nil, reports true for its value, and reports
// whether it did. It appends the value to *old, unless old is nil. want is called as change of
// [Store.Replace] is.
func (c *Store) Remove(key []byte, want func(value []byte) bool, old *[]byte) (removed bool) {
	hash := maphash.Bytes(c.seed, key)
	s := c.shard(hash)
	s.lock()
	defer s.mu.Unlock()
	i, e := s.find(hash, key)
	if i < 0 || want != nil && !want(e.value) {
		return false
	}
	if old != nil {
		*old = append(*old, e.value...)
	}
	s.index.remove(i)
	return true
}

// Clear removes all entries and gives back their memory. It calls tell, unless it is nil, for each of
// them, as the functions of [Hooks] are called.
func (c *Store) Clear(tell func(key, value []byte)) { c.clear(false, tell) }

// Tidy gives back the memory of shards whose entries were all removed.
func (c *Store) Tidy() { c.clear(true, nil) }

// clear empties the shards; with emptied, those without entries.
func (c *Store) clear(emptied bool, tell func(key, value []byte)) {
	for i := range c.shards {
		s := &c.shards[i]
		s.lock()
		if !emptied || s.index.used == 0 {
			for _, x := range s.index.slots {
				if x != 0 && tell != nil {
					p := placeIn(x)
					e := read(s.chunks[p.chunk()].data[p.offset():])
					tell(e.key, e.value)
				}
			}
			c.give(s.memory() - minSlots*slotBytes)
			c.chunks.Add(-int64(s.inUse))
			s.init()
		}
		s.mu.Unlock()
	}
}

// Free returns the bytes that are left before entries must make room: none if a shard cannot have
// another chunk.
func (c *Store) Free() int64 {
	if free := c.room.Load(); free >= c.chunk.Load() {
		return free
	}
	return 0
}

// Fits reports whether a new entry can come before others must make room, by the memory that it takes if it
// begins a chunk.
func (c *Store) Fits(key, value []byte) bool {
	memory := c.chunk.Load()
	if size := int64(sizeOf(key, value, 0)); size >= memory/4 {
		memory = int64(memoryOf(int(size)))
	}
	return c.Free() >= max(1, memory)
}

// Used returns the bytes of chunks and tables beyond the tables of an empty store.
func (c *Store) Used() int64 { return max(0, c.Bytes()-int64(len(c.shards))*leastMemory) }

// Reads returns how many reads the store has counted of key since it last went round: up to three.
func (c *Store) Reads(key []byte) int {
	hash := maphash.Bytes(c.seed, key)
	s := c.shard(hash)
	s.rlock()
	defer s.mu.RUnlock()
	if i, _ := s.find(hash, key); i >= 0 {
		return int(readsIn(atomic.LoadUint64(&s.index.slots[i])))
	}
	return 0
}

// appendOld makes *old the value of key, unless old is nil, and reports whether there is one. The lock is
// held.
func (s *shard) appendOld(hash uint64, key []byte, old *[]byte) bool {
	if old == nil {
		return false
	}
	i, e := s.find(hash, key)
	if i >= 0 {
		*old = append((*old)[:0], e.value...)
	}
	return i >= 0
}
