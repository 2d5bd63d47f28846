package transfer

import (
	"hash/maphash"
	"iter"

	"github.com/strata-cache/strata/internal/snapshot/drops"
	"github.com/strata-cache/strata/internal/snapshot/format"
)

// Giver is a cache as an [Outgoing] needs it.
type Giver[K comparable, V any] interface {
	// Hottest iterates over the keys with a value, the hottest first, each with the number of
	// entries after it. Negative iterates over the keys with a negative entry.
	Hottest() iter.Seq2[K, int]
	Negative() iter.Seq[K]
	// Busy reports whether a write or a load of key is under way.
	Busy(key K) bool
	// Value makes e the entry that L1 has of key now, except for its Key, with times from
	// begun on, and returns its value. ok is false if there is none to give away. Absence is
	// the same for a negative entry.
	Value(key K, begun int64, e *format.Entry) (v V, ok bool)
	Absence(key K, begun int64, e *format.Entry) (ok bool)
	// Name returns the name of key, Append appends v as the codec has it.
	Name(key K) (string, error)
	Append(b []byte, v V) ([]byte, error)
	// Stamp tells of drops of many entries.
	Stamp() Stamp
}

// Stamp changes with each drop that concerns many entries.
type Stamp struct{ Keys, Tags uint64 }

// Outgoing is the entries of a cache on their way out: a [Dump].
type Outgoing[K comparable, V any] struct {
	Cache Giver[K, V]
	// Part of Parts is the share of the keys.
	Part, Parts int
	// Begun is when the dump began, Seen the stamp of then, Known is the position of Position.
	Begun int64
	Seen  Stamp
	Known []byte
	// Unwatch ends the watch by which Names learns of drops; nil for a cache with a bus.
	Unwatch func()
	Names   Dropped[K]
	drops.Teller

	now   format.Entry // the step of Entries
	value V            // of now
	left  format.Left
}

// Position is part of [Dump].
func (d *Outgoing[K, V]) Position() []byte { return d.Known }

// Close is part of [Dump].
func (d *Outgoing[K, V]) Close() {
	if d.Unwatch != nil {
		d.Unwatch()
	}
}

// Entries goes through the entries with a value, the hottest first, and then through the
// negative entries.
func (d *Outgoing[K, V]) Entries() iter.Seq2[*format.Entry, func([]byte) ([]byte, error)] {
	return func(yield func(*format.Entry, func([]byte) ([]byte, error)) bool) {
		for key, after := range d.Cache.Hottest() {
			if d.mine(key) && d.take(key) && !yield(&d.now, d.append) {
				d.left.Beyond += uint64(after / max(1, d.Parts))
				return
			}
		}
		for key := range d.Cache.Negative() {
			if d.mine(key) && d.takeNegative(key) && !yield(&d.now, d.append) {
				return
			}
		}
	}
}

// sampleSeed makes the shares of a snapshot the same for one process.
var sampleSeed = maphash.MakeSeed() // read-only

// mine reports whether key belongs to the share of the dump.
func (d *Outgoing[K, V]) mine(key K) bool {
	return d.Parts <= 1 || maphash.Comparable(sampleSeed, key)%uint64(d.Parts) == uint64(d.Part)
}

// append is the value of the step.
func (d *Outgoing[K, V]) append(b []byte) (all []byte, err error) {
	if d.now.NotFound {
		return b, nil
	}
	return d.Cache.Append(b, d.value)
}

// take makes the step of the entry that L1 has of key now, and reports whether there is
// one to give away. A key with a write or a load under way has none: the drop of these may
// be among those that the position counts.
func (d *Outgoing[K, V]) take(key K) (ok bool) {
	if d.busy(key) {
		return false
	}
	if d.value, ok = d.Cache.Value(key, d.Begun, &d.now); !ok || !d.name(key) {
		d.left.Gone++
		return false
	}
	return true
}

// takeNegative is take for a negative entry.
func (d *Outgoing[K, V]) takeNegative(key K) bool {
	d.value = *new(V)
	return !d.busy(key) && d.Cache.Absence(key, d.Begun, &d.now) && d.name(key)
}

// busy reports, and counts, whether a write or a load of key is under way. It is asked before
// the entry is looked at.
func (d *Outgoing[K, V]) busy(key K) bool {
	if !d.Cache.Busy(key) {
		return false
	}
	d.left.Busy++
	return true
}

// name makes the key of the step.
func (d *Outgoing[K, V]) name(key K) bool {
	name, err := d.Cache.Name(key)
	d.now.Key = append(d.now.Key[:0], name...)
	return err == nil
}

// Dropped returns the drops since the last call, of a cache without a bus: others tell
// each instance.
func (d *Outgoing[K, V]) Dropped() (names []string, all bool) {
	if d.Unwatch == nil {
		return nil, false
	}
	keys, all := d.Names.Take()
	now := d.Cache.Stamp()
	all = all || now != d.Seen
	d.Seen = now
	if all {
		return nil, true
	}
	for _, k := range keys {
		if name, err := d.Cache.Name(k); err == nil {
			names = append(names, name)
		}
	}
	return names, false
}

// Left is part of [Dump].
func (d *Outgoing[K, V]) Left() format.Left {
	d.left.Coarse = d.Log.Coarse()
	return d.left
}
