package strata

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/internal/retry"
	"github.com/strata-cache/strata/remote"
)

// doubtFor is how long a drop that has ended without an answer may still be
// carried out.
const doubtFor = time.Minute

// Invalidate makes keys absent everywhere. After it has returned nil, no load
// that began before is stored anywhere, no call that begins on this instance
// is answered with an older value, and other instances drop theirs as soon as
// the bus has told them.
//
// It returns *RemoteError if L2 or the bus did not confirm; this instance has
// dropped the keys then, reads them past L2 and tries again in the background,
// while other instances may still serve them. So it does if ctx ends before L2
// has confirmed: the drop is sent all the same, in the background and at once. A
// key that is too long for L2 is
// such an error too, but nothing is tried again: other instances are told, and
// keep what they load for UnconfirmedTTL at most. It returns ErrClosed on a
// closed cache, and ErrKeyTooLong, having done nothing, if a key is longer than
// any that is cached.
func (c *Cache[K, V]) Invalidate(ctx context.Context, keys ...K) error {
	return c.invalidate(ctx, "invalidate", remote.Drop{}, keys)
}

// InvalidateHold is Invalidate for an origin that is read from replicas which
// lag behind: for d afterwards callers still get what they load, but it is
// kept nowhere. A Set ends nothing of that, but is kept itself. Without an L2
// and a bus the hold is this instance's alone. d must be positive, and MaxHold at
// most. Beyond some 10 000 keys at once others are put on hold with them: what
// is loaded for those is kept nowhere either.
func (c *Cache[K, V]) InvalidateHold(ctx context.Context, d time.Duration, keys ...K) error {
	if d <= 0 {
		return fmt.Errorf("strata: invalidate: hold of %v is not positive", d)
	}
	if d > MaxHold {
		return fmt.Errorf("strata: invalidate: hold of %v is longer than %v", d, MaxHold)
	}
	return c.invalidate(ctx, "invalidate", remote.Drop{Hold: d}, keys)
}

// Expire makes keys stale everywhere: the next GetOrLoad runs the Loader and
// waits for it, and the Loader may answer ErrNotModified; if it fails, the stale
// value is served, for Stale.OnError since the Expire and no longer than without it. Get
// reports stale values as missing. Errors are as for Invalidate.
func (c *Cache[K, V]) Expire(ctx context.Context, keys ...K) error {
	return c.invalidate(ctx, "expire", remote.Drop{Soft: true, Left: c.o.Stale.window()}, keys)
}

