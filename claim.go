// Add and Take depend on the content of L2. Each asks L2 for the lease of its key first, as
// a load does, looks at the value that L2 holds, and then stores, or removes, under the lease.
// Invariant: L2 grants one such lease at a time, and voids it at any other write of the key.
// So of the callers of all instances one at most adds a key, and one takes a value.

package strata

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l2"
	"github.com/strata-cache/strata/remote"
)

var (
	errLeftAlone  = errors.New("L2 is left alone for now")
	errUnsettled  = errors.New("L2 has changed its server, or other writes of the key have come in between, each time")
	errLeaseTaken = errors.New("other instances have had the lease of the key for as long as Limits.HardTimeout")
)

// maxClaims is how often an Add or a Take begins again, after another write or in the course
// of a change of server.
const maxClaims = 10

// Add stores value under key, as [Cache.Set] does, unless there is a fresh value of the key: in L2, or without L2 in
// L1. It reports whether it has stored the value. If several callers, on any instances, add a key at the same time,
// one of them succeeds. A stale value and a remembered "not found" are replaced. While another instance loads the
// key, Add waits, at most for Limits.HardTimeout. A key on hold is not added, nor a value without a positive TTL.
//
// If an Add overlaps a Set or an Update, either of them wins, as with two Sets. A failed
// write may still reach L2, a Set for 10 seconds, and wins then. To tell of a write at
// the origin call [Cache.Invalidate].
//
// It returns the errors of Set. After a *RemoteError it is not known whether another
// instance finds the value in L2; this instance does not keep it.
func (c *Cache[K, V]) Add(ctx context.Context, key K, value V, opts ...CallOption) (added bool, err error) {
	if c.closed.Load() {
		return false, ErrClosed
	}
	var o call
	o.add(opts)
	w := write[K, V]{key: key, value: value}
	if err := c.prepare(&w, &o); err != nil || w.left <= 0 {
		return false, err
	}
	if !c.l2.HasTier() || o.noRemote {
		return c.addHere(ctx, &w, &o)
	}
	within, span := c.begin(ctx, Span{Name: SpanSet, Key: keyOf(&c.core, key), Keys: 1})
	defer func() { span.wrote(ctx, err) }()
	for range maxClaims {
		added, again, err := c.addThere(within, w)
		if err != nil || !again {
			return added, err
		}
	}
	return false, remoteError("add", c.l2.Unconfirmed(ctx, errUnsettled))
}

// addHere adds w to L1 alone, in one step.
func (c *Cache[K, V]) addHere(ctx context.Context, w *write[K, V], o *call) (added bool, err error) {
	w.stamps = c.stamps(w.tags, w.own)
	value, _ := c.written(w, c.memory.Now())
	if value == nil || c.flights.HoldLeft(w.key) > 0 {
		return false, nil
	}
	var removed []removal[K, V]
	err = c.instead(w.key, func(fresh *entry[K, V]) bool { return fresh == nil }, func() { removed, added = c.near.Put(w.key, value, w.weight, nil) })
	c.near.Values.Notify(removed)
	if added {
		c.stored(ctx, w.key, w.value, "L1")
	}
	if added && c.l2.HasBus() && !o.noRemote {
		err = c.announcePuts(ctx, "add", []write[K, V]{*w})
	}
	return added, err
}

// instead calls change, under the lock of the flights of key, if wants is true for the entry
// that L1 has then; nil stands for no fresh entry. Entries are judged before the lock is
// taken, since judging may call the program's Key: if L1 has another entry by then, or this
// one with a newer stamp, it begins again.
func (c *Cache[K, V]) instead(key K, wants func(fresh *entry[K, V]) bool, change func()) error {
	for range maxClaims {
		e, now := c.near.Values.Peek(key)
		var fresh *entry[K, V]
		if e != nil {
			if e = c.near.Aged(key, e); c.valid(key, e) && now < e.Value.FreshUntil(e.Dead) {
				fresh = e
			}
		}
		if !wants(fresh) {
			return nil
		}
		same := false
		err := c.flights.Store(key, now, func() {
			if is, _ := c.near.Values.Glance(key); c.near.Values.Same(is, e) {
				same = true
				change()
			}
		})
		switch {
		case err != nil:
			return ErrClosed
		case same:
			return nil
		}
	}
	return fmt.Errorf("strata: %w", errUnsettled)
}

