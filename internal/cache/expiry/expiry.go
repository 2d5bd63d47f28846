// Package expiry has the times of an entry's life in L1 and its stamp, in 16 bytes
// without a pointer, so that the garbage collector skips entries if their keys and
// values have none either.
//
// All times are nanoseconds of the clock of L1. The end of an entry, its Dead, is
// known to the engine; the other times are kept as Spans before that.
package expiry

import (
	"math"
	"math/rand/v2"
	"time"
)

// Flags of an entry, in the low bits of Lives.State.
const (
	// Closely makes every hit look at the entry more closely: a caller has expired it,
	// or the cache has a Clone, a hook for hits and the like.
	Closely uint64 = 1 << iota
	// expired says that a caller has expired the value.
	expired
	// Recorded says that the entry has a record behind it.
	Recorded
)

const (
	// HashMask are the bits of Lives.State for a hash of the value.
	HashMask uint64 = 0xfff8
	// Taken is a flag of an entry that came from a snapshot.
	Taken uint64 = 1 << 16
	// Tagged says that the entry has tags, which are in its record. Hits look whether any
	// tag was dropped since the last look at these.
	Tagged uint64 = 1 << 17
	// StampShift is the number of the bits below the stamp. The 46 bits above them are
	// enough for two years of one event a microsecond.
	StampShift = 18
)

// Lives are the times of an entry's life and its stamp. With the zero Lives an entry
// is fresh until it ends, and has the stamp zero.
type Lives struct {
	// State is the stamp, and below it flags and a hash. The stamp is the generation
	// at which the load of the value was registered.
	State uint64
	// Fresh and Soon are times before the end of the entry: the entry ceases to be
	// fresh at Fresh before its end, and a hit has further work from Soon before its
	// end on, such as starting a refresh. Soon is not shorter than Fresh. An entry that a caller
	// has expired is not fresh at all: its Fresh says since when, and its Soon does not count.
	Fresh, Soon Span
}

// New returns the Lives of an entry with a value fresh until fresh, and the end of
// the entry: dead, or up to a millisecond earlier so that fresh is exact; see [Span].
func New(stamp, flags uint64, fresh, dead int64) (l Lives, end int64) {
	l.State = stamp<<StampShift | flags
	return l, l.End(fresh, dead)
}

// End sets the times of an entry with a value fresh until fresh, and returns its end
// like New. An expired entry stays expired.
func (l *Lives) End(fresh, dead int64) (end int64) {
	if l.Expired() || fresh >= dead {
		l.Fresh, l.Soon = 0, 0
		return dead
	}
	l.Fresh = SpanOf(dead - fresh)
	l.Soon = l.Fresh
	return fresh + l.Fresh.Length()
}

// Expire notes that a caller has expired the value, for an entry that ends at dead. The value is stale
// since the time since.
func (l *Lives) Expire(since, dead int64) {
	l.State |= expired | Closely
	l.Fresh, l.Soon = SpanOf(dead-since), 0
}

// StaleSince returns since when the value of an entry that ends at dead is stale, or from when on: its
// TTL ends then, or a caller has expired it. It may be later than in truth by the unit of a [Span].
func (l *Lives) StaleSince(dead int64) int64 { return dead - l.Fresh.Length() }

// Expired reports whether a caller has expired the value.
func (l *Lives) Expired() bool { return l.State&expired != 0 }

// FreshUntil returns the time until which the value is fresh, for an entry that ends
// at dead. Zero stands for a value that a caller has expired.
func (l *Lives) FreshUntil(dead int64) int64 {
	if l.Expired() {
		return 0
	}
	return dead - l.Fresh.Length()
}

// SoonAt returns the time from which a hit has further work, for an entry that ends
// at dead. Before it a hit checks the flags and the stamp, and nothing else.
func (l *Lives) SoonAt(dead int64) int64 {
	if l.Expired() {
		return 0
	}
	return dead - l.Soon.Length()
}

// SetSoon sets the time from which a hit has further work to at. If at is later than the end of the
// fresh life, SetSoon changes nothing. The set time may be up to a millisecond later than at, see
// [Span].
func (l *Lives) SetSoon(at, dead int64) {
	if s := SpanOf(dead - at); s.Length() > l.Fresh.Length() {
		l.Soon = s
	}
}

// Stamp returns the stamp.
func (l *Lives) Stamp() uint64 { return l.State >> StampShift }

// Restamp changes the stamp.
func (l *Lives) Restamp(stamp uint64) { l.State = stamp<<StampShift | l.State&(1<<StampShift-1) }

// Span is a duration of zero or more, in 32 bits: a number of 30 bits, and above it
// the unit. Up to a second it is exact to the nanosecond, up to 17 minutes to the
// microsecond, up to twelve days to the millisecond, beyond that to the second. The
// longest is 34 years.
type Span uint32

// SpanBits is the number of bits of a Span below its unit, and SpanMask selects them.
const (
	SpanBits = 30
	SpanMask = 1<<SpanBits - 1
)

// Units are the units of Spans in nanoseconds.
var Units = [...]int64{1, 1e3, 1e6, 1e9} // read-only

// SpanOf returns the longest Span up to ns nanoseconds; zero if ns is negative.
func SpanOf(ns int64) Span {
	// Written out, since a division by a variable takes ten times as long as one by a constant:
	// 1 of 100 ns of a miss.
	switch ns = max(ns, 0); {
	case ns <= SpanMask:
		return Span(ns)
	case ns/1e3 <= SpanMask:
		return 1<<SpanBits | Span(ns/1e3)
	case ns/1e6 <= SpanMask:
		return 2<<SpanBits | Span(ns/1e6)
	case ns/1e9 <= SpanMask:
		return 3<<SpanBits | Span(ns/1e9)
	}
	return ^Span(0)
}

