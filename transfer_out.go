package strata

import (
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"log/slog"
	"math"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/drops"
	"github.com/strata-cache/strata/internal/dump"
	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/generation"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/internal/lives"
	"github.com/strata-cache/strata/internal/transfer"
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

func (s source[K, V]) Hot(n int, left *dump.Left) iter.Seq[string] {
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
	d := &outgoing[K, V]{c: c, part: part, parts: parts, begun: c.now(), seen: c.stamps(nil, nil), Teller: drops.Teller{Log: c.drops}}
	if !c.l2.HasBus() {
		d.watch = c.flights.Watch(d.names.Add)
	}
	if p, ok := c.link.Known(); ok && c.l2.HasPositions() {
		d.position = transfer.AppendPosition(nil, &p)
	}
	// The messages of calls of this instance may have come before the calls have ended.
	ctx, cancel := context.WithTimeout(ctx, ownDropsWithin)
	defer cancel()
	if c.dropping.Wait(ctx) != nil {
		d.position = nil
	}
	return d, nil
}

// outgoing is the entries of a cache on their way out.
type outgoing[K comparable, V any] struct {
	c           *Cache[K, V]
	part, parts int
	begun       int64
	position    []byte
	now         dump.Entry // the step of Entries
	value       V          // of now

	drops.Teller
	watch *flight.Watch[K] // of a cache without a bus
	names transfer.Dropped[K]
	seen  stamps // from the last look at drops that concern many entries
	left  dump.Left
}

func (d *outgoing[K, V]) Position() []byte { return d.position }

func (d *outgoing[K, V]) Close() {
	if d.watch != nil {
		d.c.flights.Unwatch(d.watch)
	}
}

// Entries goes through the entries with a value, the hottest first, and then through the
// negative entries.
func (d *outgoing[K, V]) Entries() iter.Seq2[*dump.Entry, func([]byte) ([]byte, error)] {
	return func(yield func(*dump.Entry, func([]byte) ([]byte, error)) bool) {
		c := d.c
		all := c.memory.Hottest(math.MaxInt) // not Len: entries that come meanwhile push out none
		for i, e := range all {
			if d.mine(e.Key) && d.take(e.Key) && !yield(&d.now, d.append) {
				d.left.Beyond += uint64((len(all) - i - 1 + c.negatives.Len()) / max(1, d.parts))
				return
			}
		}
		for e := range c.negatives.All() {
			if d.mine(e.Key) && d.takeNegative(e) && !yield(&d.now, d.append) {
				return
			}
		}
	}
}

// sampleSeed makes the shares of a snapshot the same for one process.
var sampleSeed = maphash.MakeSeed() // read-only

// mine reports whether key belongs to the share of the dump.
func (d *outgoing[K, V]) mine(key K) bool {
	return d.parts <= 1 || maphash.Comparable(sampleSeed, key)%uint64(d.parts) == uint64(d.part)
}

// append is the value of the step. A panic of the Codec is an error.
func (d *outgoing[K, V]) append(b []byte) (all []byte, err error) {
	if d.now.NotFound {
		return b, nil
	}
	all, err = b, errCodecPanicked // stands if it panics
	defer d.c.contain("Remote.Codec")
	return d.c.encoding.Append(b, d.value)
}

// take makes the step of the entry that L1 has of key now, and reports whether there is
// one to give away. A key with a write or a load under way has none: the drop of these may
// be among those that the position counts.
func (d *outgoing[K, V]) take(key K) bool {
	c := d.c
	if c.flights.Busy(key) {
		d.left.Busy++
		return false
	}
	e, now := c.memory.Peek(key) // after Busy
	if e == nil || now >= e.Dead || c.verdictOn(e) != generation.Valid || !d.name(key) {
		d.left.Gone++
		return false
	}
	about := recordOf(e)
	if e.Value.State&lives.Taken == 0 && c.drops.Spared(c.born(e)) {
		d.left.Gone++ // the snapshot says that it knows those drops
		return false
	}
	d.now.Fresh, d.now.Left, d.now.Age = d.until(e.Value.FreshUntil(e.Dead)), d.until(e.Dead), dump.Unknown
	if born := c.born(e); born != 0 {
		d.now.Age = time.Duration(d.begun - born)
	}
	d.now.Expired, d.now.NotFound, d.now.ID, d.now.Tags, d.now.Own = e.Value.Expired(), false, uint64(about.id), about.traits.tags(), about.traits.lives()
	d.now.Uses, d.now.Weight = int(e.Uses()), 1
	if c.o.Memory.Weigh != nil {
		w, _ := c.weigh(key, e.Value.value)
		d.now.Weight = max(1, w) // the reader weighs anew, and pins for itself
	}
	d.value = e.Value.value
	return true
}

// takeNegative is take for a negative entry.
func (d *outgoing[K, V]) takeNegative(e *l1.Entry[K, negative]) bool {
	if d.c.flights.Busy(e.Key) {
		d.left.Busy++
		return false
	}
	n := d.c.recall(e.Key)
	if n == nil || !n.notFound || !n.taken && d.c.drops.Spared(0) || !d.name(e.Key) {
		return false
	}
	left := d.until(n.fresh)
	d.now = dump.Entry{Key: d.now.Key, Fresh: left, Left: left, Age: dump.Unknown, NotFound: true, Tags: n.traits.tags()}
	d.value = *new(V)
	return true
}

// name makes the key of the step.
func (d *outgoing[K, V]) name(key K) bool {
	name, err := d.c.nameOf(key)
	d.now.Key = append(d.now.Key[:0], name...)
	return err == nil
}

// until is the time from the begin of the dump to some time.
func (d *outgoing[K, V]) until(at int64) time.Duration {
	if at == l1.Forever {
		return dump.Forever
	}
	return time.Duration(at - d.begun)
}

// Dropped returns the drops since the last call, of a cache without a bus: others tell
// each instance.
func (d *outgoing[K, V]) Dropped() (names []string, all bool) {
	if d.watch == nil {
		return nil, false
	}
	keys, all := d.names.Take()
	now := d.c.stamps(nil, nil)
	all = all || now.generation != d.seen.generation || now.tagGeneration != d.seen.tagGeneration
	d.seen = now
	if all {
		return nil, true
	}
	for _, k := range keys {
		if name, err := d.c.nameOf(k); err == nil {
			names = append(names, name)
		}
	}
	return names, false
}

func (d *outgoing[K, V]) Left() dump.Left {
	d.left.Coarse = d.c.drops.Coarse()
	return d.left
}
