package layout

import (
	"strconv"
	"time"

	"github.com/strata-cache/strata/internal/entryrules"
	"github.com/strata-cache/strata/remote"
)

// ParseState reads the field of an entry that says what is known of a value, as
// the scripts write it. It reports false for everything else. If the value has
// the namespace state that is known nothing is allocated.
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

// maxNumber is well within what numbers in Lua hold.
const maxNumber = 1<<52 - 1

// digitOf is what a character stands for in a number, 255 if nothing; read-only.
var digitOf = func() (of [256]uint8) {
	for c := range of {
		of[c] = 255
	}
	for d, c := range []byte("0123456789abcdef") {
		of[c] = uint8(d)
	}
	return of
}()

// cutNumber reads a number of up to 16 digits and the space behind it. It takes
// a sixth of the time that strconv does. rest is nil if there is no such thing.
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

// AppendState appends the text that ParseState reads.
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

// Held is what a value is worth at the time now, in ms of the server's clock, for
// a reader who knows this namespace state.
func Held(v *entryrules.Value, namespace string, now int64) remote.Held {
	r := v.Read(namespace, now)
	if r.ID == 0 {
		return remote.Held{}
	}
	return remote.Held{ID: remote.ID(r.ID), Data: v.Data, Fresh: millis(r.Fresh), Left: millis(r.Left), Soft: r.Soft, All: r.All}
}

// millis is n milliseconds, or the longest duration if that is less.
func millis(n int64) time.Duration {
	return time.Duration(min(n, maxHold)) * time.Millisecond
}
