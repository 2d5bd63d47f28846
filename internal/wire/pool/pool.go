// Package pool keeps connections to one server. It knows no protocol: the
// owner says how to open a connection, and whether a connection that comes back
// is clean.
//
// A connection of a [Pool] is idle, in use or shared, and belongs to the
// generation of its dial. Lost and Renew end a generation: its idle connections
// are closed at once, the others when they come back. Invariant: a call gets
// only a connection of the present generation that owes no reply and was looked
// at; every open connection is known to Close.
package pool

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/wire"
	"github.com/strata-cache/strata/internal/wire/overdue"
	"github.com/strata-cache/strata/remote"
)

// renewPause is the least time between two renewals.
const renewPause = time.Second

// Config says how a pool opens and keeps connections. All fields but
// MaxLifetime and Look are required.
type Config[C Conn] struct {
	// Dial opens one connection. The context ends after DialTimeout, or when
	// the pool is closed; it is not the context of a call.
	Dial func(ctx context.Context) (C, error)
	wire.Limits
	*Errors
	// Look, if set, is asked about a connection each time before it is used. It
	// returns [ErrUnasked] if bytes have come that no call has asked for, and
	// another error if the peer has gone. It must not wait.
	Look func(C) error
}

// Conn is a connection in a pool. A type becomes one by embedding [Slot].
type Conn interface {
	comparable
	// Close closes the connection; it must not wait.
	Close() error
	slot() *Slot
}

// Slot is the pool's note about a connection.
type Slot struct {
	// born is the time at which the connection was made, since the time at which
	// it came back last.
	born, since time.Time
	// gen is the generation it belongs to.
	gen uint64
	// reused says that it has served a call.
	reused bool
	// shared says that its user shares it, and does not give it back for long; keeps that its place is kept then.
	shared, keeps bool
}

func (s *Slot) slot() *Slot { return s } //nolint:unused // Pool calls it through the constraint Conn

// Reused reports whether the connection had served a call before this one.
func (s *Slot) Reused() bool { return s.reused }

// Stats are counters of a pool since it was made, and its state now.
type Stats struct {
	// Reused calls found an idle connection, Waited calls did not. Expired calls
	// gave up waiting.
	Reused, Waited, Expired uint64
	// Dials counts attempts to open a connection that have ended, DialErrors the failed ones.
	Dials, DialErrors uint64
	// Stale counts idle connections that a call took and found dead, and those
	// closed along with one, or because their server is not the right one any
	// more. Broken counts connections closed because a call failed or was
	// cancelled half-way, or because bytes arrived that no call had asked for.
	Stale, Broken uint64
	// Retried counts calls sent again on another connection.
	Retried uint64
	// Open counts connections, Idle those of them without a call, and Waiting
	// the calls that wait for one.
	Open, Idle, Waiting int
}

// Add adds the counters and the state of another pool.
func (s *Stats) Add(t Stats) {
	s.Reused += t.Reused
	s.Waited += t.Waited
	s.Expired += t.Expired
	s.Dials += t.Dials
	s.DialErrors += t.DialErrors
	s.Stale += t.Stale
	s.Broken += t.Broken
	s.Retried += t.Retried
	s.Open += t.Open
	s.Idle += t.Idle
	s.Waiting += t.Waiting
}

// Pool keeps connections. A call takes the connection used last. A call that
// finds none waits until one comes back or is opened; goroutines of the pool
// open connections, so that opening does not depend on the context of a call.
// After a failed dial no dial begins for a while, and calls fail at once unless
// a connection is still in use.
type Pool[C Conn] struct {
	o      Config[C]
	ctx    context.Context
	cancel context.CancelFunc
	dials  sync.WaitGroup

	mu      sync.Mutex // guards below; never held over I/O
	open    map[C]struct{}
	idle    []C       // used last at the end
	waiters list.List // of chan grant[C], first come first served
	dial    dialState
	shared  int // shared connections among the open ones
	// reserved is the number of connections that may be opened for [Pool.First] only: shared ones have gone, and the
	// calls that share them will ask for others.
	reserved int
	gen      uint64
	closed   bool
	// moved is the last time at which a connection was taken or came back.
	moved   time.Time
	renewed time.Time
	stats   Stats
}

// grant is the connection or the error for a call that waits.
type grant[C Conn] struct {
	cn  C
	err error
}

