// Package mux shares one connection of a pool between all callers. It knows no
// protocol: the owner says how commands are written and replies are read.
//
// A [Mux] has at most one current line, which is a connection and its queue of
// calls. A line is open, retired (no call enters) or closed. A ticket, which is
// the place of one call, is waiting, claimed, and then answered, failed or
// left. Invariant: the replies that arrive on a connection belong to the calls
// of its queue, in that order; a reply without a call ends the connection.
package mux

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/wire/overdue"
	"github.com/strata-cache/strata/internal/wire/pool"
	"github.com/strata-cache/strata/remote"
)

// Line is a connection that many callers can use at once.
type Line interface {
	pool.Conn
	// Reused reports whether the connection had served a call before, as
	// [pool.Slot] does.
	Reused() bool
	// Write writes commands.
	Write(p []byte) (int, error)
	// Fill waits for bytes and takes them in. A passed deadline changes
	// nothing.
	Fill() error
	// Next takes the next reply out of the received bytes, and returns nil if it
	// is not complete. The reply is valid until the next Fill.
	Next() (reply []byte, err error)
	// Buffered returns the number of received bytes that were not taken.
	Buffered() int
	// Quiet reports whether no bytes are left to take. It drops messages that a
	// server may send at any time.
	Quiet() bool
	// Look is as in [pool.Config]. If reads is false, another goroutine may be reading.
	Look(reads bool) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Answerer takes a reply.
type Answerer interface {
	// Answer takes the reply, which is valid until it returns, and reports whether
	// it can be the reply to the command: if not, the connection has failed, and so
	// have the calls that wait at it. It is called at most once, on the goroutine
	// of any caller, and never after Do has returned. It must not wait.
	Answer(reply []byte) (fits bool)
}

// Mux shares one connection of a pool between all callers. It has no goroutine
// of its own: one of the waiting callers writes the commands of all, and one
// reads the replies of all.
//
// Commands are written, and replies come, in the order of the queue. A caller
// that finds no writer becomes the writer, for as long as commands come in. A
// caller that finds no reader reads until its own reply has come, and then names
// the next reader. So a single caller does the same work as with a connection of
// its own, and under load one system call serves many callers.
//
// A caller that leaves early costs the others nothing: its reply is read and
// dropped, and other callers take over its roles. There are two exceptions. If a
// server takes no bytes before its replies are read, and the only caller is in
// the middle of a write behind replies that no caller wants, the connection is
// not read until the time of this caller is over. (Redis takes commands even
// then.) And TLS does not outlive an interrupted write, so a caller that leaves
// while the server takes nothing ends the connection.
type Mux[C Line] struct {
	pool *pool.Pool[C]
	o    *pool.Config[C]
	// refused is as in New.
	refused func(cn C, reply []byte) bool

	ctx  context.Context // ends when the Mux is closed
	stop context.CancelFunc
	wg   sync.WaitGroup

	current atomic.Pointer[line[C]]
	// stuck is set when a reply does not come for a while, until one comes or its line has failed.
	stuck atomic.Bool
	// bypass, if not nil, serves calls while m is stuck. spare says that m is the bypass of another
	// Mux: it keeps no connection that no call needs.
	bypass *Mux[C]
	spare  bool

	mu      sync.Mutex // guards below; never held over I/O
	opening *opening
	lines   map[*line[C]]struct{} // all whose connections are not given back
	closed  bool
}

// errNeedless ends a wait for a bypass. [Pair.Do] sends the command over the other connection then.
var errNeedless = errors.New("mux: the connection answers again")

// opening is the wait for a connection, shared by all callers that need it.
type opening struct {
	done chan struct{}
	// err and again are set before done is closed. again: the opening has ended, and its callers may still have time.
	err     error
	again   bool
	waiting int // callers; guarded by Mux.mu
	// needless is closed when the stalled connection answers again before this connection replaces it. ended is true
	// from then on; Mux.mu guards ended.
	needless chan struct{}
	ended    bool
}

// New returns a Mux that takes its connection from p when it is needed. refused, which
// may be nil, reports whether a reply says that the server carries out nothing any more on
// a connection, over which it has served before.
func New[C Line](p *pool.Pool[C], refused func(cn C, reply []byte) bool) *Mux[C] {
	m := &Mux[C]{pool: p, o: p.Config(), refused: refused, lines: map[*line[C]]struct{}{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	return m
}

// Outcome says more about a call than its error.
type Outcome struct {
	// Lost says that the connection was found dead: it had served before, and
	// failed before a byte of the reply had come. Or the connection is stuck,
	// and the call was repeatable: then Stuck is set, too.
	Lost, Stuck bool
	// Sent says that the server may have received the command.
	Sent bool
	// Kept says that the Mux may still look at the ticket: it must not be used
	// again.
	Kept bool
	// alone says that no other connection could be had, and the call went to the stuck one.
	alone bool
}

// Do sends one command, of which a copy is made, and waits for its reply. t
// must not be in use; it may be used again unless the outcome says that it was
// kept. [ErrElsewhere] means that too many bytes wait to be sent.
func (m *Mux[C]) Do(ctx context.Context, now time.Time, t *Ticket, command []byte, to Answerer) (Outcome, error) {
	if err := ctx.Err(); err != nil {
		return Outcome{}, m.o.Fail(pool.Failure{Op: "wait", Err: err})
	}
	caller, deadline := ctx, t.Until
	if deadline.IsZero() {
		caller, deadline = remote.Split(ctx)
	}
	expired := context.DeadlineExceeded
	if deadline.IsZero() {
		deadline, expired = now.Add(m.o.Timeout), os.ErrDeadlineExceeded
	}
	t.begin(to, now, deadline, expired)
	for {
		ln := m.current.Load()
		if ln == nil {
			if err := m.open(ctx, caller, deadline); err != nil {
				return Outcome{}, err
			}
			t.start = time.Now() // the time of a dial is no silence of the connection
			continue
		}
		switch entered, err := ln.enter(t, command); {
		case err != nil:
			return Outcome{}, err
		case entered:
			return ln.serve(ctx, caller, t)
		}
		m.replace(ln)
	}
}

// open waits until there is a connection, or until the next opening may begin. caller and deadline are split off ctx.
func (m *Mux[C]) open(ctx, caller context.Context, deadline time.Time) error {
	o, err := m.startOpening()
	if o == nil {
		return err
	}
	defer m.leave(o)
	timeout := time.NewTimer(time.Until(deadline))
	defer timeout.Stop()
	late := context.DeadlineExceeded
	select {
	case <-o.done:
		if late = overdue.Err(ctx); o.err == nil || o.again && late == nil {
			return nil
		}
		if late == nil {
			return o.err
		}
	case <-o.needless:
		if late = overdue.Err(ctx); late == nil {
			return errNeedless
		}
	case <-caller.Done():
		late = caller.Err()
	case <-timeout.C:
	}
	return m.o.Fail(pool.Failure{Op: "wait", Err: late})
}

// startOpening begins to open a connection, or joins the opening that runs. It
// returns none if there is a line, or if the Mux is closed.
func (m *Mux[C]) startOpening() (*opening, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, m.o.Closed
	case m.current.Load() != nil:
		return nil, nil
	case m.opening == nil:
		o := &opening{done: make(chan struct{}), needless: make(chan struct{})}
		m.opening = o
		m.wg.Go(func() { m.connect(o) })
	}
	m.opening.waiting++
	return m.opening, nil
}

// leave notes that a caller waits for o no more.
func (m *Mux[C]) leave(o *opening) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.waiting--
}

// connect takes a connection from the pool. It is not bound to any call.
func (m *Mux[C]) connect(o *opening) {
	// A dial has its own end, and tells why it failed.
	ctx, cancel := context.WithTimeout(m.ctx, 2*m.o.DialTimeout)
	defer cancel()
	fresh := m.stuck.Load() // the idle connections may be as dead as the last one
	take := func(ctx context.Context, now time.Time) (C, error) { return m.pool.First(ctx, now, fresh) }
	if m.spare {
		take = m.pool.Get
		if fresh {
			take = m.pool.Fresh
		}
	}
	cn, err := take(ctx, time.Now())
	o.again = err != nil && overdue.Err(ctx) != nil && m.ctx.Err() == nil // other calls have had all connections meanwhile
	rested := false
	if err == nil {
		rested = m.pool.Rested(cn, time.Now()) > m.o.Timeout
		m.pool.Share(cn, !m.spare)
	}
	m.mu.Lock()
	m.opening = nil
	if m.closed {
		if err == nil {
			defer m.pool.Put(cn, true, time.Now())
		}
		err = m.o.Closed
	} else if err == nil && m.spare && o.waiting == 0 { // it took too long
		defer m.pool.Put(cn, true, time.Now())
	} else if err == nil {
		ln := newLine(m, cn)
		ln.calls.doubtful = rested
		m.lines[ln] = struct{}{}
		m.current.Store(ln)
	}
	m.mu.Unlock()
	o.err = err
	close(o.done)
}

// Renew makes the next call take another connection. The calls that wait at the
// present one get their replies.
func (m *Mux[C]) Renew() {
	if ln := m.current.Load(); ln != nil {
		ln.retire()
	}
}

// replace detaches ln, so that the next call opens another line.
func (m *Mux[C]) replace(ln *line[C]) { m.current.CompareAndSwap(ln, nil) }

// forget is called when ln has ended, and its connection is given back.
func (m *Mux[C]) forget(ln *line[C]) {
	m.replace(ln)
	m.mu.Lock()
	delete(m.lines, ln)
	m.mu.Unlock()
}

// stuckAfter is the wait for one reply after which a connection is stuck.
func (m *Mux[C]) stuckAfter() time.Duration { return m.o.Timeout / 4 }

// hasBypass reports whether calls can go over another connection now.
func (m *Mux[C]) hasBypass() bool {
	// Asked twice: in between, a call may open the connection of the bypass in the room that was left.
	return m.spare || m.bypass == nil || m.bypass.connected() || m.pool.Room() || m.bypass.connected()
}

// probes reports whether a call that was sent elsewhere from the stuck connection may still get its reply there.
func (m *Mux[C]) probes() bool { return m.bypass != nil && m.bypass.connected() }

// connected reports whether m has a connection, or opens one. A line counts until the pool has room for the next one.
func (m *Mux[C]) connected() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.opening != nil || len(m.lines) > 0
}

