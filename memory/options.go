package memory

import (
	"errors"
	"math"
	"time"

	"github.com/strata-cache/strata/internal/l1"
)

// DefaultMaxEntries is the bound of a cache for which none was given.
const DefaultMaxEntries = 10_000

// NoExpiry is the time to live of an entry that stays until it is evicted or
// deleted.
const NoExpiry time.Duration = math.MaxInt64

// Options say how a cache behaves. The zero value is a cache of
// DefaultMaxEntries entries that do not expire.
type Options[K comparable, V any] struct {
	// MaxEntries is the largest number of entries. Zero means
	// DefaultMaxEntries, or no such bound if MaxWeight is set.
	MaxEntries int

	// MaxWeight is the largest sum of weights, in the unit of Weigh, which it
	// needs. Zero means no such bound.
	MaxWeight int64

	// Weigh is the weight of an entry; nil means that each weighs 1. It is
	// called by the method that stores, before anything is changed: if it
	// panics, the caller of that method gets the panic and the cache is as it
	// was. A weight below 1 counts as 1.
	Weigh func(key K, value V) int64

	// TTL is how long an entry lives after it was stored. Zero means NoExpiry.
	TTL time.Duration

	// OnEvict is called once for every value that leaves the cache, after it
	// has left, with the reason; nil means that nobody wants to know. It runs
	// in the method that removed the value, or in the background for one that
	// expired, and so in several goroutines at once. A panic in it is caught and
	// counted in Stats.CallbackPanics. It may use the cache, but must not call
	// Close, and storing what was evicted evicts again.
	OnEvict func(key K, value V, why Reason)
}

// Reason says why a value left the cache.
type Reason uint8

// The reasons for leaving.
const (
	// Evicted: to make room for others.
	Evicted = Reason(l1.Evicted)
	// Expired: its time was over.
	Expired = Reason(l1.Expired)
	// Replaced: another value was stored under its key.
	Replaced = Reason(l1.Replaced)
	// Deleted: by Delete, DeleteFunc or Compute.
	Deleted = Reason(l1.Deleted)
	// Rejected: its key was set to a value that is heavier than MaxWeight.
	Rejected = Reason(l1.Rejected)
	// Cleared: by Clear or Close.
	Cleared = Reason(l1.Cleared)
)

// String returns the reason as a lower-case word.
func (r Reason) String() string { return l1.Reason(r).String() }

// config checks the options and turns them into the engine's. It returns all
// that is wrong with them.
func (o Options[K, V]) config() (l1.Config[K, V], error) {
	entries, weight, err := bounds(o.MaxEntries, o.MaxWeight, o.Weigh != nil)
	if o.TTL < 0 {
		err = errors.Join(err, errors.New("memory: TTL: negative"))
	}
	c := l1.Config[K, V]{MaxEntries: entries, MaxWeight: weight}
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
		maxEntries = DefaultMaxEntries
	}
	return int64(maxEntries), maxWeight, err
}
