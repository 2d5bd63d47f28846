package strata

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/strata-cache/strata/internal/envelope"
	"github.com/strata-cache/strata/remote"
)

// readTier looks for the key in L2. A fresh value is the result; a stale one
// is kept at hand.
func (a *attempt[K, V]) readTier() bool {
	if a.c.retry.Blocks(a.name) {
		a.down = true // a drop of it is pending: what L2 holds is not to be used
		return false
	}
	ctx, cancel := a.opContext()
	defer cancel()
	held, err := a.c.tier.Get(ctx, []string{a.name})
	if !a.answered("get", err) {
		return false
	}
	v, ok := a.open(held[0])
	if !ok {
		a.c.counts.remoteMisses.Add(1)
		return false
	}
	if held[0].Fresh > 0 {
		a.foundInTier(v, held[0])
		return true
	}
	a.c.counts.remoteMisses.Add(1)
	stale := v // v itself must not escape: most reads end above
	a.held, a.id = &stale, held[0].ID
	return false
}

// foundInTier makes a fresh value of L2 the result, and an entry of L1 for
// what is left of its life.
func (a *attempt[K, V]) foundInTier(v V, h remote.Held) {
	a.found(v, endL2)
	a.entry = a.c.entry(a.f.Key, v, min(h.Fresh, h.Left), a.f.Stamp, h.ID)
}

// open returns the value that h holds. What cannot be read counts as absent;
// the next store replaces it.
func (a *attempt[K, V]) open(h remote.Held) (v V, ok bool) {
	if h.Absent() || h.Data == nil {
		return v, false
	}
	payload, _, err := envelope.Open(h.Data, a.name, a.c.schema)
	if err == nil {
		v, err = a.c.o.Remote.Codec.Decode(payload)
	}
	if err != nil {
		a.c.counts.foreign.Add(1)
		return *new(V), false
	}
	return v, true
}

// The wait between two looks at a lease that another instance holds: a part of
// the time waited so far, so that a value is seen soon after it is stored,
// compared with how long its load took, and long loads are asked for rarely.
const (
	minPoll  = time.Millisecond
	maxPoll  = 50 * time.Millisecond
	pollPart = 5
)

// takeLease asks for the right to store, and waits while another instance has
// it. It reports true when there is a result instead: the other instance has
// stored its value, or nobody waits any more.
func (a *attempt[K, V]) takeLease() bool {
	var patience <-chan time.Time // nil: for ever
	if d := a.c.o.Limits.HardTimeout; d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		patience = t.C
	}
	for begun := time.Now(); ; {
		result, again := a.acquire()
		if !again {
			return result
		}
		a.c.counts.leaseWaits.Add(1)
		wait := min(max(time.Since(begun)/pollPart, minPoll), maxPoll)
		poll := time.NewTimer(wait/2 + rand.N(wait/2))
		select {
		case <-poll.C:
		case <-patience:
			poll.Stop()
			a.noKeep = true // the holder may still store: only one of us may
			return false
		case <-a.ctx.Done():
			poll.Stop()
			a.res.Err = a.c.flightError(context.Cause(a.ctx))
			return true
		}
	}
}

// acquire asks once. again says that another instance holds the lease.
func (a *attempt[K, V]) acquire() (result, again bool) {
	ctx, cancel := a.opContext()
	defer cancel()
	h, l, err := a.c.tier.Acquire(ctx, a.name, a.c.o.Limits.Lease)
	if !a.answered("acquire", err) {
		return false, false
	}
	switch l.Grant {
	case remote.Busy:
		return false, true
	case remote.OnHold:
		a.noKeep = true
		return false, false
	case remote.Granted:
		a.lease = l
		if !a.c.flights.Keep(a.f) {
			a.res.Err = context.Canceled // and nobody is there to read it
			return true, false
		}
		return false, false
	}
	if v, ok := a.open(h); ok {
		a.foundInTier(v, h)
		return true, false
	}
	// Fresh by its state, but unreadable: drop it, so that a lease can be had.
	_, err = a.c.tier.Drop(ctx, []remote.Drop{{Key: a.name}})
	return false, a.answered("drop", err)
}

// keepLease renews the lease until stop is called or ctx, the load's, has
// ended: a Loader that hangs holds up this instance only. A load that is done
// within a third of the lease costs a timer and no goroutine.
func (a *attempt[K, V]) keepLease(ctx context.Context) (stop func()) {
	if a.lease.Token == 0 || a.c.can.renew == nil {
		return func() {}
	}
	c, name, l := a.c, a.name, a.lease
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	first := time.AfterFunc(c.o.Limits.Lease/3, func() {
		defer close(ended)
		c.renewLease(ctx, name, l)
	})
	return func() {
		cancel()
		if !first.Stop() {
			<-ended
		}
	}
}

func (c *Cache[K, V]) renewLease(ctx context.Context, name string, l remote.Lease) {
	d := c.o.Limits.Lease
	tick := time.NewTicker(d / 3)
	defer tick.Stop()
	for ctx.Err() == nil {
		op, cancel := remote.WithTimeout(ctx, c.o.Remote.Timeout)
		kept, err := c.can.renew.Renew(op, name, l, d)
		cancel()
		if err == nil && !kept {
			return
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// giveBack returns a lease that was not used, so that nobody waits for it.
func (a *attempt[K, V]) giveBack() {
	if a.lease.Token == 0 || a.down || a.c.can.release == nil {
		return
	}
	ctx, cancel := remote.WithTimeout(context.WithoutCancel(a.ctx), a.c.o.Remote.Timeout)
	defer cancel()
	err := a.c.can.release.Release(ctx, a.name, a.lease)
	a.answered("release", err)
}

// opContext bounds one operation on L2.
func (a *attempt[K, V]) opContext() (context.Context, context.CancelFunc) {
	return remote.WithTimeout(a.ctx, a.c.o.Remote.Timeout)
}

// answered reports whether L2 has answered. If it has not, this flight leaves
// L2 alone from now on: a dead L2 costs a miss one timeout, not one per step.
func (a *attempt[K, V]) answered(op string, err error) bool {
	if err != nil && over(a.ctx) {
		a.down = true // it was us who hung up
		return false
	}
	a.c.remoteResult(op, err)
	a.down = a.down || err != nil
	return err == nil
}

// remoteResult counts what an operation on L2 came to, and logs when L2 fails
// for the first time and when it is back.
func (c *Cache[K, V]) remoteResult(op string, err error) {
	if err == nil {
		if c.broken.Load() && c.broken.CompareAndSwap(true, false) {
			c.o.Logger.Info("strata: L2 answers again", slog.String("cache", c.o.Name))
		}
		return
	}
	c.counts.remoteErrors.Add(1)
	if c.broken.CompareAndSwap(false, true) {
		c.o.Logger.Warn("strata: L2 does not answer", slog.String("cache", c.o.Name), slog.String("op", op), slog.Any("error", err))
	}
	if hook := c.o.Hooks.RemoteError; hook != nil {
		defer c.contain("Hooks.RemoteError")
		hook(RemoteErrorEvent{Cache: c.o.Name, Op: op, Err: err})
	}
}

// over reports whether ctx has ended or its deadline has passed: a connection
// may notice that first.
func over(ctx context.Context) bool {
	d, bounded := ctx.Deadline()
	return ctx.Err() != nil || bounded && !time.Now().Before(d)
}
