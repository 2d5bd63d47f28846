package l1

import (
	"sync"
	"sync/atomic"
)

// shard is a slice of the cache by hash. The table pointer has a cache line of
// its own: readers load it on every Get, writers change it only when the table
// grows. A shard is three cache lines.
type shard[K comparable, V any] struct {
	table atomic.Pointer[table[K, V]]
	_     [56]byte

	// entries and weight change only under mu, through Cache.settle. Writers of
	// other shards read them to find a shard that holds more than its share.
	entries, weight atomic.Int64

	mu     sync.Mutex // guards all below, and changes to the table
	queue  queue[K, V]
	wheel  wheel[K, V]
	closed bool

	evicted, expired, rejected uint64
}

// find returns the entry of key, dead or not, or nil. It takes no lock.
func (s *shard[K, V]) find(hash uint64, key K) *Entry[K, V] {
	return s.table.Load().find(hash, key)
}

// holds reports whether e itself is in the shard.
func (s *shard[K, V]) holds(e *Entry[K, V]) bool {
	g, _, _ := s.table.Load().locate(e)
	return g != nil
}

// insert adds an entry; its key must be absent.
func (s *shard[K, V]) insert(e *Entry[K, V]) {
	t := s.table.Load()
	if n := s.queue.n; n == t.room() {
		t = t.copied(2 * n)
		t.insert(e)
		s.table.Store(t)
	} else {
		t.insert(e)
	}
	s.queue.add(e)
	s.wheel.add(e)
}

// replace puts e in the place of old, which is in the shard and has the same
// key. e inherits the use counter and the queue position of old.
func (s *shard[K, V]) replace(old, e *Entry[K, V]) {
	if u := old.use.Load(); u != 0 {
		e.use.Store(u)
	}
	s.table.Load().replace(old, e)
	s.queue.replace(old, e)
	s.wheel.remove(old)
	s.wheel.add(e)
}

// remove takes out an entry that is in the shard. A table with less than an
// eighth of its room in use is replaced by a smaller one.
func (s *shard[K, V]) remove(e *Entry[K, V]) {
	t := s.table.Load()
	t.remove(e)
	s.queue.remove(e)
	s.wheel.remove(e)
	if n := s.queue.n; len(t.groups) > 1 && n < t.room()/8 {
		s.table.Store(t.copied(2 * n))
	}
}

// empty takes out all entries at once and returns them as a list linked by
// next, which the caller owns.
func (s *shard[K, V]) empty() (head *Entry[K, V]) {
	head = s.queue.head
	s.table.Store(newTable[K, V](0))
	s.queue = queue[K, V]{}
	s.wheel = wheel[K, V]{tick: s.wheel.tick}
	return head
}
