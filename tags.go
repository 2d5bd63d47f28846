package strata

import (
	"context"
	"slices"

	"github.com/strata-cache/strata/remote"
)

// InvalidateTags makes every entry absent, everywhere, that carries one of tags
// and whose load or write began before. It takes time for the tags, not for
// what carries them. Other instances obey when the bus has told them; what they
// read from L2 obeys at once. Errors are as for [Cache.Invalidate]; an empty or
// overlong tag is an error too, and then nothing was done.
//
// Entries get their tags from [WithTags] or [Load.SetTags].
func (c *Cache[K, V]) InvalidateTags(ctx context.Context, tags ...string) error {
	return c.dropTags(ctx, "invalidate tags", tags, false)
}

// ExpireTags makes every entry stale, everywhere, that carries one of tags, as
// [Cache.Expire] does. It is InvalidateTags otherwise.
func (c *Cache[K, V]) ExpireTags(ctx context.Context, tags ...string) error {
	return c.dropTags(ctx, "expire tags", tags, true)
}

// WithTags adds tags to the entry that this call stores, at most 64 of at most
// 512 bytes each; otherwise the call fails. [Cache.InvalidateTags] drops all
// entries with a tag. Where several callers share a load, the first one's
// option counts.
func WithTags(tags ...string) CallOption {
	tags = slices.Clone(tags)
	return func(c *call) { c.addTags(tags) }
}

func (c *Cache[K, V]) dropTags(ctx context.Context, op string, tags []string, soft bool) error {
	if c.closed.Load() {
		return ErrClosed
	}
	for _, t := range tags {
		if err := checkTag(t); err != nil {
			return err
		}
	}
	if c.tier != nil && c.can.tag == nil {
		return errNoTags
	}
	var err error
	for part := range slices.Chunk(tags, maxBatch) {
		if e := c.dropTagsRemote(ctx, op, part, soft); e != nil {
			err = e
		}
	}
	c.dropTagsLocal(tags, soft)
	c.counts.invalidations.Add(uint64(len(tags)))
	return err
}

func (c *Cache[K, V]) dropTagsRemote(ctx context.Context, op string, tags []string, soft bool) error {
	if !c.o.Remote.used() {
		return nil
	}
	ctx, cancel := remote.WithTimeout(ctx, c.o.Remote.Timeout)
	defer cancel()
	err := c.dropTagsOnce(ctx, tags, soft)
	if err == nil {
		return nil
	}
	c.retry.AddTags(tags, soft)
	return &RemoteError{Op: op, Pending: c.retry.Len(), Err: err}
}

// dropTagsOnce is one attempt at a drop of tags.
func (c *Cache[K, V]) dropTagsOnce(ctx context.Context, tags []string, soft bool) error {
	if c.tier != nil {
		err := c.can.tag.DropTags(ctx, tags, soft)
		c.remoteResult("drop tags", err, false)
		if err != nil {
			c.doubtOwn()
			return err
		}
	}
	if !c.announces() {
		return nil
	}
	kind := remote.TagDropped
	if soft {
		kind = remote.TagExpired
	}
	ms := make([]remote.Message, len(tags))
	for i, t := range tags {
		ms[i] = remote.Message{Name: c.o.Name, Kind: kind, From: c.instance, Key: t}
	}
	return c.bus.Publish(ctx, ms)
}

// dropTagsLocal makes what carries tags absent, or stale, in L1. What runs now
// may bring such an entry: it is judged by its stamp, but nobody who calls from
// now on is to join it.
func (c *Cache[K, V]) dropTagsLocal(tags []string, soft bool) {
	c.drops.Add(1)
	if c.can.doubt != nil {
		c.can.doubt.Doubt() // the clock has moved
	}
	now := c.memory.Now()
	for _, t := range tags {
		c.trust.DropTag(t, soft, now)
	}
	c.flights.FenceAll()
}
