package castier

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier/internal/recent"
)

// tagChange is a tag on its way: the place of its item, its name, and its state.
type tagChange struct {
	place
	tag    string
	server int
	// drop changes the state of the tag; known says whether there was one.
	drop func(t *tag, known bool)
	// write, if not nil, decides instead. It is for items beside the tags.
	write func(read Item) (Swap, bool)
	is    tag
	// missing says that the tag has no item: mark is in its place. If it is still there when
	// the item is made, no drop of the tag was written and lost meanwhile. sure says that the
	// number of the item is from behind the mark.
	missing, sure bool
	mark          []byte
	done          bool
	err           error
}

func (c *tagChange) failure() error { return c.err }

// DropTags implements [remote.Tagger]. If only some servers answer, the error is
// [remote.KeyErrors].
func (t *Tier) DropTags(ctx context.Context, tags []string, soft bool) error {
	if len(tags) == 0 {
		return nil
	}
	if err := checkNames(tags); err != nil {
		return err
	}
	clock, took, err := t.countTags(ctx, uint64(len(tags)))
	if err != nil {
		return err
	}
	// One addition has given a number to each tag. Numbers begin behind those of all earlier drops.
	all, latest := make([]*tagChange, len(tags)), clock
	for i, name := range tags {
		at := clock - uint64(len(tags)-1-i)
		all[i] = t.tagChange(name, func(is *tag, known bool) {
			if soft {
				is.expired = max(is.expired, at)
			}
			switch {
			// A tag that the store does not know may have lost a hard drop, so a soft one is not
			// enough. That drop may be later than this one.
			case !known:
				is.dropped = latest
			case !soft:
				is.dropped = max(is.dropped, at)
			}
		})
	}
	t.applyTags(ctx, slices.Concat(all, t.names.record(took, tags)))
	for turn := 0; ; turn++ { // for tags without an item: each turn has a number from behind the marks
		lost := slices.DeleteFunc(slices.Clone(all), func(c *tagChange) bool { return c.err != nil || !c.missing })
		if len(lost) == 0 {
			break
		}
		now, _, err := t.countTags(ctx, 0)
		if latest = max(latest, now); turn == recentTurns {
			err = cmp.Or(err, errContended)
		}
		for _, c := range lost {
			c.again()
			c.done, c.err = err != nil, err
		}
		t.applyTags(ctx, lost)
	}
	t.awaitTags(ctx, latest)
	return remote.JoinKeys(errorsOf(all))
}

func checkNames(tags []string) error {
	for _, name := range tags {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}

// Tags implements [remote.Tagger]. A tag that the store does not know was lost: it counts as
// dropped now, and is known from then on. A tag with a drop later than the clock is damaged,
// and counts as dropped, too. If only some servers answer, the error is [remote.KeyErrors].
func (t *Tier) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	if err := checkNames(tags); err != nil {
		return nil, err
	}
	all := t.lookUp(ctx, tags)
	if err := t.replaceLost(ctx, all); err != nil {
		return nil, err
	}
	known := make([]remote.Tag, len(tags))
	for i, c := range all {
		known[i] = remote.Tag{Dropped: c.is.dropped, Expired: c.is.expired}
	}
	return known, remote.JoinKeys(errorsOf(all))
}

// lookUp reads tags, and marks the missing ones.
func (t *Tier) lookUp(ctx context.Context, tags []string) []*tagChange {
	all := make([]*tagChange, len(tags))
	for i, name := range tags {
		all[i] = t.tagChange(name, nil)
	}
	t.applyTags(ctx, all)
	return all
}

// replaceLost drops the tags that a read did not find, and damaged ones, at one clock.
func (t *Tier) replaceLost(ctx context.Context, all []*tagChange) error {
	latest := uint64(0)
	for _, c := range all {
		latest = max(latest, c.is.dropped, c.is.expired)
	}
	clock := t.clockFrom(ctx, latest)
	lost := slices.DeleteFunc(slices.Clone(all), func(c *tagChange) bool {
		return c.err != nil || c.is != (tag{}) && c.is.dropped <= clock && c.is.expired <= clock
	})
	if len(lost) == 0 {
		return nil
	}
	// The drop gets a number of its own, later than every value stored so far.
	now, took, err := t.countTags(ctx, 1)
	if err != nil {
		return err
	}
	var names []string
	for _, c := range lost {
		names = append(names, c.tag)
		damaged := c.is
		c.again()
		c.drop = func(is *tag, known bool) {
			// Another client may have replaced the tag meanwhile, or dropped it later. Its drop is
			// then as good as this one.
			if !known || *is == damaged {
				*is = tag{dropped: now}
			}
		}
	}
	t.applyTags(ctx, slices.Concat(lost, t.names.record(took, names)))
	for _, c := range lost {
		if c.missing { // lost again
			c.is = tag{dropped: now}
		}
	}
	t.awaitTags(ctx, now)
	return nil
}

// newTags are the tags of values to be stored that may have no items: for each the tag clock of the
// earliest lease among the values.
type newTags struct {
	*Tier
	since map[string]uint64
}