// Stuck reports whether the next reply has not come for a quarter of the timeout.
// When a connection becomes stuck, its first repeatable call ends, with an
// outcome of Lost. If that call succeeds over another connection, Reroute ends
// the others too.
func (m *Mux[C]) Stuck() bool { return m.stuck.Load() }

// answers notes that replies come again, or that the stuck line has failed: then the connection of the
// bypass, which other calls of the pool may need, is given back.
func (m *Mux[C]) answers() {
	if m.stuck.Load() && m.stuck.CompareAndSwap(true, false) && m.bypass != nil {
		m.bypass.Renew()
		m.bypass.endOpening()
	}
}

// endOpening ends the wait of calls for a connection of a bypass: they go over the other one.
func (m *Mux[C]) endOpening() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.opening; o != nil && !o.ended {
		o.ended = true
		close(o.needless)
	}
}

// Reroute ends all repeatable calls that wait at a stuck connection, with an
// outcome of Lost. It is called when the server has answered over another
// connection.
func (m *Mux[C]) Reroute(now time.Time) {
	m.mu.Lock()
	// The only connection of a bypass that is not stuck is the one that has answered.
	needless := m.spare && len(m.lines) < 2 && !m.Stuck()
	m.mu.Unlock()
	if needless {
		return
	}
	for _, ln := range m.openLines() {
		ln.reroute(now)
	}
}

