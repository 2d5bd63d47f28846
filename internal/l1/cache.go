package l1

import (
	"hash/maphash"
	"iter"
	"math/bits"
	"runtime"
	"sync/atomic"
)

// shardEntries is the least number of entries per shard. With fewer, splitting
// the policy's queue costs hits.
const shardEntries = 256

// maxBound is the largest weight bound. It keeps sums of weights from
// overflowing.
const maxBound = 1 << 56

// The counters of reads.
const (
	countHits = iota
	countMisses
)

// refreshEvery is the number of hits on one stripe after which the reader
// brings a published time up to date; a power of two.
const refreshEvery = 64

// Config is the bounds of a cache and its callback for removals.
type Config[K comparable, V any] struct {
	// MaxEntries and MaxWeight are the bounds; at least one is positive, and
	// zero means that the other one holds alone.
	MaxEntries, MaxWeight int64
	// Notify is called with each entry that left the cache: by the sweeper for
	// expired entries, and by the methods that document it. No lock is held
	// during the call. With a nil Notify methods return no lists of removed
	// entries. A panic in Notify is caught and counted. Notify must not call
	// Close.
	Notify func(*Entry[K, V], Reason)
}

// Cache is a bounded map in which entries have lives. Make it with [New]. All
// methods are safe for concurrent use.
type Cache[K comparable, V any] struct {
	// Written once.
	seed   maphash.Seed
	shards []shard[K, V]
	shift  uint8
	counts Striped
	notify func(*Entry[K, V], Reason)

	clock clock

	maxEntries, maxWeight atomic.Int64
	_                     [48]byte
	// entries and weight are the totals of all shards. A writer adds to them
	// while it holds the mutex of the shard that it has changed.
	entries, weight atomic.Int64
	_               [48]byte

	sweeper sweeper
	panics  atomic.Uint64
}

// New makes an empty cache. With no positive bound it holds one entry.
func New[K comparable, V any](c Config[K, V]) *Cache[K, V] {
	if c.MaxEntries <= 0 && c.MaxWeight <= 0 {
		c.MaxEntries = 1
	}
	bound := c.MaxEntries
	if bound <= 0 {
		bound = c.MaxWeight
	}
	n := shardCount(bound)
	cache := &Cache[K, V]{
		seed:   maphash.MakeSeed(),
		shards: make([]shard[K, V], n),
		shift:  uint8(64 - bits.TrailingZeros(uint(n))),
		counts: *NewStriped(),
		notify: c.Notify,
	}
	cache.setBounds(c.MaxEntries, c.MaxWeight)
	cache.clock.init()
	cache.sweeper.init()
	for i := range cache.shards {
		cache.shards[i].table.Store(newTable[K, V](0))
	}
	return cache
}

// shardCount returns the number of shards, a power of two: at least four times
// the number of processors, or fewer if the shards would become small.
func shardCount(bound int64) int {
	n := 1 << bits.Len(uint(4*runtime.GOMAXPROCS(0)-1))
	if small := bound / shardEntries; small < int64(n) {
		n = 1 << max(0, bits.Len64(uint64(small))-1)
	}
	return n
}

// setBounds sets the bounds; zero or less means none.
func (c *Cache[K, V]) setBounds(entries, weight int64) {
	if entries <= 0 {
		entries = Forever
	}
	if weight <= 0 {
		weight = Forever
	}
	c.maxEntries.Store(entries)
	c.maxWeight.Store(min(weight, maxBound))
}

// shard returns the shard of a hash.
func (c *Cache[K, V]) shard(hash uint64) *shard[K, V] {
	return &c.shards[hash>>c.shift]
}

// Get returns the living entry of key, or nil, and the time by which its life
// was judged. It takes no lock and allocates nothing. The policy records the
// hit; hits and misses are counted.
//
// It panics, as a map does, when key holds something that cannot be compared.
func (c *Cache[K, V]) Get(key K) (*Entry[K, V], int64) {
	hash := maphash.Comparable(c.seed, key)
	e := c.shard(hash).find(hash, key)
	now := c.clock.now()
	if e == nil || now >= e.Dead {
		c.counts.Add(countMisses)
		return nil, now
	}
	e.touch()
	if c.counts.Add(countHits)%refreshEvery == 0 {
		c.clock.refresh()
	}
	return e, now
}

// Peek is Get without any trace: the policy records no hit and nothing is
// counted.
func (c *Cache[K, V]) Peek(key K) (*Entry[K, V], int64) {
	hash := maphash.Comparable(c.seed, key)
	e := c.shard(hash).find(hash, key)
	now := c.clock.now()
	if e == nil || now >= e.Dead {
		return nil, now
	}
	return e, now
}

// Now returns the exact time by the clock of this cache.
func (c *Cache[K, V]) Now() int64 { return c.clock.exact() }

// Len returns the number of entries, including dead entries that are not swept
// yet.
func (c *Cache[K, V]) Len() int { return int(c.entries.Load()) }

// Weight returns the sum of the entries' weights.
func (c *Cache[K, V]) Weight() int64 { return c.weight.Load() }

// All iterates over the living entries, in no order. It takes no lock and
// copies nothing, so it is weakly consistent: an entry that stays in the cache
// during the iteration is seen once; an entry that is added, removed or
// replaced meanwhile may be seen or not, and a key that is removed and set
// again may be seen twice. The policy records no hits.
func (c *Cache[K, V]) All() iter.Seq[*Entry[K, V]] {
	return func(yield func(*Entry[K, V]) bool) {
		for i := range c.shards {
			s := &c.shards[i]
			t := s.table.Load()
			whole := t.each(func(e *Entry[K, V]) bool {
				if s.table.Load() != t { // t was replaced: search the current table
					e = s.find(e.hash, e.Key)
				}
				return e == nil || c.clock.now() >= e.Dead || yield(e)
			})
			if !whole {
				return
			}
		}
	}
}

// Hottest returns up to n living entries in descending order of the policy's
// use counters.
func (c *Cache[K, V]) Hottest(n int) []*Entry[K, V] {
	if n <= 0 {
		return nil
	}
	var byUse [maxUse + 1][]*Entry[K, V]
	for e := range c.All() {
		u := e.use.Load()
		if len(byUse[u]) < n {
			byUse[u] = append(byUse[u], e)
		}
	}
	var hottest []*Entry[K, V]
	for u := maxUse; u >= 0; u-- {
		hottest = append(hottest, byUse[u]...)
	}
	return hottest[:min(n, len(hottest))]
}

// Stats holds the counts of a cache since it was made, and its present size.
type Stats struct {
	Entries        int64  // held now, including dead entries that are not swept yet
	Weight         int64  // of these
	Hits           uint64 // Gets that found a living entry
	Misses         uint64 // Gets that found none
	Evicted        uint64 // entries removed to make room
	Expired        uint64 // entries removed after their deadline
	Rejected       uint64 // Sets refused as too heavy
	CallbackPanics uint64 // panics caught in Config.Notify
}

// Stats returns the counts. They are read one after the other, not at one
// instant.
func (c *Cache[K, V]) Stats() Stats {
	st := Stats{
		Entries:        c.entries.Load(),
		Weight:         c.weight.Load(),
		Hits:           c.counts.Sum(countHits),
		Misses:         c.counts.Sum(countMisses),
		CallbackPanics: c.panics.Load(),
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		st.Evicted += s.evicted
		st.Expired += s.expired
		st.Rejected += s.rejected
		s.mu.Unlock()
	}
	return st
}
