package local

import (
	"sync/atomic"

	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/remote"
)

// Stamps decide later whether an entry is valid: the watermarks from before its
// value was read, and its tags. Own has the lives of the value; nil for the lives of the
// Options.
type Stamps struct {
	Generation, TagGeneration uint64
	Tags                      []string
	Own                       *expiry.Own
}

// Held is the value of an entry in L1, with the times of its life and the stamp that
// decides whether it is valid.
type Held[V any] struct {
	expiry.Lives
	V V
}

// Record is what an entry has behind it if its value has an identity in L2, tags, or
// lives of its own. Other entries do without the memory, and
// without pointers for the collector.
type Record struct {
	// ID is the identity of the value in L2; zero for none.
	ID remote.ID
	// Traits are nil for most values.
	Traits *Traits
	// Born is the time at which the value was loaded; zero if it is not known.
	Born int64
}

type (
	// Entry is an entry of L1.
	Entry[K comparable, V any] = l1.Entry[K, Held[V]]
	// Removal is an entry that has left L1.
	Removal[K comparable, V any] = l1.Removed[K, Held[V]]
)

// Traits are rare parts of an entry: tags, and lives that differ from the Options.
type Traits struct {
	// names are the tags. They are never changed.
	names []string
	// seen is the generation of tags when the tags were last judged.
	seen atomic.Uint64
	// own is never changed; nil for none.
	own *expiry.Own
}

// NewEntry returns an entry for L1.
func (s *Store[K, V]) NewEntry(key K, value Held[V], dead int64, r Record) *Entry[K, V] {
	if s.plain != nil { // as in most caches: an entry costs no call of an interface
		return newPlain(s.plain, key, value, dead, r)
	}
	return s.Values.newEntry(key, value, dead, r)
}

// RecordOf returns the record of e; the zero record if it has none.
func RecordOf[K comparable, V any](e *Entry[K, V]) Record {
	if e.Value.State&expiry.Recorded == 0 {
		return Record{}
	}
	return *l1.Behind[Record](e)
}

// Tags returns the tags in t, which may be nil.
func (t *Traits) Tags() []string {
	if t == nil {
		return nil
	}
	return t.names
}

// SeenAt returns the generation of tags at the last judgement of t, which may be nil.
func (t *Traits) SeenAt() uint64 {
	if t == nil {
		return 0
	}
	return t.seen.Load()
}

// Lives returns the lives in t, which may be nil; nil for the lives of the Options.
func (t *Traits) Lives() *expiry.Own {
	if t == nil {
		return nil
	}
	return t.own
}

// NewTraits returns the traits of an entry, with the stamp seen of its tags; nil if it has
// none.
func NewTraits(tags []string, seen uint64, own *expiry.Own) *Traits {
	if len(tags) == 0 && own == nil {
		return nil
	}
	t := &Traits{names: tags, own: own}
	t.seen.Store(seen)
	return t
}
