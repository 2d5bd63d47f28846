package mux

import (
	"context"
	"sync/atomic"
	"time"
)

// The states of a ticket. Who moves it out of waiting has the right to settle
// it.
const (
	waiting  = iota
	claimed  // its reply, or its failure, is being handed over
	answered // its Answerer has the reply
	failed   // err says why
	left     // its caller does not want the reply any more; err says why
)

// The parts that a caller can have. They are given under the line's mu.
const (
	idle = iota
	reading
	writing
)

// Ticket is the place of a call in the queue of a [Mux]. The zero Ticket is
// ready for use.
type Ticket struct {
	// Repeatable says that the call may be made once more on another connection,
	// although it was sent. It is set before Do.
	Repeatable bool

	state atomic.Uint32
	// wake is sent to, without waiting, when the caller has to look: it may
	// also be sent to for nothing.
	wake chan struct{}

	part atomic.Uint32

	to       Answerer
	start    time.Time
	deadline time.Time
	expired  error // what a passed deadline means
	// err is the error in states failed and left, lost whether the connection
	// was found dead.
	err  error
	lost bool

	// end makes the caller leave the line at which it waits. It is made once,
	// for all calls of the ticket.
	end    func()
	at     leaver
	caller context.Context

	// command is valid as long as the state is waiting, size its length. sent
	// says that it was handed to the connection, begun that a part of the reply
	// has come. All are guarded by the line's mu.
	command     []byte
	size        int
	sent, begun bool
}

func (t *Ticket) begin(to Answerer, now, deadline time.Time, expired error) {
	if t.wake == nil {
		t.wake = make(chan struct{}, 1)
	}
	t.state.Store(waiting)
	t.part.Store(idle)
	t.to, t.start, t.deadline, t.expired = to, now, deadline, expired
	t.err, t.lost, t.sent, t.begun = nil, false, false, false
}

// leaver is a line.
type leaver interface{ leave(t *Ticket, err error) }

// onEnd returns what is to happen when the caller's context ends.
func (t *Ticket) onEnd(at leaver, caller context.Context) func() {
	t.at, t.caller = at, caller
	if t.end == nil {
		t.end = func() { t.at.leave(t, t.caller.Err()) }
	}
	return t.end
}

// claim takes the right to settle the ticket.
func (t *Ticket) claim() bool { return t.state.CompareAndSwap(waiting, claimed) }

func (t *Ticket) is(state uint32) bool { return t.state.Load() == state }

// settled reports whether the caller has nothing to wait for.
func (t *Ticket) settled() bool { return t.state.Load() > claimed }

// look makes the caller look at its ticket.
func (t *Ticket) look() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// queue holds tickets in order. The zero queue is empty.
type queue struct {
	ring []*Ticket // of a length that is a power of two
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

// cut leaves the first n.
func (q *queue) cut(n int) {
	for ; q.size > n; q.size-- {
		q.set(q.size-1, nil)
	}
}
