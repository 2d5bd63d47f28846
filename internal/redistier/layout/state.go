package layout

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/strata-cache/strata/remote"
)

var separator = []byte{' '} // read-only

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
	fresh, s, ok1 := bytes.Cut(s, separator)
	left, s, ok2 := bytes.Cut(s, separator)
	id, word, ok3 := bytes.Cut(s, separator)
	if !ok1 || !ok2 || !ok3 || len(word) == 0 {
		return State{}, false
	}
	var errs [3]error
	st.Fresh, errs[0] = strconv.ParseInt(string(fresh), 10, 53) // what Lua's numbers hold
	st.Left, errs[1] = strconv.ParseInt(string(left), 10, 53)
	st.ID, errs[2] = strconv.ParseUint(string(id), 16, 64)
	if st.Word = known; string(word) != known {
		st.Word = string(word)
	}
	if errs != [3]error{} || st.Fresh < 0 || st.Left < 0 || st.ID == 0 {
		return State{}, false
	}
	return st, true
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
	h := remote.Held{ID: remote.ID(s.ID), Left: millis(s.Left - now), Soft: !same || s.Fresh == 0}
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
