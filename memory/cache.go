package memory

import (
	"iter"
	"time"

	"github.com/strata-cache/strata/internal/l1"
)

// Cache is a bounded map from keys to values with lives. Make it with [New].
// All methods are safe for concurrent use. Methods that take a key panic, as a
// map does, when it holds something that cannot be compared.
type Cache[K comparable, V any] struct {
	engine *l1.Cache[K, V]
	weigh  func(K, V) int64
	ttl    time.Duration
}

// New makes an empty cache. It returns one error for each field that is wrong,
// joined.
func New[K comparable, V any](o Options[K, V]) (*Cache[K, V], error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	ttl := o.TTL
	if ttl == 0 {
		ttl = NoExpiry
	}
	return &Cache[K, V]{engine: l1.New(config), weigh: o.Weigh, ttl: ttl}, nil
}

// Get returns the value of key and whether there is one.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	if e, _ := c.engine.Get(key); e != nil {
		return e.Value, true
	}
	var none V
	return none, false
}

// Peek is Get without traces: it is not counted in Stats and does not keep the
// entry from being evicted.
func (c *Cache[K, V]) Peek(key K) (V, bool) {
	if e, _ := c.engine.Peek(key); e != nil {
		return e.Value, true
	}
	var none V
	return none, false
}

// Set stores a value for Options.TTL. It reports false when the value was not
// stored: it alone is heavier than MaxWeight, and then the key holds nothing
// any more, or the cache is closed.
func (c *Cache[K, V]) Set(key K, value V) bool { return c.SetTTL(key, value, c.ttl) }

// SetTTL is Set with a time to live of its own. NoExpiry means that the entry
// does not expire. With zero or less the value is over before it begins: the
// key is deleted and the result is false.
func (c *Cache[K, V]) SetTTL(key K, value V, ttl time.Duration) bool {
	if ttl <= 0 {
		c.Delete(key)
		return false
	}
	weight := c.weight(key, value)
	removed, ok := c.engine.Set(c.entry(key, value, ttl), weight)
	c.engine.Notify(removed)
	return ok
}

// SetIfAbsent stores a value for Options.TTL unless the key has one. It returns
// the value to go by, which is the one that was there or else the given one,
// and whether the given one was stored.
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

// Op is what a function given to Compute wants done.
type Op uint8

// What Compute can do.
const (
	// Keep leaves the key as it is.
	Keep Op = iota
	// Store stores the value that was returned, for Options.TTL.
	Store
	// Remove deletes the key.
	Remove
)

// Compute replaces the value of a key by one that depends on it, as if nobody
// else could write in between. f gets the current value and whether there is
// one, and says what to do. f runs without a lock and is called again if
// somebody else has written meanwhile, so it should do nothing but compute.
//
// Compute returns the value that the key holds afterwards and whether there is
// one; there is none either when a value is too heavy or the cache is closed.
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

// storeOver stores a value if the key still holds the given entry; done is
// false when it does not.
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

// DeleteFunc removes the entries for which f is true and returns their number.
// f runs without a lock; a value that is replaced while f looks at it stays.
func (c *Cache[K, V]) DeleteFunc(f func(key K, value V) bool) int {
	return c.engine.DeleteFunc(func(e *l1.Entry[K, V]) bool { return f(e.Key, e.Value) })
}

// All is the keys and values in the cache, in no order. The cache may be
// changed meanwhile: what is there all the time is seen once, what comes, goes
// or is replaced may be seen or not. Being seen does not keep an entry from
// being evicted.
func (c *Cache[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for e := range c.engine.All() {
			if !yield(e.Key, e.Value) {
				return
			}
		}
	}
}

// Hottest is up to n keys and values, those used most first, as they were when
// it was called: what to take along to a new process.
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

// Len is the number of entries. Those that expired less than two seconds ago
// may be counted.
func (c *Cache[K, V]) Len() int { return c.engine.Len() }

// Weight is the sum of the weights of the entries that Len counts.
func (c *Cache[K, V]) Weight() int64 { return c.engine.Weight() }

// Clear removes everything.
func (c *Cache[K, V]) Clear() { c.engine.Clear() }

// Resize changes the bounds, as in Options, and evicts what does not fit any
// more. If a bound is wrong it returns an error and changes nothing.
func (c *Cache[K, V]) Resize(maxEntries int, maxWeight int64) error {
	entries, weight, err := bounds(maxEntries, maxWeight, c.weigh != nil)
	if err != nil {
		return err
	}
	c.engine.Notify(c.engine.Resize(entries, weight))
	return nil
}

// Close removes everything, ends what runs in the background and waits for it.
// A closed cache holds nothing and stores nothing. Closing it again does no
// harm.
func (c *Cache[K, V]) Close() { c.engine.Close() }

// weight asks the user's function.
func (c *Cache[K, V]) weight(key K, value V) int64 {
	if c.weigh == nil {
		return 1
	}
	return max(1, c.weigh(key, value))
}

// entry makes an entry that lives for ttl from now.
func (c *Cache[K, V]) entry(key K, value V, ttl time.Duration) *l1.Entry[K, V] {
	dead := l1.Forever
	if ttl != NoExpiry {
		dead = l1.After(c.engine.Now(), ttl)
	}
	return &l1.Entry[K, V]{Key: key, Value: value, Soon: dead, Fresh: dead, Dead: dead}
}

// Stats is what a cache holds, and what it has counted since it was made.
type Stats struct {
	Entries        int64  // held now
	Weight         int64  // of these
	Hits           uint64 // Gets that found a value
	Misses         uint64 // Gets that did not
	Evicted        uint64 // entries removed to make room
	Expired        uint64 // entries removed because their time was over
	Rejected       uint64 // values refused as too heavy
	CallbackPanics uint64 // panics caught in OnEvict
}

// HitRatio is the share of Gets that found a value; zero if there were none.
func (s Stats) HitRatio() float64 {
	if s.Hits == 0 {
		return 0
	}
	return float64(s.Hits) / float64(s.Hits+s.Misses)
}

// Stats returns the counts. They are not from one instant.
func (c *Cache[K, V]) Stats() Stats { return Stats(c.engine.Stats()) }
