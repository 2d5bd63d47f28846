package mux

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/wire/overdue"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// A line is a connection and the calls that wait at it. It is open, then
// retired or closed, and closed in the end.
//
// Two callers have a role: the writer writes the commands of all calls
// (write.go), and the reader reads the replies of all calls (read.go). The alarm
// (timer.go) ends calls at their deadlines.
//
// Invariant: a method that says "mu is held" neither locks nor unlocks mu. Such
// a method returns the work that has to wait for the unlock as an *ending.

const (
	// maxUnsent is the number of bytes that may wait for the writer. With more,
	// calls go over other connections.
	maxUnsent = 1 << 20
	// maxBatch is the approximate number of bytes in one write.
	maxBatch = 64 << 10
	// largeReply is a number of bytes. When so many bytes of one reply have come,
	// no further call enters the line: it would wait for the rest of that reply.
	largeReply = 256 << 10
)

// ErrElsewhere is returned when a command has to go over a connection of its own, as
// when too many bytes wait to be written. Nothing was sent.
var ErrElsewhere = errors.New("mux: not over the shared connection")

// aPast is a deadline in the past.
var aPast = time.Unix(1, 0) // read-only

// line is one connection of a Mux and the calls that wait at it.
type line[C Line] struct {
	m  *Mux[C]
	cn C
	// served is set when a reply has come.
	served atomic.Bool
	// sent counts the calls handed to the connection.
	sent atomic.Uint64
	// known is the value of sent when the reader last received bytes: bytes
	// received by then cannot be the reply to a later call. The reader alone
	// uses it.
	known uint64

	mu    sync.Mutex // guards below; never held over I/O
	calls calls
	out   outgoing
	// taken counts the replies taken so far.
	taken uint64
	// looked: the reader has looked for unasked bytes, which came while no
	// reply was owed, before it began to read.
	looked bool
	// burst is set when the last replies came together: their callers will ask
	// again together, too.
	burst bool
	// reader and writer are the tickets of the callers that read and write.
	reader, writer *Ticket
	alarm          alarm
	// used is the time at which the last call entered.
	used  time.Time
	state lineState
}

type lineState uint8

// The states of a line, in the order in which it passes through them.
const (
	open    lineState = iota
	retired           // no call enters any more
	closed            // the connection was given back, or will be by finish
)

// calls are the calls of a line in their order.
type calls struct {
	queue
	// waiting is the number of calls that still want their replies, unsent the
	// number of calls at the end of the queue not handed to the connection yet,
	// and bytes the length of the unsent commands.
	waiting, unsent, bytes int
	// doubtful says that the connection was idle for long before, so that it may be dead without
	// a word: then calls in their second attempt count as repeatable, too.
	doubtful bool
}

// outgoing is the state of the writes of a line.
type outgoing struct {
	// rest is the unwritten part of an interrupted write, spare the memory for
	// the next write.
	rest, spare []byte
	// sending is set during a write, halted if the write was interrupted on
	// purpose.
	sending, halted bool
}

// alarm is the timer of a line. due is the time at which it goes off: never
// after a deadline in the queue, nor after the time at which the line is stuck.
type alarm struct {
	timer *time.Timer
	due   time.Time
}

func newLine[C Line](m *Mux[C], cn C) *line[C] {
	ln := &line[C]{m: m, cn: cn, used: time.Now()}
	// A deadline may be left over from before.
	_ = cn.SetReadDeadline(time.Time{})
	_ = cn.SetWriteDeadline(time.Time{})
	return ln
}

// enter puts t and its command at the end of the queue, unless ln is out of
// use. The error is ErrElsewhere.
func (ln *line[C]) enter(t *Ticket, command []byte) (entered bool, err error) {
	ln.mu.Lock()
	e := ln.endIfOld(t.start)
	switch {
	case ln.state != open:
	case ln.calls.bytes > maxUnsent:
		err = ErrElsewhere
	default:
		ln.push(t, command)
		entered = true
	}
	ln.mu.Unlock()
	ln.finish(e)
	return entered, err
}

// push puts t at the end of the queue, and gives it a role that no caller has.
// mu is held.
func (ln *line[C]) push(t *Ticket, command []byte) {
	t.command, ln.used = command, t.start
	ln.calls.push(t)
	ln.calls.waiting++
	ln.calls.unsent++
	ln.calls.bytes += len(command)
	switch {
	case ln.writer == nil:
		ln.writer = t
		t.role.Store(writing)
	case ln.reader == nil:
		ln.reader = t
		t.role.Store(reading)
	}
	at := t.start.Add(ln.m.stuckAfter())
	if t.deadline.Before(at) {
		at = t.deadline
	}
	if ln.alarm.due.IsZero() || at.Before(ln.alarm.due) {
		ln.setAlarm(at)
	}
}

