package bytestore

import (
	"errors"
	"hash/maphash"
	"math"
	"math/bits"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxChunk is the size of a chunk. Smaller stores have smaller ones, so that each shard has a
	// good number of them; see shrinkChunks.
	maxChunk, minChunk = 64 << 10, 4 << 10
	// shardChunks is the number of chunks that a shard has at least.
	shardChunks = 16
	// MinBudget is the least budget of a store.
	MinBudget = 2 * shardChunks * minChunk
	// largest is the part of the budget that one entry may have.
	largest = 10
	// page is the granularity in which the runtime gives memory to a large object.
	page = 8 << 10
)

// ErrBudget means that a budget is less than [Store.Least], or too large for the machine.
var ErrBudget = errors.New("bytestore: the budget is too small, or too large")

// Store is a bounded map of bytes to bytes. Make it with [New]. It is safe for concurrent use.
type Store struct {
	seed   maphash.Seed
	start  time.Time
	shift  uint // of the hash, for the number of a shard
	shards []shard

	resizing sync.Mutex
	chunk    atomic.Int64 // size of new chunks
	// chunks is the number of chunks that have memory.
	chunks atomic.Int64

	budget atomic.Int64
	// room is the part of the budget that no chunk, no table and no index has taken. It is negative if a
	// Resize finds no other way to its budget.
	room atomic.Int64
	turn atomic.Uint32 // of the shard that frees memory for others next

	hooks Hooks
	guarded
}

// guarded is what a store has for its guard.
type guarded struct {
	poke atomic.Pointer[func()]
	owed atomic.Int64 // bytes to free; zero or less for none
	// shedEntries and shedBytes are what has been freed of that.
	shedEntries, shedBytes atomic.Int64
}

// Stats are numbers of a [Store] since it was made.
type Stats struct {
	Hits, Misses uint64
	// Evicted entries made room, Expired ones were found after their deadline, Rejected ones were
	// too large.
	Evicted, Expired, Rejected uint64
}

// New returns an empty store that takes at most budget bytes, with all that it needs. On 32-bit
// machines a budget is less than 2 GiB.
func New(budget int64) (*Store, error) {
	if budget < MinBudget || budget > math.MaxInt {
		return nil, ErrBudget
	}
	c := &Store{seed: maphash.MakeSeed(), start: time.Now()}
	chunk := chunkOf(budget / 2)
	n := 1 << bits.Len(uint(64*runtime.GOMAXPROCS(0)-1))
	for n > 1 && int64(n)*shardChunks*chunk > budget {
		n /= 2
	}
	c.chunk.Store(chunk)
	c.shift = uint(64 - bits.TrailingZeros(uint(n)))
	c.shards = make([]shard, n)
	c.budget.Store(budget)
	c.room.Store(budget - int64(n)*leastMemory)
	for i := range c.shards {
		c.shards[i].init()
	}
	return c, nil
}

// chunkOf returns the size of chunks for a shard of so many bytes.
func chunkOf(bytes int64) int64 {
	return min(maxChunk, max(minChunk, int64(1)<<bits.Len64(uint64(max(0, bytes)/shardChunks))>>1))
}

// AppendGet appends the value of key to dst, and reports whether there is one. It keeps neither dst
// nor key.
func (c *Store) AppendGet(dst, key []byte) ([]byte, bool) {
	hash := maphash.Bytes(c.seed, key)
	s := c.shard(hash)
	s.rlock()
	i, e := s.find(hash, key)
	if i < 0 {
		s.mu.RUnlock()
		s.misses.Add(1)
		return dst, false
	}
	if c.ended(&e) {
		s.mu.RUnlock()
		s.misses.Add(1)
		c.expire(hash, key)
		return dst, false
	}
	dst = append(dst, e.value...)
	s.index.noteRead(i)
	s.mu.RUnlock()
	s.hits.Add(1)
	return dst, true
}

