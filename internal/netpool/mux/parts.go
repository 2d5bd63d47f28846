package mux

import (
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/strata-cache/strata/internal/netpool"
)

// The parts that callers play for each other: one writes, one reads.

// write writes the commands of all, until there are none or t is settled.
func (ln *line[C]) write(t *Ticket) {
	ln.mu.Lock()
	if ln.queue.size > 1 || ln.crowd {
		// Others are on their way; together they are one system call. With 8
		// callers that took a seventh of the time and a fifth of the CPU off.
		ln.mu.Unlock()
		runtime.Gosched()
		ln.mu.Lock()
	}
	if ln.reader != nil || ln.mayWrite() {
		ln.flush(t)
	}
	ln.writer = nil
	t.part.Store(idle)
	if ln.reader == nil && t.is(waiting) {
		ln.reader = t
		t.part.Store(reading)
	}
	ln.unlock()
}

// flush does the work of write. mu is held, but not during I/O.
func (ln *line[C]) flush(t *Ticket) {
	for !ln.closed && t.is(waiting) {
		if !ln.looked && ln.clear() {
			// Bytes that have come by now would be taken for the reply.
			if err := ln.cn.Look(ln.reader == nil); err != nil {
				ln.bury("read", err)
				ln.mu.Lock()
				break
			}
		}
		ln.looked = false
		batch := ln.batch()
		if len(batch) == 0 {
			ln.spare = batch
			break
		}
		ln.sending = true
		ln.mu.Unlock()
		n, err := ln.cn.Write(batch)
		ln.mu.Lock()
		halted := ln.halted
		ln.sending, ln.halted = false, false
		if halted { // nobody else: encryption does not outlive it
			_ = ln.cn.SetWriteDeadline(time.Time{})
		}
		switch {
		case err != nil && halted && errors.Is(err, os.ErrDeadlineExceeded):
			ln.rest = batch[n:]
		case err != nil:
			ln.mu.Unlock()
			ln.fail("write", err)
			ln.mu.Lock()
		case cap(batch) <= 2*maxBatch:
			ln.spare = batch[:0]
		}
	}
}

// batch returns what is to be written next, and marks the calls in it as sent.
// Calls that nobody wants any more are forgotten. mu is held.
func (ln *line[C]) batch() []byte {
	if len(ln.rest) > 0 {
		rest := ln.rest
		ln.rest = nil
		return rest
	}
	batch := ln.spare
	ln.spare = nil
	q := &ln.queue
	from := q.size - ln.unsent
	to := from
	for ; from < q.size && len(batch) < maxBatch; from++ {
		t := q.at(from)
		ln.unsent--
		if !t.is(waiting) {
			ln.size -= t.size
			continue
		}
		ln.size -= t.size
		batch = append(batch, t.command...)
		t.sent = true
		ln.sent.Add(1)
		q.set(to, t)
		to++
	}
	for ; from < q.size; from++ {
		q.set(to, q.at(from))
		to++
	}
	q.cut(to)
	return batch
}

// owed is the number of replies that are to come. mu is held.
func (ln *line[C]) owed() int { return ln.queue.size - ln.unsent }

// clear reports whether nothing is owed by either side. mu is held.
func (ln *line[C]) clear() bool { return ln.owed() == 0 && len(ln.rest) == 0 }

// mayWrite reports whether somebody may write although nobody reads: the server
// may take no more before the replies that it owes have been read. A command
// that is half written has to be ended in any case. mu is held.
func (ln *line[C]) mayWrite() bool { return ln.owed() == 0 || len(ln.rest) > 0 }

// read reads the replies of all until t is settled, or has to write.
func (ln *line[C]) read(t *Ticket) {
	for written := false; t.part.Load() == reading && ln.deal(t) && t.is(waiting); {
		if !written {
			if written = ln.written(t); t.part.Load() != reading {
				return
			}
			if !written && !ln.look() {
				return
			}
		}
		err := ln.cn.Fill()
		ln.known = ln.sent.Load()
		switch {
		case err == nil:
			if ln.cn.Buffered() > largeReply {
				ln.retire()
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			ln.interrupted(t)
		default:
			ln.lose(err)
		}
	}
	if t.part.Load() == reading {
		ln.resign(t)
	}
}

// written reports whether the command of t, the reader, has been sent. If it is
// t's turn to do that, t becomes the writer.
func (ln *line[C]) written(t *Ticket) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if !t.sent && ln.writer == nil && ln.mayWrite() {
		ln.reader, ln.writer, ln.looked = nil, t, false
		t.part.Store(writing)
	}
	return t.sent
}

// look is called by the reader before it reads what comes before its own command
// was sent: what is there already would be taken for the reply. It reports
// whether the connection is well.
func (ln *line[C]) look() bool {
	ln.mu.Lock()
	if ln.looked || ln.closed || !ln.clear() {
		ln.mu.Unlock()
		return true
	}
	if err := ln.cn.Look(true); err != nil {
		ln.bury("read", err)
		return false
	}
	ln.looked = true
	ln.mu.Unlock()
	return true
}

// interrupted is called by the reader, t. The interrupt was meant for it, or for
// somebody who has read before, or says that there is nobody else to write: t
// writes then, and others may read meanwhile.
func (ln *line[C]) interrupted(t *Ticket) {
	ln.mu.Lock()
	_ = ln.cn.SetReadDeadline(time.Time{})
	if ln.writer == nil && len(ln.rest)+ln.unsent > 0 && t.is(waiting) && ln.mayWrite() {
		ln.reader, ln.writer, ln.looked = nil, t, false
		t.part.Store(writing)
	}
	ln.unlock()
}

// deal hands out all replies that have come in. It reports whether the
// connection is still well.
func (ln *line[C]) deal(t *Ticket) bool {
	for dealt := 0; ; dealt++ {
		reply, err := ln.cn.Next()
		if err != nil {
			ln.fail("read", err)
			return false
		}
		if reply == nil {
			return true
		}
		ln.mu.Lock()
		if ln.closed || ln.taken == ln.known {
			ln.bury("read", netpool.ErrUnasked)
			return false
		}
		h := ln.queue.pop()
		ln.taken++
		if ln.m.stuck.Load() {
			ln.m.stuck.Store(false)
		}
		wanted := h.claim()
		if wanted {
			ln.waiting--
		}
		ln.crowd = dealt > 0 || ln.cn.Buffered() > 0
		// Before anybody else can write: nothing may be there that would be
		// taken for the next reply.
		unasked := ln.owed() == 0 && !ln.closed && !ln.cn.Quiet()
		var behind []*Ticket
		if unasked {
			behind, _ = ln.shut()
		}
		ln.mu.Unlock()
		if wanted {
			ln.served.Store(true)
			h.to.Answer(reply)
			h.state.Store(answered)
			if h != t {
				h.look()
			}
		}
		if unasked {
			ln.settle("read", netpool.ErrUnasked, behind, false)
			return false
		}
	}
}