// serve does the work of t's role until t is settled. caller is the caller's
// context, split off ctx.
func (ln *line[C]) serve(ctx, caller context.Context, t *Ticket) (Outcome, error) {
	var out Outcome
	var stop func() bool
	for !t.settled() {
		role := t.role.Load()
		if role != idle && stop == nil && caller.Done() != nil {
			stop = context.AfterFunc(caller, t.onEnd(ln, caller))
		}
		switch role {
		case writing:
			ln.write(t)
		case reading:
			ln.read(t)
		default:
			ln.wait(caller, t)
		}
	}
	if t.role.Load() != idle {
		ln.resign(t)
	}
	out.Kept = stop != nil && !stop()
	if t.is(answered) {
		return out, nil
	}
	out.Lost, out.Stuck, out.Sent = t.lost, t.lost && t.is(left), t.sent
	out.Kept = out.Kept || t.is(left)
	return out, ln.m.o.Fail(pool.Failure{Op: t.op, Sent: t.sent, Err: ln.m.o.Reason(overdue.Reason(ctx, t.err))})
}

// wait waits until t is settled or has a role.
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
	claimed := ln.release(t)
	var e *ending
	if claimed {
		e = ln.endIfOver()
	}
	ln.mu.Unlock()
	if claimed {
		ln.settleLeft(t, err)
	}
	ln.finish(e)
}

// release interrupts the work that t's caller does for the line, and claims t.
// mu is held.
func (ln *line[C]) release(t *Ticket) bool {
	if t == ln.writer && ln.out.sending { // perhaps for others, and its own reply has come
		ln.out.halted = true
		_ = ln.cn.SetWriteDeadline(aPast)
	}
	if !t.claim() {
		return false
	}
	ln.calls.waiting--
	if t == ln.reader {
		_ = ln.cn.SetReadDeadline(aPast)
	}
	return true
}

// settleLeft settles a claimed ticket after its caller has left.
func (ln *line[C]) settleLeft(t *Ticket, err error) {
	t.op, t.err = "read", err
	t.state.Store(left)
	t.notify()
}

// resign gives the role of t to another caller.
func (ln *line[C]) resign(t *Ticket) {
	ln.mu.Lock()
	unasked := false
	if ln.reader == t {
		ln.reader, ln.looked = nil, false
		// The next reply would be taken for the rest of it.
		unasked = ln.nothingOwed() && ln.cn.Buffered() > 0
	}
	if ln.writer == t {
		ln.writer = nil
	}
	t.role.Store(idle)
	var e *ending
	if unasked {
		e = ln.endUnasked()
	} else {
		e = ln.appoint()
	}
	ln.mu.Unlock()
	ln.finish(e)
}

// appoint names the callers that read and write from now on, or ends a line that
// no caller needs. mu is held.
func (ln *line[C]) appoint() *ending {
	if ln.reader == nil && ln.calls.waiting > 0 {
		ln.name(&ln.reader, ln.writer, reading)
	}
	if ln.writer == nil && ln.toWrite() {
		ln.name(&ln.writer, ln.reader, writing)
		if ln.writer == nil && ln.reader != nil && ln.mayWrite() { // the reader is the only caller that could
			_ = ln.cn.SetReadDeadline(aPast)
		}
	}
	return ln.endIfOver()
}

// name gives a role to the first call that waits and has no other role. mu is
// held.
func (ln *line[C]) name(holder **Ticket, other *Ticket, role uint32) {
	for i := range ln.calls.size {
		if t := ln.calls.at(i); t != other && t.is(waiting) {
			*holder = t
			t.role.Store(role)
			t.notify()
			return
		}
	}
}

// owed returns the number of replies still to come. mu is held.
func (ln *line[C]) owed() int { return ln.calls.size - ln.calls.unsent }

// nothingOwed reports whether neither a reply nor the rest of a command is owed.
// mu is held.
func (ln *line[C]) nothingOwed() bool { return ln.owed() == 0 && len(ln.out.rest) == 0 }

// toWrite reports whether there is something to write. mu is held.
func (ln *line[C]) toWrite() bool { return len(ln.out.rest)+ln.calls.unsent > 0 }

// mayWrite reports whether a caller may write although no caller reads: the
// server may take no bytes before the replies that it owes have been read. A
// half-written command has to be completed in any case. mu is held.
func (ln *line[C]) mayWrite() bool { return ln.owed() == 0 || len(ln.out.rest) > 0 }

// silent returns for how long the first call of the queue has waited.
func (ln *line[C]) silent(now time.Time) time.Duration {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.calls.size == 0 {
		return 0
	}
	return now.Sub(ln.calls.at(0).since())
}

