package memory

import (
	"cmp"
	"iter"
	"time"

	"github.com/strata-cache/strata/internal/cache/guard"
	"github.com/strata-cache/strata/internal/cache/l1"
)

// Cache is a bounded map from keys to values with lives. Make it with [New].
// All methods are safe for concurrent use. Like a map, methods with a key
// parameter panic if the key contains a value that cannot be compared.
type Cache[K comparable, V any] struct {
	engine *l1.Cache[K, V]
	weigh  func(K, V) int64
	ttl    time.Duration
}

// New makes an empty cache. For invalid options it returns a joined error, one
// for each invalid field.
func New[K comparable, V any](o Options[K, V]) (*Cache[K, V], error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	c := &Cache[K, V]{engine: l1.New(config), weigh: o.Weigh, ttl: cmp.Or(o.TTL, NoExpiry)}
	guard.Watch((*guard.Guard)(o.Guard), l1.WardOf(c.engine), false)
	return c, nil
}

// Get returns the value of key, and reports whether there is one.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	if e, _ := c.engine.Get(key); e != nil {
		return e.Value, true
	}
	var none V
	return none, false
}

// Touch is Get without the value: a use for Options.IdleTTL and for the eviction policy.
// It does not prolong the time to live, and is not counted in Stats. It reports whether
// the key has a value.
func (c *Cache[K, V]) Touch(key K) bool { return c.engine.Touch(key) }

// Peek is Get without side effects: it is not counted in Stats, not recorded as a
// use for the eviction policy, and does not prolong the idle life of the entry.
func (c *Cache[K, V]) Peek(key K) (V, bool) {
	if e, _ := c.engine.Peek(key); e != nil {
		return e.Value, true
	}
	var none V
	return none, false
}

// Set stores a value for Options.TTL. It reports false if the value was not
// stored, because the cache is closed, or because the value is heavier than MaxWeight
// or than the part of it that pinned entries leave free, or because other writers have taken the room a thousand
// times. In these cases the key is
// removed. With A3FIFO it also reports false if the cache is full, the key has no value,
// and the value is so heavy that it would push out many others: such a value is stored
// once it is set often enough. Other methods that store do so at once.
func (c *Cache[K, V]) Set(key K, value V) bool { return c.SetTTL(key, value, c.ttl) }

// SetTTL is Set with a given time to live. NoExpiry means that the entry does
// not expire. If ttl is zero or less, the key is deleted and the result is
// false.
func (c *Cache[K, V]) SetTTL(key K, value V, ttl time.Duration) bool {
	if ttl <= 0 {
		c.Delete(key)
		return false
	}
	weight := c.weight(key, value)
	removed, ok := c.engine.Offer(c.entry(key, value, ttl), weight, 0)
	c.engine.Notify(removed)
	return ok
}

// SetIfAbsent stores a value for Options.TTL unless the key has one. It returns
// the present value if there is one, or else the given value, and reports
// whether the given value was stored.
func (c *Cache[K, V]) SetIfAbsent(key K, value V) (V, bool) {
	weight := c.weight(key, value)
	for {
		if e, _ := c.engine.Peek(key); e != nil {
			return e.Value, false
		}
		removed, outcome := c.engine.SetIf(nil, c.entry(key, value, c.ttl), weight)
		c.engine.Notify(removed)
		if outcome != l1.Lost {
			return value, outcome == l1.Stored
		}
	}
}

// Op is the operation that a function passed to Compute requests.
type Op uint8

// The operations of Compute.
const (
	// Keep leaves the key unchanged.
	Keep Op = iota
	// Store stores the returned value for Options.TTL.
	Store
	// Remove deletes the key.
	Remove
)

// Compute atomically replaces the value of a key by a value that depends on it.
// f gets the current value, and ok is false if there is none. f returns the new
// value and the operation. f runs without a lock, and Compute calls it again if
// the key was written meanwhile, so f should have no side effects. An f that writes the
// key itself is called again each time, and Compute does not return.
//
// Compute returns the value of the key afterwards, and reports whether there is
// one. There is none if the new value is too heavy or the cache is closed.
func (c *Cache[K, V]) Compute(key K, f func(old V, ok bool) (V, Op)) (V, bool) {
	for {
		var old V
		held, _ := c.engine.Peek(key)
		if held != nil {
			old = held.Value
		}
		value, op := f(old, held != nil)
		switch op {
		case Store:
			if stored, done := c.storeOver(held, key, value); done {
				if !stored {
					var none V
					return none, false
				}
				return value, true
			}
		case Remove:
			if held == nil || c.deleteEntry(held) {
				var none V
				return none, false
			}
		default:
			return old, held != nil
		}
	}
}

// storeOver stores a value if the key still holds the given entry, or else
// reports that it is not done.
func (c *Cache[K, V]) storeOver(held *l1.Entry[K, V], key K, value V) (stored, done bool) {
	weight := c.weight(key, value)
	removed, outcome := c.engine.SetIf(held, c.entry(key, value, c.ttl), weight)
	c.engine.Notify(removed)
	return outcome == l1.Stored, outcome != l1.Lost
}

