package local

import (
	"iter"
	"math"

	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/guard"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/observe"
)

// Values keeps the entries that have a value: as Go values, see [Plain], or as bytes, see [Coded].
// A method without a comment does what the method of [l1.Cache] with its name does.
type Values[K comparable, V any] interface {
	Get(key K) (*Entry[K, V], int64)
	Peek(key K) (*Entry[K, V], int64)
	// Glance is Peek, but the entry may lack its value. It calls no function of the program, so that
	// it may be called under a lock.
	Glance(key K) (*Entry[K, V], int64)
	Touch(key K) bool
	Cool(e *Entry[K, V]) bool

	// Copy returns v for another holder: a copy, if values belong to their holders. A value that the codec
	// refuses has none.
	Copy(v V) V
	// Uses returns how often e was read lately, up to three times.
	Uses(e *Entry[K, V]) int

	// Pack makes e ready to be stored, before any lock is taken. form is the value as the codec of Coded
	// has written it; nil if it is not at hand. It returns the error of the codec.
	Pack(e *Entry[K, V], form []byte) error
	Set(e *Entry[K, V], weight int64) ([]Removal[K, V], bool)
	Offer(e *Entry[K, V], weight, lately int64) ([]Removal[K, V], bool)
	Renew(e *Entry[K, V], weight int64) ([]Removal[K, V], bool)
	Swap(old, e *Entry[K, V]) bool
	// Same reports whether both are one entry, as it was stored.
	Same(a, b *Entry[K, V]) bool
	Delete(key K) (e *Entry[K, V], alive bool)
	DeleteFunc(f func(*Entry[K, V]) bool) int
	Notify(gone []Removal[K, V])

	// All iterates over the living entries for which want returns true; want may get them without values.
	All(want func(*Entry[K, V]) bool) iter.Seq[*Entry[K, V]]
	// Each is All of all entries. The entries of Each and of Hottest may lack their values.
	Each() iter.Seq[*Entry[K, V]]
	Hottest(n int) []*Entry[K, V]
	// HottestKeys returns the keys of all entries in the order of Hottest.
	HottestKeys() []K
	Sample(f func(key K, hits uint64))
	End(e *Entry[K, V]) int64
	Now() int64
	Len() int
	Bounds() (entries, weight int64)
	Ages() *observe.Durations
	Stats() l1.Stats
	// Undecoded returns the number of values that could not be decoded.
	Undecoded() uint64

	// Room returns about how many entries can come without an eviction. It counts no further than most.
	Room(most int) int
	// Fits reports whether e, which was packed, can come without an eviction, as far as can be told without a lock.
	Fits(e *Entry[K, V], weight int64) bool
	Resize(maxEntries, maxWeight int64) []Removal[K, V]
	// Guard gives the values to g, which may be nil. leave takes them from g.
	Guard(g *guard.Guard) (leave func())
	Clear()
	Close()

	newEntry(key K, v Held[V], dead int64, r Record) *Entry[K, V]
}

// Plain are values of Go, in the engine of L1.
type Plain[K comparable, V any] struct{ *l1.Cache[K, Held[V]] }

// Glance is Peek.
func (p Plain[K, V]) Glance(key K) (*Entry[K, V], int64) { return p.Peek(key) }

// All filters the entries of the engine.
func (p Plain[K, V]) All(want func(*Entry[K, V]) bool) iter.Seq[*Entry[K, V]] {
	return func(yield func(*Entry[K, V]) bool) {
		for e := range p.Cache.All() {
			if want(e) && !yield(e) {
				return
			}
		}
	}
}

// Each iterates over the entries of the engine.
func (p Plain[K, V]) Each() iter.Seq[*Entry[K, V]] { return p.Cache.All() }

// HottestKeys returns the keys of Hottest of all entries.
func (p Plain[K, V]) HottestKeys() []K {
	all := p.Hottest(math.MaxInt) // not Len: entries that come meanwhile push out none
	keys := make([]K, len(all))
	for i, e := range all {
		keys[i] = e.Key
	}
	return keys
}

// Cool takes one of the uses that e counts.
func (p Plain[K, V]) Cool(e *Entry[K, V]) bool { return p.Cache.Cool(&e.Head) }

// Undecoded is zero.
func (p Plain[K, V]) Undecoded() uint64 { return 0 }

// Copy returns v, which is shared.
func (p Plain[K, V]) Copy(v V) V { return v }

// Uses returns the uses that e counts.
func (p Plain[K, V]) Uses(e *Entry[K, V]) int { return int(e.Uses()) }

// Pack has nothing to do.
func (p Plain[K, V]) Pack(*Entry[K, V], []byte) error { return nil }

// Same compares pointers.
func (p Plain[K, V]) Same(a, b *Entry[K, V]) bool { return a == b }

// Room counts by the bounds.
func (p Plain[K, V]) Room(most int) int {
	n, left := int64(p.Len()), int64(most)
	entries, weight := p.Bounds() // the present ones: Tune changes them
	if entries > 0 {
		left = min(left, entries-n)
	}
	if weight > 0 {
		// Entries to come are taken to weigh as much as the present ones.
		each := max(1, p.Weight()/max(1, n))
		left = min(left, (weight-p.Weight())/each)
	}
	return int(max(0, left))
}

// Fits compares the weight with what is left of the bound.
func (p Plain[K, V]) Fits(_ *Entry[K, V], weight int64) bool {
	_, most := p.Bounds()
	return p.Room(1) > 0 && (most <= 0 || evict.Counted(weight) <= most-p.Weight())
}

// Guard gives the engine to g, which may be nil.
func (p Plain[K, V]) Guard(g *guard.Guard) (leave func()) {
	return guard.Watch(g, l1.WardOf(p.Cache), false)
}

func (p Plain[K, V]) newEntry(key K, v Held[V], dead int64, r Record) *Entry[K, V] {
	return newPlain(p.Cache, key, v, dead, r)
}

func newPlain[K comparable, V any](c *l1.Cache[K, Held[V]], key K, v Held[V], dead int64, r Record) *Entry[K, V] {
	if r == (Record{}) {
		return l1.NewEntry(c, key, v, dead)
	}
	v.State |= expiry.Recorded
	return l1.NewEntryWith(c, key, v, dead, r)
}
