package l1

import (
	"hash/maphash"
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/observe"
)

// shardEntries is the least number of entries per shard. With fewer, splitting
// the policy's queues costs hits: a loop over slightly more keys than a cache of 934
// entries hits 91 % with one shard and 83 % with two.
const shardEntries = 512

// maxBound is the largest weight bound. It keeps sums of weights from
// overflowing.
const maxBound = 1 << 56

// The counters of reads.
const (
	countHits = iota
	countMisses
)

// Config is the bounds of a cache and its callback for removals.
type Config[K comparable, V any] struct {
	// MaxEntries and MaxWeight are the bounds; at least one is positive, and
	// zero means that the other one holds alone.
	MaxEntries, MaxWeight int64
	// Policy decides which entries make room.
	Policy evict.Policy
	// EvictShare is the share of the bound to evict when room is needed, 0 to 1, in whole
	// millionths. See rest.
	EvictShare float64
	// IdleTTL is the time for which an unread entry lives; see evict.Idle. Zero means
	// that reads do not matter.
	IdleTTL time.Duration
	// Timeless says that the caller has no use for the time that Get returns until an
	// entry with a deadline is stored. Until then reads look at no clock. With an
	// IdleTTL it has no effect.
	Timeless bool
	// Rare says that few calls reach the cache: its counters take 128 bytes, and not 2 KiB
	// for each processor.
	Rare bool
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
	core
	seed maphash.Seed
	// words says that keys are integers of 64 bits, which secret hashes.
	words  bool
	secret secret
	// texts says that keys are strings; see [NewEntry].
	texts  bool
	sample atomic.Pointer[func(K, uint64)] // see Sample
}

// secret hashes 64 bits by two multiplications of 128 bits, as wyhash does (Wang Yi,
// 2019). A call of the runtime's hash function takes twice as long.
type secret [3]uint64

func newSecret() secret { return secret{rand.Uint64(), rand.Uint64() | 1, rand.Uint64() | 1} }

func (s *secret) hash(word uint64) uint64 {
	hi, lo := bits.Mul64(word^s[0], s[1])
	hi, lo = bits.Mul64(hi^lo, s[2])
	return hi ^ lo
}

// totals are the sums over all shards; see core.reserve.
type totals struct {
	entries, weight atomic.Int64
	// pinned is the number of pinned entries, each of which counts as one. It is written
	// under the mutex of a shard.
	pinned atomic.Int64
}

// core is the part of a cache that needs neither the type of keys nor the type of
// values. It is compiled once, however many types a program caches.
type core struct {
	// Written rarely.
	shards []shard
	where  atomic.Uint32 // which of them are in use; see divide
	policy evict.Policy
	// listens says that the policy must be told of each hit.
	listens bool
	counts  striped
	notify  func(*evict.Head, Reason)
	idle    evict.Idle

	clock clock

	maxEntries, maxWeight atomic.Int64
	rest                  rest
	_                     [32]byte // writers of totals leave the bounds in the caches of other processors
	totals
	_ [40]byte

	sweeper sweeper
	tally
}

// tally is what rare events need: their counts, and a lock.
type tally struct {
	poke   atomic.Pointer[func()] // see Ward.Guarded
	shed   debt                   // what the guard's debts have evicted, in all
	panics atomic.Uint64          // of Config.Notify
	ages   observe.Durations      // of entries that left to make room
	// dividing is held while entries are moved between shards.
	dividing sync.Mutex
}

