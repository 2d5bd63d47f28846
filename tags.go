package strata

import (
	"context"
	"slices"
)

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

func (c *Cache[K, V]) dropTags(ctx context.Context, op string, tags []string, soft bool) error {
	if c.closed.Load() {
		return ErrClosed
	}
	for _, t := range tags {
		if err := checkTag(t); err != nil {
			return err
		}
	}
	if len(tags) == 0 {
		return nil
	}
	if c.l2.LacksTags() {
		return errNoTags
	}
	var err error
	for part := range slices.Chunk(tags, maxBatch) {
		if e := c.l2.DropTags(ctx, part, soft); e != nil {
			err = remoteError(op, e)
		}
	}
	c.dropTagsLocal(tags, soft)
	c.counts.invalidations.Add(uint64(len(tags)))
	return err
}

// dropTagsLocal makes the entries with tags absent, or stale, in L1. Loads and
// writes that run now continue, and may be joined, because their tags are known only
// at their end. Their entries are judged by their stamps whenever they are read, and
// [Cache.outdated] judges their result for callers that join from now on.
func (c *Cache[K, V]) dropTagsLocal(tags []string, soft bool) {
	c.l2.Recheck() // the clock has moved
	now := c.memory.Now()
	for _, t := range tags {
		c.generation.DropTag(t, soft, now)
	}
	if !soft {
		c.wakePurger()
	}
}
