package strata

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/remote"
)

// Invalidate makes keys absent everywhere. After it has returned nil, no load
// that began before is stored anywhere, no call that begins on this instance
// is answered with an older value, and other instances drop their entries as soon
// as the bus has told them.
//
// It returns *RemoteError if L2 or the bus did not confirm. This instance has
// dropped the keys then, reads them past L2 and tries again in the background,
// while other instances may still serve them. The same happens if ctx ends before
// L2 has confirmed: the drop is sent nevertheless, in the background and at once. For a key
// too long for L2 the error is a *RemoteError, too, but nothing is tried again: other
// instances are told, and keep their loads of the key for UnconfirmedTTL at most. It
// returns ErrClosed on a closed cache. It returns ErrKeyTooLong, and has done nothing, if a
// key exceeds Limits.MaxKeyBytes.
func (c *Cache[K, V]) Invalidate(ctx context.Context, keys ...K) error {
	return c.invalidate(ctx, "invalidate", remote.Drop{}, keys)
}

// InvalidateHold is Invalidate for loads that read lagging replicas of the origin:
// for d afterwards callers get the values that they load, but no tier stores
// them. A Set is stored, and does not end the hold. An instance that hears of the
// hold late keeps it for d from then on. Without an L2 and a bus the hold applies to
// this instance alone. d must be positive, and 24 hours at most. With more than some
// 10 000 keys on hold at once, other keys are put on hold with them.
func (c *Cache[K, V]) InvalidateHold(ctx context.Context, d time.Duration, keys ...K) error {
	if d <= 0 {
		return fmt.Errorf("strata: invalidate: hold of %v is not positive", d)
	}
	if d > maxHold {
		return fmt.Errorf("strata: invalidate: hold of %v is longer than %v", d, maxHold)
	}
	return c.invalidate(ctx, "invalidate", remote.Drop{Hold: d}, keys)
}

// Expire makes keys stale everywhere: the next GetOrLoad runs the Loader and
// waits for it, and the Loader may return ErrNotModified. If the Loader fails, the
// stale value is served, for Stale.OnError since the Expire and no longer than
// without it. Get does not return stale values. Errors are as for Invalidate.
func (c *Cache[K, V]) Expire(ctx context.Context, keys ...K) error {
	return c.invalidate(ctx, "expire", remote.Drop{Soft: true, Left: c.tuned.stale().window()}, keys)
}

// invalidate makes a drop of the kind how for each of keys, also after an error.
func (c *Cache[K, V]) invalidate(ctx context.Context, op string, how remote.Drop, keys []K) (err error) {
	if c.closed.Load() {
		return ErrClosed
	}
	for _, k := range keys {
		if err := c.checkKey(k); err != nil {
			return err
		}
	}
	drops, err := c.dropsOf(how, keys)
	if errors.Is(err, ErrKeyTooLong) {
		return err
	}
	outer := ctx
	s := Span{Name: SpanInvalidate, Keys: len(keys), Soft: how.Soft}
	if len(keys) == 1 {
		s.Key = keyOf(&c.core, keys[0])
	}
	ctx, span := c.begin(ctx, s)
	defer func() { span.wrote(outer, err) }()
	for len(keys) > 0 {
		n := min(len(keys), maxBatch)
		m := min(len(drops), n) // fewer in all if a key has no name: no drop is in a later part than its key
		if e := c.invalidatePart(ctx, op, how, keys[:n], drops[:m]); e != nil {
			err = e // it counts the pending drops of the earlier parts, too
		}
		keys, drops = keys[n:], drops[m:]
	}
	return err
}

