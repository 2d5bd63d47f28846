package mux

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/netpool"
)

const (
	// maxUnsent is how many bytes may wait to be written before callers are
	// sent elsewhere.
	maxUnsent = 1 << 20
	// maxBatch is about how much is written at once.
	maxBatch = 64 << 10
	// largeReply is how much of one reply may have come before nobody else
	// enters: those who come later need not wait for the rest.
	largeReply = 256 << 10
)

// ErrBusy is returned by [Mux.Do] when too much waits to be written. Nothing
// was sent.
var ErrBusy = errors.New("mux: shared connection is congested")

// aPast is a deadline that has passed.
var aPast = time.Unix(1, 0) // read-only

// line is one connection of a Mux and those who wait at it.
type line[C Line] struct {
	m  *Mux[C]
	cn C
	// served is set when a reply has come.
	served atomic.Bool

	mu sync.Mutex // guards below; never held over I/O
	// queue holds the calls in order. waiting is how many of them still want
	// their replies, unsent how many at the end have not been handed to the
	// connection, and size the bytes of these.
	queue           queue
	waiting, unsent int
	size            int
	// rest is what is left of a write that was interrupted, spare the memory for
	// the next one.
	rest, spare []byte
	// looked says that the reader has looked for what had come, when nothing was
	// owed and it began to read.
	looked bool
	// sending is set during a write, halted if that was to be interrupted.
	sending, halted bool
	// sent counts the calls that were handed to the connection, and taken those
	// whose replies were taken. known is sent as it was when the reader last
	// received something: what has come by then is no reply to a later call. It
	// is the reader's.
	sent         atomic.Uint64
	taken, known uint64
	// reader and writer are the calls whose callers read and write for all.
	reader, writer *Ticket
	// due is when the timer goes off: never after a deadline in the queue, nor
	// after the time at which the line is stuck.
	timer *time.Timer
	due   time.Time
	// crowd is set when the last replies came together: those whom they woke
	// will ask again together, too.
	crowd bool
	// used is when the last call entered.
	used time.Time
	// retired: nobody enters any more. closed: it is over.
	retired, closed bool
}

func newLine[C Line](m *Mux[C], cn C) *line[C] {
	ln := &line[C]{m: m, cn: cn, used: time.Now()}
	// A deadline may be left over from before.
	_ = cn.SetReadDeadline(time.Time{})
	_ = cn.SetWriteDeadline(time.Time{})
	return ln
}

// enter puts t and its command at the end of the queue, unless ln is not to be
// used any more. The error is ErrBusy.
func (ln *line[C]) enter(t *Ticket, command []byte) (entered bool, err error) {
	ln.mu.Lock()
	if ln.closed || ln.retired {
		ln.mu.Unlock()
		return false, nil
	}
	switch {
	case ln.queue.size == 0 && ln.worn(t.start):
		return false, nil
	case ln.queue.size > 0 && ln.m.pool.Outlived(ln.cn, t.start):
		ln.giveUp()
		return false, nil
	}
	defer ln.mu.Unlock()
	if ln.size > maxUnsent {
		return false, ErrBusy
	}
	t.command, t.size, ln.used = command, len(command), t.start
	ln.queue.push(t)
	ln.waiting++
	ln.unsent++
	ln.size += len(command)
	switch {
	case ln.writer == nil:
		ln.writer = t
		t.part.Store(writing)
	case ln.reader == nil:
		ln.reader = t
		t.part.Store(reading)
	}
	at := t.start.Add(ln.m.stuckAfter())
	if t.deadline.Before(at) {
		at = t.deadline
	}
	if ln.due.IsZero() || at.Before(ln.due) {
		ln.arm(at)
	}
	return true, nil
}

// giveUp ends the use of a connection by those who come later. mu is held, and
// released.
func (ln *line[C]) giveUp() {
	ln.retired = true
	over := ln.over()
	ln.mu.Unlock()
	if over {
		ln.end()
	}
}

// worn reports whether a connection that owes nothing is too old to be used. If
// it is, it is given up, and mu is released.
func (ln *line[C]) worn(now time.Time) bool {
	if !ln.m.pool.TooOld(ln.cn, ln.used, now) {
		return false
	}
	ln.retired, ln.closed = true, true
	ln.mu.Unlock()
	ln.m.forget(ln)
	ln.m.pool.Retire(ln.cn, now)
	return true
}

// arm sets the timer. mu is held.
func (ln *line[C]) arm(at time.Time) {
	ln.due = at
	if ln.timer == nil {
		ln.timer = time.AfterFunc(time.Until(at), ln.sweep)
		return
	}
	ln.timer.Reset(time.Until(at))
}

