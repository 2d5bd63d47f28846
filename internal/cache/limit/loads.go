package limit

import (
	"container/list"
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// Loads bounds the loads of one cache that run at once. Each running load has a
// slot. States of a load: waiting in the foreground or the background queue,
// both first in, first out; running in a slot; running beyond the bound,
// because a load with a slot waits for it. A freed slot goes to the first
// foreground load, or else to the first background load.
//
// Invariant: at most max slots are taken, no load waits while a slot is free,
// and each slot is given back exactly once. Use [NewLoads] to make one.
type Loads struct {
	max      int
	patience time.Duration // longest wait in the queue; not positive: no end

	release func() // l.give as a value, made once

	mu      sync.Mutex   // guards below
	taken   int          // slots in use; never more than max
	waiting [2]list.List // of *turn, foreground first; empty while a slot is free
}

// ErrNoSlot is returned to a load after the longest allowed wait in the queue.
var ErrNoSlot = errors.New("limit: no slot came free in time")

// turn is the place of one caller in a queue.
type turn struct {
	queue *list.List
	place *list.Element // nil once a slot was given
	given chan struct{} // closed when a slot was given
}

// NewLoads returns a bound of max loads; zero or less means no bound. A load
// waits in the queue for at most patience; zero or less means without end.
func NewLoads(max int, patience time.Duration) *Loads {
	if max <= 0 {
		max = math.MaxInt
	}
	l := &Loads{max: max, patience: patience}
	l.release = l.give
	return l
}

// Acquire waits for a slot and returns the function that gives it back; the
// caller calls release exactly once. If ctx has ended or ends first, the error
// is context.Cause(ctx). The error is [ErrNoSlot] if no slot came free in
// time.
//
// urgent, which may be nil, is closed when a load with a slot waits for this
// load. In the queue the two would wait for each other, so this load runs at
// once, beyond the bound. It runs in place of the waiting load, so its release
// gives no slot back.
//
// gone, which may be nil, sends true when no caller waits for the load any
// more, which makes it a background load, and false when a caller waits again.
func (l *Loads) Acquire(ctx context.Context, background bool, urgent <-chan struct{}, gone <-chan bool) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t := l.enter(background)
	if t == nil {
		return l.release, nil
	}
	var over <-chan time.Time // nil: never
	if l.patience > 0 {
		timer := time.NewTimer(l.patience)
		defer timer.Stop()
		over = timer.C
	}
	for {
		select {
		case <-t.given:
			return l.release, nil
		case <-urgent:
			return l.pass(t), nil
		case abandoned := <-gone:
			l.move(t, abandoned)
		case <-over:
			l.leave(t)
			return nil, ErrNoSlot
		case <-ctx.Done():
			l.leave(t)
			return nil, context.Cause(ctx)
		}
	}
}

// take takes a slot if one is free. l.mu is held.
func (l *Loads) take() bool {
	if l.taken == l.max {
		return false
	}
	l.taken++
	return true
}

// enter takes a free slot and returns nil, or else returns a turn in the queue.
func (l *Loads) enter(background bool) *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.take() {
		return nil
	}
	t := &turn{queue: l.queue(background), given: make(chan struct{})}
	t.place = t.queue.PushBack(t)
	return t
}

// queue returns the queue of a class. l.mu is held.
func (l *Loads) queue(background bool) *list.List {
	if background {
		return &l.waiting[1]
	}
	return &l.waiting[0]
}

// move puts t at the end of the queue of its new class. It does nothing if t
// was given a slot meanwhile or is in that queue.
func (l *Loads) move(t *turn, background bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	to := l.queue(background)
	if t.place == nil || t.queue == to {
		return
	}
	t.queue.Remove(t.place)
	t.queue = to
	t.place = to.PushBack(t)
}

// give gives a slot back: to the next load in the queues, if there is one.
func (l *Loads) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handOn()
}

// handOn does the work of give. l.mu is held.
func (l *Loads) handOn() {
	for i := range l.waiting {
		if first := l.waiting[i].Front(); first != nil {
			t := l.waiting[i].Remove(first).(*turn)
			t.place = nil
			close(t.given)
			return
		}
	}
	l.taken--
}

// leave takes t out of its queue, or hands on the slot that it was given
// meanwhile.
func (l *Loads) leave(t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.place == nil {
		l.handOn()
		return
	}
	t.queue.Remove(t.place)
}

// pass lets t run beyond the bound, unless it was given a slot meanwhile. It
// returns the function that gives the slot back; beyond the bound this
// function does nothing.
func (l *Loads) pass(t *turn) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.place == nil {
		return l.release
	}
	t.queue.Remove(t.place)
	return func() {}
}