// New makes an empty cache. With no positive bound it holds one entry.
func New[K comparable, V any](o Config[K, V]) *Cache[K, V] {
	if o.MaxEntries <= 0 && o.MaxWeight <= 0 {
		o.MaxEntries = 1
	}
	c := &Cache[K, V]{seed: maphash.MakeSeed(), secret: newSecret()}
	switch reflect.TypeFor[K]().Kind() {
	case reflect.Int, reflect.Uint, reflect.Uintptr:
		c.words = bits.UintSize == 64
	case reflect.Int64, reflect.Uint64:
		c.words = true
	case reflect.String:
		c.texts = true
	}
	c.policy, c.listens = o.Policy, o.Policy.Listens()
	c.rest.ppm = int64(math.Round(o.EvictShare * million))
	c.idle = evict.NewIdle(o.IdleTTL)
	c.counts = newStriped(o.Rare)
	c.init(o.MaxEntries, o.MaxWeight)
	if o.Timeless && c.idle.Life == 0 {
		c.clock.published.Store(timeless)
	}
	if o.Notify != nil {
		c.notify = func(h *evict.Head, why Reason) { o.Notify(entryOf[K, V](h), why) }
	}
	return c
}

// init makes the shards.
func (c *core) init(maxEntries, maxWeight int64) {
	bound := maxEntries
	if bound <= 0 {
		bound = maxWeight
	}
	n := shardCount(bound)
	c.shards = make([]shard, n)
	if c.rest.weighs = maxWeight > 0; c.rest.weighs {
		n = 1 // how many entries fit is not known
	}
	c.use(n)
	c.maxEntries.Store(Forever)
	c.maxWeight.Store(maxBound)
	c.setBounds(maxEntries, maxWeight)
	c.clock.init()
	c.sweeper.init()
	for i := range c.shards {
		s := &c.shards[i]
		s.number = uint32(i)
		s.table.Store(newTable(0))
		s.order.SetIdle(c.idle)
		s.order.Fit(c.policy, c.share(), c.weighted())
	}
}

// weighted reports whether the policy counts weights: the cache has a bound for
// them.
func (c *core) weighted() bool { return c.wanted().weight < maxBound }

// share returns the part of the bound that falls to each shard.
func (c *core) share() int64 {
	w := c.wanted()
	if w.weight < maxBound {
		return w.weight / int64(c.inUse())
	}
	return w.entries / int64(c.inUse())
}

// shardCount returns the number of shards, a power of two: at least four times
// the number of processors, or fewer if the shards would become small.
func shardCount(bound int64) int {
	n := 1 << bits.Len(uint(4*runtime.GOMAXPROCS(0)-1))
	if small := bound / shardEntries; small < int64(n) {
		n = 1 << max(0, bits.Len64(uint64(small))-1)
	}
	return min(n, evict.MaxShards)
}

// hash returns the hash of a key. It panics, as a map does, when key holds
// something that cannot be compared.
func (c *Cache[K, V]) hash(key K) uint64 {
	if c.words {
		return c.secret.hash(*(*uint64)(unsafe.Pointer(&key)))
	}
	return maphash.Comparable(c.seed, key)
}

// find returns the entry of key, dead or not, or nil. It takes no lock.
//
// It is written in one piece: in code that other packages instantiate, Go calls
// the small functions that it inlines in this one.
func (c *Cache[K, V]) find(hash uint64, key K) *Entry[K, V] {
	where := c.where.Load()
	groups := c.shards[hash>>1>>(where&whereShift)].table.Load().groups
	tag := max(1, hash&0xff) * lowBits
	at := int(uint64(uint32(hash)) * uint64(len(groups)) >> 32)
	for range groups {
		g := &groups[at]
		tags := g.tags.Load()
		x := tags ^ tag
		for m := (x - lowBits) &^ x & highBits; m != 0; m &= m - 1 {
			e := (*Entry[K, V])(unsafe.Pointer(g.slots[bits.TrailingZeros64(m)>>3].Load()))
			if e != nil && e.Key == key {
				return e
			}
		}
		if tags>>overShift == 0 {
			break
		}
		if at++; at == len(groups) {
			at = 0
		}
	}
	if c.settled(where) {
		return nil
	}
	return c.find(hash, key)
}