// addThere adds w once. again says that the caller must begin again.
func (c *Cache[K, V]) addThere(ctx context.Context, w write[K, V]) (added, again bool, err error) {
	w.stamps = c.stamps(w.tags, w.own)
	q, err := c.claim(ctx, "add", w.key, w.name, func(o *opened[V]) bool { return o.state != fresh })
	if again = errors.Is(err, errUnsettled); again {
		return false, true, nil
	}
	if err != nil || q.right.lease.Token == 0 {
		return false, false, err
	}
	if w.right, err = c.flights.Begin(w.key); err != nil {
		q.release(q.right.lease)
		return false, false, ErrClosed
	}
	defer func() { c.finish(ctx, &w, added) }()
	ws := []write[K, V]{w}
	if _, err = c.put(ctx, "add", ws, []remote.Lease{q.right.lease}); err != nil {
		return false, false, err
	}
	w.keep, w.id = ws[0].keep, ws[0].id
	return !ws[0].late, ws[0].late, nil
}

// Take removes the fresh value of key from both tiers, of all instances, and returns it. ok
// is false if there is none: in L2, or without L2 in L1. The value of a key on hold is not taken.
// Of several callers that take a value at the same time, on all instances, one gets it. While another instance loads the key, Take
// waits, at most for Limits.HardTimeout. L1 of other instances may answer with the value until
// they hear of it, as after an Invalidate.
//
// After a *RemoteError without a value it is not known whether L2 still holds the value; with
// one, other instances have not been told yet. It returns ErrClosed on a closed cache, and
// ctx's error when ctx ends before the value was removed.
func (c *Cache[K, V]) Take(ctx context.Context, key K) (value V, ok bool, err error) {
	if c.closed.Load() {
		return value, false, ErrClosed
	}
	if err := c.checkKey(key); err != nil {
		return value, false, err
	}
	w := write[K, V]{key: key}
	if c.l2.Used() {
		if w.name, err = c.nameOf(key); err != nil {
			return value, false, err
		}
	}
	if !c.l2.HasTier() {
		return c.takeHere(ctx, &w)
	}
	within, span := c.begin(ctx, Span{Name: SpanSet, Key: keyOf(&c.core, key), Keys: 1})
	defer func() { span.wrote(ctx, err) }()
	for range maxClaims {
		value, ok, again, err := c.takeThere(within, w)
		if err != nil || !again {
			return value, ok, err
		}
	}
	return value, false, remoteError("take", c.l2.Unconfirmed(ctx, errUnsettled))
}

// takeHere takes the value of L1, in one step.
func (c *Cache[K, V]) takeHere(ctx context.Context, w *write[K, V]) (value V, ok bool, err error) {
	var removed []removal[K, V]
	var there *entry[K, V]
	wants := func(fresh *entry[K, V]) bool { there = fresh; return fresh != nil && c.flights.HoldLeft(w.key) == 0 }
	err = c.instead(w.key, wants, func() { ok, removed = true, c.near.Forget(w.key) })
	c.near.Values.Notify(removed)
	if !ok {
		return value, false, err
	}
	if c.l2.HasBus() {
		err = c.announcePuts(ctx, "take", []write[K, V]{*w})
	}
	return c.clone(there.Value.V), true, err
}

// takeThere takes the value of L2 once. again says that the caller must begin again.
func (c *Cache[K, V]) takeThere(ctx context.Context, w write[K, V]) (value V, ok, again bool, err error) {
	var taken opened[V]
	q, err := c.claim(ctx, "take", w.key, w.name, func(o *opened[V]) bool { taken = *o; return true })
	if again = errors.Is(err, errUnsettled); again {
		return value, false, true, nil
	}
	if err != nil || q.right.lease.Token == 0 {
		return value, false, false, err
	}
	if taken.state != fresh {
		q.release(q.right.lease)
		return value, false, false, nil
	}
	if w.right, err = c.flights.Begin(w.key); err != nil {
		q.release(q.right.lease)
		return value, false, false, ErrClosed
	}
	defer func() { c.finish(ctx, &w, false) }()
	op, cancel := c.l2.Bound(ctx)
	defer cancel()
	refused, err := c.l2.PutClaimed(op, []remote.Put{{Key: w.name, Lease: q.right.lease, Drops: true}})
	if err != nil || len(refused) > 0 {
		return value, false, err == nil, remoteError("take", err)
	}
	return c.clone(taken.value), true, false, c.announcePuts(op, "take", []write[K, V]{w})
}

