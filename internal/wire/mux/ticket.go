package mux

import (
	"context"
	"sync/atomic"
	"time"
)

// A ticket is the place of a call in the queue of a line; its states and roles are
// below. Invariant: a ticket is settled exactly once. The goroutine that moves it from waiting to
// claimed has the right to settle it, as answered, failed or left. Its caller
// waits until then, and does the work of its role meanwhile.

// The states of a ticket.
const (
	waiting  = iota
	claimed  // its reply, or its failure, is being handed over
	answered // its Answerer has the reply
	failed   // err is the reason
	left     // its caller does not want the reply any more; err is the reason
)

// The roles of a caller. They are given under the line's mu.
const (
	idle = iota
	reading
	writing
)

// Ticket is the place of a call in the queue of a [Mux]. The zero Ticket is
// ready for use.
type Ticket struct {
	attempt
	// Until, unless it is zero, is the deadline of the call, and then the context is
	// not asked for one. It is set before Do.
	Until time.Time

	state atomic.Uint32
	role  atomic.Uint32
	// wake is sent to, without waiting, when the state or the role has changed;
	// there may be further, needless wake-ups.
	wake chan struct{}

	to       Answerer
	start    time.Time
	deadline time.Time
	expired  error // the error for a passed deadline
	// op is the operation that has failed, and err the reason, in states failed and
	// left; lost: the connection was found dead.
	op     string
	err    error
	lost   bool
	cancel cancel

	// command is valid as long as the state is waiting; its length always is.
	// sent says that it was handed to the connection, begun that a part of the
	// reply has come. All are guarded by the line's mu.
	command     []byte
	sent, begun bool
}

// attempt is set before Do.
type attempt struct {
	// repeatable says that the call may be made once more on another connection,
	// although it was sent; again, that an earlier attempt has failed, and first when
	// the first one began.
	repeatable, again bool
	first             time.Time
}

// cancel makes a caller leave the line at which it waits when its context ends.
// end is made once, for all calls of the ticket.
type cancel struct {
	end    func()
	at     leaver
	caller context.Context
}

// leaver is a line.
type leaver interface{ leave(t *Ticket, err error) }

func (t *Ticket) begin(to Answerer, now, deadline time.Time, expired error) {
	if t.wake == nil {
		t.wake = make(chan struct{}, 1)
	}
	t.state.Store(waiting)
	t.role.Store(idle)
	if t.again {
		now = time.Now() // the connection was not stuck during the first attempt
	}
	t.to, t.start, t.deadline, t.expired = to, now, deadline, expired
	t.err, t.lost, t.sent, t.begun = nil, false, false, false
}

// Begun reports whether a part of the reply had come before the connection failed. It is called
// after Do.
func (t *Ticket) Begun() bool { return t.begun }

// since returns the time from which on the call has had no reply.
func (t *Ticket) since() time.Time {
	if t.again {
		return t.first
	}
	return t.start
}

// onEnd returns the function to call when the caller's context ends.
func (t *Ticket) onEnd(at leaver, caller context.Context) func() {
	t.cancel.at, t.cancel.caller = at, caller
	if t.cancel.end == nil {
		t.cancel.end = func() { t.cancel.at.leave(t, t.cancel.caller.Err()) }
	}
	return t.cancel.end
}

// claim takes the right to settle the ticket.
func (t *Ticket) claim() bool { return t.state.CompareAndSwap(waiting, claimed) }

func (t *Ticket) is(state uint32) bool { return t.state.Load() == state }

// settled reports whether the caller has nothing to wait for.
func (t *Ticket) settled() bool { return t.state.Load() > claimed }

// notify wakes the caller, if it waits.
func (t *Ticket) notify() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// queue holds tickets in order. The zero queue is empty.
type queue struct {
	ring []*Ticket // its length is a power of two
	head int
	size int
}

func (q *queue) at(i int) *Ticket { return q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue) push(t *Ticket) {
	if q.size == len(q.ring) {
		ring := make([]*Ticket, max(16, 2*q.size))
		for i := range q.size {
			ring[i] = q.at(i)
		}
		q.ring, q.head = ring, 0
	}
	q.ring[(q.head+q.size)&(len(q.ring)-1)] = t
	q.size++
}

func (q *queue) pop() *Ticket {
	t := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.size--
	return t
}

func (q *queue) set(i int, t *Ticket) { q.ring[(q.head+i)&(len(q.ring)-1)] = t }

// cut shortens the queue to its first n tickets.
func (q *queue) cut(n int) {
	for ; q.size > n; q.size-- {
		q.set(q.size-1, nil)
	}
}
