package strata

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/strata-cache/strata/internal/l2"
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
	if !a.l2.MayStore(a.c.l2) {
		return a.unasked && a.read()
	}
	for begun := time.Now(); ; {
		ended, leave := a.c.l2.Await(a.l2.Name) // before asking, so as to miss nothing
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
	if a.c.l2.TellsEnds() && a.c.link.Connected() {
		d = backstop
	}
	return min(d/2+rand.N(d/2), left+minPoll)
}

// acquire asks once. wait is not zero if another instance holds the lease: it
// is how long that may take at most.
func (a *attempt[K, V]) acquire() (result bool, wait time.Duration) {
	// A lease that is given to somebody who has left is known only here: the
	// question is not given up with the callers, who do not wait for it.
	ctx, cancel := a.c.l2.Bound(context.WithoutCancel(a.ctx))
	defer cancel()
	h, l, err := a.c.l2.Acquire(ctx, a.leaseRequest(), a.c.o.Limits.Lease)
	if !a.answered("acquire", err) {
		return false, 0
	}
	switch l.Grant {
	case remote.Busy:
		if a.unasked && !a.pending && (a.read() || a.l2.Down) {
			return !a.l2.Down, 0
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
	if a.l2.Down {
		return false, 0
	}
	if a.call.refresh && a.held != nil && h.ID == a.id {
		a.found(*a.held, a.tags, endL2) // the tier gives no leases for what is fresh
		return true, 0
	}
	// Fresh by its state, but to be replaced whatever it is, or unreadable, or
	// dropped or expired by a tag.
	if a.c.l2.Replaces() && a.spoilt != h.ID {
		a.spoilt = h.ID
		return a.acquire()
	}
	// Make it stale, so that a lease can be had, and no more than that, so that
	// it is there if the load fails. It voids the lease of who came first.
	if !a.l2.Expire(ctx, a.ctx, a.c.l2, a.c.o.Stale.window()) {
		return false, 0
	}
	return false, time.Nanosecond
}

// leaseRequest asks for the lease: to replace what is held, or what is known to
// be held though it is fresh still.
func (a *attempt[K, V]) leaseRequest() l2.Request {
	r := l2.Request{Name: a.l2.Name, Replace: a.spoilt}
	if r.Replace == 0 && a.call.refresh {
		r.Replace = a.id
	}
	return r
}

// granted takes the lease, and what is held under it. It reports whether there is
// a result.
func (a *attempt[K, V]) granted(ctx context.Context, h remote.Held, l remote.Lease) bool {
	a.lease = l
	if !a.c.flights.Keep(a.f) {
		a.res.Err = context.Canceled // and nobody is there to read it
		return true
	}
	if a.c.flights.HoldLeft(a.f.Key) > 0 {
		a.noKeep = true // L2 has lost the hold, as in a restart
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
	if a.lease.Token == 0 || !a.c.l2.Renews() {
		return func() {}
	}
	c, name, l := a.c, a.l2.Name, a.lease
	renewing := make(chan func(), 1)
	first := time.AfterFunc(c.o.Limits.Lease/3, func() {
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan struct{})
		defer close(ended)
		renewing <- func() { cancel(); <-ended }
		c.l2.Renew(ctx, name, l, c.o.Limits.Lease)
	})
	return func() {
		if !first.Stop() {
			(<-renewing)()
		}
	}
}

// handBack returns a lease that was taken out of a before it landed.
func (a *attempt[K, V]) handBack(l remote.Lease) {
	defer a.c.contain("Tier.Release")
	a.lease = l
	a.giveBack()
}

// giveBack returns a lease that was not used, so that nobody waits for it.
func (a *attempt[K, V]) giveBack() { a.l2.Release(a.ctx, a.c.l2, a.lease) }
