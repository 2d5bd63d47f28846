package compact

import (
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/strata-cache/strata/codec"
)

// decoder reads the bytes of one value.
//
// Lengths in the input are not believed: a slice of n elements is made only if each of
// them can have the fewest bytes that its type needs. These bytes are reserved until
// the element is read, so that lengths within one element cannot claim the bytes of
// the next again. Therefore all elements of a value together are at most as many as
// the input has bytes.
//
// Invariant: 0 ≤ pos ≤ len(data), and after an error pos is len(data).
type decoder struct {
	data     []byte
	pos      int
	reserved int
	depth    int
	alias    bool

	// room is memory for copies of short strings.
	room []byte

	// zone is the zone made last. It has this offset, in seconds east of UTC. Most times of a value
	// share one zone.
	zone   *time.Location
	offset int

	err error
	at  int // where err was found
}

const (
	// roomSize bounds the memory that short strings of a value share, so that one
	// of them alone keeps little.
	roomSize = 512
	// ownSize is the length from which a string has memory of its own.
	ownSize = 128
)

// clear makes d ready for another value. It sets single fields, because setting all with
// one assignment takes longer.
func (d *decoder) clear() {
	d.data, d.room, d.err = nil, nil, nil
	d.pos, d.reserved, d.depth = 0, 0, 0
}

// fail keeps the first error and lets all further reads fail.
func (d *decoder) fail(err error) { d.refuse(err.Error(), err) }

func (d *decoder) refuse(text string, cause error) {
	if d.err == nil {
		d.err, d.at = &problem{text, cause}, d.pos
	}
	d.pos = len(d.data)
}

func (d *decoder) byte() byte {
	if d.pos < len(d.data) {
		d.pos++
		return d.data[d.pos-1]
	}
	d.fail(codec.ErrShort)
	return 0
}

// uint reads a number in the form of appendUint. A longer form of a number is refused.
func (d *decoder) uint() uint64 {
	if i := d.pos; i < len(d.data) && d.data[i] < 0x80 {
		d.pos = i + 1
		return uint64(d.data[i])
	}
	return d.longUint()
}

func (d *decoder) longUint() uint64 {
	if b := d.data[d.pos:]; len(b) > 1 && b[1] < 0x80 && b[1] > 0 {
		d.pos += 2
		return uint64(b[0]&0x7f) | uint64(b[1])<<7
	}
	u, n := binary.Uvarint(d.data[d.pos:])
	switch {
	case n == 0:
		d.fail(codec.ErrShort)
		return 0
	case n < 0:
		d.fail(codec.ErrRange)
		return 0
	case d.data[d.pos+n-1] == 0:
		d.fail(codec.ErrMalformed)
		return 0
	}
	d.pos += n
	return u
}

// int reads a number in the form of appendInt.
func (d *decoder) int() int64 {
	u := d.uint()
	return int64(u>>1) ^ -int64(u&1)
}

// bytes returns the next n bytes of the input.
func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.data)-d.pos) {
		d.fail(codec.ErrShort)
		return nil
	}
	from := d.pos
	d.pos += int(n)
	return d.data[from:d.pos:d.pos]
}

// own returns b, or a copy of b that belongs to the value.
func (d *decoder) own(b []byte) []byte {
	switch {
	case d.alias:
		return b
	case len(b) >= ownSize:
		own := make([]byte, len(b))
		copy(own, b)
		return own
	case len(b) > len(d.room):
		d.room = make([]byte, min(roomSize, len(b)+len(d.data)-d.pos))
	}
	own := d.room[:len(b):len(b)]
	d.room = d.room[len(b):]
	copy(own, b)
	return own
}

// string reads the text that appendString writes.
func (d *decoder) string() string {
	b := d.bytes(d.uint())
	if len(b) == 0 {
		return ""
	}
	b = d.own(b)
	return unsafe.String(&b[0], len(b))
}

// length reads the length of a slice or map of elements that take at least least bytes
// each. It returns -1 for nil, and also after an error.
func (d *decoder) length(least int) int {
	n := d.uint()
	if n == 0 {
		return -1
	}
	n--
	left := uint64(max(0, len(d.data)-d.pos-d.reserved))
	if least > 1 {
		left /= uint64(least)
	}
	if n > left {
		d.fail(codec.ErrShort)
		return -1
	}
	return int(n)
}
