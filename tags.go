package strata

import (
	"context"
	"slices"

	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/generation"
	"github.com/strata-cache/strata/internal/l1"
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

// outdated reports whether a caller that has joined a flight must not be answered
// with its result r, because a tag of r was dropped after r was read and before
// the caller came. watermark is the generation of tags from before the caller joined.
func (c *Cache[K, V]) outdated(r *flight.Result[V], watermark uint64) bool {
	return c.droppedBetween(r.Tags, r.TagWatermark, watermark)
}

// droppedBetween reports whether any of tags may have been dropped, or expired,
// while the generation of tags went from one to another.
func (c *Cache[K, V]) droppedBetween(tags []string, from, to uint64) bool {
	if len(tags) == 0 || from >= to {
		return false
	}
	v, _, _ := c.generation.JudgeTags(tags, from)
	return v != generation.Valid
}

// tagsDropped reports whether e, which is in L1 or on its way there, is absent
// for every purpose because one of its tags was dropped since it was read.
func (c *Cache[K, V]) tagsDropped(e *l1.Entry[K, V]) bool {
	if e.Tags == nil {
		return false
	}
	v, _, _ := c.generation.JudgeTags(e.Tags.Names, e.Tags.Seen.Load())
	return v == generation.Invalid
}