// New returns an empty pool.
func New[C Conn](o Config[C]) *Pool[C] {
	p := &Pool[C]{o: o, open: map[C]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Config says how the pool opens and keeps connections.
func (p *Pool[C]) Config() *Config[C] { return &p.o }

// Get takes a connection, waiting for it as long as ctx allows, or for the
// timeout if it has no deadline. The caller gives it back with Put.
func (p *Pool[C]) Get(ctx context.Context, now time.Time) (C, error) { return p.get(ctx, now, asks{}) }

// First is Get before all calls that wait, for a connection that many calls share; fresh: as [Pool.Fresh].
func (p *Pool[C]) First(ctx context.Context, now time.Time, fresh bool) (C, error) {
	return p.get(ctx, now, asks{fresh: fresh, first: true})
}

// Fresh is Get without the idle connections, which may be dead without a word: it waits for one that
// is opened or has just served another call. If no connection can be opened, it takes an idle one.
func (p *Pool[C]) Fresh(ctx context.Context, now time.Time) (C, error) {
	return p.get(ctx, now, asks{fresh: true})
}

// asks says how a call asks for a connection.
type asks struct{ fresh, first bool }

func (p *Pool[C]) get(ctx context.Context, now time.Time, how asks) (C, error) {
	for {
		cn, err := p.take(ctx, now, how)
		if err != nil || p.fit(cn, now) {
			return cn, err
		}
	}
}

// fit reports whether a connection that owes nothing can be used, and closes it
// if not.
func (p *Pool[C]) fit(cn C, now time.Time) bool {
	if p.o.Look == nil {
		return true
	}
	err := p.o.Look(cn)
	switch err {
	case nil:
		return true
	case ErrUnasked: // says nothing about the other connections
		p.Put(cn, false, now)
	default:
		p.Lost(cn)
		p.Put(cn, true, now)
	}
	return false
}

// take is Get without a look at the connection.
func (p *Pool[C]) take(ctx context.Context, now time.Time, how asks) (C, error) {
	var none C
	if err := ctx.Err(); err != nil {
		return none, p.o.Fail(Failure{Op: "wait", Err: err})
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return none, p.o.Closed
	}
	cn, old := p.pop(now, how.fresh)
	if cn != none {
		p.moved = now
		p.stats.Reused++
		p.mu.Unlock()
		closeAll(old)
		return cn, nil
	}
	// Silence counts from the first of the calls that wait.
	if p.waiters.Len() == 0 {
		p.moved = now
	}
	ch := make(chan grant[C], 1)
	place := p.queue(ch, how.first)
	p.stats.Waited++
	p.startDials(now)
	p.mu.Unlock()
	closeAll(old)
	return p.wait(ctx, now, ch, place)
}

func (p *Pool[C]) wait(ctx context.Context, now time.Time, ch chan grant[C], place *list.Element) (C, error) {
	var none C
	caller, deadline := remote.Split(ctx)
	if deadline.IsZero() {
		deadline = now.Add(p.o.Timeout)
	}
	timeout := time.NewTimer(time.Until(deadline))
	defer timeout.Stop()
	err := context.DeadlineExceeded
	select {
	case g := <-ch:
		if g.err == nil {
			return g.cn, nil
		}
		// A call whose own time is over is told that, and not why a dial has failed.
		if err = overdue.Err(ctx); err == nil {
			return none, g.err
		}
	case <-caller.Done():
		err = caller.Err()
	case <-timeout.C:
	}
	p.mu.Lock()
	p.stats.Expired++
	select {
	case g := <-ch: // granted in the meantime
		p.mu.Unlock()
		if g.cn != none {
			p.Put(g.cn, true, now)
		}
	default:
		p.waiters.Remove(place)
		p.mu.Unlock()
	}
	return none, p.o.Fail(Failure{Op: "wait", Err: err})
}

// pop takes the connection used last, and removes old ones. fresh: it takes none, and makes
// room for another one. mu is held; the caller closes the old connections without it.
func (p *Pool[C]) pop(now time.Time, fresh bool) (cn C, old []C) {
	var none C
	full := len(p.open)+p.dial.running >= p.o.MaxConns
	// The connection unused for longest comes first; to look at one each time is
	// enough to shrink the pool after a burst.
	if len(p.idle) > 1 && p.tooOld(p.idle[0], now) || fresh && full && len(p.idle) > 0 {
		old = append(old, p.idle[0])
		delete(p.open, p.idle[0])
		p.idle = slices.Delete(p.idle, 0, 1)
	}
	for len(p.idle) > 0 && !fresh {
		cn = p.idle[len(p.idle)-1]
		p.idle[len(p.idle)-1] = none
		p.idle = p.idle[:len(p.idle)-1]
		if !p.tooOld(cn, now) {
			return cn, old
		}
		old = append(old, cn)
		delete(p.open, cn)
	}
	return none, old
}

// Rested returns for how long a connection that was just taken had been idle.
func (p *Pool[C]) Rested(cn C, now time.Time) time.Duration { return now.Sub(cn.slot().since) }

// TooOld reports whether a connection, used last at since, is too old for
// another use.
func (p *Pool[C]) TooOld(cn C, since, now time.Time) bool {
	return now.Sub(since) > p.o.IdleTimeout || p.Outlived(cn, now)
}

func (p *Pool[C]) tooOld(cn C, now time.Time) bool { return p.TooOld(cn, cn.slot().since, now) }

// Outlived reports whether a connection has been kept for as long as it may be.
func (p *Pool[C]) Outlived(cn C, now time.Time) bool {
	return p.o.MaxLifetime > 0 && now.Sub(cn.slot().born) > p.o.MaxLifetime
}

// Retire closes a connection at the end of its service: it is too old, not
// broken.
func (p *Pool[C]) Retire(cn C, now time.Time) {
	p.mu.Lock()
	if p.unshare(cn) {
		p.reserve()
	}
	delete(p.open, cn)
	p.startDials(now)
	p.mu.Unlock()
	cn.Close()
}

// Put gives a connection back. It is closed unless it is clean.
func (p *Pool[C]) Put(cn C, clean bool, now time.Time) {
	p.mu.Lock()
	if !clean {
		p.stats.Broken++
	}
	p.moved = now
	keeps := p.unshare(cn)
	s := cn.slot()
	keep := clean && !p.closed && s.gen == p.gen && !p.Outlived(cn, now)
	if keep {
		s.reused, s.since = true, now
		keep = p.hand(cn)
	}
	// There is room for another connection, for which a call may wait.
	if !keep {
		if delete(p.open, cn); keeps {
			p.reserve()
		}
		p.startDials(now)
	}
	p.mu.Unlock()
	if !keep {
		cn.Close()
	}
}

// hand gives a usable connection to the first waiter, or keeps it. mu is held.
func (p *Pool[C]) hand(cn C) (kept bool) {
	// A connection goes from hand to hand without being idle: no later call can take it before the
	// first that waits.
	if first := p.waiters.Front(); first != nil {
		p.waiters.Remove(first).(chan grant[C]) <- grant[C]{cn: cn}
		return true
	}
	if len(p.idle) >= p.o.MaxIdle {
		return false
	}
	p.idle = append(p.idle, cn)
	return true
}

// Share notes that its caller has taken a connection for good. With keeps, the place of the connection is kept when it
// goes, until the next [Pool.First].
func (p *Pool[C]) Share(cn C, keeps bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cn.slot().shared, cn.slot().keeps = true, keeps
	p.shared++
	p.startDials(time.Now())
}

// Tidy closes idle connections past their time.
func (p *Pool[C]) Tidy(now time.Time) {
	var old []C
	p.mu.Lock()
	for len(p.idle) > 0 && p.tooOld(p.idle[0], now) {
		old = append(old, p.idle[0])
		delete(p.open, p.idle[0])
		p.idle = slices.Delete(p.idle, 0, 1)
	}
	p.mu.Unlock()
	closeAll(old)
}

// Lost closes all idle connections of cn's generation: cn was found dead, so the
// others are dead, too. Connections in use, cn among them, are closed when they
// come back.
func (p *Pool[C]) Lost(cn C) {
	p.mu.Lock()
	if cn.slot().gen != p.gen {
		p.mu.Unlock()
		return // another call was first
	}
	idle := p.nextGeneration()
	p.stats.Stale++
	p.mu.Unlock()
	closeAll(idle)
}

// Renew closes all connections, those in use when they come back, because their
// server is not the right one any more. It does so once a second at most, and
// reports whether it did: a server may remain the wrong one.
func (p *Pool[C]) Renew(now time.Time) bool {
	p.mu.Lock()
	if now.Sub(p.renewed) < renewPause {
		p.mu.Unlock()
		return false
	}
	p.renewed = now
	idle := p.nextGeneration()
	p.mu.Unlock()
	closeAll(idle)
	return true
}

// nextGeneration ends a generation and returns its idle connections. mu is held.
func (p *Pool[C]) nextGeneration() []C {
	idle := p.idle
	p.idle = nil
	p.gen++
	for _, cn := range idle {
		delete(p.open, cn)
	}
	p.stats.Stale += uint64(len(idle))
	return idle
}

// Retry gives back a connection after Lost. Its call goes on with another
// connection.
func (p *Pool[C]) Retry(cn C, now time.Time) {
	p.Put(cn, true, now) // closed: its generation has passed
	p.Retried()
}

// Retried counts a call sent again.
func (p *Pool[C]) Retried() {
	p.mu.Lock()
	p.stats.Retried++
	p.mu.Unlock()
}

// Close closes every connection, also those in use, and waits for the dials.
func (p *Pool[C]) Close() {
	p.mu.Lock()
	p.closed = true
	p.idle = nil
	all := make([]C, 0, len(p.open))
	for cn := range p.open {
		all = append(all, cn)
	}
	clear(p.open)
	if p.dial.later != nil {
		p.dial.later.Stop()
	}
	// Calls that wait get their error now. Calls under way get it from their connections.
	p.refuse(p.o.Closed)
	p.mu.Unlock()
	p.cancel()
	closeAll(all)
	p.dials.Wait()
}

func closeAll[C Conn](conns []C) {
	for _, cn := range conns {
		cn.Close()
	}
}

// Silent returns for how long no connection has been taken or has come back,
// although calls use connections of their own, or wait for one.
func (p *Pool[C]) Silent(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open)-len(p.idle) <= p.shared && p.waiters.Len() == 0 {
		return 0
	}
	return now.Sub(p.moved)
}

// Stats returns the counters and the state.
func (p *Pool[C]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	// A dial that runs has no outcome yet, and would count as one that went well until it fails.
	s.Dials -= uint64(p.dial.running)
	s.Open, s.Idle, s.Waiting = len(p.open), len(p.idle), p.waiters.Len()
	return s
}

// Begun returns the number of attempts to open a connection, those that run included: it differs before
// a call can use the next connection.
func (p *Pool[C]) Begun() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats.Dials
}
