// The reports of servers that have lanes of a namespace, in a cluster. A report is
// young, due, or stale knowledge, like a namespace state.
// Invariant: a value is judged by the namespace state and by the report of the
// server that serves it. The value is absent if this server did not grant its
// lease in the same run.

package layout

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// In a cluster one server has the namespace state, and others have lanes. The
// server of the namespace does not know of their restarts and failovers. So values
// are judged by both: they carry the namespace state and the id of the server
// that granted the lease.

// Server is the report of a server with lanes about itself. It does not change
// once it is in a [Home].
type Server struct {
	// ID is a digest of the run of the server and the history that it replicates;
	// empty if the server does not report them.
	ID string
	// Clock is the server's clock in ms at some time between Asked, when the
	// request was sent, and Heard, when the reply had arrived.
	Clock        int64
	Asked, Heard time.Time
	// Opened is the number of connections opened before the request was sent.
	Opened uint64
}

// Home keeps the newest report of one server with lanes, for all namespaces. The
// zero Home has none.
type Home struct {
	// Passing says that a slot is on its way to the server: each report there has an
	// ID of its own, and Moves counts none of them.
	Passing bool

	known  atomic.Pointer[Server]
	asking atomic.Bool
	judges sync.Map // of *Holder: *judge
	since  atomic.Pointer[time.Time]
}

// Serves notes the time since which the server may serve its slots: the client has opened it, or
// has learned that slots went to it. A drop of these slots that began later was sent to this server.
// Serves is also called at a drop before which the server has made no report.
func (h *Home) Serves(since time.Time) {
	for {
		old := h.since.Load()
		if old != nil && old.After(since) || h.since.CompareAndSwap(old, &since) {
			return
		}
	}
}

// strange reports whether drops of a Holder may have been confirmed by another server, or in another
// life of this one, before the first report.
func (h *Home) strange(of *Holder) bool {
	since, dropped := h.since.Load(), of.dropped.Load()
	return since == nil || dropped != nil && !since.Before(*dropped)
}

// judge is the state made of a namespace and a server with lanes.
type judge struct {
	space  *State
	server *Server
	state  State
}

// Due returns the state by which values on the server are judged. space is the state of their
// namespace, from the Holder of this namespace. ask reports whether the caller has to ask the
// server for a report, as [Holder.Due] does, and then to call Answered.
func (h *Home) Due(now time.Time, opened uint64, of *Holder, space *State) (ask bool, ns *State) {
	s := h.known.Load()
	if s == nil {
		return true, nil
	}
	ns = h.judge(s, of, space)
	if d := of.rechecks.Load(); s.Opened != opened || d != nil && !s.Asked.After(*d) {
		return true, ns
	}
	age := now.Sub(s.Asked)
	if age < Age {
		return false, ns
	}
	return age > 2*Age || h.asking.CompareAndSwap(false, true), ns
}

// Known returns the state by which values on the server are judged, however old
// the report is, or nil without a report.
func (h *Home) Known(of *Holder, space *State) *State {
	s := h.known.Load()
	if s == nil {
		return nil
	}
	return h.judge(s, of, space)
}

// Answered keeps a report, unless it is nil or a newer report is known, and
// returns the state by which values on the server are judged from now on.
func (h *Home) Answered(s *Server, of *Holder, space *State) *State {
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

// judge returns the state made of a server and a namespace. It remembers the last
// state of each namespace.
func (h *Home) judge(s *Server, of *Holder, space *State) *State {
	last, known := h.judges.Load(of)
	if known {
		if j := last.(*judge); j.space == space && j.server == s {
			return &j.state
		}
	}
	if !h.Passing && (known && last.(*judge).server.ID != s.ID || !known && h.strange(of)) {
		of.moves.Add(1) // before a caller finds the judge
	}
	j := &judge{space: space, server: s, state: *space}
	ns := &j.state
	ns.Server, ns.Asked, ns.Heard, ns.Opened = s.Clock, s.Asked, s.Heard, s.Opened
	ns.spell("@" + s.ID)
	h.judges.Store(of, j)
	return ns
}

// Digest returns a short name for the authority that a server reports, or nothing
// for an empty authority.
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