// invalidatePart drops up to maxBatch keys, in L2 and then in L1.
func (c *Cache[K, V]) invalidatePart(ctx context.Context, op string, how remote.Drop, keys []K, drops []remote.Drop) (err error) {
	defer c.dropping.Leave(c.dropping.Enter())
	if len(drops) > 0 {
		// L2 first: a reader between the two drops would bring the old value
		// back from L2 to L1.
		if _, e := c.l2.Drop(ctx, drops); e != nil {
			err = remoteError(op, e)
		}
	}
	now := c.now()
	for _, k := range keys {
		if how.Hold > 0 {
			c.flights.Hold(k, how.Hold)
		}
		c.dropLocal(k, how.Soft, now)
	}
	c.noteDrops(observe.KeysInvalidated, how.Soft, len(keys), now)
	return err
}

// noteDrops counts drops by callers of this instance, and notes them as an event.
func (c *core) noteDrops(what observe.Dropped, soft bool, n int, now int64) {
	c.counts.invalidations.Add(uint64(n))
	c.journal.Drops(what, soft, n, now)
}

// dropsOf returns the drops of keys for L2: none without an L2 and a bus. A key
// without a name has no drop, and its error is returned.
func (c *Cache[K, V]) dropsOf(how remote.Drop, keys []K) (drops []remote.Drop, err error) {
	if !c.l2.Used() {
		return nil, nil
	}
	drops = make([]remote.Drop, 0, len(keys))
	for _, k := range keys {
		name, e := c.nameOf(k)
		if errors.Is(e, ErrKeyTooLong) {
			return nil, e
		}
		if err = cmp.Or(e, err); e == nil {
			how.Key = name
			drops = append(drops, how)
		}
	}
	return drops, err
}

// dropLocal makes key absent, or stale, in L1 and takes the right to store from
// its flights and writes. now is the time of L1.
func (c *Cache[K, V]) dropLocal(key K, soft bool, now int64) {
	var removed []removal[K, V]
	c.flights.Fence(key, now, func() {
		if !soft {
			removed = c.near.Forget(key)
			return
		}
		c.near.Negatives.Delete(key)
		removed = c.near.Expire(key, now)
	})
	c.near.Values.Notify(removed)
}

// InvalidateAll makes all entries of instances of this name absent, in a time that
// does not depend on their number. Other instances notice when the bus tells them,
// or else within a second of their next read of L2. Without a bus their entries in
// L1 live for at most UnconfirmedTTL more. Errors are as for Invalidate.
//
// Every key is loaded again afterwards: the origin gets the load that the
// cache has kept from it.
//
// An instance applies more than ten such drops in ten seconds by one other instance
// once a second.
func (c *Cache[K, V]) InvalidateAll(ctx context.Context) error {
	return c.invalidateAll(ctx, "invalidate all", false)
}

// ExpireAll makes all entries of instances of this name stale, as if their TTL had
// ended now. For Stale.WhileRevalidate a read gets the stale value at once, and
// starts a refresh of its key; Limits.MaxRefreshes of these run at once. For
// Stale.OnError the stale value is served if its load fails. So reads rebuild their entries
// in the background, and no caller waits. To make readers wait, as after [Cache.Expire],
// set Stale.WhileRevalidate to -1. On an instance without news of the ExpireAll, readers of
// entries in L2 wait. In all else it is like InvalidateAll.
func (c *Cache[K, V]) ExpireAll(ctx context.Context) error {
	return c.invalidateAll(ctx, "expire all", true)
}

func (c *Cache[K, V]) invalidateAll(ctx context.Context, op string, soft bool) error {
	if c.closed.Load() {
		return ErrClosed
	}
	defer c.dropping.Leave(c.dropping.Enter())
	within, span := c.begin(ctx, Span{Name: SpanInvalidate, Soft: soft})
	// L2 first, as in invalidatePart.
	err := remoteError(op, c.l2.DropAll(within, soft))
	defer span.wrote(ctx, err)
	c.drops.Around(func() { c.dropAllLocal(soft) })
	c.near.Negatives.Clear()
	if !soft {
		// The watermark has made the entries absent. This frees their memory at once.
		c.near.Values.Clear()
	}
	c.noteDrops(observe.AllInvalidated, soft, 1, c.now())
	return err
}

