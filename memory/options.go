package memory

import (
	"errors"
	"math"
	"time"

	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/cache/l1"
)

// defaultMaxEntries is the bound of a cache if Options give none.
const defaultMaxEntries = 10_000

// NoExpiry is the time to live of an entry that stays until it is evicted or
// deleted.
const NoExpiry time.Duration = math.MaxInt64

// Options configure a cache. The zero value gives a cache of 10 000
// entries that do not expire.
type Options[K comparable, V any] struct {
	// MaxEntries is the largest number of entries. Zero means
	// 10 000, or no such bound if MaxWeight is set.
	MaxEntries int

	// MaxWeight is the largest sum of weights, in the unit of Weigh. It
	// requires Weigh. Zero means no such bound: then the sum is at most [math.MaxInt64]. More than
	// 2^56 counts as 2^56.
	MaxWeight int64

	// Weigh returns the weight of an entry; nil means that each entry weighs 1.
	// The storing method calls it before it changes the cache. If Weigh panics,
	// the panic reaches the caller of that method, and the cache is unchanged.
	// A weight below 1 counts as 1, unless it is Pinned.
	Weigh func(key K, value V) int64

	// Policy decides which entries make room for others. The zero value is A3FIFO.
	Policy Policy

	// EvictShare is the share of the cache to evict when an entry needs room, between 0 and
	// 0.5, in steps of a millionth. If a Set would exceed MaxEntries, EvictShare ×
	// MaxEntries entries are evicted, rounded down; if it would exceed MaxWeight, entries
	// with a weight of EvictShare × MaxWeight. At least enough for the new entry is
	// evicted. The Policy chooses the entries, from all parts of the cache alike. The Set
	// evicts up to some thousand of them itself and the background the rest, at most 256
	// under one lock. The next Sets evict nothing. With 0 each Set evicts only enough for
	// its own entry, which keeps the cache full.
	EvictShare float64

	// TTL is the time to live of an entry after it was stored. Zero means
	// NoExpiry.
	TTL time.Duration

	// IdleTTL is the life of an entry without reads. The entry ends between 7/8 of
	// IdleTTL and IdleTTL after it was stored or last found by Get or Touch, or at the
	// end of its time to live if that comes sooner. OnEvict gets it with the reason
	// Expired. Zero means that reads do not matter; other values are at least 1 ms. A hit
	// writes to its entry once in IdleTTL/16 at most.
	IdleTTL time.Duration

	// Guard makes the cache smaller while the process needs more memory than it has. Nil means
	// none.
	Guard *Guard

	// OnEvict, if not nil, is called once for every value that leaves the
	// cache, after its removal, with the reason. It runs in the method that
	// removed the value, or in the background for an expired value, and so in
	// several goroutines at once. A panic in OnEvict is caught and counted in
	// Stats.CallbackPanics. OnEvict may use the cache, but must not call Close.
	// If it stores the evicted value again, that may evict another value.
	OnEvict func(key K, value V, why Reason)
}

// Reason is the cause of a value's removal.
type Reason uint8

// The reasons for removal.
const (
	// Evicted: removed to make room.
	Evicted Reason = iota + 1
	// Expired: the value was past its deadline, or was not read for IdleTTL.
	Expired
	// Replaced: another value was stored under its key.
	Replaced
	// Deleted: removed by Delete, DeleteFunc or Compute.
	Deleted
	// Rejected: its key was set to a value heavier than MaxWeight, or than the part of
	// it that pinned entries leave free.
	Rejected
	// Cleared: removed by Clear or Close.
	Cleared
)

// String returns the reason as a lower-case word.
func (r Reason) String() string { return l1.Reason(r).String() }

const (
	// maxEvictShare is the largest EvictShare.
	maxEvictShare = 0.5
	// minIdleTTL is the resolution of a busy clock.
	minIdleTTL = time.Millisecond
)

// config checks the options and converts them to options of the engine. It returns all
// errors, joined.
func (o Options[K, V]) config() (l1.Config[K, V], error) {
	entries, weight, err := bounds(o.MaxEntries, o.MaxWeight, o.Weigh != nil)
	if o.TTL < 0 {
		err = errors.Join(err, errors.New("memory: TTL: negative"))
	}
	if o.IdleTTL != 0 && o.IdleTTL < minIdleTTL {
		err = errors.Join(err, errors.New("memory: IdleTTL: less than 1ms"))
	}
	if !evict.Policy(o.Policy).Known() {
		err = errors.Join(err, errors.New("memory: Policy: unknown"))
	}
	if !(o.EvictShare >= 0 && o.EvictShare <= maxEvictShare) { // true for NaN
		err = errors.Join(err, errors.New("memory: EvictShare: not between 0 and 0.5"))
	}
	c := l1.Config[K, V]{MaxEntries: entries, MaxWeight: weight, Policy: evict.Policy(o.Policy), EvictShare: o.EvictShare, IdleTTL: o.IdleTTL, Timeless: true}
	if o.OnEvict != nil {
		c.Notify = func(e *l1.Entry[K, V], why l1.Reason) { o.OnEvict(e.Key, e.Value, Reason(why)) }
	}
	return c, err
}

// bounds checks a pair of bounds and applies the default.
func bounds(maxEntries int, maxWeight int64, weighed bool) (entries, weight int64, err error) {
	if maxEntries < 0 {
		err = errors.Join(err, errors.New("memory: MaxEntries: negative"))
	}
	switch {
	case maxWeight < 0:
		err = errors.Join(err, errors.New("memory: MaxWeight: negative"))
	case maxWeight > 0 && !weighed:
		err = errors.Join(err, errors.New("memory: MaxWeight: needs Weigh"))
	}
	if maxEntries == 0 && maxWeight == 0 {
		maxEntries = defaultMaxEntries
	}
	return int64(maxEntries), maxWeight, err
}
