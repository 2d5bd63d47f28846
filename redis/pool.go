package redis

import (
	"container/list"
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// backoffFirst and backoffMost bound the pause after a failed dial.
	backoffFirst = 50 * time.Millisecond
	backoffMost  = time.Second
)

// backoff is the pause after the n-th failure in a row: twice as long each
// time, shortened at random by up to a half.
func backoff(n int) time.Duration {
	d := backoffMost
	if n < 6 {
		d = min(backoffMost, backoffFirst<<(n-1))
	}
	return d/2 + rand.N(d/2+1)
}

// Stats are counters of a [Client] since it was made, and the state of its
// pool now.
type Stats struct {
	// Reused calls found an idle connection; Waited calls did not, and Expired
	// ones gave up waiting.
	Reused, Waited, Expired uint64
	// Dials counts attempts to open a connection, DialErrors the failed ones.
	Dials, DialErrors uint64
	// Stale counts connections that turned out to be dead when they were to
	// be used again or were closed with one that was; Broken those closed
	// because a call failed or was cancelled half-way.
	Stale, Broken uint64
	// Retried counts calls that were sent again on another connection.
	Retried uint64
	// Open connections, those of them that are Idle, and calls Waiting.
	Open, Idle, Waiting int
}

// pool keeps connections. Calls take the one used last. Those that find none
// wait for one to come back or to be opened; opening is done by goroutines of
// the pool, so that it does not depend on the context of a call.
type pool struct {
	o      *Options
	ctx    context.Context
	cancel context.CancelFunc
	dials  sync.WaitGroup

	mu      sync.Mutex // guards below; never held over I/O
	open    map[*conn]struct{}
	idle    []*conn   // used last at the end
	waiters list.List // of chan grant, first come first served
	dialing int
	gen     uint64
	closed  bool
	// failures counts failed dials in a row; no dial begins before retryAt.
	failures int
	retryAt  time.Time
	lastErr  error
	stats    Stats
}

// grant is what a waiter gets.
type grant struct {
	cn  *conn
	err error
}