// sweep ends the wait of all whose time has come, and finds out whether the line
// is stuck.
func (ln *line[C]) sweep() {
	now := time.Now()
	var late []*Ticket // claimed: any other may be used again once mu is let go
	var first *Ticket
	ln.mu.Lock()
	ln.due = time.Time{}
	look := func(t *Ticket) {
		switch {
		case !t.deadline.After(now):
			if ln.part(t) {
				late = append(late, t)
			}
		case ln.due.IsZero() || t.deadline.Before(ln.due):
			ln.due = t.deadline
		}
	}
	for i := range ln.queue.size {
		if t := ln.queue.at(i); t.is(waiting) {
			look(t)
		}
	}
	if w := ln.writer; w != nil && !w.is(waiting) {
		look(w) // it writes for others, and must not be kept
	}
	if ln.queue.size > 0 && !ln.closed {
		first = ln.judge(now)
	}
	if !ln.due.IsZero() && !ln.closed {
		ln.arm(ln.due)
	}
	over := ln.over()
	ln.mu.Unlock()
	for _, t := range late {
		ln.left(t, t.expired)
	}
	if first != nil {
		ln.yielded(first)
	}
	if over {
		ln.end()
	}
	ln.m.pool.Tidy(now)
}

// serve does the part of the caller of t until t is settled.
func (ln *line[C]) serve(caller context.Context, t *Ticket) (Outcome, error) {
	var out Outcome
	var stop func() bool
	for !t.settled() {
		part := t.part.Load()
		if part != idle && stop == nil && caller.Done() != nil {
			stop = context.AfterFunc(caller, t.onEnd(ln, caller))
		}
		switch part {
		case writing:
			ln.write(t)
		case reading:
			ln.read(t)
		default:
			ln.wait(caller, t)
		}
	}
	if t.part.Load() != idle {
		ln.resign(t)
	}
	out.Kept = stop != nil && !stop()
	if t.is(answered) {
		return out, nil
	}
	out.Lost = t.lost
	out.Kept = out.Kept || t.is(left)
	return out, t.err
}

func (ln *line[C]) wait(caller context.Context, t *Ticket) {
	done := caller.Done()
	if done == nil {
		<-t.wake
		return
	}
	select {
	case <-t.wake:
	case <-done:
		ln.leave(t, caller.Err())
		for !t.settled() {
			<-t.wake
		}
	}
}

// leave ends the wait of t because its caller does not want to go on. Its
// reply will be read and dropped.
func (ln *line[C]) leave(t *Ticket, err error) {
	ln.mu.Lock()
	parted := ln.part(t)
	over := parted && ln.over()
	ln.mu.Unlock()
	if parted {
		ln.left(t, err)
	}
	if over {
		ln.end()
	}
}

// part interrupts what t does for the line, and takes the right to settle it.
// mu is held.
func (ln *line[C]) part(t *Ticket) bool {
	if t == ln.writer && ln.sending { // perhaps for others, and its own reply has come
		ln.halted = true
		_ = ln.cn.SetWriteDeadline(aPast)
	}
	if !t.claim() {
		return false
	}
	ln.waiting--
	if t == ln.reader {
		_ = ln.cn.SetReadDeadline(aPast)
	}
	return true
}

// judge finds out for how long the next reply has not come: a line that is stuck
// lets a call go, and nobody enters one that owes it for the timeout. The call
// is to be settled. mu is held.
func (ln *line[C]) judge(now time.Time) (first *Ticket) {
	since := ln.queue.at(0).start
	next := since.Add(ln.m.stuckAfter())
	if !next.After(now) {
		next = since.Add(ln.m.o.Timeout)
		if ln.m.stuck.CompareAndSwap(false, true) {
			if all := ln.repeatable(1); len(all) > 0 {
				first = all[0]
			}
		}
	}
	if !next.After(now) {
		ln.retired = true
	} else if ln.due.IsZero() || next.Before(ln.due) {
		ln.due = next
	}
	return first
}

// repeatable takes the right to settle the first calls, at most that many, that
// may be made on another connection. mu is held.
func (ln *line[C]) repeatable(most int) (all []*Ticket) {
	for i := 0; i < ln.queue.size && len(all) < most; i++ {
		if t := ln.queue.at(i); t.Repeatable && t.is(waiting) && ln.part(t) {
			all = append(all, t)
		}
	}
	return all
}

// yield lets all go that may be made on another connection, if the line is
// stuck.
func (ln *line[C]) yield(now time.Time) {
	ln.mu.Lock()
	var all []*Ticket
	if ln.queue.size > 0 && now.Sub(ln.queue.at(0).start) >= ln.m.stuckAfter() {
		all = ln.repeatable(ln.queue.size)
	}
	over := len(all) > 0 && ln.over()
	ln.mu.Unlock()
	for _, t := range all {
		ln.yielded(t)
	}
	if over {
		ln.end()
	}
}

// yielded settles a ticket whose call is to be made on another connection.
func (ln *line[C]) yielded(t *Ticket) {
	t.lost = true
	ln.left(t, os.ErrDeadlineExceeded)
}