// expire removes the entry of key if its deadline has passed.
func (c *Store) expire(hash uint64, key []byte) {
	s := c.shard(hash)
	s.lock()
	defer s.mu.Unlock()
	if i, e := s.find(hash, key); i >= 0 && c.ended(&e) {
		c.left(&e, true)
		s.index.remove(i)
		s.expired++
	}
}

// Set stores a value, which ends after ttl; a ttl of zero or less means never. Set keeps neither
// key nor value. It reports false if the entry needs more than a tenth of the budget: then the
// key has no value afterwards.
func (c *Store) Set(key, value []byte, ttl time.Duration) bool {
	deadline := int64(0)
	if ttl > 0 {
		deadline = min(c.now()+max(1, ttl.Milliseconds()), 1<<(8*deadlineBytes)-1)
	}
	_, stored := c.set(key, value, deadline, nil)
	return stored
}

// set is Set with a deadline, and [Store.Exchange].
func (c *Store) set(key, value []byte, deadline int64, old *[]byte) (had, stored bool) {
	hash := maphash.Bytes(c.seed, key)
	s := c.shard(hash)
	lost := false // put has removed the entry that it could not replace, and the hook has not heard of it
	if int64(len(key))+int64(len(value)) <= c.budget.Load()/largest-deadlineBytes {
		for range mostRounds {
			s.lock()
			found := s.appendOld(hash, key, old)
			had = found || lost
			need, ok := s.put(c, hash, key, value, deadline)
			if !ok && found {
				i, _ := s.find(hash, key)
				lost = i < 0
			}
			s.mu.Unlock()
			if ok {
				c.tellGuard(hash)
				return had, true
			}
			if !c.free(need) {
				break
			}
		}
	}
	s.lock()
	defer s.mu.Unlock()
	had = s.appendOld(hash, key, old) || lost
	if i, _ := s.find(hash, key); i >= 0 {
		s.index.remove(i)
	}
	s.rejected++
	return had, false
}

const (
	// pokeOne is how many keys there are for one whose Sets poke the guard.
	pokeOne = 64
	// setTurns is the number of turns in which a Set frees what is owed.
	setTurns = 4
	// leastMemory is the memory of a shard without entries.
	leastMemory = shardBytes + slotBytes*minSlots
)

// tellGuard is called after a Set.
func (c *Store) tellGuard(hash uint64) {
	if f := c.poke.Load(); f != nil && hash%pokeOne == 0 {
		(*f)()
	}
	if c.owed.Load() > 0 {
		c.settle(setTurns)
	}
}

// mostRounds bounds how often a Set frees memory in other shards. One round is enough unless other
// writers take the freed memory.
const mostRounds = 1000

// free frees memory of shards in turn, and reports whether need bytes are free.
func (c *Store) free(need int) bool {
	for range c.turns() {
		if c.room.Load() >= int64(need) {
			return true
		}
		c.sweepNext()
	}
	return c.room.Load() >= int64(need)
}

// looks is the number of shards of which one frees memory next.
const looks = 8

// next returns the shard that frees memory next, and locks it: not one with much less than its part of the memory, if there is
// another one near. By turns alone a shard with few chunks would be empty when others have given as many of theirs.
func (c *Store) next() *shard {
	part := c.Used() / int64(len(c.shards))
	for look := 1; ; look++ {
		s := &c.shards[c.turn.Add(1)%uint32(len(c.shards))]
		s.lock()
		if look == looks || int64(s.used()) >= part-part/4 {
			return s
		}
		s.mu.Unlock()
	}
}

// sweepNext frees memory of the next shard.
func (c *Store) sweepNext() {
	s := c.next()
	defer s.mu.Unlock()
	s.makeRoom(c)
}

// Delete removes the entry of key, and reports whether there was one.
func (c *Store) Delete(key []byte) bool {
	hash := maphash.Bytes(c.seed, key)
	s := c.shard(hash)
	s.lock()
	defer s.mu.Unlock()
	i, _ := s.find(hash, key)
	if i >= 0 {
		s.index.remove(i)
	}
	return i >= 0
}