// Length returns the length of s in nanoseconds.
func (s Span) Length() int64 { return int64(s&SpanMask) * Units[s>>SpanBits] }

// None is a window of [Own] without length.
const None time.Duration = -1

// Own are the lives that one value has instead of the lives in the cache's Options.
// In each field zero stands for the Options, [None] for no time at all. An Own is not
// changed once it is part of an entry.
type Own struct {
	// Revalidate and OnError are the two windows after the end of the TTL.
	Revalidate, OnError time.Duration
	// Memory is the longest life in L1.
	Memory time.Duration
}

// Windows returns the windows of a value: the window of o, which may be nil, where it
// has one, else the given window.
func (o *Own) Windows(revalidate, onError time.Duration) (r, e time.Duration) {
	if o == nil {
		return revalidate, onError
	}
	return own(o.Revalidate, revalidate), own(o.OnError, onError)
}

// Longest returns the longest life in L1: d, or less. o may be nil.
func (o *Own) Longest(d time.Duration) time.Duration {
	if o == nil || o.Memory == 0 {
		return d
	}
	return min(d, max(0, o.Memory))
}

// With returns o with the non-zero fields of other. Either may be nil; neither is
// changed.
func (o *Own) With(other *Own) *Own {
	switch {
	case o == nil:
		return other
	case other == nil:
		return o
	}
	return &Own{
		Revalidate: orElse(other.Revalidate, o.Revalidate),
		OnError:    orElse(other.OnError, o.OnError),
		Memory:     orElse(other.Memory, o.Memory),
	}
}

// Equal reports whether the lives are the same. Either may be nil.
func (o *Own) Equal(other *Own) bool {
	return o == other || o != nil && other != nil && *o == *other
}

func own(d, otherwise time.Duration) time.Duration { return max(0, orElse(d, otherwise)) }

func orElse(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Births tells when values were born. The birth of a value, from which its age is counted,
// costs most entries no memory: it is the end of the entry's fresh life less the length of that life,
// which is the TTL of the cache shortened by one of a few thousand steps of jitter. The entry
// has the number of the step in the bits of HashMask, unless these have a hash. Other entries
// have a record with their birth.
type Births struct {
	// TTL is the life of values in a cache, Jitter the share by which it is shortened at
	// random. A TTL without an end is math.MaxInt64.
	TTL    time.Duration
	Jitter float64
	// Hashed says that the bits of HashMask have hashes.
	Hashed bool
	// perNano is the number of steps in a nanosecond: a store does not divide. Zero without steps.
	perNano float64
}

// NewBirths returns the Births of a cache.
func NewBirths(ttl time.Duration, jitter float64, hashed bool) Births {
	b := Births{TTL: ttl, Jitter: jitter, Hashed: hashed}
	if most := jitter * float64(ttl); most > 0 {
		b.perNano = jitterSteps / most
	}
	return b
}

const (
	// jitterSteps is the number of lengths that Jitter makes of a TTL.
	jitterSteps = 1 << 13
	// stepShift is the place of the step in Lives.State, as HashMask has it.
	stepShift = 3
	// forever is a time or a life without an end.
	forever = math.MaxInt64
)

// Jittered shortens ttl at random by up to the share that Jitter names. The TTL stays an
// upper bound.
func (b *Births) Jittered(ttl time.Duration) time.Duration {
	if ttl == forever || b.Jitter == 0 {
		return ttl
	}
	return b.shortened(ttl, rand.Uint32N(jitterSteps))
}

// shortened returns ttl less a number of steps of Jitter.
func (b *Births) shortened(ttl time.Duration, step uint32) time.Duration {
	return ttl - time.Duration(b.Jitter*float64(ttl)*float64(step)/jitterSteps)
}

// stepOf returns the number of steps by which a life is shorter than TTL. ok is false if it is
// another life.
func (b *Births) stepOf(life time.Duration) (step uint32, ok bool) {
	if b.perNano > 0 && life < b.TTL {
		step = uint32(min(int64(float64(b.TTL-life)*b.perNano+0.5), jitterSteps-1))
	}
	return step, b.shortened(b.TTL, step) == life
}

// Implies reports whether the birth of an entry follows from the times of its life: it was born at
// the time born, and is fresh until the time fresh. bits are then the flags from which Implied
// finds the birth again.
func (b *Births) Implies(born, fresh int64) (bits uint64, ok bool) {
	if b.Hashed || fresh == forever && b.TTL != forever {
		return 0, false
	}
	if b.TTL == forever {
		return 0, fresh == forever // the birth of these is not known
	}
	step, ok := b.stepOf(time.Duration(fresh - born))
	return uint64(step) << stepShift, ok
}

// Implied returns the birth of an entry without a record, as it follows from the times of its life
// l and its end dead; zero if it is not known.
func (b *Births) Implied(l *Lives, dead int64) int64 {
	if b.TTL == forever {
		return 0
	}
	step := uint32(l.State & HashMask >> stepShift)
	return l.FreshUntil(dead) - int64(b.shortened(b.TTL, step))
}

// Before returns about when a value was born. Its fresh life ends after the duration left, or has
// ended already if left is negative, and is taken to have been as long as TTL. Zero means that the
// birth is not known.
func (b *Births) Before(now int64, left time.Duration) int64 {
	if b.TTL == forever {
		return 0
	}
	return now - int64(max(0, b.TTL-left))
}