// left settles a ticket that has parted.
func (ln *line[C]) left(t *Ticket, err error) {
	t.err = ln.m.o.Fail("read", t.sent, err)
	t.state.Store(left)
	t.look()
}

// resign gives the part of t to others.
func (ln *line[C]) resign(t *Ticket) {
	ln.mu.Lock()
	unasked := false
	if ln.reader == t {
		ln.reader, ln.looked = nil, false
		// The next reply would be taken for the rest of it.
		unasked = ln.queue.size == ln.unsent && len(ln.rest) == 0 && ln.cn.Buffered() > 0
	}
	if ln.writer == t {
		ln.writer = nil
	}
	t.part.Store(idle)
	if unasked {
		ln.bury("read", netpool.ErrUnasked)
		return
	}
	ln.unlock()
}

// unlock names those who read and write from now on, and ends what is over.
func (ln *line[C]) unlock() {
	if ln.reader == nil && ln.waiting > 0 {
		ln.name(&ln.reader, ln.writer, reading)
	}
	if ln.writer == nil && len(ln.rest)+ln.unsent > 0 {
		ln.name(&ln.writer, ln.reader, writing)
		if ln.writer == nil && ln.reader != nil && ln.mayWrite() { // nobody else is left who could
			_ = ln.cn.SetReadDeadline(aPast)
		}
	}
	over := ln.over()
	ln.mu.Unlock()
	if over {
		ln.end()
	}
}

// name gives a part to the first who waits and has no other. mu is held.
func (ln *line[C]) name(part **Ticket, other *Ticket, p uint32) {
	for i := range ln.queue.size {
		if t := ln.queue.at(i); t != other && t.is(waiting) {
			*part = t
			t.part.Store(p)
			t.look()
			return
		}
	}
}

// over reports whether nobody needs the connection any more. mu is held.
func (ln *line[C]) over() bool {
	return ln.retired && !ln.closed && ln.waiting == 0 && ln.reader == nil && ln.writer == nil
}

// retire lets nobody enter any more.
func (ln *line[C]) retire() {
	ln.mu.Lock()
	ln.retired = true
	ln.mu.Unlock()
	ln.m.retire(ln)
}

// end gives the connection back to the pool, which keeps it if it owes nothing.
func (ln *line[C]) end() {
	ln.mu.Lock()
	if ln.closed {
		ln.mu.Unlock()
		return
	}
	ln.closed = true
	if ln.timer != nil {
		ln.timer.Stop()
	}
	clean := ln.owed() == 0 && len(ln.rest) == 0 && ln.cn.Buffered() == 0
	ln.mu.Unlock()
	ln.m.forget(ln)
	ln.m.pool.Put(ln.cn, clean, time.Now())
}

// lose is fail after the reader's side has failed. A reply of which a part has
// come was carried out.
func (ln *line[C]) lose(err error) {
	if ln.cn.Buffered() > 0 {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		ln.mu.Lock()
		if ln.queue.size > 0 {
			ln.queue.at(0).begun = true
		}
		ln.mu.Unlock()
	}
	ln.fail("read", err)
}

// fail ends the connection and fails all who wait.
func (ln *line[C]) fail(op string, err error) {
	ln.mu.Lock()
	ln.bury(op, err)
}

// bury does the work of fail. mu is held, and released.
func (ln *line[C]) bury(op string, err error) {
	if ln.closed {
		ln.mu.Unlock()
		return
	}
	all, owed := ln.shut()
	ln.mu.Unlock()
	ln.settle(op, err, all, owed)
}

// shut lets nobody use the connection any more, and returns those who wait, and
// whether any of them was sent. mu is held.
func (ln *line[C]) shut() (all []*Ticket, owed bool) {
	ln.closed = true
	if ln.timer != nil {
		ln.timer.Stop()
	}
	owed = ln.owed() > 0
	for ln.queue.size > 0 {
		if t := ln.queue.pop(); t.claim() {
			all = append(all, t)
		}
	}
	ln.waiting, ln.unsent = 0, 0
	return all, owed
}

// settle closes the connection after shut, and fails those who waited. If none of
// them was sent, they can go on with another connection.
func (ln *line[C]) settle(op string, err error, all []*Ticket, owed bool) {
	ln.m.forget(ln)
	ln.m.stuck.Store(false)
	gone := ln.m.o.Lost(err)
	lost := gone && (!owed || ln.cn.Reused() || ln.served.Load())
	if lost {
		ln.m.pool.Lost(ln.cn)
	}
	for _, t := range all {
		t.lost = lost && !t.begun || !owed && err == netpool.ErrUnasked
		t.err = ln.m.o.Fail(op, t.sent, err)
		t.state.Store(failed)
		t.look()
	}
	ln.m.pool.Put(ln.cn, lost, time.Now()) // what is lost is closed, too
}
