// The lease is the second stage of a read: L2 gives one instance the right to
// store a value of the key. A read is then in one of these states:
//
//	leased    it loads, and stores under the lease
//	on hold   it loads, and stores nowhere
//	waiting   another instance loads; the read asks again, then takes its value
//	without   L2 does not answer: it loads, and stores in L1 only
//
// Invariant: a granted lease is used up by the store, or released when the read lands.

package strata

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/remote"
)

// A waiting read asks again after a part of the time that it has waited, so that a value is seen soon after it is
// stored, compared with the time of its load, and L2 is rarely asked about long loads. With a bus that announces the
// ends of leases these questions are the backstop only.
const (
	minPoll  = time.Millisecond
	maxPoll  = 50 * time.Millisecond
	pollPart = 5
	backstop = 500 * time.Millisecond
	// askAgain is a time to wait for no other instance.
	askAgain = time.Nanosecond
)

// takeLeases asks for the leases of all reads. While L2 refuses to store it is not asked: the load is for L1 alone. Of
// several reads, the ones that must wait for another instance go on by themselves.
func (g *reads[K, V]) takeLeases() {
	s := g.c.l2
	if !s.HasTier() {
		return
	}
	open := flight.Where(g.unsettled(), func(r *read[K, V]) bool { return !r.l2.Down })
	if len(open) > 1 {
		s.MayStoreAll(sessions(open))
	} else if len(open) == 1 {
		open[0].l2.MayStore(s)
	}
	ask := flight.Where(open, func(r *read[K, V]) bool {
		if r.l2.NoStore {
			r.safely(func(r *read[K, V]) bool { return r.skippedGet && r.get() })
		}
		return !r.l2.NoStore
	})
	switch {
	case len(ask) == 0:
	case len(g.all) == 1:
		ask[0].safely((*read[K, V]).awaitLease)
	default:
		g.askLeases(ask)
	}
}

// askLeases asks for the leases of several reads in one round trip.
func (g *reads[K, V]) askLeases(ask []*read[K, V]) {
	ctx, cancel := g.c.l2.Bound(context.WithoutCancel(g.ctx))
	defer cancel()
	requests := make([]remote.Request, len(ask))
	for i, r := range ask {
		requests[i] = r.leaseRequest()
	}
	answers := g.c.l2.Acquire(ctx, requests, g.c.o.Limits.Lease)
	errs := make(remote.KeyErrors, len(answers))
	for i := range answers {
		errs[i] = answers[i].Err
	}
	g.c.l2.AnsweredAll(ask[0].ctx, "acquire", sessions(ask), errs)
	for i, r := range ask {
		switch a := answers[i]; {
		case a.Err != nil:
		case r.l2.Down:
			r.safely(func(r *read[K, V]) bool { return r.passBy(a) })
		case a.Lease.Grant == remote.Granted, a.Lease.Grant == remote.OnHold:
			r.safely(func(r *read[K, V]) bool {
				settled, _ := r.useAnswer(ctx, a)
				return settled
			})
		default: // another instance loads it, or has
			g.goApart(r)
		}
	}
}

// goApart lets r go on by itself, as if its key had been asked for alone.
func (g *reads[K, V]) goApart(r *read[K, V]) {
	g.all = slices.DeleteFunc(slices.Clone(g.all), func(o *read[K, V]) bool { return o == r })
	g.batch.Without(r.f)
	own := &reads[K, V]{c: g.c, ctx: r.ctx, call: g.call, load: g.load, all: []*read[K, V]{r}}
	own.call.refresh = r.call.refresh // a gathered batch may have both
	g.apart.Go(own.finish)
}