// deleteEntry removes an entry if its key still holds it.
func (c *Cache[K, V]) deleteEntry(e *l1.Entry[K, V]) bool {
	if !c.engine.DeleteEntry(e) {
		return false
	}
	c.engine.Notify([]l1.Removed[K, V]{{Entry: e, Reason: l1.Deleted}})
	return true
}

// Delete removes a key and reports whether it had a value.
func (c *Cache[K, V]) Delete(key K) bool {
	e, alive := c.engine.Delete(key)
	if e == nil {
		return false
	}
	why := l1.Deleted
	if !alive {
		why = l1.Expired
	}
	c.engine.Notify([]l1.Removed[K, V]{{Entry: e, Reason: why}})
	return alive
}

// DeleteFunc removes the entries for which f returns true, and returns their
// number. f runs without a lock. A value that another call stores while f runs stays.
func (c *Cache[K, V]) DeleteFunc(f func(key K, value V) bool) int {
	return c.engine.DeleteFunc(func(e *l1.Entry[K, V]) bool { return f(e.Key, e.Value) })
}

// All iterates over the keys and values in the cache, in no order. The cache
// may be changed meanwhile: an entry that stays in the cache is seen once; an added,
// removed or replaced entry may be seen or not. The iteration is not recorded as a use
// for the eviction policy.
func (c *Cache[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for e := range c.engine.All() {
			if !yield(e.Key, e.Value) {
				return
			}
		}
	}
}

// Hottest iterates over up to n keys and values, the most used first, as of the
// call of Hottest: with LRU the last used first, with LFU by the number of uses, and else
// by the number of recent uses, up to three. The order is exact for the entries of one
// shard, and approximate between shards. With LRU and LFU, pinned entries that a Get has
// found come first, and the other pinned entries last. Use it to transfer the hot part of a
// cache to a new process, and math.MaxInt as n for all entries: entries that come between a
// call of Len and one of Hottest would push out others.
func (c *Cache[K, V]) Hottest(n int) iter.Seq2[K, V] {
	hottest := c.engine.Hottest(n)
	return func(yield func(K, V) bool) {
		for _, e := range hottest {
			if !yield(e.Key, e.Value) {
				return
			}
		}
	}
}

// Len returns the number of entries. Entries that expired less than two seconds
// ago may be included.
func (c *Cache[K, V]) Len() int { return c.engine.Len() }

// Weight returns the sum of the weights of the entries that Len counts.
func (c *Cache[K, V]) Weight() int64 { return c.engine.Weight() }

// Clear removes all entries.
func (c *Cache[K, V]) Clear() { c.engine.Clear() }

// Resize changes the bounds, as in Options, and evicts entries until the rest
// fits. Beyond some 16,000 entries it leaves that to the background; meanwhile the cache
// never holds more than before. If a bound is invalid, it returns an error and changes nothing.
func (c *Cache[K, V]) Resize(maxEntries int, maxWeight int64) error {
	entries, weight, err := bounds(maxEntries, maxWeight, c.weigh != nil)
	if err != nil {
		return err
	}
	c.engine.Notify(c.engine.Resize(entries, weight))
	return nil
}

// Close removes all entries, ends the background goroutines and waits for them.
// A closed cache holds nothing and stores nothing. A second Close does no harm.
func (c *Cache[K, V]) Close() { c.engine.Close() }

// weight returns the weight of an entry by Options.Weigh.
func (c *Cache[K, V]) weight(key K, value V) int64 {
	if c.weigh == nil {
		return 1
	}
	w := c.weigh(key, value)
	if w == Pinned {
		return w
	}
	return max(1, w)
}

// entry makes an entry that lives for ttl from now.
func (c *Cache[K, V]) entry(key K, value V, ttl time.Duration) *l1.Entry[K, V] {
	dead := l1.Forever
	if ttl != NoExpiry {
		dead = l1.After(c.engine.Lately(), ttl)
	}
	return l1.NewEntry(c.engine, key, value, dead)
}

// Stats holds the present size of a cache, and its counts since it was made.
type Stats struct {
	Entries        int64  // held now
	Weight         int64  // of these
	Hits           uint64 // Gets that found a value
	Misses         uint64 // Gets that found none
	Evicted        uint64 // entries removed to make room
	Expired        uint64 // entries removed after their deadline or idle life
	Rejected       uint64 // values not stored because of their weight
	CallbackPanics uint64 // panics caught in OnEvict
}

// HitRatio returns the share of Gets that found a value; zero if there were no
// Gets.
func (s Stats) HitRatio() float64 {
	if s.Hits == 0 {
		return 0
	}
	return float64(s.Hits) / float64(s.Hits+s.Misses)
}

// Stats returns the counts. They are read one after the other, not at one
// instant.
func (c *Cache[K, V]) Stats() Stats { return Stats(c.engine.Stats()) }
