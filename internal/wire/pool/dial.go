package pool

import (
	"container/list"
	"context"
	"math/rand/v2"
	"time"
)

// A pool dials on goroutines of its own, as many at a time as calls wait and as
// MaxConns allows. After a failed dial it makes one dial at a time, and none
// before retryAt. Invariant: a call waits only while a dial runs, or while a
// connection is in use that will come back and the next dial is due; otherwise
// it is refused.

const (
	// backoffFirst and backoffMost bound the pause after a failed dial.
	backoffFirst = 50 * time.Millisecond
	backoffMost  = time.Second
	// mostRedials is the number of repetitions of a dial that the server has
	// cut. There is no pause before the first repetition, and redialFirst before
	// the second; each later pause is twice the pause before, up to redialLast.
	// While every second greeting is cut, one dial in 8000 fails, after 70 ms.
	// After a failed dial, half as many repetitions are made.
	mostRedials = 12
	redialFirst = time.Millisecond
	redialLast  = 8 * time.Millisecond
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

// dialState is the state of the dials of a pool.
type dialState struct {
	running int
	// failures counts failed dials in a row, of which lastErr is the last error;
	// no dial begins before retryAt.
	failures int
	lastErr  error
	retryAt  time.Time
	// later begins the next dial at retryAt, for calls that wait for a connection in use; nil if none is due.
	later *time.Timer
}

// startDials opens connections for the waiting calls, as far as the bounds
// allow, and refuses the calls if there is no hope. mu is held.
func (p *Pool[C]) startDials(now time.Time) {
	for !p.closed && p.dial.running < p.waiters.Len() && len(p.open)+p.dial.running+p.reserved < p.o.MaxConns {
		if p.dial.failures > 0 && (p.dial.running > 0 || now.Before(p.dial.retryAt)) {
			break // one attempt at a time until one succeeds
		}
		p.dial.running++
		p.stats.Dials++
		p.dials.Go(p.dialOne)
	}
	if p.dial.failures > 0 {
		p.handIdle()
	}
	if p.dial.failures > 0 && p.waiters.Len() > 0 {
		if p.hopeless() { // a shared connection does not come back
			p.refuse(p.o.Fail(Failure{Op: "dial held back", Err: p.dial.lastErr}))
		} else {
			p.dialLater(now)
		}
	}
}

// handIdle gives the idle connections to calls that wait for a fresh one, as none can be opened. mu is
// held.
func (p *Pool[C]) handIdle() {
	for p.waiters.Len() > 0 && len(p.idle) > 0 {
		var none C
		last := len(p.idle) - 1
		cn := p.idle[last]
		p.idle[last] = none
		p.idle = p.idle[:last]
		p.hand(cn)
	}
}

// dialLater begins a dial at retryAt for calls that wait, unless one runs: the connection in use
// may be a download of hours. mu is held.
func (p *Pool[C]) dialLater(now time.Time) {
	if p.closed || p.dial.running > 0 || p.dial.later != nil || len(p.open) >= p.o.MaxConns {
		return
	}
	p.dial.later = time.AfterFunc(p.dial.retryAt.Sub(now), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dial.later = nil
		p.startDials(time.Now())
	})
}

// hopeless reports whether no dial runs, and no connection is in use that will
// come back. mu is held.
func (p *Pool[C]) hopeless() bool { return len(p.open)-p.shared+p.dial.running == 0 }

// refuse fails all calls that wait. mu is held.
func (p *Pool[C]) refuse(err error) {
	for first := p.waiters.Front(); first != nil; first = p.waiters.Front() {
		p.waiters.Remove(first).(chan grant[C]) <- grant[C]{err: err}
	}
}

// dialOne opens one connection.
func (p *Pool[C]) dialOne() {
	ctx, cancel := context.WithTimeout(p.ctx, p.o.DialTimeout)
	defer cancel()
	cn, err := p.redial(ctx)
	now := time.Now()

	p.mu.Lock()
	p.dial.running--
	kept := false
	switch {
	case p.closed:
		if err != nil {
			p.stats.DialErrors++
		}
	case err != nil:
		p.dialFailed(err, now)
	default:
		p.dial.failures, p.dial.lastErr, p.moved = 0, nil, now
		*cn.slot() = Slot{born: now, since: now, gen: p.gen}
		// The call that has asked for it may have left: then the connection is idle, if there is
		// room.
		if kept = p.hand(cn); kept {
			p.open[cn] = struct{}{}
		}
		p.startDials(now)
	}
	p.mu.Unlock()
	if err == nil && !kept {
		cn.Close()
	}
}

// redial dials, and dials again if that can help.
func (p *Pool[C]) redial(ctx context.Context) (C, error) {
	most := mostRedials
	p.mu.Lock()
	if p.dial.failures > 0 {
		most /= 2
	}
	p.mu.Unlock()
	for n := 0; ; n++ {
		cn, err := p.o.Dial(ctx)
		if err == nil || n == most || !p.o.cut(err) {
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

// dialFailed notes a failed dial. mu is held.
func (p *Pool[C]) dialFailed(err error, now time.Time) {
	p.stats.DialErrors++
	p.dial.lastErr = err
	if !now.Before(p.dial.retryAt) { // dials that failed together count once
		p.dial.failures++
		p.dial.retryAt = now.Add(Backoff(p.dial.failures))
	}
	p.handIdle()
	if p.hopeless() {
		p.refuse(err)
	} else if p.waiters.Len() > 0 {
		p.dialLater(now)
	}
}

// queue puts a call among those that wait. mu is held.
func (p *Pool[C]) queue(ch chan grant[C], first bool) *list.Element {
	if !first {
		return p.waiters.PushBack(ch)
	}
	p.reserved = max(0, p.reserved-1)
	return p.waiters.PushFront(ch)
}

// reservedFor is the time for which the place of a shared connection is kept.
const reservedFor = 100 * time.Millisecond

// reserve keeps the place of a shared connection that goes, for the next one: without it, calls that wait would take
// all places, one after the other. mu is held.
func (p *Pool[C]) reserve() {
	if p.waiters.Len() == 0 {
		return
	}
	p.reserved++
	time.AfterFunc(reservedFor, func() { // no call may come
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reserved = 0
		p.startDials(time.Now())
	})
}

// Room reports whether a call would get a connection without waiting for one in use, as far as is known.
func (p *Pool[C]) Room() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := p.dial.failures == 0 || p.dial.running == 0 && !time.Now().Before(p.dial.retryAt)
	return len(p.idle) > 0 || p.waiters.Len() == 0 && due && len(p.open)+p.dial.running+p.reserved < p.o.MaxConns
}

// unshare notes that a connection comes back, or is closed, and reports whether its place is kept. mu is held.
func (p *Pool[C]) unshare(cn C) (keeps bool) {
	s := cn.slot()
	if !s.shared {
		return false
	}
	keeps = s.keeps
	s.shared, s.keeps = false, false
	p.shared--
	return keeps
}