// awaitLease asks for the lease, and waits while another instance has it. It reports whether the read is settled: the
// other instance has stored its value, or no caller waits any more.
func (r *read[K, V]) awaitLease() (settled bool) {
	waited := false
	defer func() { r.countWait(waited) }()
	for begun := time.Now(); ; {
		end := r.c.l2.Await(r.l2.Name) // before the question: an end that follows it is seen
		settled, left := r.askLease()
		if left == 0 {
			end.Leave()
			return settled
		}
		waited = waited || left > askAgain
		settled, again := r.pause(end.Ended(), time.Since(begun), left)
		if end.Leave(); !again {
			return settled
		}
	}
}

// countWait counts, if waited is set, a read that waited for the load of another instance.
func (r *read[K, V]) countWait(waited bool) {
	switch n := &r.c.counts; {
	case !waited:
	case r.outcome.how == endL2:
		n.leasesAnswered.Add(1)
	default:
		n.leasesInVain.Add(1)
	}
}

// pause waits until the lease of the other instance has ended, or is worth another question. The read has waited for
// some time already, and the lease lasts for another left. again is false if the read is settled, or has waited for
// Limits.HardTimeout: it loads then, and stores nowhere, since the other instance may still store.
func (r *read[K, V]) pause(ended <-chan struct{}, waited, left time.Duration) (settled, again bool) {
	pause, last := r.untilNextPoll(waited, left), false
	if d := r.c.o.Limits.HardTimeout; d > 0 && pause >= d-waited {
		pause, last = max(d-waited, 1), true
	}
	poll := time.NewTimer(pause)
	defer poll.Stop()
	select {
	case <-ended:
	case <-poll.C:
		r.right.noStore = r.right.noStore || last
		return false, !last
	case <-r.ctx.Done():
		r.settle(flight.Result[V]{Err: r.c.flightError(context.Cause(r.ctx))})
		return true, false
	}
	return false, true
}

// untilNextPoll is the time until the next question for a lease that lasts for another left.
func (r *read[K, V]) untilNextPoll(waited, left time.Duration) time.Duration {
	d := min(max(waited/pollPart, minPoll), maxPoll)
	if r.c.l2.TellsEnds() && r.c.link.Connected() {
		d = backstop
	}
	d = d/2 + rand.N(d/2)
	return min(d, min(d, left)+minPoll) // left may be the longest duration
}

// askLease asks once. left is not zero if another instance holds the lease: it is the longest time that this may last.
func (r *read[K, V]) askLease() (settled bool, left time.Duration) {
	// Only this question knows of the lease that it is granted. So it goes on when
	// the callers of the read have left; they do not wait for it.
	ctx, cancel := r.c.l2.Bound(context.WithoutCancel(r.ctx))
	defer cancel()
	a := r.c.l2.Acquire(ctx, []remote.Request{r.leaseRequest()}, r.c.o.Limits.Lease)[0]
	if !r.answered("acquire", a.Err) {
		return r.passBy(a), 0
	}
	return r.useAnswer(ctx, a)
}

// passBy takes an answer that the read does not use, since drops were repeated meanwhile.
// A hold in the answer still counts.
func (r *read[K, V]) passBy(a remote.Acquired) (settled bool) {
	if a.Lease.Grant == remote.OnHold {
		r.onHold(a.Lease.Wait)
	}
	r.l2.Release(r.ctx, r.c.l2, a.Lease)
	return false
}

// leaseRequest asks for the lease: to replace a stale value, or a fresh one that the read must replace.
func (r *read[K, V]) leaseRequest() remote.Request {
	q := remote.Request{Key: r.l2.Name, Replace: r.right.replaces, Known: r.known()}
	if q.Replace == 0 && r.call.refresh {
		q.Replace = r.candidate.id
	}
	return q
}

// useAnswer takes the answer to the question for the lease.
func (r *read[K, V]) useAnswer(ctx context.Context, a remote.Acquired) (settled bool, left time.Duration) {
	switch a.Lease.Grant {
	case remote.Busy:
		if r.skippedGet && !r.pending && (r.get() || r.l2.Down) {
			return !r.l2.Down, 0
		}
		return false, max(a.Lease.Wait, minPoll)
	case remote.OnHold:
		r.onHold(a.Lease.Wait)
		return false, 0
	case remote.Granted:
		return r.granted(ctx, a), 0
	}
	if r.useHeld(ctx, a.Held) {
		return true, 0
	}
	if r.l2.Down {
		return false, 0
	}
	return r.askToReplace(ctx, a.Held.ID)
}

