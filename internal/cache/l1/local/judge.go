package local

import (
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
