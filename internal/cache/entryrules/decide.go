package entryrules

import (
	"errors"
	"slices"

	"github.com/strata-cache/strata/remote"
)

// Operation is one of [Acquire], [Put], [Drop], [Extend], [Release] and [Renew].
type Operation interface {
	// decide changes s, which owns its slots, and returns the answer.
	decide(s *State, at Clock) Answer
}

// Answer is the result of an operation for its caller, and the work of the store
// beside keeping the next State.
type Answer struct {
	// Done says that a Put has stored, that an Extend has extended, or that the
	// lease of a Release or Renew was there. A Drop is always done.
	Done bool

	// Grant answers an Acquire, and Wait says how long a lease of another, or the
	// hold, still lasts.
	Grant remote.Grant
	Wait  int64
	// Late says that an Acquire came too late: its caller does not wait any more.
	Late bool
	// Held is the value under the key, as it was before. It has no Data unless
	// the grant is Free or Granted.
	Held Value

	// Announce is the kind of the message to all instances, zero for none. A drop
	// also gives the key's lane a new version.
	Announce remote.Kind
	// Hold is the rest of the hold after a drop.
	Hold int64
	// Cleared says that nothing of the earlier State stays, except its parts in
	// the next State: a store may first remove everything under the key, and then
	// write the next State.
	Cleared bool
}

// TooLate answers an Acquire that comes too late. A caller that still waits and
// gets it, because a clock was set, asks again.
// It is read-only.
var TooLate = Answer{Grant: remote.Busy, Wait: 1, Late: true}

// ErrTooShort is in the chain of the error of a store that cannot keep a value for as short a time as it
// lives. The state of the key stays as it was.
var ErrTooShort = errors.New("life too short") // read-only

// Decide returns the state of a key after an operation, and the answer. It
// changes nothing that s shares with other States. For the result to be right in
// the operation's schema, s needs the slots of other schemas only if the operation
// is a Put or a soft Drop.
func Decide(s State, op Operation, at Clock) (State, Answer) {
	if s.Until != 0 && s.Until <= at.Now {
		s = State{}
	}
	s.Slots = slices.Clone(s.Slots)
	a := op.decide(&s, at)
	s.tidy()
	return s, a
}

// Acquire asks for a lease.
type Acquire struct {
	Schema string
	// Token is the lease's. The same token is given the same lease again, so the
	// operation may be repeated.
	Token uint64
	// Length is the wanted length of the lease.
	Length int64
	// Latest is the last time at which the lease may be given: after it the caller
	// does not wait for the answer. Zero means always.
	Latest int64
	// Namespace is the namespace state that the caller knows.
	Namespace string
	// ID is the ID of a value that counts as stale although it is fresh, zero for
	// none.
	ID uint64
	// Known is the ID of a value that the caller has, so that the store may leave out
	// its Data. Decide does not look at it.
	Known uint64
}

func (op Acquire) decide(s *State, at Clock) Answer {
	if op.Latest != 0 && at.Now > op.Latest {
		return TooLate
	}
	slot := s.slot(op.Schema)
	a := Answer{Held: slot.Value}
	hold := s.Hold.Left(at.Now)
	if s.Hold.setBack(at.Now) {
		s.Hold = newHold(at.Now, hold)
	}
	held := slot.Value.Read(op.Namespace, at.Now)
	left := slot.Lease.left(at)
	switch {
	case hold > 0:
		a.Grant, a.Wait, a.Held.Data = remote.OnHold, hold, nil
	case held.Fresh > 0 && held.ID != op.ID:
		a.Grant = remote.Free
	case left > 0 && slot.Lease.Token != op.Token:
		a.Grant, a.Wait, a.Held.Data = remote.Busy, left, nil
		slot.Awaited = true
	default:
		a.Grant = remote.Granted
		slot.Awaited = slot.Awaited && slot.Lease.is(op.Token)
		slot.Lease = Lease{op.Token, after(at.Now, op.Length), op.Length}
		s.keep(at.Now, op.Length)
	}
	return a
}

