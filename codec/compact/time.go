package compact

import (
	"math"
	"time"
	"unsafe"

	"github.com/strata-cache/strata/codec"
)

// encodeTime writes the seconds since 1970, twice the nanoseconds, plus one if the zone
// is not UTC, and in that case the offset of the zone in seconds.
func encodeTime(e *encoder, b []byte, p unsafe.Pointer) []byte {
	b, ok := appendTime(b, *(*time.Time)(p))
	if !ok {
		e.refuse("zone of a time too far from UTC", codec.ErrRange)
	}
	return b
}

// appendTime reports false for a time with a zone too far from UTC.
func appendTime(b []byte, t time.Time) (_ []byte, ok bool) {
	b = appendInt(b, t.Unix())
	nanos := uint64(t.Nanosecond()) << 1
	if t.Location() == time.UTC {
		return appendUint(b, nanos), true
	}
	_, offset := t.Zone()
	return appendInt(appendUint(b, nanos|1), int64(offset)), int64(offset) == int64(int32(offset))
}

func decodeTime(d *decoder, p unsafe.Pointer) {
	seconds, nanos := d.int(), d.uint()
	if nanos>>1 >= uint64(time.Second) {
		d.fail(codec.ErrMalformed)
		return
	}
	t := time.Unix(seconds, int64(nanos>>1))
	if nanos&1 == 0 {
		*(*time.Time)(p) = t.UTC()
		return
	}
	offset := d.int()
	if offset > math.MaxInt32 || offset < math.MinInt32 {
		d.fail(codec.ErrRange)
		return
	}
	// A time in the zone of this machine gets this zone back, with its name and its summers.
	if _, local := t.Zone(); int64(local) != offset {
		t = t.In(d.fixed(int(offset)))
	}
	*(*time.Time)(p) = t
}

// fixed returns the zone with an offset. It makes a new one only if the last time had
// another.
func (d *decoder) fixed(offset int) *time.Location {
	if d.zone == nil || d.offset != offset {
		d.zone, d.offset = time.FixedZone("", offset), offset
	}
	return d.zone
}
