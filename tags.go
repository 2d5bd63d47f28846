package strata

import (
	"context"
	"slices"

	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/generation"
	"github.com/strata-cache/strata/internal/l1"
)

// InvalidateTags makes every entry absent, everywhere, that carries one of tags
// and whose load or write began before. It takes time for the tags, not for
// what carries them. Other instances obey when the bus has told them; what they
// read from L2 obeys at once. Loads and writes that run meanwhile, and end
// without one of the tags, are kept. Errors are as for [Cache.Invalidate]; an
// empty or overlong tag is an error too, and then nothing was done.
//
// Entries get their tags from [WithTags], [Load.SetTags] and Options.Tags. That
// the origin has no such key is forgotten too, if its load has named a tag.
func (c *Cache[K, V]) InvalidateTags(ctx context.Context, tags ...string) error {
	return c.dropTags(ctx, "invalidate tags", tags, false)
}

// ExpireTags makes every entry stale, everywhere, that carries one of tags, as
// [Cache.Expire] does. It is InvalidateTags otherwise.
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

// dropTagsLocal makes what carries tags absent, or stale, in L1. Loads and writes
// that run now go on, and may be joined: nobody knows yet which tags they end
// with. An entry that they bring is judged by its stamp whenever it is read, and
// [Cache.outdated] judges their result for those who join from now on.
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

// outdated reports whether a caller who has joined a flight must not be answered
// with its result r, because a tag of r was dropped after r was read and before
// the caller came. word is the word of tags from before the caller joined.
func (c *Cache[K, V]) outdated(r *flight.Result[V], word uint64) bool {
	return c.droppedBetween(r.Tags, r.TagWatermark, word)
}

// droppedBetween reports whether any of tags may have been dropped, or expired,
// while the word of tags went from one to another.
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
