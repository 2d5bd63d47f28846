package strata

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/internal/snapshot/drops"
	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

// Source returns the cache without its types of keys and values, for package snapshot.
// Its methods are for the packages of strata.
func (c *Cache[K, V]) Source() transfer.Source { return source[K, V]{c} }

type source[K comparable, V any] struct{ c *Cache[K, V] }

var errKeysUnnamed = errors.New("strata: keys of this type need Remote.Key and Remote.ParseKey to leave the process")

func (s source[K, V]) Name() string  { return s.c.o.Name }
func (s source[K, V]) Space() string { return s.c.l2.Space() }

func (s source[K, V]) Format() (name string, fingerprint uint64) {
	return s.c.encoding.Name(), codec.Fingerprint(s.c.encoding)
}

func (s source[K, V]) HasTier() bool        { return s.c.l2.HasTier() }
func (s source[K, V]) Len() int             { return s.c.Len() }
func (s source[K, V]) Logger() *slog.Logger { return s.c.o.Logger }

func (s source[K, V]) CheckKeys() error {
	if s.c.names.Of == nil || s.c.names.Parse == nil {
		return errKeysUnnamed
	}
	return nil
}

func (s source[K, V]) Hot(n int, left *format.Left) iter.Seq[string] {
	hot := s.c.hottest(math.MaxInt)
	left.Beyond += uint64(max(0, len(hot)-n))
	return func(yield func(string) bool) {
		for _, e := range hot[:min(n, len(hot))] {
			if name, err := s.c.nameOf(e.Key); err != nil {
				left.Gone++
			} else if !yield(name) {
				return
			}
		}
	}
}

// ownDropsWithin is the time for calls to end that drop entries, at the begin of a dump.
const ownDropsWithin = 2 * time.Second

// Dump begins a dump. Its position is one of which this instance has applied every drop:
// the bus has been followed up to it, and the calls of this instance have ended whose
// drops it counts.
func (s source[K, V]) Dump(ctx context.Context, part, parts int) (transfer.Dump, error) {
	c := s.c
	if c.closed.Load() {
		return nil, ErrClosed
	}
	if err := s.CheckKeys(); err != nil {
		return nil, err
	}
	from := giver[K, V]{c}
	d := &transfer.Outgoing[K, V]{Cache: from, Part: part, Parts: parts, Begun: c.now(), Seen: from.Stamp(), Teller: drops.Teller{Log: c.drops}}
	if !c.l2.HasBus() {
		w := c.flights.Watch(d.Names.Add)
		d.Unwatch = func() { c.flights.Unwatch(w) }
	}
	if p, ok := c.link.Known(); ok && c.l2.HasPositions() {
		d.Known = transfer.AppendPosition(nil, &p)
	}
	// The messages of calls of this instance may have come before the calls have ended.
	ctx, cancel := context.WithTimeout(ctx, ownDropsWithin)
	defer cancel()
	if c.dropping.Wait(ctx) != nil {
		d.Known = nil
	}
	return d, nil
}

// giver gives away the entries of a cache.
type giver[K comparable, V any] struct{ c *Cache[K, V] }

func (g giver[K, V]) Busy(key K) bool            { return g.c.flights.Busy(key) }
func (g giver[K, V]) Name(key K) (string, error) { return g.c.nameOf(key) }
func (g giver[K, V]) Stamp() (s transfer.Stamp) {
	b := g.c.stamps(nil, nil)
	return transfer.Stamp{Keys: b.generation, Tags: b.tagGeneration}
}

// Append appends v. A panic of the Codec is an error.
func (g giver[K, V]) Append(b []byte, v V) (all []byte, err error) {
	all, err = b, errCodecPanicked // stands if it panics
	defer g.c.contain("Remote.Codec")
	return g.c.encoding.Append(b, v)
}

func (g giver[K, V]) Hottest() iter.Seq2[K, int] {
	return func(yield func(K, int) bool) {
		all := g.c.memory.Hottest(math.MaxInt) // not Len: entries that come meanwhile push out none
		for i, e := range all {
			if !yield(e.Key, len(all)-i-1+g.c.negatives.Len()) {
				return
			}
		}
	}
}

func (g giver[K, V]) Negative() iter.Seq[K] {
	return func(yield func(K) bool) {
		for e := range g.c.negatives.All() {
			if !yield(e.Key) {
				return
			}
		}
	}
}

// Value leaves out an entry older than drops that the snapshot says it knows.
func (g giver[K, V]) Value(key K, begun int64, to *format.Entry) (v V, ok bool) {
	c := g.c
	e, now := c.memory.Peek(key)
	if e == nil || now >= e.Dead || c.verdictOn(e) != ledger.Valid {
		return v, false
	}
	born, about := c.born(e), recordOf(e)
	if e.Value.State&expiry.Taken == 0 && c.drops.Spared(born) {
		return v, false
	}
	*to = format.Entry{
		Key: to.Key, Fresh: until(e.Value.FreshUntil(e.Dead), begun), Left: until(e.Dead, begun), Age: format.Unknown,
		Expired: e.Value.Expired(), ID: uint64(about.id), Tags: about.traits.tags(), Own: about.traits.lives(), Uses: int(e.Uses()), Weight: 1,
	}
	if born != 0 {
		to.Age = time.Duration(begun - born)
	}
	if c.o.Memory.Weigh != nil {
		w, _ := c.weigh(key, e.Value.value)
		to.Weight = max(1, w) // the reader weighs anew, and pins for itself
	}
	return e.Value.value, true
}

// Absence is Value for a negative entry.
func (g giver[K, V]) Absence(key K, begun int64, to *format.Entry) (ok bool) {
	n := g.c.recall(key)
	if n == nil || !n.notFound || !n.taken && g.c.drops.Spared(0) {
		return false
	}
	left := until(n.fresh, begun)
	*to = format.Entry{Key: to.Key, Fresh: left, Left: left, Age: format.Unknown, NotFound: true, Tags: n.traits.tags()}
	return true
}
