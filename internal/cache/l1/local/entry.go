package local

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/cache/ledger"
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

// forever is a life without an end.
const forever = math.MaxInt64

// New returns an entry for L1. From now on it is fresh for the duration fresh and kept for the
// duration left, or for less if L1 permits less; either duration may be over. The Stamps in from
// were taken before the value was read. r has the identity and the birth of the value.
func (s *Store[K, V]) New(now int64, key K, v V, fresh, left time.Duration, from Stamps, r Record) *Entry[K, V] {
	r.Traits = NewTraits(from.Tags, from.TagGeneration, from.Own)
	flags := s.Flags
	if len(from.Tags) > 0 {
		flags |= expiry.Tagged
	}
	longest := l1.After(now, s.Longest(from.Own))
	about, dead := expiry.New(from.Generation, flags, min(longest, later(now, fresh)), min(longest, l1.After(now, left)))
	if r.ID == 0 && r.Traits == nil {
		if bits, ok := s.Births.Implies(r.Born, about.FreshUntil(dead)); ok {
			about.State, r.Born = about.State|bits, 0
		}
	}
	return s.NewEntry(key, Held[V]{about, v}, dead, r)
}

// Until returns the time from now to then, two times of L1; [math.MaxInt64] to Forever.
func Until(then, now int64) time.Duration {
	if then == l1.Forever {
		return forever
	}
	return time.Duration(then - now)
}

// later is l1.After for a time that may be past: then it may be before the begin of the clock.
func later(now int64, d time.Duration) int64 {
	if d < 0 {
		return now + int64(d)
	}
	return l1.After(now, d)
}

// windows returns for how long e may be served after its TTL: while it is refreshed, and if
// its load fails.
func (s *Store[K, V]) windows(e *Entry[K, V]) (revalidate, onError time.Duration) {
	return s.Windows(RecordOf(e).Traits.Lives())
}

// restamped returns a copy of e with a newer stamp.
func (s *Store[K, V]) restamped(e *Entry[K, V], stamp uint64) *Entry[K, V] {
	anew := s.NewEntry(e.Key, e.Value, e.Dead, RecordOf(e))
	anew.Value.Restamp(stamp)
	return anew
}

// Relived returns a restamped copy of e that may get other times. The birth of most entries follows
// from their times. So the copy has its birth in its record, before the times change.
func (s *Store[K, V]) Relived(e *Entry[K, V], stamp uint64) *Entry[K, V] {
	r := RecordOf(e)
	r.Born = s.Born(e)
	anew := s.NewEntry(e.Key, e.Value, e.Dead, r)
	anew.Value.Restamp(stamp)
	return anew
}

// Expired returns a copy of e that has not been fresh since the given time. It lives for as long,
// from then on, as it may be served if its load fails.
func (s *Store[K, V]) Expired(e *Entry[K, V], since int64) *Entry[K, V] {
	old := s.Relived(e, e.Value.Stamp())
	if until := s.OnErrorUntil(e); until > 0 {
		_, onError := s.windows(e)
		old.Dead = min(until, l1.After(since, onError))
	}
	old.Value.Expire(min(since, e.Value.StaleSince(e.Dead)), old.Dead)
	return old
}

// Expire makes the value of key stale since the given time, and returns the entries that it has removed. It
// is called under the lock of the key's flights.
func (s *Store[K, V]) Expire(key K, since int64) []Removal[K, V] {
	e, _ := s.Values.Glance(key)
	if e == nil || e.Value.Expired() || s.Values.Swap(e, s.Expired(e, since)) {
		return nil
	}
	return s.ForgetValue(key) // it was stamped meanwhile, or there is no memory for a longer form
}

// mostSwaps bounds the looks of ExpireValue. Each but the last one means that a reader has stamped the entry meanwhile.
const mostSwaps = 100

// ExpireValue makes the entry of key stale, as of now, if it has the value with this ID. It needs no lock, and
// spares an entry that takes the place of that value.
func (s *Store[K, V]) ExpireValue(key K, id remote.ID) {
	for range mostSwaps {
		e, now := s.Values.Glance(key)
		if e == nil || RecordOf(e).ID != id || e.Value.Expired() || s.Values.Swap(e, s.Expired(e, now)) {
			return
		}
	}
}

