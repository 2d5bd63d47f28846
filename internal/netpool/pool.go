// Package netpool keeps connections to one server. It knows no protocol: the
// owner says how to open a connection and whether one that comes back is
// clean.
package netpool

import (
	"container/list"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/remote"
)

const (
	// backoffFirst and backoffMost bound the pause after a failed dial.
	backoffFirst = 50 * time.Millisecond
	backoffMost  = time.Second
	// mostRedials is how often a dial is tried again at once that the server has
	// cut. There is no pause before the first time, and redialFirst before the
	// second; later pauses are twice as long as the one before, up to redialLast.
	// While every second greeting is cut, one dial in 8000 fails, after 70 ms. A
	// pool whose last dial has failed tries half as often.
	mostRedials = 12
	redialFirst = time.Millisecond
	redialLast  = 8 * time.Millisecond
	// renewPause is the least time between two calls of Renew that do something.
	renewPause = time.Second
)

// Backoff is the pause after the n-th failure in a row: twice as long each
// time, shortened at random by up to a half.
func Backoff(n int) time.Duration {
	d := backoffMost
	if n < 6 {
		d = min(backoffMost, backoffFirst<<(n-1))
	}
	return d/2 + rand.N(d/2+1)
}

// Config says how a pool opens and keeps connections. All fields but
// MaxLifetime, Again and Look are required.
type Config[C Conn] struct {
	// Dial opens one connection. The context ends after DialTimeout, or when
	// the pool is closed; it is not that of a call.
	Dial        func(ctx context.Context) (C, error)
	DialTimeout time.Duration
	// Again, if set, reports whether an error of Dial says nothing about the next
	// dial: it is tried again soon, some times, while callers wait.
	Again func(error) bool
	// Timeout bounds the wait of a call whose context has no deadline.
	Timeout time.Duration
	// MaxConns is the most connections open at once, MaxIdle the most kept
	// unused.
	MaxConns, MaxIdle int
	// IdleTimeout is how long a connection is kept unused, MaxLifetime how
	// long it is kept at all; zero means no limit.
	IdleTimeout, MaxLifetime time.Duration
	// Fail makes the error of a call out of what happened to it: op is wait,
	// or "dial held back" after a failed dial.
	Fail func(op string, err error) error
	// Look, if set, is asked about a connection each time before it is used. It
	// returns [ErrUnasked] if something has come that nobody asked for, and
	// another error if the peer has gone. It must not wait.
	Look func(C) error
	// Closed is the error after Close.
	Closed error
}

// Conn is a connection in a pool. A type becomes one by embedding [Slot].
type Conn interface {
	comparable
	// Close closes the connection; it must not wait.
	Close() error
	slot() *Slot
}

// Slot is what the pool notes about a connection.
type Slot struct {
	// born is when the connection was made, since when it came back last.
	born, since time.Time
	// gen is the generation it belongs to.
	gen uint64
	// reused says that it has served a call.
	reused bool
	// shared says that a Mux has it, and does not give it back for long.
	shared bool
}

func (s *Slot) slot() *Slot { return s } //nolint:unused // Pool calls it through the constraint Conn

// Reused reports whether the connection had served a call before this one.
func (s *Slot) Reused() bool { return s.reused }

// Stats are counters of a pool since it was made, and its state now.
type Stats struct {
	// Reused calls found an idle connection; Waited calls did not, and Expired
	// ones gave up waiting.
	Reused, Waited, Expired uint64
	// Dials counts attempts to open a connection, DialErrors the failed ones.
	Dials, DialErrors uint64
	// Stale counts connections that were found dead when they were to be used
	// again, or were closed because another one was. Broken counts those
	// closed because a call failed or was cancelled half-way, or because
	// something had come that nobody asked for.
	Stale, Broken uint64
	// Retried counts calls that were sent again on another connection.
	Retried uint64
	// Open connections, those of them that are Idle, and calls Waiting.
	Open, Idle, Waiting int
}

// Pool keeps connections. Calls take the one used last. Those that find none
// wait for one to come back or to be opened; opening is done by goroutines of
// the pool, so that it does not depend on the context of a call. After a
// failed dial none begins for a while, and calls fail at once unless a
// connection is still in use.
type Pool[C Conn] struct {
	o      Config[C]
	ctx    context.Context
	cancel context.CancelFunc
	dials  sync.WaitGroup

	mu      sync.Mutex // guards below; never held over I/O
	open    map[C]struct{}
	idle    []C       // used last at the end
	waiters list.List // of chan grant[C][C], first come first served
	dialing int
	shared  int // open connections that a Mux has
	gen     uint64
	closed  bool
	// moved is when a connection was taken or came back last.
	moved time.Time
	// failures counts failed dials in a row; no dial begins before retryAt.
	failures int
	retryAt  time.Time
	renewed  time.Time
	lastErr  error
	stats    Stats
}

