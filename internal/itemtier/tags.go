package itemtier

import (
	"context"
	"slices"

	"github.com/strata-cache/strata/remote"
)

// tagChange is a tag on its way: the place of its item, and what it holds.
type tagChange struct {
	place
	server int
	// drop changes the state of the tag; known says whether there was one.
	drop func(t *tag, known bool)
	is   tag
	done bool
	err  error
}

// DropTags implements [remote.Tagger].
func (t *Tier) DropTags(ctx context.Context, tags []string, soft bool) error {
	if len(tags) == 0 {
		return nil
	}
	if err := checkNames(tags); err != nil {
		return err
	}
	clock, err := t.countTags(ctx, uint64(len(tags)))
	if err != nil {
		return err
	}
	all := make([]*tagChange, len(tags))
	for i, name := range tags {
		at := clock - uint64(len(tags)-1-i)
		all[i] = t.tagChange(name, func(is *tag, known bool) {
			if soft {
				is.expired = max(is.expired, at)
			}
			if !soft || !known {
				is.dropped = max(is.dropped, at)
			}
		})
	}
	t.applyTags(ctx, all)
	return tagErrors(all)
}

func checkNames(tags []string) error {
	for _, name := range tags {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}

// Tags implements [remote.Tagger]. A tag that the store does not know counts as
// dropped now, and is known from then on.
func (t *Tier) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	if err := checkNames(tags); err != nil {
		return nil, err
	}
	all := make([]*tagChange, len(tags))
	for i, name := range tags {
		all[i] = t.tagChange(name, nil)
	}
	t.applyTags(ctx, all)
	if err := t.makeKnown(ctx, all); err != nil {
		return nil, err
	}
	known := make([]remote.Tag, len(tags))
	for i, c := range all {
		known[i] = remote.Tag{Dropped: c.is.dropped, Expired: c.is.expired}
	}
	return known, tagErrors(all)
}

// makeKnown drops those tags that were read and not found, at one clock.
func (t *Tier) makeKnown(ctx context.Context, all []*tagChange) error {
	var missing []*tagChange
	for _, c := range all {
		if c.err == nil && c.is == (tag{}) {
			missing = append(missing, c)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	clock, err := t.countTags(ctx, 1)
	if err != nil {
		return err
	}
	for _, c := range missing {
		c.done = false
		c.drop = func(is *tag, known bool) {
			if !known {
				is.dropped = clock
			}
		}
	}
	t.applyTags(ctx, missing)
	return nil
}

func (t *Tier) tagChange(name string, drop func(*tag, bool)) *tagChange {
	item, hashed := itemKey(t.names.prefix, tagItem, hashedTag, name)
	c := &tagChange{place: place{item: item}, server: t.store.Home(item), drop: drop}
	if hashed {
		c.name = name
	}
	return c
}

func tagErrors(all []*tagChange) error {
	var failed errorList
	for _, c := range all {
		if c.err != nil {
			failed.add(c.err)
		}
	}
	return failed.join(nil)
}

// applyTags executes changes of tags, those of each server side by side.
func (t *Tier) applyTags(ctx context.Context, all []*tagChange) {
	byServer := map[int][]*tagChange{}
	for _, c := range all {
		byServer[c.server] = append(byServer[c.server], c)
	}
	each(byServer, func(server int, some []*tagChange) {
		if err := t.applyTagsOn(ctx, server, some); err != nil {
			for _, c := range some {
				if !c.done {
					c.err = err
				}
			}
		}
	})
}

// applyTagsOn changes the tags of one server in turns, as applyOn does.
func (t *Tier) applyTagsOn(ctx context.Context, server int, some []*tagChange) error {
	for range maxTurns {
		some = slices.DeleteFunc(slices.Clone(some), func(c *tagChange) bool { return c.done })
		if len(some) == 0 {
			return nil
		}
		if err := t.turnTags(ctx, server, firsts(some)); err != nil {
			return err
		}
	}
	return errContended
}

// turnTags reads, decides and writes once.
func (t *Tier) turnTags(ctx context.Context, server int, some []*tagChange) error {
	reads := make([]Op, len(some))
	for i, c := range some {
		reads[i] = Op{Kind: Read, Key: c.item}
		if c.drop == nil {
			reads[i].Kind = Look
		}
	}
	results, err := t.store.Do(ctx, server, reads)
	if err != nil {
		return err
	}
	var writes []Op
	var written []*tagChange
	for i, c := range some {
		if op, needed := c.decide(results[i]); needed {
			writes, written = append(writes, op), append(written, c)
		}
	}
	if len(writes) == 0 {
		return nil
	}
	if results, err = t.store.Do(ctx, server, writes); err != nil {
		return err
	}
	for i, c := range written {
		c.done, c.err = results[i].Done || results[i].Err != nil, results[i].Err
	}
	return nil
}

// decide changes the tag that was read, and returns the operation that writes it. If
// nothing changes, c is done, and no operation is needed.
func (c *tagChange) decide(read Result) (op Op, needed bool) {
	if c.err = read.Err; c.err != nil {
		c.done = true
		return Op{}, false
	}
	was, known := c.opened(read)
	c.is = was
	if c.drop != nil {
		c.drop(&c.is, known)
	}
	if c.drop == nil || known && c.is == was {
		c.done = true
		return Op{}, false
	}
	return Op{Kind: Write, Key: c.item, Data: encodeTag(c.name, c.is), Version: read.Version}, true
}

// opened returns the state in an item that was read, and whether it has one.
func (c *tagChange) opened(read Result) (was tag, known bool) {
	if !read.Done {
		return tag{}, false
	}
	was, err := decodeTag(read.Data, c.name)
	return was, err == nil
}
