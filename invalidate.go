package strata

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
// while other instances may still serve them. A key that is too long for L2 is
// such an error too, but nothing is tried again: other instances are told, and
// keep what they load for UnconfirmedTTL at most. It returns ErrClosed on a
// closed cache.
func (c *Cache[K, V]) Invalidate(ctx context.Context, keys ...K) error {
	return c.invalidate(ctx, "invalidate", remote.Drop{}, keys)
}

// InvalidateHold is Invalidate for an origin that is read from replicas which
// lag behind: for d afterwards callers still get what they load, but it is
// kept nowhere. A Set ends nothing of that, but is kept itself. Without an L2
// and a bus the hold is this instance's alone. d must be positive.
func (c *Cache[K, V]) InvalidateHold(ctx context.Context, d time.Duration, keys ...K) error {
	if d <= 0 {
		return fmt.Errorf("strata: invalidate: hold of %v is not positive", d)
	}
	return c.invalidate(ctx, "invalidate", remote.Drop{Hold: d}, keys)
}

// Expire makes keys stale everywhere: the next GetOrLoad runs the Loader,
// which may answer ErrNotModified; if it fails, the stale value is served. Get
// reports stale values as missing. Errors are as for Invalidate.
func (c *Cache[K, V]) Expire(ctx context.Context, keys ...K) error {
	return c.invalidate(ctx, "expire", remote.Drop{Soft: true}, keys)
}

// invalidate drops keys as how says, all of them whatever happens to some.
func (c *Cache[K, V]) invalidate(ctx context.Context, op string, how remote.Drop, keys []K) (err error) {
	if c.closed.Load() {
		return ErrClosed
	}
	for part := range slices.Chunk(keys, maxBatch) {
		if e := c.invalidatePart(ctx, op, how, part); e != nil {
			err = e // it counts what is pending, of the earlier parts too
		}
	}
	return err
}

func (c *Cache[K, V]) invalidatePart(ctx context.Context, op string, how remote.Drop, keys []K) error {
	drops := make([]remote.Drop, len(keys))
	if c.o.Remote.used() {
		for i, k := range keys {
			drops[i] = how
			drops[i].Key = c.o.Remote.Key(k)
		}
	}
	// L2 first: a reader between the two drops would bring the old value back
	// from L2 to L1.
	_, err := c.drop(ctx, op, drops)
	for _, k := range keys {
		if how.Hold > 0 {
			c.flights.Hold(k, how.Hold)
		}
		c.dropLocal(k, how.Soft)
	}
	c.counts.invalidations.Add(uint64(len(keys)))
	return err
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
		c.retry.Add(drops)
	case len(drops) > 1:
		return c.dropEach(ctx, op, drops)
	case c.bus != nil:
		// Nothing is to be dropped in L2, but other instances may have loaded it.
		// If this is lost nobody can find that out: see keepLoaded.
		_ = c.bus.Publish(ctx, c.messages(drops))
	}
	return nil, &RemoteError{Op: op, Pending: c.retry.Len(), Err: err}
}

// dropGuarded is dropOnce, unless L2 is left alone.
func (c *Cache[K, V]) dropGuarded(ctx context.Context, drops []remote.Drop) ([]remote.Lease, error) {
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

// dropOnce is one attempt at a drop, whatever the breaker says.
func (c *Cache[K, V]) dropOnce(ctx context.Context, drops []remote.Drop) ([]remote.Lease, error) {
	return c.dropAs(ctx, drops, false)
}

func (c *Cache[K, V]) dropAs(ctx context.Context, drops []remote.Drop, probe bool) (leases []remote.Lease, err error) {
	if c.tier != nil {
		leases, err = c.tier.Drop(ctx, drops)
		c.remoteResult("drop", err, probe)
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
	c.drops.Add(1)
	c.flights.Fence(key, func() {
		if !soft {
			c.forget(key)
			return
		}
		c.memos.Delete(key)
		if e, _ := c.memory.Peek(key); e != nil && e.Fresh > 0 {
			c.memory.Swap(e, c.expired(e))
		}
	})
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

// ExpireAll makes everything that instances of this name have cached stale, as
// [Cache.Expire] does with single keys. It is InvalidateAll otherwise.
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
	err := c.dropAllOnce(ctx, soft)
	if err == nil {
		return nil
	}
	c.retry.AddAll(soft)
	return &RemoteError{Op: op, Pending: c.retry.Len(), Err: err}
}

// dropAllOnce is one attempt at a drop of everything.
func (c *Cache[K, V]) dropAllOnce(ctx context.Context, soft bool) error {
	if c.tier != nil {
		err := c.can.dropAll.DropAll(ctx, soft)
		c.remoteResult("drop all", err, false)
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
	c.drops.Add(1)
	if c.can.doubt != nil {
		c.can.doubt.Doubt()
	}
	if !soft {
		c.disown()
		return
	}
	c.trust.Expire()
	c.flights.FenceAll()
}

// doubtOwn makes this instance obey its own announcements for a while: one of
// its drops has ended without an answer and may still be carried out.
func (c *Cache[K, V]) doubtOwn() { c.doubt.Store(c.memory.Now() + int64(doubtFor)) }
