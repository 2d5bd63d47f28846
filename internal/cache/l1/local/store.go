// Package local is L1 as a cache uses it: values with stamps, tags and lives of their own, the
// negative entries beside them, and the judgement about both by the ledger of drops. It neither
// loads nor asks L2.
//
// States of an entry, as [Store.Judge] tells them: valid, stale (a caller has expired it with
// others), suspect (L2 has to confirm it) and invalid (absent).
//
// Invariant: an entry that was stamped before a drop is never valid after it.
package local

import (
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/guard"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/cache/ledger"
)

// Store is L1 of one cache. Its fields are set before its first use. Its methods are safe
// for concurrent use; those that insert or remove are called under the lock of the key's flights.
type Store[K comparable, V any] struct {
	// Values has the entries with a value, Negatives those about keys without one.
	Values    Values[K, V]
	plain     *l1.Cache[K, Held[V]] // of Values, see UsePlain; nil if they are coded
	Negatives *l1.Cache[K, Negative]
	// Ledger has the drops of many entries, by which the stamps of entries are judged.
	Ledger *ledger.Ledger
	Births expiry.Births
	Pace   Pace
	// Flags are the flags of every entry.
	Flags uint64
	// Lane returns the lane of a key. It may call the program's Key.
	Lane func(key K) uint16
	// Windows returns for how long a value with these lives may be served after its TTL: while it is
	// refreshed, and if its load fails. Longest returns the longest life that it may have here.
	Windows func(*expiry.Own) (revalidate, onError time.Duration)
	Longest func(*expiry.Own) time.Duration
	// ErrorTTL is for how long a first failure is remembered; zero for not at all.
	ErrorTTL time.Duration
	// Reports says that Values reports the removals of entries.
	Reports bool

	guard atomic.Pointer[guard.Guard] // of the memory; nil for none
	leave func()                      // takes L1 from guard
}

// UsePlain makes c the Values of s.
func (s *Store[K, V]) UsePlain(c *l1.Cache[K, Held[V]]) { s.Values, s.plain = Plain[K, V]{c}, c }

// UseCoded makes a [NewCoded] the Values of s.
func (s *Store[K, V]) UseCoded(c *l1.Cache[K, Held[V]], maxBytes int64, codec Codec[V], reports bool) error {
	coded, err := NewCoded(c, maxBytes, codec, reports)
	if err == nil {
		s.Values, s.plain = coded, nil
	}
	return err
}

// Guard gives L1 to g, which may be nil, and takes it from the guard that it had before. One goroutine at a time
// calls it.
func (s *Store[K, V]) Guard(g *guard.Guard) {
	if s.leave != nil {
		s.leave()
	}
	s.guard.Store(g)
	// The floor is one of values, in their unit.
	values, negatives := s.Values.Guard(g), guard.Watch(g.WithFloor(0), l1.WardOf(s.Negatives), false)
	s.leave = func() { values(); negatives() }
}

// GuardStats returns the numbers of the guard that L1 has; zeros without one.
func (s *Store[K, V]) GuardStats() guard.Stats { return s.guard.Load().Stats() }

// LeastWeight is the least bound of weights.
func (s *Store[K, V]) LeastWeight() int64 {
	if coded, ok := s.Values.(*Coded[K, V]); ok {
		return coded.store.Least()
	}
	return 1
}
