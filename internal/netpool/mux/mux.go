// Package mux shares one connection of a pool between all callers. It knows no
// protocol: the owner says how commands are written and replies are read.
package mux

import (
	"context"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/netpool"
	"github.com/strata-cache/strata/remote"
)

// Line is a connection that many callers can use at once.
type Line interface {
	netpool.Conn
	// Reused reports whether the connection had served a call before, as
	// [netpool.Slot] does.
	Reused() bool
	// Write writes commands.
	Write(p []byte) (int, error)
	// Fill waits for bytes and takes them in. A passed deadline changes
	// nothing.
	Fill() error
	// Next takes the next reply out of what has come in, and returns nil if it
	// is not complete. The bytes are valid until the next Fill.
	Next() (reply []byte, err error)
	// Buffered is the number of bytes that came in and were not taken.
	Buffered() int
	// Quiet reports whether nothing was read that is still to be taken, besides
	// what a peer may send unasked, which it drops.
	Quiet() bool
	// Look is as in [netpool.Config]; but unless reads is set, another goroutine may be
	// reading.
	Look(reads bool) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Answerer takes a reply.
type Answerer interface {
	// Answer takes the reply, which is valid until it returns. It is called at
	// most once, on the goroutine of any caller, and never after Do has
	// returned. It must not wait.
	Answer(reply []byte)
}

// Config says how a Mux shares its connection. All fields are required.
type Config struct {
	// Timeout bounds a call whose context has no deadline. A connection that
	// owes replies and is silent for as long is given up.
	Timeout time.Duration
	// Fail makes the error of a call out of what happened to it: op is wait,
	// read or write. sent says that the server may have got its command.
	Fail func(op string, sent bool, err error) error
	// Lost reports whether an error says that the peer has gone without a
	// word.
	Lost func(err error) bool
	// DialTimeout is that of the pool.
	DialTimeout time.Duration
	// Closed is the error after Close.
	Closed error
}

// Mux shares one connection of a pool between all callers. It has no goroutine
// of its own: among those who wait for their replies, one writes the commands
// of all, and one reads the replies of all.
//
// Commands are written, and replies come, in the order of the queue. Who finds
// nobody writing writes, for as long as commands come in. Who finds nobody
// reading reads until its own reply has come, and then names the next reader.
// So a caller alone does what it would do with a connection of its own, and
// under load one system call serves many.
//
// A caller that leaves early costs the others nothing: its reply is read and
// dropped, and the parts it played go to others. One case is left: a server that
// takes no more before its replies are read, while the only caller is in the
// middle of writing behind replies that nobody wants, is not read from until that
// caller's time is over. Redis takes commands all the same. And over TLS, which
// does not outlive a write that was interrupted, who leaves while the server
// takes nothing ends the connection.
type Mux[C Line] struct {
	pool *netpool.Pool[C]
	o    Config
	ctx  context.Context // ends when the Mux is closed
	stop context.CancelFunc
	wg   sync.WaitGroup

	cur atomic.Pointer[line[C]]
	// stuck is set when a reply does not come for a while, and until one comes.
	stuck atomic.Bool

	mu      sync.Mutex // guards below; never held over I/O
	opening *opening
	lines   map[*line[C]]struct{} // all that are not closed
	closed  bool
}

// opening is the wait for a connection, of all who need it.
type opening struct {
	done chan struct{}
	err  error // set before done is closed
}

// New returns a Mux that takes its connection from p when it is needed.
func New[C Line](p *netpool.Pool[C], o Config) *Mux[C] {
	m := &Mux[C]{pool: p, o: o, lines: map[*line[C]]struct{}{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	return m
}

// Do sends one command, of which a copy is made, and waits for its reply. t
// must not be in use; it may be used again unless the outcome says that it was
// kept. ErrBusy means that too much waits to be sent.
func (m *Mux[C]) Do(ctx context.Context, now time.Time, t *Ticket, command []byte, to Answerer) (Outcome, error) {
	if err := ctx.Err(); err != nil {
		return Outcome{}, m.o.Fail("wait", false, err)
	}
	caller, deadline := remote.Split(ctx)
	expired := context.DeadlineExceeded
	if deadline.IsZero() {
		deadline, expired = now.Add(m.o.Timeout), os.ErrDeadlineExceeded
	}
	t.begin(to, now, deadline, expired)
	for {
		ln := m.cur.Load()
		if ln == nil {
			if err := m.open(caller, deadline); err != nil {
				return Outcome{}, err
			}
			continue
		}
		switch entered, err := ln.enter(t, command); {
		case err != nil:
			return Outcome{}, err
		case entered:
			return ln.serve(caller, t)
		}
		m.retire(ln)
	}
}

// open waits until there is a connection.
func (m *Mux[C]) open(caller context.Context, deadline time.Time) error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return m.o.Closed
	}
	if m.cur.Load() != nil {
		m.mu.Unlock()
		return nil
	}
	o := m.opening
	if o == nil {
		o = &opening{done: make(chan struct{})}
		m.opening = o
		m.wg.Go(func() { m.connect(o) })
	}
	m.mu.Unlock()
	timeout := time.NewTimer(time.Until(deadline))
	defer timeout.Stop()
	select {
	case <-o.done:
		return o.err
	case <-caller.Done():
		return m.o.Fail("wait", false, caller.Err())
	case <-timeout.C:
		return m.o.Fail("wait", false, context.DeadlineExceeded)
	}
}

// connect takes a connection from the pool. It is not bound to any call.
func (m *Mux[C]) connect(o *opening) {
	// A dial has its own end, and tells why it failed.
	ctx, cancel := context.WithTimeout(m.ctx, 2*m.o.DialTimeout)
	defer cancel()
	cn, err := m.pool.Get(ctx, time.Now())
	if err == nil {
		m.pool.Share(cn)
	}
	m.mu.Lock()
	m.opening = nil
	if m.closed {
		if err == nil {
			defer m.pool.Put(cn, true, time.Now())
		}
		err = m.o.Closed
	} else if err == nil {
		ln := newLine(m, cn)
		m.lines[ln] = struct{}{}
		m.cur.Store(ln)
	}
	m.mu.Unlock()
	o.err = err
	close(o.done)
}

// Renew has the next call take another connection. Those who wait at the one in
// use get their replies.
func (m *Mux[C]) Renew() {
	ln := m.cur.Load()
	if ln == nil {
		return
	}
	m.retire(ln)
	ln.mu.Lock()
	ln.giveUp()
}

// retire lets nobody else enter ln.
func (m *Mux[C]) retire(ln *line[C]) { m.cur.CompareAndSwap(ln, nil) }

// forget is called when ln has ended.
func (m *Mux[C]) forget(ln *line[C]) {
	m.retire(ln)
	m.mu.Lock()
	delete(m.lines, ln)
	m.mu.Unlock()
}

// stuckAfter is how long the reply that comes next may take before others look
// for a way past.
func (m *Mux[C]) stuckAfter() time.Duration { return m.o.Timeout / 4 }

// Stuck reports whether the next reply has not come for a quarter of the timeout.
// When that is found, the first call that is repeatable is let go, with an
// outcome of Lost: if it succeeds elsewhere, Yield lets the others go.
func (m *Mux[C]) Stuck() bool { return m.stuck.Load() }

// Yield lets all calls go that wait at a stuck connection and are repeatable. It
// is called when the server has answered elsewhere.
func (m *Mux[C]) Yield(now time.Time) {
	for _, ln := range m.all() {
		ln.yield(now)
	}
}

// all returns the lines that are not closed.
func (m *Mux[C]) all() []*line[C] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.lines))
}

// Silent is for how long a call has waited, at most, whose reply is the next to
// come.
func (m *Mux[C]) Silent(now time.Time) (d time.Duration) {
	for _, ln := range m.all() {
		d = max(d, ln.silent(now))
	}
	return d
}

// silent is for how long the call has waited whose reply is the next to come.
func (ln *line[C]) silent(now time.Time) time.Duration {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.queue.size == 0 {
		return 0
	}
	return now.Sub(ln.queue.at(0).start)
}

// Close fails all calls. It is called before the pool is closed.
func (m *Mux[C]) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	for _, ln := range m.all() {
		ln.fail("read", m.o.Closed)
	}
	m.wg.Wait()
}

// Outcome says more about a call than its error.
type Outcome struct {
	// Lost says that the connection was found dead: it failed although it had
	// served before, and before a byte of the reply had come. Or else that it is
	// stuck, and the call was repeatable.
	Lost bool
	// Kept says that the ticket may still be looked at, and must not be used
	// again.
	Kept bool
}