// Get returns the living entry of key, or nil, and the time by which its life was judged, or zero
// without an entry. It allocates nothing, and takes no lock unless the policy listens. The policy
// records the hit; hits and misses are counted. A hit on a frequently hit entry executes no locked
// instruction, unless it is the first in a unit of evict.Idle.
//
// It panics, as a map does, when key holds a value that cannot be compared.
//
// Get is find, clock.now, Head.Touch and the counting of a hit, written out: in code
// that other packages instantiate, Go calls functions that it inlines in this
// package. That saves 3 of 20 ns. A policy that listens leaves the counters of entries
// alone, so a hit looks at listens only where a counter is not full.
func (c *Cache[K, V]) Get(key K) (*Entry[K, V], int64) {
	var hash uint64
	if c.words {
		hi, lo := bits.Mul64(*(*uint64)(unsafe.Pointer(&key))^c.secret[0], c.secret[1])
		hi, lo = bits.Mul64(hi^lo, c.secret[2])
		hash = hi ^ lo
	} else {
		hash = maphash.Comparable(c.seed, key)
	}
	where := c.where.Load()
	groups := c.shards[hash>>1>>(where&whereShift)].table.Load().groups
	tag := max(1, hash&0xff) * lowBits
	at := int(uint64(uint32(hash)) * uint64(len(groups)) >> 32)
	now := c.clock.published.Load()
	for range groups {
		g := &groups[at]
		tags := g.tags.Load()
		x := tags ^ tag
		for m := (x - lowBits) &^ x & highBits; m != 0; m &= m - 1 {
			e := (*Entry[K, V])(unsafe.Pointer(g.slots[bits.TrailingZeros64(m)>>3].Load()))
			if e == nil || e.Key != key {
				continue
			}
			if now == 0 {
				now = c.clock.exact()
			} else if c.clock.used.Load() == 0 {
				c.clock.used.Store(1)
			}
			if now >= e.Dead {
				return c.missed(now)
			}
			if u := e.State.Load(); u&evict.SettledBits != evict.MaxUses && !c.used(&e.Head, u, now) {
				return c.missed(now)
			}
			var here byte
			n := &c.counts.stripes[uint64(uintptr(unsafe.Pointer(&here))>>stackBits)*stackMix>>c.counts.shift][countHits]
			var hits uint64
			if lockedHits {
				hits = atomic.AddUint64(n, 1)
			} else {
				hits = *n + 1
				*n = hits
			}
			if hits%paceReads == 0 {
				c.paced(e, hits)
			}
			return e, now
		}
		if tags>>overShift == 0 {
			break
		}
		if at++; at == len(groups) {
			at = 0
		}
	}
	if !c.settled(where) {
		return c.Get(key)
	}
	return c.missed(0)
}

// paced is called once per paceReads hits of a goroutine: it keeps the time, and
// gives e to the function of Sample.
func (c *Cache[K, V]) paced(e *Entry[K, V], hits uint64) {
	c.clock.pace()
	if f := c.sample.Load(); f != nil {
		(*f)(e.Key, hits)
	}
}

// Sample makes one in 64 hits call f, with the key and a number: the count of hits of the
// goroutine, or of several that share a counter. f must not wait. Nil ends the sampling. A
// hit pays nothing for it.
func (c *Cache[K, V]) Sample(f func(key K, hits uint64)) {
	if f == nil {
		c.sample.Store(nil)
		return
	}
	c.sample.Store(&f)
}

// missed counts a miss.
func (c *Cache[K, V]) missed(now int64) (*Entry[K, V], int64) {
	c.counts.add(countMisses)
	return nil, now
}

// Touch is Get without the value, and is not counted. It reports whether there is a
// living entry.
func (c *Cache[K, V]) Touch(key K) bool {
	e := c.find(c.hash(key), key)
	if e == nil {
		return false
	}
	now := c.clock.now()
	return now < e.Dead && c.used(&e.Head, e.State.Load(), now)
}

// Peek is Get without any trace: the policy records no hit, the idle life goes on, and
// nothing is counted.
func (c *Cache[K, V]) Peek(key K) (*Entry[K, V], int64) {
	e := c.find(c.hash(key), key)
	if e == nil {
		return nil, 0
	}
	now := c.clock.now()
	if c.idle.Over(&e.Head, now) {
		return nil, now
	}
	return e, now
}

