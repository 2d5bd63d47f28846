// Package meta is the text protocol of memcached, the meta commands and the
// classic ones, in both directions: a client appends commands and reads replies;
// a server reads commands and appends replies.
//
// It has no sockets. A [Reader] reads from any io.Reader; all output is appended to
// a []byte.
//
// A Reader bounds the memory that a peer can make it reserve, as package wire
// does: an incomplete reply holds at most the bytes received plus 64 KiB, or up to
// 1 MiB for a single value of known length.
package meta

import (
	"errors"
	"math"
	"time"

	"github.com/strata-cache/strata/internal/wire"
)

// MaxKey is the length of the longest key, in bytes, as it stands in a command.
const MaxKey = 250

// MaxBinaryKey is the length of the longest key, in bytes, that encoded in
// base64 still fits into a command.
const MaxBinaryKey = MaxKey / 4 * 3

// MaxRelative is the largest relative time of expiry, in seconds. The server takes
// a larger number for seconds since 1970.
const MaxRelative = 30 * 24 * 60 * 60

// lastTime is the last time of expiry that a server knows, in 2038.
const lastTime = 1<<31 - 1

// Expiry converts a life that begins at now to the number for a server: whole seconds, rounded
// up, or a time of day if there are many; 0 for a life without an end.
func Expiry(life time.Duration, now time.Time) int64 {
	if life <= 0 {
		return 0
	}
	seconds := int64((life-1)/time.Second) + 1
	if seconds <= MaxRelative {
		return seconds
	}
	return max(min(now.Unix()+seconds, lastTime), MaxRelative)
}

// Limits bound one reply or command. A zero field means its default.
type Limits struct {
	// Value is the largest value, in bytes. Default 1 GiB, the highest limit that
	// a server can be given.
	Value int
	// Reply is the largest reply or command of several lines, in bytes. Default
	// 2 GiB.
	Reply int
	// Line is the longest line of a reply, in bytes, without its end. Default 4
	// KiB, at most 8 KiB.
	Line int
}

// MaxCommand is the length of the longest line of a command, in bytes, that a Reader
// accepts: the keys of a get take that much.
const MaxCommand = 16 << 10

const mostLine = 8 << 10

func (l Limits) withDefaults() Limits {
	set := func(field *int, def, most int) {
		if *field <= 0 {
			*field = def
		}
		*field = min(*field, most)
	}
	set(&l.Value, 1<<30, math.MaxInt/4) // so that sums do not overflow
	set(&l.Reply, math.MaxInt32, math.MaxInt/4)
	set(&l.Line, 4<<10, mostLine)
	return l
}

// ProtocolError is returned when the peer has violated the format or a limit.
type ProtocolError = wire.ProtocolError

func broken(reason string) error { return &ProtocolError{Reason: reason} }

// ErrKey is returned for a key that cannot stand in a command.
var ErrKey = errors.New("meta: key is empty, too long, or holds a space or a control character")

// PlainKey reports whether a key can stand in a command as it is: 1 to 250 bytes,
// none of them a space, a control character or DEL.
func PlainKey[T string | []byte](key T) bool {
	if len(key) == 0 || len(key) > MaxKey {
		return false
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] == 0x7f {
			return false
		}
	}
	return true
}

// number parses a decimal number without a sign.
func number(p []byte) (n uint64, ok bool) {
	if len(p) == 0 || len(p) > 20 {
		return 0, false
	}
	for _, c := range p {
		d := uint64(c - '0')
		if d > 9 || n > math.MaxUint64/10 || n*10 > math.MaxUint64-d {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// digits cuts a decimal number of few digits off p, and the byte end behind it.
func digits(p []byte, end byte) (n uint64, rest []byte, ok bool) {
	const most = 18 // fit in any case
	for i, c := range p[:min(len(p), most+1)] {
		d := uint64(c - '0')
		if d > 9 {
			return n, p[i+1:], i > 0 && c == end
		}
		n = n*10 + d
	}
	return 0, nil, false
}

// word cuts the first word off a line. Words are separated by single spaces; some
// servers write one more at the end.
func word(line []byte) (first, rest []byte) {
	for i, c := range line {
		if c == ' ' {
			return line[:i], line[i+1:]
		}
	}
	return line, nil
}
