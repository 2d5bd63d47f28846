package transfer

import (
	"hash/maphash"
	"iter"

	"github.com/strata-cache/strata/internal/snapshot/drops"
	"github.com/strata-cache/strata/internal/snapshot/format"
)

// stamp changes with each drop that concerns many entries.
type stamp struct{ Keys, Tags uint64 }

// outgoing is the entries of a cache on their way out: a [transfer.Dump].
type outgoing[K comparable, V any] struct {
	c *Cache[K, V]
	// part of parts is the share of the keys.
	part, parts int
	// begun is when the dump began, seen the stamp of then, known is the position of Position.
	begun int64
	seen  stamp
	known []byte
	// unwatch ends the watch by which names learns of drops; nil for a cache with a bus.
	unwatch func()
	names   Dropped[K]
	drops.Teller

	now   format.Entry // the step of Entries
	value V            // of now
	left  format.Left
}

// Position is part of [transfer.Dump].
func (d *outgoing[K, V]) Position() []byte { return d.known }

// Close is part of [transfer.Dump].
func (d *outgoing[K, V]) Close() {
	if d.unwatch != nil {
		d.unwatch()
	}
}

// Entries goes through the entries with a value, the hottest first, and then through the
// negative entries.
func (d *outgoing[K, V]) Entries() iter.Seq2[*format.Entry, func([]byte) ([]byte, error)] {
	return func(yield func(*format.Entry, func([]byte) ([]byte, error)) bool) {
		for key, after := range d.c.hottest() {
			if d.mine(key) && d.take(key) && !yield(&d.now, d.append) {
				d.beyond(after + len(d.c.absent()))
				return
			}
		}
		absent := d.c.absent()
		for i, key := range absent {
			if d.mine(key) && d.takeNegative(key) && !yield(&d.now, d.append) {
				d.beyond(len(absent) - i - 1)
				return
			}
		}
	}
}

// beyond notes that Entries ended before n entries, of which each dump of a snapshot has about the same
// share.
func (d *outgoing[K, V]) beyond(n int) { d.left.Beyond += uint64(n / max(1, d.parts)) }

// sampleSeed makes the shares of a snapshot the same for one process.
var sampleSeed = maphash.MakeSeed() // read-only

// mine reports whether key belongs to the share of the dump.
func (d *outgoing[K, V]) mine(key K) bool {
	return d.parts <= 1 || maphash.Comparable(sampleSeed, key)%uint64(d.parts) == uint64(d.part)
}

// append is the value of the step.
func (d *outgoing[K, V]) append(b []byte) (all []byte, err error) {
	if d.now.NotFound {
		return b, nil
	}
	return d.c.append(b, d.value)
}

// take makes the step of the entry that L1 has of key now, and reports whether there is an
// entry to give away. A key with a write or a load under way has none: the position may
// already count the drop by this write or load.
func (d *outgoing[K, V]) take(key K) (ok bool) {
	if d.busy(key) {
		return false
	}
	if d.value, ok = d.c.value(key, d.begun, &d.now); !ok || !d.name(key) {
		d.left.Gone++
		return false
	}
	return true
}

// takeNegative is take for a negative entry.
func (d *outgoing[K, V]) takeNegative(key K) bool {
	d.value = *new(V)
	return !d.busy(key) && d.c.absence(key, d.begun, &d.now) && d.name(key)
}

// busy reports, and counts, whether a write or a load of key is under way. It is asked before
// the entry is looked at.
func (d *outgoing[K, V]) busy(key K) bool {
	if !d.c.Flights.Busy(key) {
		return false
	}
	d.left.Busy++
	return true
}

// name makes the key of the step.
func (d *outgoing[K, V]) name(key K) bool {
	name, err := d.c.Name(key)
	d.now.Key = append(d.now.Key[:0], name...)
	return err == nil
}

// Dropped returns the drops since the last call, of a cache without a bus: others tell
// each instance.
func (d *outgoing[K, V]) Dropped() (names []string, all bool) {
	if d.unwatch == nil {
		return nil, false
	}
	keys, all := d.names.Take()
	now := d.c.stamp()
	all = all || now != d.seen
	d.seen = now
	if all {
		return nil, true
	}
	for _, k := range keys {
		if name, err := d.c.Name(k); err == nil {
			names = append(names, name)
		}
	}
	return names, false
}

// Left is part of [transfer.Dump].
func (d *outgoing[K, V]) Left() format.Left {
	d.left.Coarse = d.Log.Coarse()
	return d.left
}
