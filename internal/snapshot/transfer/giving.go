package transfer

import (
	"iter"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/internal/snapshot/format"
)

// stamp tells of drops of many entries.
func (c *Cache[K, V]) stamp() stamp {
	b := c.stamps()
	return stamp{Keys: b.Generation, Tags: b.TagGeneration}
}

// append appends v. A panic of the Codec is an error.
func (c *Cache[K, V]) append(b []byte, v V) (all []byte, err error) {
	all, err = b, c.Panicked // stands if it panics
	defer c.Contain("Remote.Codec")
	return c.Encoding.Append(b, v)
}

// hottest iterates over the keys with a value, the hottest first, each with the number of
// those after it.
func (c *Cache[K, V]) hottest() iter.Seq2[K, int] {
	return func(yield func(K, int) bool) {
		all := c.Values.HottestKeys()
		for i, key := range all {
			if !yield(key, len(all)-i-1) {
				return
			}
		}
	}
}

// absent returns the keys with a negative entry. A remembered failure is none: no snapshot has it.
func (c *Cache[K, V]) absent() (keys []K) {
	for e := range c.Negatives.All() {
		if n := c.Recall(e.Key); n != nil && n.NotFound {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// value fills in the entry to from the entry that L1 has of key now, except for its Key and its
// Value, and returns the value. Times are counted from begun on. ok is false without a value, and
// for an entry older than drops that the snapshot says it knows.
func (c *Cache[K, V]) value(key K, begun int64, to *format.Entry) (v V, ok bool) {
	e, now := c.Values.Peek(key)
	if e == nil || now >= e.Dead || c.Verdict(e) != ledger.Valid {
		return v, false
	}
	born, about := c.Born(e), local.RecordOf(e)
	if e.Value.State&expiry.Taken == 0 && c.Drops.Precedes(c.Flights.HashOf(key), about.Traits.Tags(), born) {
		return v, false
	}
	*to = format.Entry{
		Key: to.Key, Fresh: local.Until(e.Value.FreshUntil(e.Dead), begun), Left: local.Until(e.Dead, begun), Age: format.Unknown,
		Expired: e.Value.Expired(), ID: uint64(about.ID), Tags: about.Traits.Tags(), Own: about.Traits.Lives(), Uses: c.Values.Uses(e), Weight: 1,
	}
	if born != 0 {
		to.Age = time.Duration(begun - born)
	}
	if c.Weighs {
		w, _ := c.Weigh(key, e.Value.V)
		to.Weight = max(1, w) // the reader weighs anew, and pins for itself
	}
	return e.Value.V, true
}

// absence is value for a negative entry.
func (c *Cache[K, V]) absence(key K, begun int64, to *format.Entry) (ok bool) {
	n := c.Recall(key)
	if n == nil || !n.NotFound || !n.Taken && c.Drops.Precedes(c.Flights.HashOf(key), n.Traits.Tags(), 0) {
		return false
	}
	left := local.Until(n.Fresh, begun)
	*to = format.Entry{Key: to.Key, Fresh: left, Left: left, Age: format.Unknown, NotFound: true, Tags: n.Traits.Tags()}
	return true
}