// grant is what a waiter gets.
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

// Get takes a connection, waiting for it as long as ctx allows, or for the
// timeout if it has no deadline. The caller gives it back with Put.
func (p *Pool[C]) Get(ctx context.Context, now time.Time) (C, error) {
	for {
		cn, err := p.take(ctx, now)
		if err != nil || p.fit(cn, now) {
			return cn, err
		}
	}
}

// fit reports whether a connection that owes nothing can be used. One that
// cannot is closed.
func (p *Pool[C]) fit(cn C, now time.Time) bool {
	if p.o.Look == nil {
		return true
	}
	err := p.o.Look(cn)
	switch err {
	case nil:
		return true
	case ErrUnasked: // says nothing of the others
		p.Put(cn, false, now)
	default:
		p.Lost(cn)
		p.Put(cn, true, now)
	}
	return false
}

// take is Get without a look at the connection.
func (p *Pool[C]) take(ctx context.Context, now time.Time) (C, error) {
	var none C
	if err := ctx.Err(); err != nil {
		return none, p.o.Fail("wait", err)
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return none, p.o.Closed
	}
	cn, old := p.pop(now)
	if cn != none {
		p.moved = now
		p.stats.Reused++
		p.mu.Unlock()
		closeAll(old)
		return cn, nil
	}
	if p.waiters.Len() == 0 {
		p.moved = now
	}
	ch := make(chan grant[C], 1)
	place := p.waiters.PushBack(ch)
	p.stats.Waited++
	p.kick(now)
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
		return g.cn, g.err
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
	return none, p.o.Fail("wait", err)
}

