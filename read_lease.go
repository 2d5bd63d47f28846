package strata

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/remote"
)

// The wait between two looks at a lease that another instance holds: a part of
// the time waited so far, so that a value is seen soon after it is stored,
// compared with how long its load took, and long loads are asked for rarely.
// With a bus that tells when leases end it is the backstop only.
const (
	minPoll  = time.Millisecond
	maxPoll  = 50 * time.Millisecond
	pollPart = 5
	backstop = 500 * time.Millisecond
)

// takeLease asks for the right to store, and waits while another instance has
// it. It reports true when there is a result instead: the other instance has
// stored its value, or nobody waits any more. While L2 refuses to store it is not
// asked, and the load is for L1 alone.
func (a *attempt[K, V]) takeLease() bool {
	var ok bool
	if ok, a.storeProbe = a.c.mayStore(); !ok {
		return a.unasked && a.read()
	}
	for begun := time.Now(); ; {
		ended, leave := a.c.waits.join(a.name) // before asking, so as to miss nothing
		result, wait := a.acquire()
		if wait == 0 {
			leave()
			return result
		}
		a.c.counts.leaseWaits.Add(1)
		waited, over := time.Since(begun), false
		pause := a.pause(waited, wait)
		last := false // the poll in which patience ends
		if d := a.c.o.Limits.HardTimeout; d > 0 && pause >= d-waited {
			pause, last = max(d-waited, 1), true
		}
		poll := time.NewTimer(pause)
		select {
		case <-ended:
		case <-poll.C:
			if last {
				a.noKeep = true // the holder may still store: only one of us may
				over = true
			}
		case <-a.ctx.Done():
			a.res.Err = a.c.flightError(context.Cause(a.ctx))
			over, result = true, true
		}
		poll.Stop()
		leave()
		if over {
			return result
		}
	}
}

// pause is how long to wait before asking again for a lease that lasts for
// another left, having waited for some time.
func (a *attempt[K, V]) pause(waited, left time.Duration) time.Duration {
	d := min(max(waited/pollPart, minPoll), maxPoll)
	if a.c.can.announce && a.c.link.Connected() {
		d = backstop
	}
	return min(d/2+rand.N(d/2), left+minPoll)
}

// acquire asks once. wait is not zero if another instance holds the lease: it
// is how long that may take at most.
func (a *attempt[K, V]) acquire() (result bool, wait time.Duration) {
	// A lease that is given to somebody who has left is known only here: the
	// question is not given up with the callers, who do not wait for it.
	ctx, cancel := remote.WithTimeout(context.WithoutCancel(a.ctx), a.c.o.Remote.Timeout)
	defer cancel()
	h, l, err := a.ask(ctx)
	if !a.answered("acquire", err) {
		return false, 0
	}
	switch l.Grant {
	case remote.Busy:
		if a.unasked && !a.pending && (a.read() || a.down) {
			return !a.down, 0
		}
		return false, max(l.Wait, minPoll)
	case remote.OnHold:
		a.noKeep = true
		return false, 0
	case remote.Granted:
		return a.granted(ctx, h, l), 0
	}
	if a.seen(ctx, h) {
		return true, 0
	}
	if a.down {
		return false, 0
	}
	if a.call.refresh && a.held != nil && h.ID == a.id {
		a.found(*a.held, a.tags, endL2) // the tier gives no leases for what is fresh
		return true, 0
	}
	// Fresh by its state, but to be replaced whatever it is, or unreadable, or
	// dropped or expired by a tag.
	if a.c.can.refresh != nil && a.spoilt != h.ID {
		a.spoilt = h.ID
		return a.acquire()
	}
	// Make it stale, so that a lease can be had, and no more than that, so that
	// it is there if the load fails. It voids the lease of who came first.
	_, err = a.c.tier.Drop(ctx, []remote.Drop{{Key: a.name, Soft: true, Left: a.c.o.Stale.window()}})
	if !a.answered("drop", err) {
		return false, 0
	}
	return false, time.Nanosecond
}

// ask asks for a lease: to replace what is held, or what is known to be held
// though it is fresh still.
func (a *attempt[K, V]) ask(ctx context.Context) (remote.Held, remote.Lease, error) {
	d, replaced := a.c.o.Limits.Lease, a.spoilt
	if replaced == 0 && a.call.refresh {
		replaced = a.id
	}
	if replaced != 0 && a.c.can.refresh != nil {
		return a.c.can.refresh.Refresh(ctx, a.name, replaced, d)
	}
	return a.c.tier.Acquire(ctx, a.name, d)
}