// dropAllLocal makes everything absent, or stale, in L1, and makes the tier read its
// namespace state again before it returns a value.
func (c *Cache[K, V]) dropAllLocal(soft bool) {
	c.l2.Recheck()
	if !soft {
		c.invalidateAllLocal()
		return
	}
	c.generation.Expire(c.memory.Now())
	c.flights.FenceAll()
}

// invalidateAllLocal makes every entry in L1 absent, and keeps running flights from
// storing. The generation is raised first: a flight registered in between
// has the new generation as its stamp, and loses only its right to store.
func (c *Cache[K, V]) invalidateAllLocal() {
	c.generation.InvalidateAll()
	c.flights.FenceAll()
}

// InvalidateTags makes every entry with one of tags absent, everywhere, if its load
// or write began before the call. The time that it takes depends on the number of
// tags, not on the number of entries. Other instances drop the entries of L1 when
// the bus has told them, and serve none of them from L2 any more. Loads and writes
// that run meanwhile, and end without one of the tags, are stored. Errors are as for
// [Cache.Invalidate]. An empty or overlong tag is an error too, and then nothing was
// done.
//
// Entries get their tags from [WithTags], [Load.SetTags] and Options.Tags. Negative
// entries are dropped, too, if their load has named a tag.
func (c *Cache[K, V]) InvalidateTags(ctx context.Context, tags ...string) error {
	return c.dropTags(ctx, "invalidate tags", tags, false)
}

// ExpireTags makes every entry with one of tags stale, everywhere, as
// [Cache.Expire] does. In all else it is like InvalidateTags.
func (c *Cache[K, V]) ExpireTags(ctx context.Context, tags ...string) error {
	return c.dropTags(ctx, "expire tags", tags, true)
}

// dropTags checks all tags before the first drop: after an error about a tag nothing was
// done.
func (c *Cache[K, V]) dropTags(ctx context.Context, op string, tags []string, soft bool) error {
	if c.closed.Load() {
		return ErrClosed
	}
	for _, t := range tags {
		if err := envelope.CheckTag(t); err != nil {
			return err
		}
	}
	if len(tags) == 0 {
		return nil
	}
	if c.l2.LacksTags() {
		return errNoTags
	}
	defer c.dropping.Leave(c.dropping.Enter())
	within, span := c.begin(ctx, Span{Name: SpanInvalidate, Tags: len(tags), Soft: soft})
	var err error
	for part := range slices.Chunk(tags, maxBatch) {
		if e := c.l2.DropTags(within, part, soft); e != nil {
			err = remoteError(op, e)
		}
	}
	defer span.wrote(ctx, err)
	c.dropTagsLocal(tags, soft)
	c.noteDrops(observe.TagsInvalidated, soft, len(tags), c.now())
	return err
}

// dropTagsLocal makes the entries with tags absent, or stale, in L1. Loads and
// writes that run now continue, and may be joined, because their tags are known only
// at their end. Their entries are judged by their stamps whenever they are read, and
// [Cache.outdated] judges their result for callers that join from now on.
func (c *Cache[K, V]) dropTagsLocal(tags []string, soft bool) {
	c.l2.Recheck() // the clock has moved
	now := c.memory.Now()
	c.drops.Around(func() {
		for _, t := range tags {
			c.generation.DropTag(t, soft, now)
		}
	}, tags...)
	if !soft {
		c.wakePurger()
	}
}

// Drops of everything, or of a tag, set a watermark and look at no entry, so that they take
// no time. Their entries would keep their room until they are read, expire or are evicted.
// A pass over L1 a moment later frees it, and serves a burst of drops. Loads that ran at
// the drop have lost their right to store, or compare their tags when they land.

// purge removes the entries of L1 that drops of everything or of tags made absent.
func (c *Cache[K, V]) purge() {
	c.near.Purge(func() bool { return c.open.Err() != nil })
}

// wakePurger starts a purge of L1.
func (c *core) wakePurger() { c.purges.Wake(c.open) }
