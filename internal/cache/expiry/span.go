package expiry

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