// Len returns the number of entries. Entries that have ended count until they are found, or make
// room.
func (c *Store) Len() (n int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.rlock()
		n += s.index.used
		s.mu.RUnlock()
	}
	return n
}

// Bytes returns the memory that the store takes: chunks with all that is in them, used or not, and
// tables.
func (c *Store) Bytes() int64 { return c.budget.Load() - c.room.Load() }

// Budget returns the bound of Bytes.
func (c *Store) Budget() int64 { return c.budget.Load() }

// Stats returns the numbers of the store.
func (c *Store) Stats() (n Stats) {
	for i := range c.shards {
		s := &c.shards[i]
		n.Hits += s.hits.Load()
		n.Misses += s.misses.Load()
		s.rlock()
		n.Evicted += s.evicted
		n.Expired += s.expired
		n.Rejected += s.rejected
		s.mu.RUnlock()
	}
	return n
}

// muchMemory is the memory for which Resize collects garbage. The runtime gives less back by itself.
const muchMemory = 1 << 20

// Least returns the least budget of Resize: [MinBudget], or more if the store was made with so many shards that they would take
// most of it.
func (c *Store) Least() int64 { return max(MinBudget, 2*int64(len(c.shards))*leastMemory) }

// Resize changes the budget. With less than before entries leave: those that were read stay first. A mebibyte of memory
// or more goes back to the system at once, which takes a garbage collection. A budget less than [Store.Least] is an
// error.
//
// The budget falls as memory becomes free, so Sets find it full meanwhile, as they do at any other time: else the first of
// them would free all that is too much, at the expense of entries that were read.
func (c *Store) Resize(budget int64) error {
	c.resizing.Lock()
	defer c.resizing.Unlock()
	if budget < c.Least() || budget > math.MaxInt {
		return ErrBudget
	}
	old := c.budget.Load()
	if budget >= old {
		c.budget.Add(budget - old)
		c.room.Add(budget - old)
		return nil
	}
	c.shrinkChunks(budget / int64(len(c.shards)))
	c.lower(budget)
	c.refitAll(budget)
	for range c.turns() {
		if c.lower(budget) {
			break
		}
		c.sweepNext()
	}
	over := c.budget.Load() - budget
	c.budget.Add(-over)
	c.room.Add(-over)
	c.free(0)
	if old-budget >= muchMemory {
		debug.FreeOSMemory()
	}
	return nil
}

// lower lowers the budget to a smaller one as far as there is room, and reports whether that was enough.
func (c *Store) lower(budget int64) bool {
	for {
		over, room := c.budget.Load()-budget, c.room.Load()
		n := min(over, room)
		if n <= 0 {
			return over <= 0
		}
		// The room goes first, so that the budget never is less than the memory taken.
		if c.room.CompareAndSwap(room, room-n) {
			c.budget.Add(-n)
		}
	}
}

// refitAll moves the entries of shards with chunks that are too large for a smaller budget, each as many as its part of that
// lets stay. The rest of a shard's part goes to the next one.
func (c *Store) refitAll(budget int64) {
	part := float64(budget-int64(len(c.shards))*leastMemory) / float64(max(1, c.Used()))
	carried := 0
	for i := range c.shards {
		s := &c.shards[i]
		for done := false; !done; c.lower(budget) {
			s.lock()
			has, tooMany := s.outgrown(c)
			switch done = !tooMany || c.budget.Load() <= budget; {
			case !done:
				s.makeRoom(c)
			case tooMany: // and all that there is fits
			case has:
				most := int(part*float64(s.used())) + carried
				s.repack(c, most)
				carried = max(0, most-s.used())
			}
			s.mu.Unlock()
		}
	}
}

