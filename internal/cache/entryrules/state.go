package entryrules

import (
	"math"
	"slices"
	"strings"
)

// Clock is a reading of the store's clock. Times and durations are numbers of
// one unit, which the store chooses; times are positive.
type Clock struct {
	// Now is the time.
	Now int64
	// Slack is by how much the rest of a lease may seem longer than the lease, because its instance knows
	// the time from another reading: beyond it the clock was set back. A store with one clock for all has a second.
	Slack int64
}

// Forever is a time that never comes, and a duration that leads there.
const Forever int64 = math.MaxInt64

// State is the state of one key in a store. The zero State stands for a key that
// the store does not know. A State is not changed once it was passed to [Decide]
// or returned by it, so copies may share its slots.
type State struct {
	// Slots has at most one Slot for each value type, in any order.
	Slots []Slot
	// Token is the right that the last drop gave.
	Token Token
	// Hold is the time during which no lease is given.
	Hold Hold
	// Until is the time at which the store forgets the key. Zero means that no end
	// is set.
	Until int64
}

// Slot is the part of a State for one value type.
type Slot struct {
	// Schema is the store's name of the value type.
	Schema string
	// Value is the stored value.
	Value Value
	// Lease is the right to store one.
	Lease Lease
	// Awaited says that a caller was told that the lease is taken.
	Awaited bool
}

// Value is a stored value. The zero Value is none.
type Value struct {
	// ID is the token of the right under which the value was stored, or extended
	// last. Zero means that there is none.
	ID uint64
	// Fresh is the end of the time in which the value is fresh, Left the end of the
	// time for which it is kept.
	Fresh, Left int64
	// Soft says that a soft drop has made the value stale.
	Soft bool
	// Namespace is the namespace state from when the right was given.
	Namespace string
	// Earlier are IDs that the value had before it was extended, the last one first, as
	// far as the store keeps them: its bytes are the same since.
	Earlier []uint64
	// Unreadable: another program has stored bytes in place of a value. They count as
	// absent, and take up room.
	Unreadable bool
	// Data is the sealed value, as far as the store has read it. Decide does not
	// look at it.
	Data []byte
	// Same says that the reader has the Data already, so the store has not read it.
	Same bool
}

// Remembered is the number of earlier IDs of a value that a store keeps.
const Remembered = 3

// Is reports whether the value has the same bytes as the value with that ID.
func (v *Value) Is(id uint64) bool {
	return id != 0 && (v.ID == id || slices.Contains(v.Earlier, id))
}

// Lease is the right of one caller to store a value of one type. It was given
// for Length, or renewed for it, and runs until Until. The zero Lease is none.
type Lease struct {
	Token         uint64
	Until, Length int64
}

// Token is the right to store a value of any type, which came with a drop. The
// zero Token is none.
type Token struct {
	Token uint64
	Until int64
	// Quiet says that the drop has done nothing but give the token.
	Quiet bool
}

// Hold is a time of Length, until Until, during which no lease is given. The
// zero Hold is none.
type Hold struct {
	Until, Length int64
}

// after returns the time d after now.
func after(now, d int64) int64 {
	if d > Forever-now {
		return Forever
	}
	return now + d
}

// until returns the time from now to end, zero if end has passed.
func until(end, now int64) int64 {
	if end == Forever {
		return Forever
	}
	return max(0, end-now)
}

// is reports whether the lease is there and has this token. A lease stays past its
// end until another replaces it.
func (l Lease) is(token uint64) bool { return l.Token == token && token != 0 }

// left returns the rest of the lease. If the rest is longer than the whole lease by
// more than the slack, the store's clock was set back, and the lease is over.
func (l Lease) left(at Clock) int64 {
	left := until(l.Until, at.Now)
	if l.Token == 0 || left > after(l.Length, at.Slack) {
		return 0
	}
	return left
}

