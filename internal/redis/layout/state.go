package layout

import (
	"strconv"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/remote"
)

// ParseState parses the field of an entry with the state of a value. It reports
// false for everything that the scripts do not write. It allocates nothing if
// the value has the namespace state known.
func ParseState(s []byte, known string) (v entryrules.Value, ok bool) {
	fresh, s := cutNumber(s, 10)
	left, s := cutNumber(s, 10)
	id, s := cutNumber(s, 16)
	if len(s) == 0 || fresh > maxNumber || left > maxNumber || id == 0 {
		return entryrules.Value{}, false
	}
	v = entryrules.Value{ID: id, Fresh: int64(fresh), Left: int64(left), Soft: fresh == 0, Namespace: known}
	if string(s) != known {
		v.Namespace = string(s)
	}
	return v, true
}

// maxNumber is far below the largest integer of Lua numbers.
const maxNumber = 1<<52 - 1

// digitOf is the value of a character as a digit, 255 if it is none; read-only.
var digitOf = func() (of [256]uint8) {
	for c := range of {
		of[c] = 255
	}
	for d, c := range []byte("0123456789abcdef") {
		of[c] = uint8(d)
	}
	return of
}()

// cutNumber parses a number of up to 16 digits and the space behind it. It
// takes a sixth of the time that strconv does. rest is nil for everything else.
func cutNumber(s []byte, base uint64) (n uint64, rest []byte) {
	for i, c := range s[:min(len(s), 17)] {
		if d := uint64(digitOf[c]); d < base && i < 16 {
			n = n*base + d
			continue
		}
		if c == ' ' && i > 0 {
			return n, s[i+1:]
		}
		break
	}
	return 0, nil
}

// AppendState appends the text that ParseState parses.
func AppendState(dst []byte, v *entryrules.Value) []byte {
	fresh := v.Fresh
	if v.Soft {
		fresh = 0
	}
	dst = append(strconv.AppendInt(dst, fresh, 10), ' ')
	dst = append(strconv.AppendInt(dst, v.Left, 10), ' ')
	dst = append(strconv.AppendUint(dst, v.ID, 16), ' ')
	return append(dst, v.Namespace...)
}

// Held judges a value at the time now, in ms of the server's clock, by a
// namespace state.
func Held(v *entryrules.Value, namespace string, now int64) remote.Held {
	r := v.Read(namespace, now)
	if r.ID == 0 {
		return remote.Held{}
	}
	return remote.Held{ID: remote.ID(r.ID), Data: v.Data, Same: v.Same, Fresh: millis(r.Fresh), Left: millis(r.Left), Soft: r.Soft, All: r.All}
}

// millis returns n milliseconds, at most maxHold: a larger n would overflow.
func millis(n int64) time.Duration {
	return time.Duration(min(n, maxHold)) * time.Millisecond
}