// makeTags makes the missing items of the tags of values. The item of a new tag says that
// the tag was dropped before the values were loaded. So a reader that finds no item knows
// that it was lost. If an item was made for another value, with a drop later than the lease of
// this one, it gets an earlier drop, too. makeTags takes at most half of the time of the call, and
// leaves the items that it could not make to the readers.
func (t *Tier) makeTags(ctx context.Context, puts []remote.Put) {
	since := map[string]uint64{}
	for i := range puts {
		if len(puts[i].Data) > 0 {
			earliest(since, puts[i].Tags, puts[i].Lease.Clock)
		}
	}
	tags := slices.Sorted(maps.Keys(since))
	if len(tags) == 0 || checkNames(tags) != nil {
		return
	}
	if _, end := remote.Split(ctx); !end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = remote.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	// Nearly all tags of nearly all writes exist: the look-up decides whether anything has to be
	// written.
	all := slices.DeleteFunc(t.lookUp(ctx, tags), func(c *tagChange) bool {
		return c.err != nil || !c.missing && c.is.dropped <= since[c.tag]
	})
	if len(all) > 0 {
		newTags{t, since}.make(ctx, all)
	}
}

// earliest lowers the clocks of tags to the one of a lease.
func earliest(since map[string]uint64, tags []string, clock uint64) {
	for _, name := range tags {
		if at, ok := since[name]; !ok || clock < at {
			since[name] = clock
		}
	}
}

// make makes the items of tags, if they were not dropped since the leases at their clocks. The others
// get the present clock: each drop of the tag has a number up to that, also if its item was lost.
func (t newTags) make(ctx context.Context, all []*tagChange) {
	least := t.since[all[0].tag]
	for _, c := range all {
		least = min(least, t.since[c.tag])
	}
	clock, drops, err := t.recentDrops(ctx, least)
	if err != nil {
		return
	}
	for _, c := range all {
		if !t.spared(c, drops, clock) {
			t.since[c.tag] = clock
		}
		at := t.since[c.tag]
		c.again()
		c.drop = func(is *tag, known bool) {
			if !known || at < is.dropped && is.dropped <= clock {
				is.dropped = at
			}
		}
	}
	t.applyTags(ctx, all)
}

// spared reports whether a tag was not dropped between its number in since and the clock.
func (t newTags) spared(c *tagChange, drops []recent.Drop, clock uint64) bool {
	since := t.since[c.tag]
	return since <= clock && recent.Spares(drops, c.tag, since, clock)
}

func (t *Tier) tagChange(name string, drop func(*tag, bool)) *tagChange {
	item, hashed := itemKey(t.names.prefix, tagItem, hashedTag, name)
	c := &tagChange{place: place{item: item}, tag: name, server: t.servers.Home(item), drop: drop}
	if hashed {
		c.name = name
	}
	return c
}

// applyTags executes changes of tags, the servers side by side.
func (t *Tier) applyTags(ctx context.Context, all []*tagChange) {
	byServer := map[int][]*tagChange{}
	for _, c := range all {
		byServer[c.server] = append(byServer[c.server], c)
	}
	each(byServer, func(server int, some []*tagChange) {
		err := t.of(server, t.applyTagsOn(ctx, server, some))
		// A change of an earlier turn is done, whatever happens to the rest of its server.
		for _, c := range some {
			if err != nil && !c.done {
				c.err = err
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
	keys := make([]string, len(some))
	for i, c := range some {
		keys[i] = c.item
	}
	items, errs, err := t.get(ctx, server, keys)
	if err != nil {
		return err
	}
	var writes []Swap
	var written []*tagChange
	for i, c := range some {
		if c.err = errs.at(i); c.err != nil {
			c.done = true
		} else if write, needed := c.decide(items[i]); needed {
			writes, written = append(writes, write), append(written, c)
		}
	}
	if len(writes) == 0 {
		return nil
	}
	swapped, errs, err := t.swap(ctx, server, writes)
	if err != nil {
		return err
	}
	for i, c := range written {
		c.err = errs.at(i)
		c.done = swapped[i] || c.err != nil
	}
	return nil
}

// decide changes the tag read, and returns the write of it. If nothing changes, c is done,
// and no write is needed.
func (c *tagChange) decide(read Item) (write Swap, needed bool) {
	if c.write != nil {
		return c.write(read)
	}
	was, known := c.opened(read)
	c.is = was
	if c.missing = !known && !(c.sure && bytes.Equal(read.Value, c.mark)); c.missing {
		return c.leaveMark(read)
	}
	if c.drop != nil {
		c.drop(&c.is, known)
	}
	if c.drop == nil || known && c.is == was {
		c.done = true
		return Swap{}, false
	}
	return Swap{Key: c.item, Value: encodeTag(c.name, c.is), Version: read.Version}, true
}

// again has a tag that was read before be changed by a number from behind that.
func (c *tagChange) again() { c.done, c.sure = false, c.missing }

// leaveMark puts a mark in the place of a tag that has no item, unless there is one.
func (c *tagChange) leaveMark(read Item) (write Swap, needed bool) {
	c.mark, c.sure = read.Value, false
	if c.done = bytes.HasPrefix(read.Value, []byte(missingMark)); c.done {
		return Swap{}, false
	}
	c.mark = binary.AppendUvarint([]byte(missingMark), nonce())
	return Swap{Key: c.item, Value: c.mark, Version: read.Version}, true
}

// opened returns the state in the item read, and whether it has one.
func (c *tagChange) opened(read Item) (was tag, known bool) {
	if read.Version == (Version{}) {
		return tag{}, false
	}
	was, err := decodeTag(read.Value, c.name)
	return was, err == nil
}
