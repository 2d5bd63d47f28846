package mux

import (
	"errors"
	"io"
	"time"

	"github.com/strata-cache/strata/internal/wire/pool"
)

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
	ln.m.forget(ln)
	switch now := time.Now(); e.kind {
	case drained:
		ln.m.pool.Put(ln.cn, e.clean, now)
	case old:
		ln.m.pool.Retire(ln.cn, now)
	case broken:
		lost := ln.settleFailed(e)
		ln.m.pool.Put(ln.cn, lost, now) // the pool closes a lost connection, too
	}
}

// settleFailed fails the calls of a broken line, and reports whether the
// connection was found dead. If none of the calls was sent, they can go on with
// another connection.
func (ln *line[C]) settleFailed(e *ending) (lost bool) {
	ln.m.stuck.Store(false)
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
