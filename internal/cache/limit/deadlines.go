package limit

import (
	"sync"
	"time"
)

// Deadlines are the ends of the running [Bound]s. The time is the same for all, so they
// end in the order of their begin: a list, and one timer for its first, set anew only
// after it has fired.
//
// States of a Bound: outside, in the list.
//
// Invariant: while the list is not empty the timer runs, until the end of the first Bound
// at the latest, and no longer than it takes a Bound to become overlong. Use
// [NewDeadlines] to make one.
type Deadlines struct {
	after time.Duration
	cause error
	now   func() int64
	// long is the time after which a Bound is overlong; 0 means that no Bound is. overlong is
	// called for each overlong Bound.
	long     time.Duration
	overlong func(now, begun int64)
	// start is the time at which the clock showed zero.
	start time.Time

	mu          sync.Mutex // guards below, and the deadlines of Bounds
	first, last *Bound
	young       *Bound      // the first Bound not yet overlong when the timer fired
	timer       *time.Timer // nil while it does not run
}

// deadline is the place of a Bound in the list.
type deadline struct {
	next, previous *Bound
}

// NewDeadlines returns a list for Bounds that each last for the duration after, and end
// with cause. If after is zero or less it returns nil: Bounds on a nil list have no end.
// now is a clock that shows nanoseconds.
func NewDeadlines(after time.Duration, cause error, now func() int64) *Deadlines {
	if after <= 0 {
		return nil
	}
	return &Deadlines{after: after, cause: cause, now: now, start: time.Now().Add(-time.Duration(now()))}
}

// Watch has f called once for each Bound that lasts longer than the duration long. It is
// called before any Bound begins, and does nothing for a nil list.
func (l *Deadlines) Watch(long time.Duration, f func(now, begun int64)) {
	if l != nil && long > 0 && long < l.after {
		l.long, l.overlong = long, f
	}
}

// end returns the end of b.
func (l *Deadlines) end(b *Bound) time.Time {
	return l.start.Add(time.Duration(b.begun)).Add(l.after) // their sum may overflow
}

// add adds b, which is outside, and began a moment ago.
func (l *Deadlines) add(b *Bound) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.listed = true
	if b.previous = l.last; l.last != nil {
		l.last.next = b
	} else {
		l.first = b
	}
	l.last = b
	if l.young == nil {
		l.young = b
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(l.atMost(l.after), l.fire)
	}
}

// atMost returns the duration after which the timer has to fire. left is the duration
// until the end of the first Bound.
func (l *Deadlines) atMost(left time.Duration) time.Duration {
	if l.long == 0 {
		return left
	}
	return min(left, l.long)
}

// remove takes b out of the list if it is there. It may be ended at the same time.
func (l *Deadlines) remove(b *Bound) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlink(b)
}

// unlink is remove. l.mu is held.
func (l *Deadlines) unlink(b *Bound) {
	if !b.listed {
		return
	}
	if b.previous != nil {
		b.previous.next = b.next
	} else {
		l.first = b.next
	}
	if b.next != nil {
		b.next.previous = b.previous
	} else {
		l.last = b.previous
	}
	if l.young == b {
		l.young = b.next
	}
	b.deadline, b.listed = deadline{}, false
}

// fire tells of overlong loads, ends loads past their time, and sets the timer for the
// first of the others.
func (l *Deadlines) fire() {
	for now, begun, some := l.nextOverlong(); some; now, begun, some = l.nextOverlong() {
		l.overlong(now, begun)
	}
	// Ended without the lock: the end of a load may begin and end others.
	for b := l.next(); b != nil; b = l.next() {
		b.timeOut()
	}
}

// nextOverlong returns the begin of the next overlong Bound, if there is one.
func (l *Deadlines) nextOverlong() (now, begun int64, some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.young
	if now = l.now(); l.long == 0 || b == nil || now-b.begun < int64(l.long) {
		return now, 0, false
	}
	l.young = b.next
	return now, b.begun, true
}

// next removes the first if its time is over, and returns it. If there is none it sets
// the timer.
func (l *Deadlines) next() *Bound {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.first
	if b == nil {
		l.timer = nil
		return nil
	}
	if left := l.after - time.Duration(l.now()-b.begun); left > 0 {
		if y := l.young; l.long > 0 && y != nil {
			left = min(left, l.long-time.Duration(l.now()-y.begun))
		}
		l.timer = time.AfterFunc(max(1, l.atMost(left)), l.fire)
		return nil
	}
	l.unlink(b)
	return b
}

// Close stops the timer. Bounds that still run are not ended. It does nothing for nil.
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