// rerouteOld is Reroute for the connections that the present one has replaced.
func (m *Mux[C]) rerouteOld(now time.Time) {
	for _, ln := range m.openLines() {
		if ln != m.current.Load() {
			ln.reroute(now)
		}
	}
}

// openLines returns the lines whose connections are not given back.
func (m *Mux[C]) openLines() []*line[C] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.lines))
}

// Silent returns for how long the oldest call has waited for the reply that
// comes next.
func (m *Mux[C]) Silent(now time.Time) (d time.Duration) {
	for _, ln := range m.openLines() {
		d = max(d, ln.silent(now))
	}
	return d
}

// Close fails all calls. It is called before the pool is closed.
func (m *Mux[C]) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	for _, ln := range m.openLines() {
		ln.fail("read", m.o.Closed)
	}
	m.wg.Wait()
}

// Pair is the pool of one server with a Mux on it, and a second Mux beside it, for
// commands that only read while the first is stuck, as it is behind a command that the
// server holds back.
type Pair[C Line] struct {
	Pool         *pool.Pool[C]
	main, bypass *Mux[C]
}

// NewPair returns a Pair with no connection. It looks at each connection before its use.
// refused is as in [New].
func NewPair[C Line](o pool.Config[C], refused func(cn C, reply []byte) bool) *Pair[C] {
	o.Look = func(cn C) error { return cn.Look(true) }
	p := pool.New(o)
	pair := &Pair[C]{Pool: p, main: New(p, refused), bypass: New(p, refused)}
	pair.main.bypass, pair.bypass.spare = pair.bypass, true
	return pair
}