// End returns the time from which e is not served any more, unless a read comes before.
func (c *Cache[K, V]) End(e *Entry[K, V]) int64 { return c.idle.End(&e.Head, c.clock.now()) }

// Now returns the exact time by the clock of this cache.
func (c *core) Now() int64 { return c.clock.exact() }

// Lately returns the time by the clock of this cache, as a read sees it: it is never ahead, and
// late by about half a millisecond while reads or stores are frequent. It then costs a tenth of Now.
func (c *Cache[K, V]) Lately() int64 {
	if t := c.clock.now(); t != timeless {
		return t
	}
	return c.clock.exact() // no entry has had a deadline so far
}

// Len returns the number of entries, including dead entries not swept yet.
func (c *core) Len() int { return int(c.entries.Load()) }

// Weight returns the sum of the entries' weights.
func (c *core) Weight() int64 { return c.weight.Load() }

// All iterates over the living entries, in no order. It takes no lock and
// copies nothing, so it is weakly consistent: an entry that stays in the cache
// during the iteration is seen once; an entry added, removed or replaced meanwhile may
// be seen or not, and a key removed and set again may be seen twice. The policy
// records no hits.
func (c *Cache[K, V]) All() iter.Seq[*Entry[K, V]] {
	return func(yield func(*Entry[K, V]) bool) {
		for w := (walk{}); ; {
			s, t := c.next(&w)
			if s == nil {
				return
			}
			whole := t.each(func(h *evict.Head) bool {
				e := entryOf[K, V](h)
				if s.table.Load() != t { // t was replaced: search the current table
					e = c.find(c.hash(e.Key), e.Key)
				}
				return e == nil || c.idle.Over(&e.Head, c.clock.now()) || yield(e)
			})
			if !whole {
				return
			}
		}
	}
}

// Hottest returns up to n living entries in descending order of use: by the counters
// of recent hits, or by the ranks of a policy that listens.
func (c *Cache[K, V]) Hottest(n int) []*Entry[K, V] {
	if n <= 0 {
		return nil
	}
	if c.listens {
		return c.ranked(n)
	}
	var byUse [evict.MaxUses + 1][]*Entry[K, V]
	for e := range c.All() {
		u := e.Uses()
		if len(byUse[u]) < n {
			byUse[u] = append(byUse[u], e)
		}
	}
	var hottest []*Entry[K, V]
	for u := evict.MaxUses; u >= 0; u-- {
		hottest = append(hottest, byUse[u]...)
	}
	return hottest[:min(n, len(hottest))]
}

// ranked is Hottest for a policy that listens.
func (c *Cache[K, V]) ranked(n int) []*Entry[K, V] {
	all := c.hottest(n)
	hottest := make([]*Entry[K, V], len(all))
	for i, r := range all {
		hottest[i] = entryOf[K, V](r.Head)
	}
	return hottest
}

// Stats holds the counts of a cache since it was made, and its present size.
type Stats struct {
	Entries        int64  // held now, including dead entries not swept yet
	Weight         int64  // of these
	Hits           uint64 // Gets that found a living entry
	Misses         uint64 // Gets that found none
	Evicted        uint64 // entries removed to make room
	Expired        uint64 // entries removed after their deadline
	Rejected       uint64 // Sets refused as too heavy
	CallbackPanics uint64 // panics caught in Config.Notify
}

// Bounds returns the bounds of the number of entries and of their weight; 0 for none.
func (c *core) Bounds() (entries, weight int64) {
	bound := func(n int64) int64 {
		if n >= maxBound {
			return 0
		}
		return n
	}
	w := c.wanted()
	return bound(w.entries), bound(w.weight)
}

// Ages is a histogram of the times between the store of a value and its eviction, for one in 64 of
// the evicted entries.
func (c *core) Ages() *observe.Durations { return &c.ages }

// Stats returns the counts. They are read one after the other, not at one
// instant.
func (c *core) Stats() Stats {
	st := Stats{
		Entries:        c.entries.Load(),
		Weight:         c.weight.Load(),
		Hits:           c.counts.sum(countHits),
		Misses:         c.counts.sum(countMisses),
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