// Put stores a value under a right. Without time left it removes the value.
type Put struct {
	Schema string
	// Token is the token of a lease or of a drop.
	Token uint64
	// Fresh and Left are the times for which the value is fresh, and kept.
	Fresh, Left int64
	// Namespace is the namespace state from when the right was given.
	Namespace string
	Data      []byte
	// Drops says that the Put is a drop of the key too, as it always is under the
	// token of a drop: entries of the key on other instances, of any type, are older.
	Drops bool
	// Quiet says that Token was given by a quiet Drop. So this Put is the drop, and is
	// announced, also if the token is void.
	Quiet bool
}

// roomy is the number of fields of a key beyond which a Put looks for values past
// their life, and removes them. They would live on with the key; a search before
// each Put would take time.
const roomy = 3

func (op Put) decide(s *State, at Clock) Answer {
	byToken := s.Token.is(op.Token, at.Now)
	hold := s.Hold.Left(at.Now)
	slot := s.slot(op.Schema)
	a := Answer{Done: true}
	switch {
	case !byToken && op.Quiet:
		return s.overtake(hold, at.Now)
	case !byToken && (!slot.Lease.is(op.Token) || hold > 0):
		return Answer{}
	case byToken || op.Drops:
		a.Announce, a.Hold, a.Cleared = remote.Dropped, hold, true
		s.clear(!byToken, hold, at.Now)
	default:
		a.Announce = slot.end()
		if op.Left > 0 && s.size() > roomy {
			s.sweep(at.Now)
		}
		if s.Empty() {
			s.Until = 0
		}
	}
	slot = s.slot(op.Schema)
	if op.Left <= 0 {
		slot.Value = Value{}
		return a
	}
	slot.Value = Value{
		ID: op.Token, Fresh: after(at.Now, op.Fresh), Left: after(at.Now, op.Left), Namespace: op.Namespace, Data: op.Data,
	}
	s.keep(at.Now, op.Left)
	return a
}

// Drop makes the key absent, or stale if Soft, for all schemas, and voids all
// rights to store under it.
type Drop struct {
	// Soft keeps the values and makes them stale.
	Soft bool
	// Left is the longest time for which values are kept after a soft drop.
	// Zero changes nothing.
	Left int64
	// Hold is the time for which no lease is given. A longer hold stays.
	Hold int64
	// Token is a right to store that comes with the drop, and Life its length. A
	// zero Token means no right.
	Token uint64
	Life  int64
	// Quiet says that the drop gives the token and does nothing else: the Put under it
	// drops and announces. It counts for a hard drop without a hold only. The good token
	// of a drop that was not quiet makes this one a full drop: the holder of that token
	// does not announce it if its Put is refused.
	Quiet bool
}

// quiet reports whether the drop only gives a token.
func (op Drop) quiet(s *State, now int64) bool {
	loud := s.Token.Until > now && !s.Token.Quiet
	return op.Quiet && op.Token != 0 && !op.Soft && op.Hold <= 0 && !loud
}

func (op Drop) decide(s *State, at Clock) Answer {
	if op.quiet(s, at.Now) {
		s.Token = Token{Token: op.Token, Until: after(at.Now, op.Life), Quiet: true}
		s.keep(at.Now, op.Life)
		return Answer{Done: true}
	}
	hold := max(s.Hold.Left(at.Now), op.Hold)
	a := Answer{Done: true, Announce: remote.Dropped, Hold: hold, Cleared: true}
	if op.Soft {
		a.Announce = remote.Expired
	}
	// The drop voids a good token. Its Put was to remove the values, so they must not be
	// served any more, not even as stale.
	if op.Soft && s.Token.Until <= at.Now {
		a.Cleared = false
		s.soften(at.Now, op.Left)
	} else {
		*s = State{}
	}
	s.Hold = Hold{}
	if hold > 0 {
		s.Hold = newHold(at.Now, hold)
		s.keep(at.Now, hold)
	}
	if op.Token != 0 {
		s.Token = Token{Token: op.Token, Until: after(at.Now, op.Life)}
		s.keep(at.Now, op.Life)
	}
	return a
}