// shrinkChunks makes new chunks as small as shards of so many bytes need them: with a few large ones a shard keeps little, since a
// chunk full of entries that were read is kept as a whole, and a chunk makes room as a whole.
func (c *Store) shrinkChunks(shardBytes int64) {
	chunk := chunkOf(shardBytes)
	for old := c.chunk.Load(); chunk < old && !c.chunk.CompareAndSwap(old, chunk); {
		old = c.chunk.Load()
	}
}

// growChunks makes new chunks larger when shards have more than twice as many bytes as the larger ones need. So a store that becomes
// a little larger and smaller in turn moves no entries.
func (c *Store) growChunks() {
	old := c.chunk.Load()
	if old == maxChunk {
		return
	}
	if chunk := chunkOf(c.Bytes() / int64(2*len(c.shards))); chunk > old {
		c.chunk.CompareAndSwap(old, chunk)
	}
}

// Guarded makes one in 64 Sets, by the hash of the key, call poke, which must not take long; nil for
// none.
func (c *Store) Guarded(poke func()) {
	if poke == nil {
		c.poke.Store(nil)
		return
	}
	c.poke.Store(&poke)
}

// Usage returns the units that Owe counts, which are bytes, and the hits since the store was made.
func (c *Store) Usage() (units int64, hits uint64) {
	for i := range c.shards {
		hits += c.shards[i].hits.Load()
	}
	return c.Used(), hits
}

// Shed returns how many entries and bytes debts of Owe have freed.
func (c *Store) Shed() (entries, bytes int64) { return c.shedEntries.Load(), c.shedBytes.Load() }

// Owe makes the next Sets, or Settle, free so many bytes, in place of what was owed before. The budget
// stays, and chunks become as small as a store of the bytes that are left has them.
func (c *Store) Owe(bytes int64) {
	if bytes > 0 {
		c.shrinkChunks((c.Used() - bytes) / int64(len(c.shards)))
	}
	c.owed.Store(bytes)
}

// Settle frees what is owed.
func (c *Store) Settle() {
	left := c.settle(c.turns())
	if left > 0 {
		left = c.settle(c.turns()) // there may be more chunks than before: smaller ones
	}
	if left > 0 {
		c.owed.CompareAndSwap(left, 0) // it cannot be freed; a debt that came meanwhile can
	}
}

// settle frees memory that is owed, in so many turns of shards at most, and returns the debt that is left.
func (c *Store) settle(turns int) (left int64) {
	for left = c.owed.Load(); turns > 0 && left > 0; turns-- {
		entries, bytes := c.settleNext()
		left = c.owed.Add(-bytes)
		c.shedEntries.Add(entries)
		c.shedBytes.Add(bytes)
	}
	return left
}

// settleNext frees memory of the next shard, or has its entries in chunks of the present size, and returns how many entries and
// bytes have gone.
func (c *Store) settleNext() (entries, bytes int64) {
	s := c.next()
	defer s.mu.Unlock()
	before, evicted := s.memory(), s.evicted
	if !s.refit(c) {
		s.makeRoom(c)
	}
	return int64(s.evicted - evicted), int64(before - s.memory())
}

// turns is the number of turns of shards that empty a store. A chunk that is read again and again leaves
// after three laps.
func (c *Store) turns() int { return 4 * (len(c.shards) + int(c.chunks.Load())) }

func (c *Store) shard(hash uint64) *shard { return &c.shards[hash>>c.shift] }

// now returns the milliseconds since the start, at least one.
func (c *Store) now() int64 { return int64(time.Since(c.start)/time.Millisecond) + 1 }

// take takes n bytes of the room, if there are so many.
func (c *Store) take(n int) bool {
	for {
		room := c.room.Load()
		if room < int64(n) {
			return false
		}
		if c.room.CompareAndSwap(room, room-int64(n)) {
			return true
		}
	}
}

// give gives back n bytes.
func (c *Store) give(n int) { c.room.Add(int64(n)) }
