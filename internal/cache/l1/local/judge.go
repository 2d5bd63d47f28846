package local

import (
	"iter"

	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/cache/ledger"
)

// Judge returns whether e, the entry of key in L1, is valid, stale, suspect or
// invalid, and the time since which it is suspect. A valid one gets the newest
// stamp.
func (s *Store[K, V]) Judge(key K, e *Entry[K, V]) (v ledger.Verdict, since int64) {
	if stamp := e.Value.Stamp(); stamp < s.Ledger.Watermark() {
		var next uint64
		v, next, since = s.Ledger.Judge(stamp, func() uint16 { return s.Lane(key) })
		if v == ledger.Valid {
			// With the newest stamp, the next reads need not judge the entry until something
			// happens again.
			s.Values.Swap(e, s.restamped(e, next))
		}
	}
	t := RecordOf(e).Traits
	if t == nil {
		return v, since
	}
	tv, ts := s.JudgeTags(t)
	return ledger.Both(v, since, tv, ts)
}

// Verdict is Judge for a look that changes nothing.
func (s *Store[K, V]) Verdict(e *Entry[K, V]) (v ledger.Verdict) {
	if stamp := e.Value.Stamp(); stamp < s.Ledger.Watermark() {
		// The lane costs a hash of the name of the key, and is seldom asked for.
		v, _, _ = s.Ledger.Judge(stamp, func() uint16 { return s.Lane(e.Key) })
	}
	if t := RecordOf(e).Traits; t != nil {
		of, _, _ := s.Ledger.JudgeTags(t.names, t.seen.Load())
		v = v.And(of)
	}
	return v
}

// JudgeTags is Judge for the tags t of an entry alone. Valid tags get the newest stamp.
func (s *Store[K, V]) JudgeTags(t *Traits) (v ledger.Verdict, since int64) {
	if t == nil {
		return ledger.Valid, 0
	}
	v, next, since := s.Ledger.JudgeTags(t.names, t.seen.Load())
	if v == ledger.Valid {
		t.seen.Store(next)
	}
	return v, since
}

// TagsStand reports whether no tag was dropped since the tags of e, which has some, were judged.
func (s *Store[K, V]) TagsStand(e *Entry[K, V]) bool {
	return l1.Behind[Record](e).Traits.SeenAt() >= s.Ledger.TagWatermark()
}

// TagsDropped reports whether e, which is in L1 or on its way there, is absent
// for every purpose because one of its tags was dropped since it was read.
func (s *Store[K, V]) TagsDropped(e *Entry[K, V]) bool {
	t := RecordOf(e).Traits
	if t == nil {
		return false
	}
	v, _, _ := s.Ledger.JudgeTags(t.names, t.seen.Load())
	return v == ledger.Invalid
}

// IsFresh reports whether a read would serve e, which L1 has now, at once.
func (s *Store[K, V]) IsFresh(e *Entry[K, V]) bool {
	return s.Values.Now() < e.Value.FreshUntil(e.Dead) && s.Verdict(e) == ledger.Valid
}

// Has reports whether L1 has a fresh value of key.
func (s *Store[K, V]) Has(key K) bool {
	e, _ := s.Values.Glance(key)
	return e != nil && s.IsFresh(e)
}

// Fresh iterates over the fresh entries.
func (s *Store[K, V]) Fresh() iter.Seq[*Entry[K, V]] { return s.Values.All(s.IsFresh) }

// FreshKeys iterates over the keys of the fresh entries.
func (s *Store[K, V]) FreshKeys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for e := range s.Values.Each() {
			if s.IsFresh(e) && !yield(e.Key) {
				return
			}
		}
	}
}

// Hottest returns up to n fresh entries, the most used first.
func (s *Store[K, V]) Hottest(n int) (fresh []*Entry[K, V]) {
	// The hottest entries may be stale. Then twice as many are asked for, until there are enough
	// fresh ones or no more entries.
	for want := n; n > 0; want *= 2 {
		all := s.Values.Hottest(want)
		fresh = fresh[:0]
		for _, e := range all {
			if len(fresh) < n && s.IsFresh(e) {
				fresh = append(fresh, e)
			}
		}
		if len(fresh) == n || len(all) < want {
			break
		}
	}
	return fresh
}

// Touch counts as a read of key, and reports whether L1 has a value of it, fresh or stale.
func (s *Store[K, V]) Touch(key K) bool {
	e, _ := s.Values.Glance(key)
	return e != nil && s.Verdict(e) <= ledger.Stale && s.Values.Touch(key)
}

// Room returns about how many entries L1 can take without an eviction. It counts no further than most.
func (s *Store[K, V]) Room(most int) int { return s.Values.Room(most) }

// Purge removes the entries that drops of everything or of tags made absent, until ended.
func (s *Store[K, V]) Purge(ended func() bool) {
	s.Values.DeleteFunc(func(e *Entry[K, V]) bool {
		return !ended() && (s.Ledger.Invalidates(e.Value.Stamp()) || s.TagsDropped(e))
	})
}

// Put replaces the entry of key by value, of the given weight, or by the negative entry failure, or
// removes it if there is neither. It returns the removed ones, and whether a value is kept.
func (s *Store[K, V]) Put(key K, value *Entry[K, V], weight int64, failure *l1.Entry[K, Negative]) (removed []Removal[K, V], kept bool) {
	switch {
	// A key has a value or a negative entry, never both.
	case failure != nil:
		removed = s.ForgetValue(key)
		s.Negatives.Set(failure, 1)
	case value != nil:
		removed, kept = s.Values.Set(value, weight)
		if s.Negatives.Len() > 0 {
			s.Negatives.Delete(key)
		}
	default:
		removed = s.Forget(key)
	}
	return removed, kept
}