// is reports whether the token is this one and still good.
func (t Token) is(token uint64, now int64) bool {
	return t.Token == token && token != 0 && t.Until > now
}

// newHold returns a hold of length that begins now.
func newHold(now, length int64) Hold { return Hold{after(now, length), length} }

// Left returns the rest of the hold at the time now, at most its length.
func (h Hold) Left(now int64) int64 { return min(until(h.Until, now), h.Length) }

// setBack reports whether the store's clock was set back since the hold began:
// it then begins anew.
func (h Hold) setBack(now int64) bool { return until(h.Until, now) > h.Length }

// there reports whether anything is stored.
func (v *Value) there() bool { return v.ID != 0 || v.Unreadable }

// Slot returns the slot of a value type, which is empty if the State has none.
func (s State) Slot(schema string) Slot {
	for _, slot := range s.Slots {
		if slot.Schema == schema {
			return slot
		}
	}
	return Slot{Schema: schema}
}

// slot returns the slot of a value type, to be changed, and adds one if there is
// none. The next call may make the pointer useless.
func (s *State) slot(schema string) *Slot {
	for i := range s.Slots {
		if s.Slots[i].Schema == schema {
			return &s.Slots[i]
		}
	}
	s.Slots = append(s.Slots, Slot{Schema: schema})
	return &s.Slots[len(s.Slots)-1]
}

// Empty reports whether the State has no part, not even one past its end.
func (s State) Empty() bool { return s.size() == 0 }

// size is the number of fields that the State takes up in a hash of Redis.
func (s State) size() (n int) {
	for i := range s.Slots {
		slot := &s.Slots[i]
		if slot.Value.there() {
			n += 2
		}
		if slot.Lease != (Lease{}) {
			n++
		}
		if slot.Awaited {
			n++
		}
	}
	if s.Token != (Token{}) {
		n++
	}
	if s.Hold != (Hold{}) {
		n++
	}
	return n
}

// keep lets the store remember the key until d after now, at least.
func (s *State) keep(now, d int64) { s.Until = max(s.Until, after(now, d)) }

// tidy removes slots with nothing in them, and the end of a State without
// anything in it: a store that does not know a key has no end for it.
func (s *State) tidy() {
	s.Slots = slices.DeleteFunc(s.Slots, func(slot Slot) bool {
		return !slot.Value.there() && slot.Lease == (Lease{}) && !slot.Awaited
	})
	if len(s.Slots) == 0 {
		s.Slots = nil
	}
	if s.Empty() {
		*s = State{}
	}
}

// Reading is a value as a reader gets it. Fresh and Left are the rest of its lives. Fresh is
// negative for the time since its TTL has ended. The zero Reading means absent.
type Reading struct {
	ID          uint64
	Fresh, Left int64
	// Soft says that a drop has made the value stale, and All that it was a drop of
	// everything.
	Soft, All bool
}

// Read returns the value for a reader that knows this namespace state, at the time
// now.
func (v *Value) Read(namespace string, now int64) Reading {
	same := v.Namespace == namespace
	if v.ID == 0 || v.Left <= now || !same && BeforeExpiries(v.Namespace) != BeforeExpiries(namespace) {
		return Reading{}
	}
	r := Reading{ID: v.ID, Left: until(v.Left, now), Soft: !same || v.Soft, All: !same && !v.Soft}
	switch {
	case v.Soft: // not every store keeps the end of its TTL then
	case v.Fresh <= now || r.Soft:
		r.Fresh = min(0, v.Fresh-now)
	default:
		r.Fresh = until(v.Fresh, now)
	}
	return r
}

// BeforeExpiries returns a namespace state, "epoch.drops.expiries", without the
// number of its soft drops. If the state of a value differs from the present one in
// more than that number, the value is absent; if it differs in that number only, the
// value is stale.
func BeforeExpiries(namespace string) string {
	return namespace[:max(0, strings.LastIndexByte(namespace, '.'))]
}