// invalidate drops keys as how says, all of them whatever happens to some.
func (c *Cache[K, V]) invalidate(ctx context.Context, op string, how remote.Drop, keys []K) (err error) {
	if c.closed.Load() {
		return ErrClosed
	}
	for _, k := range keys {
		if err := c.checkKey(k); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(keys, maxBatch) {
		if e := c.invalidatePart(ctx, op, how, part); e != nil {
			err = e // it counts what is pending, of the earlier parts too
		}
	}
	return err
}

func (c *Cache[K, V]) invalidatePart(ctx context.Context, op string, how remote.Drop, keys []K) error {
	drops, err := c.dropsOf(how, keys)
	if len(drops) > 0 {
		// L2 first: a reader between the two drops would bring the old value
		// back from L2 to L1.
		if _, e := c.drop(ctx, op, drops); e != nil {
			err = e
		}
	}
	for _, k := range keys {
		if how.Hold > 0 {
			c.flights.Hold(k, how.Hold)
		}
		c.dropLocal(k, how.Soft)
	}
	c.counts.invalidations.Add(uint64(len(keys)))
	return err
}

// dropsOf returns the drops of keys for L2: none without an L2 and a bus. A key
// that has no name has none either, and its error is returned.
func (c *Cache[K, V]) dropsOf(how remote.Drop, keys []K) (drops []remote.Drop, err error) {
	if !c.o.Remote.used() {
		return nil, nil
	}
	drops = make([]remote.Drop, 0, len(keys))
	for _, k := range keys {
		name, e := c.nameOf(k)
		if e != nil {
			err = e
			continue
		}
		d := how
		d.Key = name
		drops = append(drops, d)
	}
	return drops, err
}

// drop carries out drops in L2 and announces them. What is not confirmed is
// tried again in the background.
func (c *Cache[K, V]) drop(ctx context.Context, op string, drops []remote.Drop) ([]remote.Lease, error) {
	if !c.o.Remote.used() {
		return nil, nil
	}
	ctx, cancel := remote.WithTimeout(ctx, c.o.Remote.Timeout)
	defer cancel()
	leases, err := c.dropGuarded(ctx, drops)
	switch {
	case err == nil:
		return leases, nil
	case !errors.Is(err, remote.ErrKeyTooLong):
		return nil, c.unconfirmed(ctx, op, err, func(when retry.When) bool { return c.retry.Add(drops, when) })
	case len(drops) > 1:
		return c.dropEach(ctx, op, drops)
	case c.bus != nil:
		// Nothing is to be dropped in L2, but other instances may have loaded it.
		// If this is lost nobody can find that out: see keepLoaded.
		_ = c.bus.Publish(ctx, c.messages(drops))
	}
	return nil, c.remoteError(ctx, op, err)
}

// unconfirmed makes a drop pending that has failed with err under ctx, and returns
// the error of its call. add adds it to those that are pending. A drop whose
// caller has left is tried again at once, since nothing is known against L2.
func (c *Cache[K, V]) unconfirmed(ctx context.Context, op string, err error, add func(retry.When) bool) error {
	if !add(whenFailed(ctx)) {
		err = fmt.Errorf("%w, and is not tried again: %w", err, ErrClosed)
	}
	return c.remoteError(ctx, op, err)
}

// whenFailed is when to try again what has failed under ctx.
func whenFailed(ctx context.Context) retry.When { return retry.When(callerLeft(ctx) != nil) }

// remoteError is the error of a call of which an operation under ctx has failed
// with err.
func (c *Cache[K, V]) remoteError(ctx context.Context, op string, err error) error {
	if gone := callerLeft(ctx); gone != nil && !errors.Is(err, gone) {
		err = fmt.Errorf("%w: %w", gone, err)
	}
	return &RemoteError{Op: op, Pending: c.retry.Len(), Err: err}
}

// callerLeft returns how the caller of an operation has left, if that ended the
// operation: the error of the caller's context. It is nil if that has not ended,
// and also if the operation has had all the time that L2 gets: then L2 has not
// answered, whatever its caller did. ctx is the operation's.
func callerLeft(ctx context.Context) error {
	caller, deadline := remote.Split(ctx)
	theirs, bounded := caller.Deadline()
	ours := !deadline.IsZero() && (!bounded || deadline.Before(theirs))
	if !over(caller) || ours && !time.Now().Before(deadline) {
		return nil
	}
	if err := caller.Err(); err != nil {
		return err
	}
	return context.DeadlineExceeded // which caller will say in a moment
}

// dropGuarded is dropOnce, unless L2 is left alone.
func (c *Cache[K, V]) dropGuarded(ctx context.Context, drops []remote.Drop) ([]remote.Lease, error) {
	if err := callerLeft(ctx); err != nil {
		return nil, err // it is sent in the background
	}
	ok, probe := true, false
	if c.tier != nil {
		ok, probe = c.breaker.Allow(c.memory.Now())
	}
	if !ok {
		return nil, errBreaker
	}
	return c.dropAs(ctx, drops, probe)
}

// dropEach drops one key at a time, so that one that L2 cannot hold, and for
// which there is nothing to try again, keeps none of the others.
func (c *Cache[K, V]) dropEach(ctx context.Context, op string, drops []remote.Drop) (leases []remote.Lease, err error) {
	leases = make([]remote.Lease, len(drops))
	for i := range drops {
		l, e := c.drop(ctx, op, drops[i:i+1])
		if e != nil {
			err = e
		} else if len(l) > 0 {
			leases[i] = l[0]
		}
	}
	return leases, err
}

// dropAgain is one more attempt at drops that are pending, whatever the breaker
// says. A key that is too long for L2, which nobody knew as L2 was not asked, is
// told to other instances alone.
func (c *Cache[K, V]) dropAgain(ctx context.Context, drops []remote.Drop) error {
	_, err := c.dropAs(ctx, drops, false)
	if len(drops) > 1 || !errors.Is(err, remote.ErrKeyTooLong) {
		return err // of several they are tried one by one in the end
	}
	if c.bus != nil {
		return c.bus.Publish(ctx, c.messages(drops))
	}
	return nil
}

func (c *Cache[K, V]) dropAs(ctx context.Context, drops []remote.Drop, probe bool) (leases []remote.Lease, err error) {
	if c.tier != nil {
		leases, err = c.tier.Drop(ctx, drops)
		c.remoteResult(ctx, "drop", err, probes{all: probe})
		if err != nil {
			c.doubtOwn()
			return nil, err
		}
	}
	if !c.announces() {
		return leases, nil
	}
	return leases, c.bus.Publish(ctx, c.messages(drops))
}

func (c *Cache[K, V]) messages(drops []remote.Drop) []remote.Message {
	ms := make([]remote.Message, len(drops))
	for i, d := range drops {
		ms[i] = remote.Message{Name: c.o.Name, Kind: remote.Dropped, From: c.instance, Key: d.Key, Hold: d.Hold}
		if d.Soft {
			ms[i].Kind = remote.Expired
		}
	}
	return ms
}

// dropLocal makes key absent, or stale, in L1 and takes the right to store
// from what runs for it.
func (c *Cache[K, V]) dropLocal(key K, soft bool) {
	var removed []l1.Removed[K, V]
	c.flights.Fence(key, func() {
		if !soft {
			removed = c.forget(key)
			return
		}
		c.memos.Delete(key)
		if e, _ := c.memory.Peek(key); e != nil && e.Fresh > 0 {
			c.memory.Swap(e, c.expired(e, c.memory.Now()))
		}
	})
	c.memory.Notify(removed)
}

// InvalidateAll makes everything that instances of this name have cached
// absent, in time that does not depend on how much that is. Other instances
// notice when the bus tells them, or else within a second of their next read
// of L2; what they hold in L1 by then lives on for at most UnconfirmedTTL if
// they have no bus. Errors are as for Invalidate.
//
// Every key is loaded again afterwards: the origin gets the load that the
// cache has kept from it.
//
// An instance that is told of more than ten in ten seconds by one other obeys
// them once a second.
func (c *Cache[K, V]) InvalidateAll(ctx context.Context) error {
	return c.invalidateAll(ctx, "invalidate all", false)
}

// ExpireAll makes everything that instances of this name have cached stale, as if
// its TTL had ended now: for Stale.WhileRevalidate a read gets the stale value at
// once, and starts a refresh of its key, of which Limits.MaxRefreshes run at once; for
// Stale.OnError the stale value is served if its load fails. So what is read is
// rebuilt in the background, and nobody waits. A program whose readers are to wait, as
// after [Cache.Expire], sets Stale.WhileRevalidate to -1. An instance that has not
// been told of it lets readers of what L2 holds wait. It is InvalidateAll otherwise.
func (c *Cache[K, V]) ExpireAll(ctx context.Context) error {
	return c.invalidateAll(ctx, "expire all", true)
}

func (c *Cache[K, V]) invalidateAll(ctx context.Context, op string, soft bool) error {
	if c.closed.Load() {
		return ErrClosed
	}
	err := c.dropAllRemote(ctx, op, soft)
	c.dropAllLocal(soft)
	c.memos.Clear()
	if !soft {
		c.memory.Clear()
	}
	c.counts.invalidations.Add(1)
	return err
}

func (c *Cache[K, V]) dropAllRemote(ctx context.Context, op string, soft bool) error {
	if !c.o.Remote.used() {
		return nil
	}
	ctx, cancel := remote.WithTimeout(ctx, c.o.Remote.Timeout)
	defer cancel()
	err := callerLeft(ctx)
	if err == nil {
		err = c.dropAllOnce(ctx, soft)
	}
	if err == nil {
		return nil
	}
	return c.unconfirmed(ctx, op, err, func(when retry.When) bool { return c.retry.AddAll(soft, when) })
}

// dropAllOnce is one attempt at a drop of everything.
func (c *Cache[K, V]) dropAllOnce(ctx context.Context, soft bool) error {
	if c.tier != nil {
		err := c.can.dropAll.DropAll(ctx, soft)
		c.remoteResult(ctx, "drop all", err, probes{})
		if err != nil {
			c.doubtOwn()
			return err
		}
	}
	if !c.announces() {
		return nil
	}
	m := remote.Message{Name: c.o.Name, Kind: remote.AllDropped, From: c.instance}
	if soft {
		m.Kind = remote.AllExpired
	}
	return c.bus.Publish(ctx, []remote.Message{m})
}

// dropAllLocal makes everything absent, or stale, in L1, and makes the tier
// look for what has been dropped elsewhere before it brings anything back.
func (c *Cache[K, V]) dropAllLocal(soft bool) {
	if c.can.doubt != nil {
		c.can.doubt.Doubt()
	}
	if !soft {
		c.disown()
		return
	}
	c.trust.Expire(c.memory.Now())
	c.flights.FenceAll()
}

// doubtOwn makes this instance obey its own announcements for a while: one of
// its drops has ended without an answer and may still be carried out.
func (c *Cache[K, V]) doubtOwn() { c.doubt.Store(c.memory.Now() + int64(doubtFor)) }

// disown makes every entry in L1 absent, and what flights that run now bring.
// The word is raised first: a flight that is registered in between has the new
// one, and loses nothing but its right to store.
func (c *Cache[K, V]) disown() {
	c.trust.Disown()
	c.flights.FenceAll()
}
