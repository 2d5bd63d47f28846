// Entries of another process come into L1 if nothing has happened to their keys that
// would make them older than their readers may see.
//
// States of such an entry: covered, if every drop that it does not know of was carried
// out after the restore began; not covered, so that L2 has to be asked.
//
// Invariant: an entry goes into L1 under the lock of its key's flights, with the stamp
// from the begin of the restore, and only if its key is untouched since then. So it is
// judged by every drop that was heard of, or lost, since the restore began.

package strata

import (
	"context"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/dump"
	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/generation"
	"github.com/strata-cache/strata/internal/transfer"
	"github.com/strata-cache/strata/remote"
)

// Restore begins a restore.
func (s source[K, V]) Restore(ctx context.Context) (transfer.Restore, error) {
	if s.c.closed.Load() {
		return nil, ErrClosed
	}
	if err := s.CheckKeys(); err != nil {
		return nil, err
	}
	if err := s.c.joinBus(ctx); err != nil {
		return nil, err
	}
	r := &incoming[K, V]{c: s.c, alone: !s.c.l2.Used()}
	r.aliaser, _ = s.c.encoding.(codec.Aliaser[V])
	r.watch = s.c.flights.Watch(nil)
	r.stamps = s.c.stamps(nil)
	if s.c.l2.HasBus() && s.c.l2.HasPositions() {
		r.witness = s.c.generation.Witness()
		// The drops up to now, also those of this instance whose messages are on their way.
		r.tier, _ = s.c.l2.Position(ctx)
	}
	return r, nil
}

// incoming is the entries of another process on their way into L1.
type incoming[K comparable, V any] struct {
	c       *Cache[K, V]
	watch   *flight.Watch[K]
	witness *generation.Witness // nil if no drops are known
	tier    remote.Position     // after the begin of witness; without lanes if it is not known
	covered generation.Coverage
	stamps  stamps
	alone   bool             // no other instance can drop anything
	aliaser codec.Aliaser[V] // nil if the codec is none
}

func (r *incoming[K, V]) Close() {
	r.c.flights.Unwatch(r.watch)
	if r.witness != nil {
		r.c.generation.Dismiss(r.witness)
	}
}

const (
	// coverWithin is the time for messages to arrive that another instance has had.
	coverWithin = time.Second
	coverPoll   = 10 * time.Millisecond
)

func (r *incoming[K, V]) Cover(ctx context.Context, position []byte) (doubt string) {
	r.covered = generation.Coverage{}
	switch {
	case r.alone:
		return ""
	case r.witness == nil:
		return "the drops of this cache have no positions, as those of memcached"
	case position == nil:
		return "the snapshot has no position: its cache had no L2 with positions, or its bus was silent"
	}
	p, err := transfer.ParsePosition(position)
	switch {
	case err != nil:
		return err.Error()
	case !r.c.link.Connected() || len(r.tier.Lanes) == 0:
		return "the bus of this instance is silent"
	case p.Epoch != r.tier.Epoch:
		return "the snapshot comes from instances with another L2, or from before L2 lost its data"
	}
	for deadline := time.Now().Add(coverWithin); ; {
		r.covered = r.witness.Covers(&r.tier, &p)
		if !r.covered.Awaits || !time.Now().Before(deadline) || wait(ctx, coverPoll) != nil {
			break
		}
	}
	if !r.covered.Whole() {
		return "keys were dropped since the snapshot"
	}
	return ""
}

// Entry takes in e.
func (r *incoming[K, V]) Entry(e *dump.Entry, ago time.Duration, keep bool) transfer.Outcome {
	c := r.c
	if c.closed.Load() || c.passesMemory(&call{}) {
		return transfer.Full
	}
	name := string(e.Key)
	key, err := c.parseKey(name)
	if err != nil || c.tooLong(len(name)) || !usableTags(e.Tags) {
		return transfer.Unusable
	}
	if !r.covers(name, len(e.Tags) > 0) {
		return transfer.Unconfirmed
	}
	if c.l2.Used() && c.l2.Blocks(name, e.Tags) {
		return transfer.Changed
	}
	fresh, left := r.rest(e.Fresh, ago), r.rest(e.Left, ago)
	if left <= 0 || e.NotFound && fresh <= 0 {
		return transfer.Over
	}
	if e.NotFound {
		return r.absent(key, e, fresh)
	}
	v, ok := r.decode(e.Value, keep)
	if !ok {
		return transfer.Unusable
	}
	return r.insert(key, v, e, fresh, min(left, c.kept(max(fresh, 0))), ago)
}

