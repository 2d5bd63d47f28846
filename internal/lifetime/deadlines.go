package lifetime

import (
	"sync"
	"time"
)

// Deadlines are the ends of the [Bound]s that run. The time is the same for all, so
// that they end in the order of their begin: a list, and one timer for its first,
// which is set anew only when it has fired.
//
// States of a Deadline: outside, in the list.
//
// Invariant: while the list is not empty the timer runs, until the end of its first
// at the latest. Use [NewDeadlines] to make one.
type Deadlines struct {
	after time.Duration

	mu          sync.Mutex // guards below, and the Deadlines in the list
	first, last *Deadline
	timer       *time.Timer // nil while it does not run
}

// Deadline is the place of a Bound in the list. The zero Deadline is outside.
type Deadline struct {
	next, previous *Deadline
	of             *Bound // nil: outside
}

// NewDeadlines returns the ends of Bounds that end so long after their begin; nil,
// which is no end, if after is not positive.
func NewDeadlines(after time.Duration) *Deadlines {
	if after <= 0 {
		return nil
	}
	return &Deadlines{after: after}
}

// add adds d, which is outside, for b, which began a moment ago.
func (l *Deadlines) add(d *Deadline, b *Bound) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d.of = b
	if d.previous = l.last; l.last != nil {
		l.last.next = d
	} else {
		l.first = d
	}
	l.last = d
	if l.timer == nil {
		l.timer = time.AfterFunc(l.after, l.fire)
	}
}

// remove takes d out of the list if it is there. Its Bound may be ended at the same time.
func (l *Deadlines) remove(d *Deadline) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlink(d)
}

// unlink is remove. l.mu is held.
func (l *Deadlines) unlink(d *Deadline) {
	if d.of == nil {
		return
	}
	if d.previous != nil {
		d.previous.next = d.next
	} else {
		l.first = d.next
	}
	if d.next != nil {
		d.next.previous = d.previous
	} else {
		l.last = d.previous
	}
	*d = Deadline{}
}

// fire ends those whose time is over, and sets the timer for the first of the others.
func (l *Deadlines) fire() {
	for b := l.next(); b != nil; b = l.next() {
		b.timeOut()
	}
}

// next removes the first if its time is over, and returns its Bound. If there is none it
// sets the timer.
func (l *Deadlines) next() *Bound {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.first
	if d == nil {
		l.timer = nil
		return nil
	}
	b := d.of
	if left := l.after - b.Took(); left > 0 {
		l.timer = time.AfterFunc(left, l.fire)
		return nil
	}
	l.unlink(d)
	return b
}

// Close stops the timer. Bounds that still run are not ended. Of nil it does nothing.
func (l *Deadlines) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
}