// Extend gives the stored value new lives, and the token of the lease as its ID.
type Extend struct {
	Schema string
	// Token is the token of the lease.
	Token uint64
	// ID is the id of the value.
	ID uint64
	// Fresh and Left are the times for which the value is fresh, and kept.
	Fresh, Left int64
	// Namespace is the namespace state from when the lease was given.
	Namespace string
}

func (op Extend) decide(s *State, at Clock) Answer {
	slot := s.slot(op.Schema)
	v := &slot.Value
	held := op.ID != 0 && v.ID == op.ID && v.Left > at.Now && BeforeExpiries(v.Namespace) == BeforeExpiries(op.Namespace)
	if !held || !slot.Lease.is(op.Token) || s.Hold.Left(at.Now) > 0 {
		return Answer{}
	}
	v.Earlier = append([]uint64{v.ID}, v.Earlier[:min(len(v.Earlier), Remembered-1)]...)
	v.ID, v.Fresh, v.Left = op.Token, after(at.Now, op.Fresh), after(at.Now, op.Left)
	v.Soft, v.Namespace = false, op.Namespace
	s.keep(at.Now, op.Left)
	return Answer{Done: true, Announce: slot.end()}
}

// Release gives a lease back.
type Release struct {
	Schema string
	Token  uint64
}

func (op Release) decide(s *State, _ Clock) Answer {
	slot := s.slot(op.Schema)
	if !slot.Lease.is(op.Token) {
		return Answer{}
	}
	return Answer{Done: true, Announce: slot.end()}
}

// Renew lets a lease last for Length from now on.
type Renew struct {
	Schema string
	Token  uint64
	Length int64
}

func (op Renew) decide(s *State, at Clock) Answer {
	slot := s.slot(op.Schema)
	if !slot.Lease.is(op.Token) {
		return Answer{}
	}
	slot.Lease = Lease{op.Token, after(at.Now, op.Length), op.Length}
	s.keep(at.Now, op.Length)
	return Answer{Done: true}
}

// end removes the lease, and returns the message: its end is announced if a caller
// waits for it.
func (s *Slot) end() (announce remote.Kind) {
	if s.Awaited {
		announce = remote.Ended
	}
	s.Lease, s.Awaited = Lease{}, false
	return announce
}

// clear removes everything except the rest of a hold, and except the token if
// keepToken: a Put under the token of a drop is newer than a Put under a lease.
func (s *State) clear(keepToken bool, hold, now int64) {
	token := s.Token
	*s = State{}
	if hold > 0 {
		s.Hold = newHold(now, hold)
		s.keep(now, hold)
	}
	if keepToken && token.Until > now {
		s.Token = token
		s.keep(now, token.Until-now)
	}
}

// overtake decides a Put whose quiet token is void. It is announced, because nothing was
// when the token was given. If no token is there, a newer write or drop is complete: its
// value stays. Values that a soft drop has made stale are older, for it took the token
// and kept them, as it did in an earlier version. If the token is over, or another took
// its place, no write is complete since, and all values go.
func (s *State) overtake(hold, now int64) Answer {
	a := Answer{Announce: remote.Dropped, Hold: hold}
	if s.Token != (Token{}) {
		a.Cleared = true
		s.clear(true, hold, now)
		return a
	}
	for i := range s.Slots {
		if v := &s.Slots[i].Value; v.Soft {
			*v = Value{}
		}
	}
	return a
}

// soften makes all values stale, and voids all rights. Values are kept for at most the duration
// most from now on, unless most is zero. A key without a value loses its end.
func (s *State) soften(now, most int64) {
	s.Token = Token{}
	stays := false
	for i := range s.Slots {
		s.Slots[i].end()
		v := &s.Slots[i].Value
		if !v.there() {
			continue
		}
		stays, v.Soft = true, true
		if most > 0 {
			v.Left = min(v.Left, after(now, most))
		}
	}
	if !stays {
		s.Until = 0
	}
	if most > 0 {
		s.Until = min(s.Until, after(now, most))
	}
}

// sweep removes the values past their life, of all types.
func (s *State) sweep(now int64) {
	for i := range s.Slots {
		if v := &s.Slots[i].Value; v.Left <= now {
			*v = Value{}
		}
	}
}