// A line ends in two steps. Under mu, one of the methods endIf… and endFailed
// closes it and returns an *ending. Without mu, finish then carries it out: it gives
// the connection back to the pool and fails the calls that waited. Invariant: a line
// is closed exactly once, so it has one ending.

// ending is the work left to do after a line was closed. nil means that the line
// goes on.
type ending struct {
	kind endKind
	// clean says that the pool may keep the connection.
	clean bool
	// failed are the calls that waited, all claimed; owed: at least one of them was
	// sent. op is the operation that has failed, and err the reason.
	failed []*Ticket
	owed   bool
	op     string
	err    error
}

type endKind uint8

const (
	drained endKind = iota // retired, and no caller needs the connection
	old                    // idle or in use for too long
	broken                 // the connection has failed
)

// close closes the line. mu is held.
func (ln *line[C]) close() {
	ln.state = closed
	if ln.alarm.timer != nil {
		ln.alarm.timer.Stop()
	}
}

// endIfOver ends a retired line that no caller needs any more. mu is held.
func (ln *line[C]) endIfOver() *ending {
	if ln.state != retired || ln.calls.waiting > 0 || ln.reader != nil || ln.writer != nil {
		return nil
	}
	// A connection that owes no reply may serve other calls of the pool.
	ln.close()
	return &ending{kind: drained, clean: ln.nothingOwed() && ln.cn.Buffered() == 0}
}

// endIfOld retires an old or silent line, and ends it if it owes nothing. mu is
// held.
func (ln *line[C]) endIfOld(now time.Time) *ending {
	switch {
	case ln.state != open:
		return nil
	case ln.calls.size > 0:
		// The timer may be about to find it silent.
		if !ln.m.pool.Outlived(ln.cn, now) && now.Before(ln.silentAt()) {
			return nil
		}
		ln.state = retired
		return ln.endIfOver()
	case !ln.m.pool.TooOld(ln.cn, ln.used, now):
		return nil
	}
	ln.close()
	return &ending{kind: old}
}

// endFailed ends a line because its connection has failed, and claims the calls
// that wait at it. mu is held.
func (ln *line[C]) endFailed(op string, err error) *ending {
	if ln.state == closed {
		return nil
	}
	ln.close()
	e := &ending{kind: broken, op: op, err: err, owed: ln.owed() > 0}
	for ln.calls.size > 0 {
		if t := ln.calls.pop(); t.claim() {
			e.failed = append(e.failed, t)
		}
	}
	ln.calls.waiting, ln.calls.unsent = 0, 0
	return e
}

// finish carries out an ending. mu is not held.
func (ln *line[C]) finish(e *ending) {
	if e == nil {
		return
	}
	switch now := time.Now(); e.kind {
	case drained:
		ln.m.pool.Put(ln.cn, e.clean, now)
	case old:
		ln.m.pool.Retire(ln.cn, now)
	case broken:
		lost := ln.settleFailed(e)
		ln.m.pool.Put(ln.cn, lost, now) // the pool closes a lost connection, too
	}
	ln.m.forget(ln)
}

// settleFailed fails the calls of a broken line, and reports whether the
// connection was found dead. If none of the calls was sent, they can go on with
// another connection.
func (ln *line[C]) settleFailed(e *ending) (lost bool) {
	ln.m.answers()
	lost = ln.m.o.Gone(e.err) && (!e.owed || ln.cn.Reused() || ln.served.Load())
	if lost {
		ln.m.pool.Lost(ln.cn)
	}
	for _, t := range e.failed {
		t.lost = lost && !t.begun || !e.owed && e.err == pool.ErrUnasked
		t.op, t.err = e.op, e.err
		t.state.Store(failed)
		t.notify()
	}
	return lost
}

// retire lets no further call enter, and ends the line when the calls that wait
// have their replies.
func (ln *line[C]) retire() {
	ln.m.replace(ln)
	ln.mu.Lock()
	ln.state = max(ln.state, retired)
	e := ln.endIfOver()
	ln.mu.Unlock()
	ln.finish(e)
}

// fail ends the line because its connection has failed.
func (ln *line[C]) fail(op string, err error) {
	ln.mu.Lock()
	e := ln.endFailed(op, err)
	ln.mu.Unlock()
	ln.finish(e)
}

// readFailed ends the line after a read has failed. The server has carried out
// a command if a part of its reply has come.
func (ln *line[C]) readFailed(err error) {
	ln.mu.Lock()
	if ln.cn.Buffered() > 0 {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if ln.calls.size > 0 {
			ln.calls.at(0).begun = true
		}
	}
	e := ln.endFailed("read", err)
	ln.mu.Unlock()
	ln.finish(e)
}