// onHold applies a hold that L2 has told of. It lasts for another left. The message about it may be late, lost, or from
// before this instance has begun: if the hold is news here, so is the drop.
func (r *read[K, V]) onHold(left time.Duration) {
	r.right.noStore = true
	var removed []removal[K, V]
	if r.c.flights.Learn(r.f.Key, min(left, maxHold), func() { removed = r.c.near.Forget(r.f.Key) }) {
		r.candidate = candidate[K, V]{} // it may be older than the drop
		r.c.callbacks.Resume(r.ctx, func() { r.c.near.Values.Notify(removed) })
	}
}

// askToReplace asks for the lease on a value that L2 takes for fresh. The read must replace
// it in any case, cannot read it, or has seen that a tag dropped or expired it.
func (r *read[K, V]) askToReplace(ctx context.Context, id remote.ID) (settled bool, left time.Duration) {
	if r.right.replaces != id {
		r.right.replaces = id
		return r.askLease()
	}
	// Make it stale, so that a lease can be had, and no more than that, so that it is there if the load fails. That
	// voids the lease of an instance that came first.
	if !r.l2.Expire(ctx, r.ctx, r.c.l2, r.c.windows(r.candidate.own).window()) {
		return false, 0
	}
	return false, askAgain
}

// granted takes the lease, and the value that L2 holds under it.
func (r *read[K, V]) granted(ctx context.Context, a remote.Acquired) (settled bool) {
	r.right.lease = a.Lease
	if k := &r.candidate; k.value != nil && k.id == a.Held.ID && a.Held.Fresh <= 0 { // expired since it was read
		k.times.Fresh = min(k.times.Fresh, r.c.memory.Now()) // or reliveRemote would undo that
	}
	if !r.c.flights.Keep(r.f) {
		r.settle(flight.Result[V]{Err: context.Canceled}) // no caller is there to read it
		return true
	}
	if r.c.flights.HoldLeft(r.f.Key) > 0 {
		r.right.noStore = true // L2 has lost the hold, as in a restart
	}
	if r.skippedGet {
		r.skippedGet = false
		return r.useHeld(ctx, a.Held)
	}
	return false
}

// heldLease is a lease of a read that loads, and the name of its key.
type heldLease struct {
	name  string
	lease remote.Lease
}

// leases appends the leases of the reads to held. It reads them before the load begins:
// from then on the load can be cut short, and its leases released.
func (l *loaderRun[K, V]) leases(held []heldLease) []heldLease {
	for _, r := range l.reads {
		if r.right.lease.Token != 0 {
			held = append(held, heldLease{r.l2.Name, r.right.lease})
		}
	}
	return held
}

// keepLeases renews leases until stop is called.
func (c *core) keepLeases(ctx context.Context, held []heldLease) (stop func()) {
	switch len(held) {
	case 0:
		return nothing
	case 1:
		return c.keepLease(ctx, held[0])
	}
	stops := make([]func(), len(held))
	for i, h := range held {
		stops[i] = c.keepLease(ctx, h)
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// keepLease renews a lease until stop is called or ctx, the load's, has ended: a Loader that hangs holds up this
// instance only. A load done within a third of the lease costs a timer and no goroutine.
func (c *core) keepLease(ctx context.Context, h heldLease) (stop func()) {
	renewing := make(chan func(), 1)
	first := time.AfterFunc(c.settings.Limits.Lease/3, func() {
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan struct{})
		defer close(ended)
		renewing <- func() { cancel(); <-ended }
		c.l2.Renew(ctx, h.name, h.lease, c.settings.Limits.Lease)
	})
	return func() {
		if !first.Stop() {
			(<-renewing)()
		}
	}
}
