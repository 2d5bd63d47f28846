package mux

import (
	"os"
	"time"

	"github.com/strata-cache/strata/internal/wire/pool"
)

// One timer for each line ends calls at their deadlines. It also finds a line
// stuck when the first call of the queue has waited for stuckAfter, and retires
// the line after the whole timeout. Invariant: the timer goes off no later than
// the first deadline in the queue.

// setAlarm sets the timer. mu is held.
func (ln *line[C]) setAlarm(at time.Time) {
	ln.alarm.due = at
	if ln.alarm.timer == nil {
		ln.alarm.timer = time.AfterFunc(time.Until(at), ln.onAlarm)
		return
	}
	ln.alarm.timer.Reset(time.Until(at))
}

// onAlarm ends the calls at their deadlines, and finds out whether the line is
// stuck.
func (ln *line[C]) onAlarm() {
	now, bypass, probes := time.Now(), ln.m.hasBypass(), ln.m.probes()
	ln.mu.Lock()
	ln.alarm.due = time.Time{}
	late := ln.releaseLate(now)
	var first []*Ticket
	answers := false
	if ln.calls.size > 0 && ln.state != closed {
		answers = ln.unread()
		first = ln.checkStuck(now, bypass && !answers, probes)
	}
	if !ln.alarm.due.IsZero() && ln.state != closed {
		ln.setAlarm(ln.alarm.due)
	}
	e := ln.endIfOver()
	ln.mu.Unlock()
	// Callers are woken without the lock, which they take first of all.
	for _, t := range late {
		ln.settleLeft(t, t.expired)
	}
	for _, t := range first {
		ln.settleRerouted(t)
	}
	ln.finish(e)
	if answers {
		ln.m.answers()
	}
	ln.m.pool.Tidy(now)
}

// releaseLate claims the calls at their deadlines, and sets due to the first
// deadline of the others. mu is held.
func (ln *line[C]) releaseLate(now time.Time) (late []*Ticket) {
	check := func(t *Ticket) {
		switch {
		case !t.deadline.After(now):
			if ln.release(t) {
				late = append(late, t)
			}
		default:
			ln.dueBy(t.deadline)
		}
	}
	for i := range ln.calls.size {
		if t := ln.calls.at(i); t.is(waiting) {
			check(t)
		}
	}
	if w := ln.writer; w != nil && !w.is(waiting) {
		check(w) // it writes for other callers, and must not be kept
	}
	return late
}

// dueBy makes the alarm due at t at the latest. mu is held.
func (ln *line[C]) dueBy(t time.Time) {
	if ln.alarm.due.IsZero() || t.Before(ln.alarm.due) {
		ln.alarm.due = t
	}
}

// checkStuck finds out for how long the next reply has not come. When a line
// becomes stuck, checkStuck claims one call and returns it. A line that owes the
// reply for the whole timeout is retired. So is a bypass that becomes stuck: it has
// no writes that a server may hold back, and the calls that come go over another
// connection. Without a bypass, or if the reply lies unread, the line does not count as stuck. mu is held.
func (ln *line[C]) checkStuck(now time.Time, bypass, probes bool) (first []*Ticket) {
	since := ln.calls.at(0).start
	next := since.Add(ln.m.stuckAfter())
	if !next.After(now) {
		if next = ln.silentAt(); now.Add(ln.m.stuckAfter()).Before(next) {
			next = now.Add(ln.m.stuckAfter()) // a reply that no caller is left to read ends the state
		}
		// One call first, as a proof: if it succeeds on another connection, the server is well, and
		// only this line is not.
		switch {
		case !bypass:
		case ln.m.stuck.CompareAndSwap(false, true):
			most := 1
			if ln.m.spare {
				next = now
				if ln.m.o.MaxConns == 2 { // the next connection cannot be opened before this one is closed
					most = ln.calls.size
				}
			}
			first = ln.releaseRepeatable(most, ln.calls.doubtful)
		case !ln.m.spare && !probes && next.After(now): // the call before has found no other connection, and one can be had now
			first = ln.releaseRepeatable(1, true)
		}
	}
	if !next.After(now) {
		ln.state = retired
	} else {
		ln.dueBy(next)
	}
	return first
}

// unread reports whether bytes have come that no caller is there to read, as the replies to calls that were left: the next
// caller reads them first. mu is held.
func (ln *line[C]) unread() bool {
	return ln.calls.waiting == 0 && ln.reader == nil && ln.cn.Look(false) == pool.ErrUnasked
}

// silentAt returns the time at which the line is retired, unless the next reply
// comes before: a call that fails after the timeout leaves no connection to others on
// which it has waited. mu is held.
func (ln *line[C]) silentAt() time.Time { return ln.calls.at(0).since().Add(ln.m.o.Timeout) }

// releaseRepeatable claims the first calls, most at the most, among those that
// may be made on another connection; again: also those in their second attempt.
// mu is held.
func (ln *line[C]) releaseRepeatable(most int, again bool) (all []*Ticket) {
	for i := 0; i < ln.calls.size && len(all) < most; i++ {
		if t := ln.calls.at(i); t.repeatable && (again || !t.again) && t.is(waiting) && ln.release(t) {
			all = append(all, t)
		}
	}
	return all
}

// reroute ends all calls that may be made on another connection, if the line is
// stuck.
func (ln *line[C]) reroute(now time.Time) {
	ln.mu.Lock()
	var all []*Ticket
	if ln.calls.size > 0 && now.Sub(ln.calls.at(0).start) >= ln.m.stuckAfter() {
		all = ln.releaseRepeatable(ln.calls.size, true)
	}
	var e *ending
	if len(all) > 0 {
		e = ln.endIfOver()
	}
	ln.mu.Unlock()
	for _, t := range all {
		ln.settleRerouted(t)
	}
	ln.finish(e)
}

// settleRerouted settles a claimed ticket: its caller makes the call again on
// another connection.
func (ln *line[C]) settleRerouted(t *Ticket) {
	t.lost = true
	ln.settleLeft(t, os.ErrDeadlineExceeded)
}