// covers reports whether the key with that name is covered. While the bus is silent none
// is.
func (r *incoming[K, V]) covers(name string, tagged bool) bool {
	if r.alone {
		return true
	}
	return len(r.covered.Lanes) > 0 && r.c.link.Connected() && r.covered.Covers(r.c.l2.Lane(name), tagged)
}

// rest is what remains of a life after some time.
func (r *incoming[K, V]) rest(life, ago time.Duration) time.Duration {
	if life == dump.Forever {
		return life
	}
	return life - max(ago, 0)
}

func usableTags(tags []string) bool {
	for _, t := range tags {
		if checkTag(t) != nil {
			return false
		}
	}
	return true
}

// decode is the value of an entry.
func (r *incoming[K, V]) decode(b []byte, keep bool) (v V, ok bool) {
	defer r.c.contain("Remote.Codec")
	var err error
	if keep && r.aliaser != nil {
		v, err = r.aliaser.DecodeAlias(b)
	} else {
		v, err = r.c.encoding.Decode(b)
	}
	return v, err == nil
}

// absent takes in a negative entry.
func (r *incoming[K, V]) absent(key K, e *dump.Entry, fresh time.Duration) (o transfer.Outcome) {
	c := r.c
	n := c.negativeEntry(key, ErrNotFound, fresh, r.stampsOf(e))
	if v, _ := c.judgeTags(n.Value.tags); v != generation.Valid {
		return transfer.Changed
	}
	o = transfer.Changed
	c.flights.Restore(r.watch, key, func() {
		if o = transfer.Present; !r.has(key) {
			o = transfer.Stored
			c.negatives.Set(n, 1)
		}
	})
	return o
}

// stampsOf are the stamps of the entry that is made of e.
func (r *incoming[K, V]) stampsOf(e *dump.Entry) stamps {
	s := r.stamps
	s.tags = e.Tags
	return s
}

// has reports whether L1 has an answer for key. The lock of its flights is held.
func (r *incoming[K, V]) has(key K) bool {
	if e, now := r.c.memory.Peek(key); e != nil && now < e.Dead {
		return true
	}
	return r.c.recall(key) != nil
}

// insert puts v into L1 as the entry of key.
func (r *incoming[K, V]) insert(key K, v V, from *dump.Entry, fresh, left, ago time.Duration) (o transfer.Outcome) {
	c := r.c
	weight, ok := c.weigh(key, v)
	if !ok {
		return transfer.Unusable
	}
	now := c.now()
	about := record{id: remote.ID(from.ID)}
	if from.Age >= 0 {
		about.born = now - int64(from.Age) - int64(ago)
	}
	e := c.entry(now, key, v, fresh, left, r.stampsOf(from), about)
	if c.tagsDropped(e) {
		return transfer.Changed
	}
	if from.Expired {
		e.Value.Expire()
	}
	c.refreshSoon(e, now, fresh, r.life(from, fresh, ago), 0)
	c.mark(e)
	var removed []removal[K, V]
	o = transfer.Changed
	c.flights.Restore(r.watch, key, func() {
		switch {
		case r.has(key):
			o = transfer.Present
		case c.roomLeft() == 0:
			o = transfer.Full
		default:
			o = transfer.Full
			if removed, ok = c.memory.Set(e, weight); ok {
				o = transfer.Stored
			}
		}
	})
	c.memory.Notify(removed)
	if o == transfer.Stored && from.Uses > 0 {
		c.memory.Touch(key)
	}
	return o
}

// life is the whole life of a value, of which fresh is left.
func (r *incoming[K, V]) life(from *dump.Entry, fresh, ago time.Duration) time.Duration {
	if from.Age < 0 || fresh == dump.Forever || fresh <= 0 {
		return fresh
	}
	return fresh + from.Age + ago
}

func (r *incoming[K, V]) Drop(name []byte) {
	if key, err := r.c.parseKey(string(name)); err == nil {
		r.c.dropLocal(key, false)
	}
}

func (r *incoming[K, V]) DropAll() {
	r.c.invalidateAllLocal()
	r.c.negatives.Clear()
}
