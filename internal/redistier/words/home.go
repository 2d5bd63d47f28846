package words

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// In a cluster the word of a name space is with one server, and lanes are with
// others, whose restarts and failovers it does not know of. What their values
// are worth is said by both: values carry the word of the name space and the
// id of the server that gave the lease.

// Server is what a server that holds lanes has said of itself. It is not changed
// once it is in a [Home].
type Server struct {
	// ID is the run of the server and the history that it replicates, in short;
	// empty if it does not tell.
	ID string
	// Clock is the server's clock in ms at some time between Asked, when the
	// question was sent, and Heard, when the answer was there.
	Clock        int64
	Asked, Heard time.Time
	// Opened is how many connections had been opened when it was sent.
	Opened uint64
}

// Home keeps what is known of one server that holds lanes, for all name spaces.
// The zero Home knows nothing.
type Home struct {
	known  atomic.Pointer[Server]
	asking atomic.Bool
	judges sync.Map // of *Holder: *judge
}

// judge is a word made of two others.
type judge struct {
	space  *Word
	server *Server
	word   Word
}

// Due returns the word by which values on the server can be judged, if space is
// that of their name space, and whether the caller is to ask the server about
// itself: for the reasons, and with the duty, that [Holder.Due] has. of is the
// holder of space.
func (h *Home) Due(now time.Time, opened uint64, of *Holder, space *Word) (ask bool, w *Word) {
	s := h.known.Load()
	if s == nil {
		return true, nil
	}
	w = h.judge(s, of, space)
	if d := of.doubts.Load(); s.Opened != opened || d != nil && !s.Asked.After(*d) {
		return true, w
	}
	age := now.Sub(s.Asked)
	if age < Age {
		return false, w
	}
	return age > 2*Age || h.asking.CompareAndSwap(false, true), w
}

// Known returns the word by which values on the server can be judged, or nil,
// however old what is known of it may be.
func (h *Home) Known(of *Holder, space *Word) *Word {
	s := h.known.Load()
	if s == nil {
		return nil
	}
	return h.judge(s, of, space)
}

// Answered keeps the answer to a question, unless it is nil or a newer one is
// known, and returns the word that it leads to.
func (h *Home) Answered(s *Server, of *Holder, space *Word) *Word {
	if s == nil {
		h.asking.Store(false)
		return nil
	}
	for {
		old := h.known.Load()
		if old != nil && s.Asked.Before(old.Asked) || h.known.CompareAndSwap(old, s) {
			break
		}
	}
	h.asking.Store(false)
	return h.judge(s, of, space)
}

// judge returns the word that a server and a name space make together. The last
// one of each name space is remembered.
func (h *Home) judge(s *Server, of *Holder, space *Word) *Word {
	if j, ok := h.judges.Load(of); ok {
		if j := j.(*judge); j.space == space && j.server == s {
			return &j.word
		}
	}
	j := &judge{space: space, server: s, word: *space}
	w := &j.word
	w.Server, w.Asked, w.Heard, w.Opened = s.Clock, s.Asked, s.Heard, s.Opened
	w.spell("@" + s.ID)
	h.judges.Store(of, j)
	return w
}

// Digest is a short name for what a server says of itself, or empty if that is.
func Digest(authority string) string {
	if authority == "" {
		return ""
	}
	h := uint64(14695981039346656037) // FNV-1a, by Fowler, Noll and Vo: all programs must agree on it
	for i := range len(authority) {
		h = (h ^ uint64(authority[i])) * 1099511628211
	}
	return strconv.FormatUint(h, 16)
}
