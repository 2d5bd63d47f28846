package local

import (
	"math/rand/v2"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/cache/ledger"
)

// Negative is the value of a negative entry: L1 remembers of a key without a value
// that the origin does not have it, or that its load has failed.
type Negative struct {
	Err error
	// Fresh is the time until which it holds.
	Fresh int64
	// Stamp and Traits decide whether it is valid, as for an entry with a value.
	Stamp  uint64
	Traits *Traits
	// Failures is how often the load has failed in a row.
	Failures int32
	// NotFound says that Err is the origin's answer, Taken that it came from a snapshot.
	NotFound, Taken bool
}

const (
	// negativeShare is the share of L1's bound that negatives may have beside it: keys
	// that do not exist push out no entries.
	negativeShare = 10
	// maxBackoff is how many times ErrorTTL a failure is remembered at most.
	maxBackoff = 10
	// longestFailure caps ErrorTTL, so that sums of many times this do not overflow.
	longestFailure = 365 * 24 * time.Hour
	// whenUnbounded is the most entries that count for a bound of L1 by weight.
	whenUnbounded = 10_000
)

// NewNegatives makes the store of negatives.
func NewNegatives[K comparable](entries, weight int64) *l1.Cache[K, Negative] {
	return l1.New(l1.Config[K, Negative]{MaxEntries: NegativeBound(entries, weight), Rare: true})
}

// NegativeBound is the bound of the number of negatives for these bounds of L1.
func NegativeBound(entries, weight int64) int64 {
	if entries == 0 {
		entries = min(weight, whenUnbounded)
	}
	return max(1, entries/negativeShare)
}

// Recall returns the negative entry of key if it still holds, or nil. A failure is kept for longer
// than it holds, so that a further failure in that time counts as one more in a row.
func (s *Store[K, V]) Recall(key K) *Negative {
	if s.Negatives.Len() == 0 { // as in most caches
		return nil
	}
	e, now := s.Negatives.Peek(key)
	if e == nil || now >= e.Value.Fresh {
		return nil
	}
	if e.Value.NotFound && e.Value.Stamp < s.Ledger.Watermark() {
		if v, _, _ := s.Ledger.Judge(e.Value.Stamp, func() uint16 { return s.Lane(key) }); v != ledger.Valid {
			return nil
		}
	}
	if v, _ := s.JudgeTags(e.Value.Traits); v != ledger.Valid {
		return nil
	}
	return &e.Value
}

// Throttled returns the failure for which key is not to be loaded now, or nil.
func (s *Store[K, V]) Throttled(key K) error {
	if m := s.Recall(key); m != nil && !m.NotFound {
		return m.Err
	}
	return nil
}

// Failed remembers that a load of key, begun at some time, has failed with err. own are the lives
// that the load has set, or nil. No right to store is needed, since a failure is no value that could
// be old; but without it the failure replaces no later answer. Failed is called under the lock of
// the key's flights.
func (s *Store[K, V]) Failed(key K, err error, own *expiry.Own, begun int64, right bool) {
	base := min(s.ErrorTTL, longestFailure)
	if base == 0 || !right && s.answeredSince(key, begun) {
		return
	}
	now := s.Values.Now()
	m := Negative{Err: err, Failures: 1, Traits: NewTraits(nil, 0, own)}
	if e, _ := s.Negatives.Peek(key); e != nil && !e.Value.NotFound {
		m.Failures = e.Value.Failures + 1
	}
	holds := base * time.Duration(min(1<<min(m.Failures-1, 10), maxBackoff))
	holds -= time.Duration(rand.Float64() * float64(holds) / 5)
	m.Fresh = l1.After(now, holds)
	s.Negatives.Set(l1.NewEntry(s.Negatives, key, m, l1.After(now, holds+2*maxBackoff*base)), 1)
}

// answeredSince reports whether L1 has an answer that is newer than a load of key, which was begun
// at some time and has lost the right to store: a value, or that there is none. Whether drops of
// everything have made a negative entry invalid is not known under the lock of the key's flights,
// where Lane must not be called; then it is none.
func (s *Store[K, V]) answeredSince(key K, begun int64) bool {
	if m, now := s.Negatives.Peek(key); m != nil && m.Value.NotFound {
		v, _ := s.JudgeTags(m.Value.Traits)
		return now < m.Value.Fresh && m.Value.Stamp >= s.Ledger.Watermark() && v == ledger.Valid
	}
	e, now := s.Values.Glance(key)
	return e != nil && now < e.Value.FreshUntil(e.Dead) && s.Born(e) >= begun
}

// FailedWith returns the lives that the last load of key has said, if it has failed.
func (s *Store[K, V]) FailedWith(key K) *expiry.Own {
	if m := s.Recall(key); m != nil && !m.NotFound {
		return m.Traits.Lives()
	}
	return nil
}

// Failures is how often the load of key has failed in a row.
func (s *Store[K, V]) Failures(key K) int {
	if e, _ := s.Negatives.Peek(key); e != nil {
		return int(e.Value.Failures)
	}
	return 0
}

// NewNegative returns the negative entry of a key that the origin does not have. It lives
// for the duration left; without one it is nil. The Stamps in from were taken before the origin was asked.
func (s *Store[K, V]) NewNegative(key K, err error, left time.Duration, from Stamps) *l1.Entry[K, Negative] {
	if left <= 0 {
		return nil
	}
	dead := l1.After(s.Values.Now(), min(left, s.Longest(nil)))
	n := Negative{Err: err, NotFound: true, Fresh: dead, Stamp: from.Generation, Traits: NewTraits(from.Tags, from.TagGeneration, nil)}
	return l1.NewEntry(s.Negatives, key, n, dead)
}

// Forget removes key from L1, and returns the removed entries for memory.Notify,
// which is called once no lock is held. Forget is called under the lock of the key's
// flights.
func (s *Store[K, V]) Forget(key K) []Removal[K, V] {
	if s.Negatives.Len() > 0 { // the lock of the key's flights is held: none of the key is coming
		s.Negatives.Delete(key)
	}
	return s.ForgetValue(key)
}

// ForgetValue is Forget, but the negative entry of the key stays.
func (s *Store[K, V]) ForgetValue(key K) []Removal[K, V] {
	e, alive := s.Values.Delete(key)
	if e == nil || !s.Reports {
		return nil
	}
	why := l1.Deleted
	if !alive {
		why = l1.Expired
	}
	return []Removal[K, V]{{Entry: e, Reason: why}}
}

// Unremember removes the negative entry of e's key when e is put into L1. A stale
// value says nothing about a failure that still holds.
func (s *Store[K, V]) Unremember(e *Entry[K, V]) {
	if s.Negatives.Len() == 0 {
		return
	}
	if m, now := s.Negatives.Peek(e.Key); m != nil && (m.Value.NotFound || now < e.Value.FreshUntil(e.Dead)) {
		s.Negatives.Delete(e.Key)
	}
}
