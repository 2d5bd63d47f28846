// Package expiry has the times of an entry's life in L1 and its stamp, in 16 bytes
// without a pointer, so that the garbage collector skips entries if their keys and
// values have none either.
//
// All times are nanoseconds of the clock of L1. The end of an entry, its Dead, is
// known to the engine; the other times are kept as Spans before that.
package expiry

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
	// end on, such as starting a refresh. Soon is not shorter than Fresh. Neither
	// counts for an entry that a caller has expired.
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

// Expire notes that a caller has expired the value.
func (l *Lives) Expire() { l.State |= expired | Closely }

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
