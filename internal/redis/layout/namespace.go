// The knowledge of an instance about its namespaces: the
// namespace state, by which values are absent or stale, the tag clock, and the clock
// of the server, by which lives are judged. A [Holder] has the newest [State]. It is
// young for [Age]; then one caller reads it again. After twice that age, after a
// reconnect and after Recheck it is stale knowledge: each caller reads it again
// before it believes a value. In a cluster a [Home] does the same for each server
// with lanes.
//
// Invariant: within one epoch the counters of a Holder's state never go back.

package layout

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Age is the age at which an instance reads a namespace state again, and so the
// longest time until it notices that another instance has dropped everything.
const Age = time.Second

// State is a namespace state as a server has reported it. It does not change
// once it is in a [Holder].
type State struct {
	// Epoch, Drops, Expiries and Clock are the counters of the namespace.
	Epoch                  string
	Drops, Expiries, Clock uint64
	// Text is the part that values carry.
	Text string
	// Server is the server's clock in ms at some time between Asked, when the
	// request was sent, and Heard, when the reply had arrived.
	Server       int64
	Asked, Heard time.Time
	// Opened is the number of connections opened before the request was sent.
	Opened uint64
}

// Spell sets Text.
func (ns *State) Spell() { ns.spell("") }

// spell sets Text, with an addition to the epoch.
func (ns *State) spell(addition string) {
	b := make([]byte, 0, len(ns.Epoch)+len(addition)+8)
	b = append(append(append(b, ns.Epoch...), addition...), '.')
	b = append(strconv.AppendUint(b, ns.Drops, 10), '.')
	ns.Text = string(strconv.AppendUint(b, ns.Expiries, 10))
}

// Now returns the server's clock, in ms, at the local time t. The result is never
// behind the real clock by more than the clocks drift in [Age], and ahead of it by a
// round trip at most: lives end early rather than late.
func (ns *State) Now(t time.Time) int64 {
	return ns.Server + t.Sub(ns.Asked).Milliseconds() + 1
}

// Past returns the server's clock, in ms, at the local time t. The result is too
// early by a round trip at most, and never too late: ends computed from it are early
// rather than late.
func (ns *State) Past(t time.Time) int64 {
	return ns.Server + t.Sub(ns.Heard).Milliseconds() - 1
}

// supersedes reports whether ns replaces old. The counters of a server only grow
// within an epoch; between two epochs the later request wins.
func (ns *State) supersedes(old *State) bool {
	switch {
	case old == nil:
		return true
	case ns.Epoch == old.Epoch && ns.Drops != old.Drops:
		return ns.Drops > old.Drops
	case ns.Epoch == old.Epoch && ns.Expiries != old.Expiries:
		return ns.Expiries > old.Expiries
	case ns.Epoch == old.Epoch && ns.Clock != old.Clock:
		return ns.Clock > old.Clock
	}
	return !ns.Asked.Before(old.Asked)
}

// Holder keeps the newest state of one namespace, and makes one caller at a time read
// a newer one. The zero Holder has no state.
type Holder struct {
	state    atomic.Pointer[State]
	rechecks atomic.Pointer[time.Time] // states requested before it are not used
	asking   atomic.Bool
	moves    atomic.Uint64
	met      atomic.Uint64 // 1 + the number of connections at the last Meet, or 0, or never
	missed   atomic.Pointer[time.Time]
	dropped  atomic.Pointer[time.Time] // when the first drop began; nil before
}

// never is a mark in Holder.met; it is never a number of connections.
const never = 1<<64 - 1

// Drops notes the time of the first drop of keys, before the drop is sent.
func (h *Holder) Drops() {
	if h.dropped.Load() == nil {
		now := time.Now()
		h.dropped.CompareAndSwap(nil, &now)
	}
}

// Meet is called before a drop and after it, and reports whether the drop has to read the
// state: no state is known, or the known one is from before the last connection, and another
// connection was opened since the last call. That one may lead to another server.
func (h *Holder) Meet(now time.Time, opened uint64, known bool) bool {
	if h.met.Load() == never && now.Sub(*h.missed.Load()) < Age {
		return false
	}
	if !known {
		return true
	}
	last := h.met.Swap(opened + 1)
	return last != 1 && last != opened+1 // 1: no connection was open
}

// Missed makes Meet report true once more, from Age after now on. It is called if Meet
// has reported true at the time now, and then the state could not be read.
func (h *Holder) Missed(now time.Time, opened uint64, known bool) {
	h.missed.Store(&now)
	if !known {
		h.met.Store(never) // the drop is made before the first state, which may be of another server
		return
	}
	h.met.CompareAndSwap(opened+1, never)
}

// Moves returns how often another epoch, or in a cluster another server with lanes or
// another life of one, has become known. It counts before values are judged by the
// new one.
func (h *Holder) Moves() uint64 { return h.moves.Load() }

// Known returns the state, or nil.
func (h *Holder) Known() *State { return h.state.Load() }

// Due returns the state, and whether the caller has to read it again and then to call
// Answered. The caller has to if the state is older than Age and no other caller
// reads it, if it is older than twice Age, or if there is none. The caller also has
// to if the state was requested before the last Recheck, or before the last of opened
// connections was opened: this connection may lead to another server.
func (h *Holder) Due(now time.Time, opened uint64) (ask bool, ns *State) {
	ns = h.state.Load()
	if ns == nil || ns.Opened != opened {
		return true, ns
	}
	if d := h.rechecks.Load(); d != nil && !ns.Asked.After(*d) {
		return true, ns
	}
	age := now.Sub(ns.Asked)
	if age < Age {
		return false, ns
	}
	return age > 2*Age || h.asking.CompareAndSwap(false, true), ns
}

// Answered keeps a state just read, unless it is nil or a newer state is known.
func (h *Holder) Answered(ns *State) {
	if ns != nil {
		h.keep(ns)
	}
	h.asking.Store(false)
}

func (h *Holder) keep(ns *State) {
	for {
		old := h.state.Load()
		if !ns.supersedes(old) {
			return
		}
		if old == nil && h.met.Load() != 0 || old != nil && old.Epoch != ns.Epoch {
			h.moves.Add(1) // before a caller finds the state
		}
		if h.state.CompareAndSwap(old, ns) {
			return
		}
	}
}

// Recheck makes each caller of Due after the time now read the state again.
func (h *Holder) Recheck(now time.Time) {
	for {
		old := h.rechecks.Load()
		if old != nil && old.After(now) || h.rechecks.CompareAndSwap(old, &now) {
			return
		}
	}
}

// Holders are the Holders of all namespaces that a process uses on one server.
type Holders struct {
	mu     sync.Mutex // guards below
	byName map[string]*Holder
}

// Of returns the holder for a name.
func (h *Holders) Of(name string) *Holder {
	h.mu.Lock()
	defer h.mu.Unlock()
	holder := h.byName[name]
	if holder == nil {
		if h.byName == nil {
			h.byName = map[string]*Holder{}
		}
		holder = &Holder{}
		h.byName[name] = holder
	}
	return holder
}