// granted takes the lease, and what is held under it. It reports whether there is
// a result.
func (a *attempt[K, V]) granted(ctx context.Context, h remote.Held, l remote.Lease) bool {
	a.lease = l
	if !a.c.flights.Keep(a.f) {
		a.res.Err = context.Canceled // and nobody is there to read it
		return true
	}
	if a.unasked {
		a.unasked = false
		return a.seen(ctx, h)
	}
	return false
}

// keepLease renews the lease until stop is called or ctx, the load's, has
// ended: a Loader that hangs holds up this instance only. A load that is done
// within a third of the lease costs a timer and no goroutine.
func (a *attempt[K, V]) keepLease(ctx context.Context) (stop func()) {
	if a.lease.Token == 0 || a.c.can.renew == nil {
		return func() {}
	}
	c, name, l := a.c, a.name, a.lease
	renewing := make(chan func(), 1)
	first := time.AfterFunc(c.o.Limits.Lease/3, func() {
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan struct{})
		defer close(ended)
		renewing <- func() { cancel(); <-ended }
		c.renewLease(ctx, name, l)
	})
	return func() {
		if !first.Stop() {
			(<-renewing)()
		}
	}
}

func (c *Cache[K, V]) renewLease(ctx context.Context, name string, l remote.Lease) {
	d := c.o.Limits.Lease
	next := time.NewTimer(d / 3)
	defer next.Stop()
	for ctx.Err() == nil {
		begun := time.Now()
		op, cancel := remote.WithTimeout(ctx, c.o.Remote.Timeout)
		kept, err := c.can.renew.Renew(op, name, l, d)
		cancel()
		if err == nil && !kept {
			return
		}
		next.Reset(max(d/3-time.Since(begun), 1))
		select {
		case <-ctx.Done():
		case <-next.C:
		}
	}
}

// handBack returns a lease that was taken out of a before it landed.
func (a *attempt[K, V]) handBack(l remote.Lease) {
	defer a.c.contain("Tier.Release")
	a.lease = l
	a.giveBack()
}

// giveBack returns a lease that was not used, so that nobody waits for it. That
// of a flight that was cancelled while it stored is given back, too: if the value
// was stored all the same, there is no such lease.
func (a *attempt[K, V]) giveBack() {
	if a.lease.Token == 0 || a.down && !a.hungUp || a.c.can.release == nil {
		return
	}
	ctx, cancel := remote.WithTimeout(context.WithoutCancel(a.ctx), a.c.o.Remote.Timeout)
	defer cancel()
	err := a.c.can.release.Release(ctx, a.name, a.lease)
	a.answered("release", err)
}

// waits are the flights that wait for leases of other instances, by the names
// of their keys. The zero waits has none.
type waits struct {
	mu sync.Mutex // guards below
	of map[string]*wait
}

type wait struct {
	ended   chan struct{}
	flights int
}

// join returns a channel that is closed when a lease on key ends or the key is
// dropped. leave is to be called when it is not waited for any more.
func (w *waits) join(key string) (ended <-chan struct{}, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[string]*wait{}
	}
	mine := w.of[key]
	if mine == nil {
		mine = &wait{ended: make(chan struct{})}
		w.of[key] = mine
	}
	mine.flights++
	return mine.ended, func() { w.leave(key, mine) }
}

func (w *waits) leave(key string, mine *wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if mine.flights--; mine.flights == 0 && w.of[key] == mine {
		delete(w.of, key)
	}
}

// end wakes those who wait for key.
func (w *waits) end(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if mine := w.of[key]; mine != nil {
		close(mine.ended)
		delete(w.of, key)
	}
}

// share is the share of yeses among the last some dozens of answers. Who adds
// at the same time as another may be forgotten. The zero share is none.
type share struct{ parts atomic.Int32 }

const (
	shareWhole  = 1 << 16
	shareWeight = 32 // of the answers so far against one
)

func (s *share) add(yes bool) {
	old, target := s.parts.Load(), int32(0)
	if yes {
		target = shareWhole
	}
	s.parts.Store(old + (target-old)/shareWeight)
}

// mostly reports whether four of five answers were yes.
func (s *share) mostly() bool { return s.parts.Load() > shareWhole/5*4 }