// pop takes the connection used last, and those that are too old out of its
// way. mu is held; the caller closes the old ones without it.
func (p *Pool[C]) pop(now time.Time) (cn C, old []C) {
	var none C
	// The one unused for longest lies at the bottom; looking at one each time
	// is enough to shrink the pool after a burst.
	if len(p.idle) > 1 && p.tooOld(p.idle[0], now) {
		old = append(old, p.idle[0])
		delete(p.open, p.idle[0])
		p.idle = slices.Delete(p.idle, 0, 1)
	}
	for len(p.idle) > 0 {
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

// TooOld reports whether a connection that was used last at since is not to be
// used any more.
func (p *Pool[C]) TooOld(cn C, since, now time.Time) bool {
	return now.Sub(since) > p.o.IdleTimeout || p.Outlived(cn, now)
}

func (p *Pool[C]) tooOld(cn C, now time.Time) bool { return p.TooOld(cn, cn.slot().since, now) }

// Outlived reports whether a connection has been kept for as long as it may be.
func (p *Pool[C]) Outlived(cn C, now time.Time) bool {
	return p.o.MaxLifetime > 0 && now.Sub(cn.slot().born) > p.o.MaxLifetime
}

// Retire closes a connection that has served for long enough.
func (p *Pool[C]) Retire(cn C, now time.Time) {
	p.mu.Lock()
	p.unshare(cn)
	delete(p.open, cn)
	p.kick(now)
	p.mu.Unlock()
	cn.Close()
}

// Put gives a connection back. One that is not clean is closed.
func (p *Pool[C]) Put(cn C, clean bool, now time.Time) {
	p.mu.Lock()
	if !clean {
		p.stats.Broken++
	}
	p.moved = now
	p.unshare(cn)
	s := cn.slot()
	keep := clean && !p.closed && s.gen == p.gen && !p.Outlived(cn, now)
	if keep {
		s.reused, s.since = true, now
		keep = p.hand(cn)
	}
	if !keep {
		delete(p.open, cn)
		p.kick(now)
	}
	p.mu.Unlock()
	if !keep {
		cn.Close()
	}
}

// hand gives a usable connection to the first waiter, or keeps it. mu is held.
func (p *Pool[C]) hand(cn C) (kept bool) {
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

// kick opens connections for those who wait, as far as the bounds allow, and
// turns them away if there is no hope. mu is held.
func (p *Pool[C]) kick(now time.Time) {
	for !p.closed && p.dialing < p.waiters.Len() && len(p.open)+p.dialing < p.o.MaxConns {
		if p.failures > 0 && (p.dialing > 0 || now.Before(p.retryAt)) {
			break // one attempt at a time until one succeeds
		}
		p.dialing++
		p.stats.Dials++
		p.dials.Go(p.dial)
	}
	if p.failures > 0 && p.hopeless() && p.waiters.Len() > 0 { // else one that is shared comes back
		p.refuse(p.o.Fail("dial held back", p.lastErr))
	}
}

// hopeless reports whether nothing is under way that would serve those who wait.
// mu is held.
func (p *Pool[C]) hopeless() bool { return len(p.open)-p.shared+p.dialing == 0 }

// Share notes that its caller has taken a connection for good.
func (p *Pool[C]) Share(cn C) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cn.slot().shared = true
	p.shared++
	p.kick(time.Now())
}

// unshare notes that a connection comes back, or is closed. mu is held.
func (p *Pool[C]) unshare(cn C) {
	if s := cn.slot(); s.shared {
		s.shared = false
		p.shared--
	}
}

// refuse fails everybody who waits. mu is held.
func (p *Pool[C]) refuse(err error) {
	for first := p.waiters.Front(); first != nil; first = p.waiters.Front() {
		p.waiters.Remove(first).(chan grant[C]) <- grant[C]{err: err}
	}
}

// dial opens one connection.
func (p *Pool[C]) dial() {
	ctx, cancel := context.WithTimeout(p.ctx, p.o.DialTimeout)
	defer cancel()
	cn, err := p.attempt(ctx)
	now := time.Now()

	p.mu.Lock()
	p.dialing--
	kept := false
	switch {
	case p.closed:
	case err != nil:
		p.failed(err, now)
	default:
		p.failures, p.lastErr, p.moved = 0, nil, now
		*cn.slot() = Slot{born: now, since: now, gen: p.gen}
		if kept = p.hand(cn); kept {
			p.open[cn] = struct{}{}
		}
		p.kick(now)
	}
	p.mu.Unlock()
	if err == nil && !kept {
		cn.Close()
	}
}

// attempt dials, and dials again if that can help.
func (p *Pool[C]) attempt(ctx context.Context) (C, error) {
	most := mostRedials
	p.mu.Lock()
	if p.failures > 0 {
		most /= 2
	}
	p.mu.Unlock()
	for n := 0; ; n++ {
		cn, err := p.o.Dial(ctx)
		if err == nil || n == most || p.o.Again == nil || !p.o.Again(err) {
			return cn, err
		}
		if n > 0 {
			pause := time.NewTimer(min(redialFirst<<(n-1), redialLast))
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
				return cn, err
			}
		}
		p.mu.Lock()
		p.stats.Dials++
		p.stats.DialErrors++
		p.mu.Unlock()
	}
}

// failed notes a failed dial. mu is held.
func (p *Pool[C]) failed(err error, now time.Time) {
	p.stats.DialErrors++
	p.lastErr = err
	if !now.Before(p.retryAt) { // dials that failed together count once
		p.failures++
		p.retryAt = now.Add(Backoff(p.failures))
	}
	if p.hopeless() {
		p.refuse(err)
	}
}

// Tidy closes idle connections that are too old.
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

// Lost closes all idle connections of cn's generation: cn was found dead, so the others are, too.
// Those in use, cn among them, are closed when they come back.
func (p *Pool[C]) Lost(cn C) {
	p.mu.Lock()
	if cn.slot().gen != p.gen {
		p.mu.Unlock()
		return // somebody else was first
	}
	idle := p.pass()
	p.stats.Stale++
	p.mu.Unlock()
	closeAll(idle)
}

// Renew closes all connections, those in use when they come back, because they
// lead to a server that is not the one wanted any more. It does so once a second
// at most, and reports whether it did: a server may remain the wrong one.
func (p *Pool[C]) Renew(now time.Time) bool {
	p.mu.Lock()
	if now.Sub(p.renewed) < renewPause {
		p.mu.Unlock()
		return false
	}
	p.renewed = now
	idle := p.pass()
	p.mu.Unlock()
	closeAll(idle)
	return true
}

// pass ends a generation and returns what is idle of it. mu is held.
func (p *Pool[C]) pass() []C {
	idle := p.idle
	p.idle = nil
	p.gen++
	for _, cn := range idle {
		delete(p.open, cn)
	}
	p.stats.Stale += uint64(len(idle))
	return idle
}

// Retry gives back a connection that was Lost by a call that goes on with
// another one.
func (p *Pool[C]) Retry(cn C, now time.Time) {
	p.Put(cn, true, now) // closed: its generation has passed
	p.Retried()
}

// Retried counts a call that is sent again.
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

// Silent is how long no connection has been taken or has come back although
// some are in use, besides those that are shared, or waited for.
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
	s.Open, s.Idle, s.Waiting = len(p.open), len(p.idle), p.waiters.Len()
	return s
}