// Do sends one command and waits for its reply, as [Mux.Do] does. reads: the command only
// reads. If the connection was found dead before the reply came, and the command either was
// not sent or only reads, Do sends it once more; and a third time if the second connection is
// stuck, too. An attempt that finds no other connection than the stuck one does not count. kept says that the Mux may still look at the ticket and the command: they must
// not be used again.
func (p *Pair[C]) Do(ctx context.Context, now time.Time, reads bool, t *Ticket, command []byte, to Answerer) (kept bool, err error) {
	t.attempt = attempt{repeatable: reads}
	out, err := p.once(ctx, now, reads, t, command, to)
	for n := 2; out.Lost && (!out.Sent || reads) && (n == 2 || n == 3 && out.Stuck); n++ {
		kept = kept || out.Kept
		if out.Kept {
			t = &Ticket{Until: t.Until}
		}
		t.attempt = attempt{repeatable: reads && n == 2, again: true, first: now}
		p.Pool.Retried()
		if out, err = p.once(ctx, now, reads, t, command, to); err == nil {
			p.reroute()
		}
		if out.alone && out.Stuck { // this attempt has found no other connection, and the next one may
			n--
		}
	}
	return kept || out.Kept, err
}

// once is one attempt at Do.
func (p *Pair[C]) once(ctx context.Context, now time.Time, reads bool, t *Ticket, command []byte, to Answerer) (Outcome, error) {
	stuck := p.main.Stuck()
	if !reads || !stuck || !p.main.hasBypass() {
		out, err := p.main.Do(ctx, now, t, command, to)
		if stuck && err == nil { // perhaps over the connection that has replaced the stuck one
			p.main.rerouteOld(time.Now())
		}
		return out, err
	}
	out, err := p.bypass.Do(ctx, now, t, command, to)
	if err == nil {
		p.reroute()
	}
	if !p.main.Stuck() { // the connection was opened, or its last call ended, after main had answered
		p.bypass.Renew()
	}
	nowhere := err != nil && !out.Lost && !out.Sent && !out.Kept && !errors.Is(err, ErrElsewhere) && ctx.Err() == nil && time.Now().Before(t.deadline)
	if nowhere || errors.Is(err, errNeedless) {
		out, err = p.main.Do(ctx, now, t, command, to) // no connection can be had: the stuck one may answer
		out.alone = true
	}
	return out, err
}

// reroute frees the reads that wait at stuck connections: the server answers over another one.
func (p *Pair[C]) reroute() {
	now := time.Now()
	p.main.Reroute(now)
	p.bypass.Reroute(now)
}

// Renew closes all connections, those in use when they come back. It is [pool.Pool.Renew]
// for the shared connections, too.
func (p *Pair[C]) Renew(now time.Time) {
	if p.Pool.Renew(now) {
		p.main.Renew()
		p.bypass.Renew()
	}
}

// Silent returns for how long calls have waited without the end of any call.
func (p *Pair[C]) Silent(now time.Time) time.Duration {
	return max(p.main.Silent(now), p.bypass.Silent(now), p.Pool.Silent(now))
}

// Close fails all calls, closes all connections and waits for the goroutines.
func (p *Pair[C]) Close() {
	p.main.Close()
	p.bypass.Close()
	p.Pool.Close()
}