// claim asks L2 for the lease of key, and for the value that it holds, which it shows to wants. It returns no lease if
// wants does not want it, or if the key is on hold. After errUnsettled it may be called again.
func (c *Cache[K, V]) claim(ctx context.Context, op string, key K, name string, wants func(*opened[V]) bool) (r *read[K, V], err error) {
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.open, func() { cancel(ErrClosed) })()
	r = &read[K, V]{c: c, f: &flight.Flight[K, V]{Key: key}, ctx: within, loads: true, tagGeneration: c.generation.TagWatermark()}
	r.l2.Name = name
	failed := func(err error) (*read[K, V], error) {
		r.l2.Cancelled = true // a lease that was granted goes back, also if L2 has failed since
		r.release(r.right.lease)
		switch {
		case l2.Over(within):
			return nil, cmp.Or(context.Cause(within), context.DeadlineExceeded)
		case errors.Is(err, errUnsettled):
			return nil, err
		}
		return nil, remoteError(op, c.l2.Unconfirmed(ctx, err))
	}
	if !r.l2.Allowed(c.l2) {
		return failed(errLeftAlone)
	}
	if !r.settles() {
		return failed(errUnsettled)
	}
	for begun := time.Now(); ; {
		if d := c.o.Limits.HardTimeout; l2.Over(within) || d > 0 && time.Since(begun) >= d {
			return failed(errLeaseTaken)
		}
		end := c.l2.Await(name)
		a, err := r.ask()
		if err != nil {
			end.Leave()
			return failed(err)
		}
		if a.Lease.Grant == remote.Busy {
			_, again := r.pause(end.Ended(), time.Since(begun), max(a.Lease.Wait, minPoll))
			if end.Leave(); !again {
				return failed(errLeaseTaken)
			}
			continue
		}
		end.Leave()
		if a.Lease.Grant == remote.OnHold {
			r.onHold(a.Lease.Wait)
			return r, nil
		}
		o, err := r.look(&a.Held)
		switch {
		case err != nil:
			return failed(err)
		case !wants(&o), c.flights.HoldLeft(key) > 0: // L2 has lost the hold
			r.release(r.right.lease)
			r.right.lease = remote.Lease{}
			return r, nil
		case a.Lease.Grant == remote.Granted:
			return r, nil
		case r.right.replaces == a.Held.ID:
			// L2 gives no lease for a value that it takes for fresh, and this instance does not.
			if !r.l2.Expire(within, within, c.l2, c.tuned.stale().window()) {
				return failed(errLeftAlone)
			}
		}
		r.right.replaces = a.Held.ID
	}
}

// ask asks for the lease once, and keeps it if it is granted.
func (r *read[K, V]) ask() (a remote.Acquired, err error) {
	a = r.c.l2.AcquireInTime(r.ctx, r.leaseRequest(), r.c.o.Limits.Lease)
	if !r.answered("acquire", a.Err) {
		r.passBy(a)
		return a, cmp.Or(a.Err, errUnsettled)
	}
	if a.Lease.Grant == remote.Granted {
		r.right.lease = a.Lease
	}
	return a, nil
}

// look opens the value that L2 holds, or else the value of an older version of the program.
func (r *read[K, V]) look(held *remote.Held) (o opened[V], err error) {
	defer r.c.contain("Remote.Codec")
	var box sealed
	ctx, cancel := r.opContext()
	defer cancel()
	if r.unseal(&box, held); r.getOlder(&box) {
		o = r.open(&box, r.tagDrops(ctx, &box))
	}
	r.c.l2.LogForeign()
	if r.l2.Down {
		return o, errUnsettled
	}
	return o, nil
}

// settles waits until no drop of the key is pending, for one operation on L2 at most.
func (r *read[K, V]) settles() bool {
	ctx, cancel := r.opContext()
	defer cancel()
	for r.l2.PassesBy(r.c.l2) {
		poll := time.NewTimer(minPoll)
		select {
		case <-poll.C:
		case <-ctx.Done():
			poll.Stop()
			return false
		}
	}
	return true
}
