package mux

import (
	"errors"
	"os"
	"time"

	"github.com/strata-cache/strata/internal/wire/pool"
)

// A caller is the reader from the moment at which push, name or write gives it
// the role until it resigns or becomes the writer. Invariant: one goroutine reads
// at a time; a reply belongs to the first call of the queue, which was sent before
// the reply came; a caller gets no answer after it has left.

// read reads the replies of all calls until t is settled, or has to write.
func (ln *line[C]) read(t *Ticket) {
	for sent := false; t.role.Load() == reading && ln.deliver(t) && t.is(waiting); {
		if !sent {
			if sent = ln.writeOrRead(t); t.role.Load() != reading {
				return
			}
			if !sent {
				looked, ok := ln.lookFirst()
				if !ok {
					return
				}
				// The look may have undone the interrupt of a caller that has left, or that has to write.
				if looked {
					continue
				}
			}
		}
		err := ln.cn.Fill()
		ln.known = ln.sent.Load()
		switch {
		case err == nil:
			// The replies behind a large one would wait for it: later calls go to another line.
			if ln.cn.Buffered() > largeReply {
				ln.retire()
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			ln.interrupted(t)
		default:
			ln.readFailed(err)
		}
	}
	if t.role.Load() == reading {
		ln.resign(t)
	}
}

// deliver hands out all received replies. It reports whether the connection is still
// usable.
func (ln *line[C]) deliver(t *Ticket) bool {
	for n := 0; ; n++ {
		reply, err := ln.cn.Next()
		if err != nil {
			ln.readFailed(err)
			return false
		}
		if reply == nil {
			return true
		}
		ln.mu.Lock()
		to, wanted, e := ln.takeReply(n > 0)
		ln.mu.Unlock()
		if to != nil {
			ln.m.answers()
		}
		switch {
		case !wanted:
		case ln.m.refused != nil && ln.m.refused(ln.cn, reply):
			ln.refused(to)
		default:
			ln.served.Store(true)
			if !to.to.Answer(reply) {
				ln.misfit(to, e)
				return false
			}
			to.state.Store(answered)
			if to != t {
				to.notify()
			}
		}
		if ln.finish(e); e != nil || to == nil {
			return false
		}
	}
}

// refused handles a reply by which the server refuses all further commands of this
// connection. It lets no further call enter, and closes the idle connections of the pool.
// The call of this reply, which is claimed, fails as if it was not sent. The calls behind
// it get their own replies.
func (ln *line[C]) refused(to *Ticket) {
	ln.m.replace(ln)
	ln.mu.Lock()
	ln.state = max(ln.state, retired)
	to.sent = false
	ln.mu.Unlock()
	ln.m.pool.Lost(ln.cn)
	to.op, to.err, to.lost = "read", pool.ErrRefused, true
	to.state.Store(failed)
	to.notify()
}

// misfit ends the line after a reply that cannot belong to the call at the head of
// the queue. e, if not nil, has ended it already. The call, which is claimed, fails.
func (ln *line[C]) misfit(to *Ticket, e *ending) {
	if e == nil {
		ln.mu.Lock()
		e = ln.endFailed("read", pool.ErrForeign)
		ln.mu.Unlock()
	}
	to.op, to.err = "read", pool.ErrForeign
	to.state.Store(failed)
	to.notify()
	ln.finish(e)
}

// takeReply takes the call out of the queue to which the next reply belongs, and
// claims it unless its caller has left. more says that another reply came with
// this one. A reply that belongs to no call ends the line. mu is held.
func (ln *line[C]) takeReply(more bool) (t *Ticket, wanted bool, e *ending) {
	// More replies than commands: from here on, no reply can be told to be the right one.
	if ln.state == closed || ln.taken == ln.known {
		return nil, false, ln.endUnasked()
	}
	t = ln.calls.pop()
	ln.taken++
	if wanted = t.claim(); wanted {
		ln.calls.waiting--
	}
	ln.burst = more || ln.cn.Buffered() > 0
	// Before another caller can write: no bytes may be there that would be taken
	// for the next reply.
	if ln.owed() == 0 && !ln.cn.Quiet() {
		e = ln.endUnasked()
	}
	return t, wanted, e
}

// writeOrRead reports whether the command of t, the reader, has been sent. If
// it is t's turn to send it, t becomes the writer.
func (ln *line[C]) writeOrRead(t *Ticket) (sent bool) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if !t.sent && ln.writer == nil && ln.mayWrite() {
		ln.readerWrites()
	}
	return t.sent
}

// readerWrites makes the reader the writer. mu is held.
func (ln *line[C]) readerWrites() {
	ln.reader.role.Store(writing)
	ln.reader, ln.writer, ln.looked = nil, ln.reader, false
}

// lookFirst is called by a reader that begins to read before its own command was
// sent: bytes from before would be taken for its reply. It reports whether it has
// looked, and whether the connection is usable.
func (ln *line[C]) lookFirst() (looked, ok bool) {
	ln.mu.Lock()
	var e *ending
	if !ln.looked && ln.state != closed && ln.nothingOwed() {
		looked = true
		if err := ln.cn.Look(true); err != nil {
			e = ln.endFailed("read", err)
		} else {
			ln.looked = true
		}
	}
	ln.mu.Unlock()
	ln.finish(e)
	return looked, e == nil
}

// interrupted is called by the reader, t, when a passed deadline has ended its
// read. The interrupt was meant for it, or for an earlier reader, or asks it to
// write for lack of another caller: then t writes, and another caller may read
// meanwhile.
func (ln *line[C]) interrupted(t *Ticket) {
	ln.mu.Lock()
	_ = ln.cn.SetReadDeadline(time.Time{})
	if ln.writer == nil && ln.toWrite() && t.is(waiting) && ln.mayWrite() {
		ln.readerWrites()
	}
	e := ln.appoint()
	ln.mu.Unlock()
	ln.finish(e)
}

// endUnasked ends the line because of a reply that belongs to no call. mu is
// held.
func (ln *line[C]) endUnasked() *ending { return ln.endFailed("read", pool.ErrUnasked) }