func newPool(o *Options) *pool {
	p := &pool{o: o, open: map[*conn]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// get takes a connection, waiting for it as long as ctx allows, or for the
// timeout if it has no deadline. The caller gives it back with put.
func (p *pool) get(ctx context.Context, now time.Time) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, &ConnError{Op: "wait", Err: err}
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	cn, old := p.pop(now)
	if cn != nil {
		p.stats.Reused++
		p.mu.Unlock()
		closeAll(old)
		return cn, nil
	}
	ch := make(chan grant, 1)
	place := p.waiters.PushBack(ch)
	p.stats.Waited++
	p.kick(now)
	p.mu.Unlock()
	closeAll(old)
	return p.wait(ctx, now, ch, place)
}

func (p *pool) wait(ctx context.Context, now time.Time, ch chan grant, place *list.Element) (*conn, error) {
	var timeout <-chan time.Time
	if _, bounded := ctx.Deadline(); !bounded {
		t := time.NewTimer(p.o.Timeout - time.Since(now))
		defer t.Stop()
		timeout = t.C
	}
	err := context.DeadlineExceeded
	select {
	case g := <-ch:
		return g.cn, g.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout:
	}
	p.mu.Lock()
	p.stats.Expired++
	select {
	case g := <-ch: // granted in the meantime
		p.mu.Unlock()
		if g.cn != nil {
			p.put(g.cn, true, now)
		}
	default:
		p.waiters.Remove(place)
		p.mu.Unlock()
	}
	return nil, &ConnError{Op: "wait", Err: err}
}

// pop takes the connection used last, and those that are too old out of its
// way. mu is held; the caller closes the old ones without it.
func (p *pool) pop(now time.Time) (cn *conn, old []*conn) {
	// The one unused for longest lies at the bottom; looking at one each time
	// is enough to shrink the pool after a burst.
	if len(p.idle) > 1 && p.tooOld(p.idle[0], now) {
		old = append(old, p.idle[0])
		p.forget(p.idle[0])
		p.idle = append(p.idle[:0], p.idle[1:]...)
	}
	for len(p.idle) > 0 {
		cn = p.idle[len(p.idle)-1]
		p.idle[len(p.idle)-1] = nil
		p.idle = p.idle[:len(p.idle)-1]
		if !p.tooOld(cn, now) {
			return cn, old
		}
		old = append(old, cn)
		p.forget(cn)
	}
	return nil, old
}

func (p *pool) tooOld(cn *conn, now time.Time) bool {
	return now.Sub(cn.since) > p.o.IdleTimeout || p.o.MaxLifetime > 0 && now.Sub(cn.born) > p.o.MaxLifetime
}

func (p *pool) forget(cn *conn) { delete(p.open, cn) }

// put gives a connection back. One that is not clean is closed.
func (p *pool) put(cn *conn, clean bool, now time.Time) {
	p.mu.Lock()
	if !clean {
		p.stats.Broken++
	}
	keep := clean && !p.closed && cn.gen == p.gen &&
		(p.o.MaxLifetime == 0 || now.Sub(cn.born) <= p.o.MaxLifetime)
	if keep {
		cn.reused, cn.since = true, now
		keep = p.hand(cn)
	}
	if !keep {
		p.forget(cn)
		p.kick(now)
	}
	p.mu.Unlock()
	if !keep {
		cn.nc.Close()
	}
}

// hand gives a usable connection to the first waiter, or keeps it. mu is held.
func (p *pool) hand(cn *conn) (kept bool) {
	if first := p.waiters.Front(); first != nil {
		p.waiters.Remove(first).(chan grant) <- grant{cn: cn}
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
func (p *pool) kick(now time.Time) {
	for !p.closed && p.dialing < p.waiters.Len() && len(p.open)+p.dialing < p.o.MaxConns {
		if p.failures > 0 && (p.dialing > 0 || now.Before(p.retryAt)) {
			break // one attempt at a time until one succeeds
		}
		p.dialing++
		p.stats.Dials++
		p.dials.Go(p.dial)
	}
	if len(p.open)+p.dialing == 0 {
		p.refuse(&ConnError{Op: "dial held back", Err: p.lastErr})
	}
}

// refuse fails everybody who waits. mu is held.
func (p *pool) refuse(err error) {
	for first := p.waiters.Front(); first != nil; first = p.waiters.Front() {
		p.waiters.Remove(first).(chan grant) <- grant{err: err}
	}
}

// dial opens one connection.
func (p *pool) dial() {
	ctx, cancel := context.WithTimeout(p.ctx, p.o.DialTimeout)
	defer cancel()
	cn, err := connect(ctx, p.o)
	now := time.Now()

	p.mu.Lock()
	p.dialing--
	kept := false
	switch {
	case p.closed:
	case err != nil:
		p.failed(err, now)
	default:
		p.failures, p.lastErr = 0, nil
		cn.gen, cn.since = p.gen, now
		if kept = p.hand(cn); kept {
			p.open[cn] = struct{}{}
		}
		p.kick(now)
	}
	p.mu.Unlock()
	if cn != nil && !kept {
		cn.nc.Close()
	}
}

// failed notes a failed dial. mu is held.
func (p *pool) failed(err error, now time.Time) {
	p.stats.DialErrors++
	p.lastErr = err
	if !now.Before(p.retryAt) { // dials that failed together count once
		p.failures++
		p.retryAt = now.Add(backoff(p.failures))
	}
	if len(p.open)+p.dialing == 0 {
		p.refuse(err)
	}
}

// lost closes all idle connections: cn was found dead, so the others are, too.
// Those in use, cn among them, are closed when they come back.
func (p *pool) lost(cn *conn) {
	p.mu.Lock()
	if cn.gen != p.gen {
		p.mu.Unlock()
		return // somebody else was first
	}
	idle := p.idle
	p.idle = nil
	p.gen++
	for _, cn := range idle {
		p.forget(cn)
	}
	p.stats.Stale += uint64(len(idle)) + 1
	p.mu.Unlock()
	closeAll(idle)
}

// close closes every connection, also those in use, and waits for the dials.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.idle = nil
	all := make([]*conn, 0, len(p.open))
	for cn := range p.open {
		all = append(all, cn)
	}
	clear(p.open)
	p.refuse(ErrClosed)
	p.mu.Unlock()
	p.cancel()
	closeAll(all)
	p.dials.Wait()
}

func closeAll(conns []*conn) {
	for _, cn := range conns {
		cn.nc.Close()
	}
}

func (p *pool) snapshot() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Open, s.Idle, s.Waiting = len(p.open), len(p.idle), p.waiters.Len()
	return s
}

func (p *pool) retried() {
	p.mu.Lock()
	p.stats.Retried++
	p.mu.Unlock()
}
