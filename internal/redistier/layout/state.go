package layout

import (
	"strconv"
	"strings"
	"time"

	"github.com/strata-cache/strata/remote"
)

// State is what an entry knows of a value. Times are in ms of the server's
// clock.
type State struct {
	// Fresh and Left are until when the value is fresh, and kept. Fresh is
	// zero after a soft drop.
	Fresh, Left int64
	// ID is the token under which the value was put.
	ID uint64
	// Word is the word of the name space from then.
	Word string
}

// ParseState reads what the scripts write. It reports false for everything
// else. If the word is the one that is known nothing is allocated.
func ParseState(s []byte, known string) (st State, ok bool) {
	fresh, s := cutNumber(s, 10)
	left, s := cutNumber(s, 10)
	id, s := cutNumber(s, 16)
	if len(s) == 0 || fresh > maxNumber || left > maxNumber || id == 0 {
		return State{}, false
	}
	st = State{Fresh: int64(fresh), Left: int64(left), ID: id, Word: known}
	if string(s) != known {
		st.Word = string(s)
	}
	return st, true
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

// Append appends the text that ParseState reads.
func (s State) Append(dst []byte) []byte {
	dst = append(strconv.AppendInt(dst, s.Fresh, 10), ' ')
	dst = append(strconv.AppendInt(dst, s.Left, 10), ' ')
	dst = append(strconv.AppendUint(dst, s.ID, 16), ' ')
	return append(dst, s.Word...)
}

// Held is what is held at the time now, in ms of the server's clock, by those
// who know the word. It has no Data.
func (s State) Held(word string, now int64) remote.Held {
	same := s.Word == word
	if s.Left <= now || !same && BeforeExpiries(s.Word) != BeforeExpiries(word) {
		return remote.Held{}
	}
	h := remote.Held{ID: remote.ID(s.ID), Left: millis(s.Left - now), Soft: !same || s.Fresh == 0, All: !same && s.Fresh != 0}
	if !h.Soft && s.Fresh > now {
		h.Fresh = millis(s.Fresh - now)
	}
	return h
}

// BeforeExpiries is the word of a name space without the number of expiries:
// values with another one are absent.
func BeforeExpiries(word string) string {
	return word[:max(0, strings.LastIndexByte(word, '.'))]
}

// millis is n milliseconds, or the longest duration if that is less.
func millis(n int64) time.Duration {
	return time.Duration(min(n, maxHold)) * time.Millisecond
}