// Aged returns e, unless e was expired together with other entries. Then it returns the entry that
// takes the place of e in L1: after an expiry of everything, one whose TTL ended at that moment;
// after the expiry of a tag, one as after an expiry of its key.
func (s *Store[K, V]) Aged(key K, e *Entry[K, V]) *Entry[K, V] {
	old, v := e, ledger.Valid
	if stamp := e.Value.Stamp(); stamp < s.Ledger.Watermark() {
		var next uint64
		var since int64
		if v, next, since = s.Ledger.Judge(stamp, func() uint16 { return s.Lane(key) }); v == ledger.Stale {
			e = s.Relived(e, next)
			s.expireWithAll(e, since)
		}
	}
	if t := RecordOf(e).Traits; t != nil && v <= ledger.Stale {
		if v, next, since := s.Ledger.JudgeTags(t.names, t.seen.Load()); v == ledger.Stale {
			e = s.Expired(e, since)
			l1.Behind[Record](e).Traits = NewTraits(t.names, next, t.own) // a reader that still has old judges it by its own
		}
	}
	if e != old {
		s.Values.Swap(old, e)
	}
	return e
}

// expireWithAll ends the TTL of e, a copy on its way into L1, at the time of an expiry of everything. An entry that a caller
// has expired by its key or a tag before is stale since then.
func (s *Store[K, V]) expireWithAll(e *Entry[K, V], since int64) {
	dead := min(e.Dead, l1.After(since, max(s.windows(e))))
	if e.Value.Expired() {
		e.Value.Expire(e.Value.StaleSince(e.Dead), dead)
		e.Dead = dead
		return
	}
	fresh, soon := min(e.Value.FreshUntil(e.Dead), since), e.Value.SoonAt(e.Dead)
	e.Dead = e.Value.End(fresh, dead)
	e.Value.SetSoon(soon, e.Dead)
}

// RefreshSoon sets when a read of e is to start a refresh: after a share of
// ttl, the life of its value, or earlier at random. fresh is the rest of that life,
// which L1 may have cut short, from now on. took is the duration of its load; zero if
// that is not known.
func (s *Store[K, V]) RefreshSoon(e *Entry[K, V], now int64, fresh, ttl, took time.Duration) {
	e.Value.SetSoon(s.Pace.due(now, fresh, ttl, took), e.Dead)
}

// Revalidates reports whether e, which is not fresh any more, may be served
// while it is refreshed. One that a caller has expired may not.
func (s *Store[K, V]) Revalidates(e *Entry[K, V], now int64) bool {
	revalidate, _ := s.windows(e)
	return !e.Value.Expired() && now < l1.After(e.Value.FreshUntil(e.Dead), revalidate)
}

// OnErrorUntil is until when e may be served if its load fails.
func (s *Store[K, V]) OnErrorUntil(e *Entry[K, V]) int64 {
	_, window := s.windows(e)
	if window == 0 {
		return 0
	}
	return min(e.Dead, l1.After(e.Value.StaleSince(e.Dead), window))
}

// Pace says when a fresh value is due for a refresh.
type Pace struct {
	// At is the share of the TTL after which it is due, or negative for never.
	At float64
	// Spread makes it due earlier at random, on average by Spread times the duration of a load,
	// which Mean estimates.
	Spread float64
	Mean   func() time.Duration
}

// due returns the time that RefreshSoon sets; l1.Forever for none.
func (p *Pace) due(now int64, fresh, ttl, took time.Duration) int64 {
	if p.At < 0 || ttl == forever || fresh <= 0 {
		return l1.Forever
	}
	rest := time.Duration(float64(ttl) * (1 - p.At))
	if p.Spread > 0 {
		if took == 0 {
			took = p.Mean()
		}
		early := time.Duration(rand.ExpFloat64() * p.Spread * float64(took))
		rest = max(rest, min(early, ttl/2))
	}
	return later(now, fresh-rest)
}

// Born returns the time at which the value of e was loaded or set; zero if that is not
// known.
func (s *Store[K, V]) Born(e *Entry[K, V]) int64 {
	if e.Value.State&expiry.Recorded != 0 {
		return RecordOf(e).Born
	}
	return s.Births.Implied(&e.Value.Lives, e.Dead)
}
