package strata

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	check "github.com/strata-cache/strata/internal/cache"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/remote"
)

// tokenLife is how long the token of a Set is good: long enough for a Put that
// follows at once, however slow L2 is.
const tokenLife = 10 * time.Second

// Set stores value under key in L2 and L1. Loads of the key that run on any instance lose the right to store, and
// other instances drop their entries. If one Set or Invalidate returned before another was called, the later one
// wins everywhere. Of overlapping calls, one wins everywhere; it need not be the later write at the origin. A
// program that writes to the origin should call [Cache.Invalidate] after the write instead.
//
// It returns *RemoteError if L2 did not confirm: then the value is not cached on this
// instance, and others may serve the old value until L2 confirms its drop, which is tried
// again. It returns the error of the Codec, or of unusable tags, and then has changed
// nothing. It returns ErrClosed on a closed cache.
func (c *Cache[K, V]) Set(ctx context.Context, key K, value V, opts ...CallOption) error {
	var o call
	o.add(opts)
	return c.set(ctx, []write[K, V]{{key: key, value: value}}, &o)
}

// SetMany is Set for many entries, in two round trips to L2 for each 500 of
// them. It serves to warm up a cache from a source known to be current. The
// entries are independent of each other. It stops at the first error, after which
// some of them are stored and others are not.
func (c *Cache[K, V]) SetMany(ctx context.Context, values map[K]V, opts ...CallOption) error {
	if c.closed.Load() {
		return ErrClosed
	}
	ws := make([]write[K, V], 0, len(values))
	for k, v := range values {
		ws = append(ws, write[K, V]{key: k, value: v})
	}
	var o call
	o.add(opts)
	for part := range slices.Chunk(ws, maxBatch) {
		if err := c.set(ctx, part, &o); err != nil {
			return err
		}
	}
	return nil
}

// SetNotFound is [Cache.Set] for the answer that the origin has no such key: callers of
// the key get ErrNotFound for Options.NotFoundTTL, or for as long as [WithTTL] says. If
// this time is not positive, SetNotFound drops the key, as Invalidate does.
func (c *Cache[K, V]) SetNotFound(ctx context.Context, key K, opts ...CallOption) error {
	var o call
	o.add(opts)
	return c.set(ctx, []write[K, V]{{key: key, absent: true}}, &o)
}

// maxBatch is the number of keys in one operation on L2.
const maxBatch = check.MaxBatch

// write is one entry on its way into the cache.
type write[K comparable, V any] struct {
	key    K
	value  V
	name   string
	data   []byte
	form   []byte // the encoded value, of an encoded L1
	left   time.Duration
	weight int64
	keep   bool      // in L1
	absent bool      // the origin has no value
	late   bool      // L2 has refused it: there was a later write
	id     remote.ID // of its value in L2
	tags   []string
	own    *expiry.Own
	stamps stamps
	right  *flight.Write[K]
}

// set stores ws: encode and weigh, take the rights, drop with tokens, put with
// them, and then insert into L1 the values not fenced in between.
func (c *Cache[K, V]) set(ctx context.Context, ws []write[K, V], o *call) error {
	if c.closed.Load() {
		return ErrClosed
	}
	tags := o.tags
	for i := range ws {
		err := c.prepare(&ws[i], o)
		if o.tags = tags; err != nil { // each write names its own
			return err
		}
	}
	if !c.l2.Used() || o.noRemote {
		for i := range ws {
			if err := c.setMemory(ctx, &ws[i]); err != nil {
				return err
			}
		}
		return nil
	}
	begun := 0
	stored := false
	defer func() {
		for i := range ws[:begun] {
			c.finish(ctx, &ws[i], stored)
		}
	}()
	for i := range ws {
		w := &ws[i]
		w.stamps = c.stamps(w.tags, w.own)
		var err error
		if w.right, err = c.flights.Begin(w.key); err != nil {
			return ErrClosed
		}
		begun++
	}
	s := Span{Name: SpanSet, Keys: len(ws)}
	if len(ws) == 1 {
		s.Key = keyOf(&c.core, ws[0].key)
	}
	within, span := c.begin(ctx, s)
	var err error
	stored, err = c.setTier(within, ws)
	span.wrote(ctx, err)
	return err
}

// stamps returns the stamps of an entry written now.
func (c *Cache[K, V]) stamps(tags []string, own *expiry.Own) stamps {
	return stamps{Generation: c.generation.Watermark(), TagGeneration: c.generation.TagWatermark(), Tags: tags, Own: own}
}

// setMemory stores w in L1 alone, in one step, so that no concurrent Set removes the
// entry of another. Its life may begin half a millisecond ago: an exact time costs a tenth of a Set.
func (c *Cache[K, V]) setMemory(ctx context.Context, w *write[K, V]) error {
	w.stamps = c.stamps(w.tags, w.own)
	value, failure := c.written(w, c.memory.Lately())
	var removed []removal[K, V]
	kept := false
	if err := c.flights.Store(w.key, 0, func() { removed, kept = c.near.Put(w.key, value, w.weight, failure) }); err != nil {
		return ErrClosed
	}
	c.near.Values.Notify(removed)
	if kept {
		c.stored(ctx, w.key, w.value, "L1")
	}
	return nil
}

// prepare does the part of a write that runs the callbacks of the program.
func (c *Cache[K, V]) prepare(w *write[K, V], o *call) (err error) {
	if err := c.checkKey(w.key); err != nil {
		return err
	}
	switch {
	case w.absent:
		w.left, w.keep = c.lifeOfAbsent(o), true
	default:
		if w.left = c.life(o); w.left > 0 {
			c.nameTags(o, w.key, w.value)
		}
		if w.weight, w.keep = c.weigh(w.key, w.value); w.keep {
			w.value = c.clone(w.value)
		}
	}
	if err := c.callError(o); err != nil {
		return err
	}
	w.tags, w.own = o.tags, o.own
	w.keep = w.keep && w.left > 0 && !c.passesMemory(o)
	if c.l2.Used() && !o.noRemote {
		if w.name, err = c.nameOf(w.key); err != nil {
			return err
		}
	}
	if c.asks(o) {
		// With tags it is sealed again, with the tag clock of its token.
		return c.sealWrite(w, 0)
	}
	if c.o.Memory.Encoded && w.keep && !w.absent {
		w.form, err = c.encode(nil, w.value)
	}
	return err
}

// sealWrite makes the data of a write for L2.
func (c *Cache[K, V]) sealWrite(w *write[K, V], clock uint64) (err error) {
	if w.absent {
		w.data = c.sealAbsent(w.name, w.tags, clock)
		return nil
	}
	var at int
	if w.data, at, err = c.seal(nil, w.name, w.value, w.tags, w.own, clock); err == nil {
		w.form = w.data[at:]
	}
	return err
}

// finish ends the write of w in L1: its value replaces the entry of the key, or
// the entry is removed.
func (c *Cache[K, V]) finish(ctx context.Context, w *write[K, V], stored bool) {
	var removed []removal[K, V]
	kept := false
	var insert func()
	drop := func() { removed = c.near.Forget(w.key) }
	if stored {
		value, failure := c.written(w, c.memory.Now())
		insert = func() { removed, kept = c.near.Put(w.key, value, w.weight, failure) }
	}
	c.flights.End(w.right, insert, drop)
	c.near.Values.Notify(removed)
	if kept {
		c.stored(ctx, w.key, w.value, "L1")
	}
}

// written returns the entry for L1 of a write, of its value or of its failure: neither if
// L1 keeps nothing of it.
func (c *Cache[K, V]) written(w *write[K, V], now int64) (value *entry[K, V], failure *l1.Entry[K, local.Negative]) {
	switch {
	case !w.keep, c.tuned.off.Load(): // looked at after the stamps were taken; see Tune
		return nil, nil
	case w.absent:
		failure = c.near.NewNegative(w.key, ErrNotFound, w.left, w.stamps)
		if v, _ := c.near.JudgeTags(failure.Value.Traits); v != ledger.Valid {
			return nil, nil
		}
		return nil, failure
	}
	value = c.near.New(now, w.key, w.value, w.left, c.kept(w.left, w.own), w.stamps, record{ID: w.id, Born: now})
	c.near.RefreshSoon(value, now, w.left, w.left, 0)
	if !c.mark(value, w.form) || c.near.TagsDropped(value) {
		return nil, nil
	}
	return value, nil
}

// setTier gets tokens for ws from L2, and puts them with the tokens, which drops and
// announces their keys. It reports whether L2 has confirmed any write; unconfirmed
// ones are not kept then.
func (c *Cache[K, V]) setTier(ctx context.Context, ws []write[K, V]) (some bool, err error) {
	drops := make([]remote.Drop, len(ws))
	for i := range ws {
		drops[i] = remote.Drop{Key: ws[i].name, Token: tokenLife, Quiet: ws[i].left > 0} // a put with a life follows, and is the drop
	}
	leases, err := c.l2.Drop(ctx, drops)
	if err != nil && leases == nil {
		return false, remoteError("set", err)
	}
	for i := range ws {
		if err != nil && leases[i].Token == 0 {
			ws[i].keep, ws[i].left = false, 0
		}
	}
	some, failed := c.put(ctx, "set", ws, leases)
	if err != nil {
		return some, remoteError("set", err)
	}
	return some, failed
}

// put stores ws in L2 under the tokens of their drops, and reports whether L2 has confirmed any. A refused value is not
// stored in L1 either: there was a later write or drop.
func (c *Cache[K, V]) put(ctx context.Context, op string, ws []write[K, V], leases []remote.Lease) (some bool, err error) {
	if !c.l2.HasTier() {
		err = c.announcePuts(ctx, op, ws)
		return err == nil, err
	}
	puts := make([]remote.Put, 0, len(ws))
	at := make([]int, 0, len(ws))
	for i := range ws {
		w := &ws[i]
		if len(w.tags) > 0 && w.left > 0 {
			if err := c.sealWrite(w, leases[i].Clock); err != nil {
				return false, err
			}
		}
		if w.left > 0 {
			fresh, left := c.remoteLives(w.left, w.own)
			if w.absent {
				left = fresh
			}
			puts = append(puts, remote.Put{Key: w.name, Data: w.data, Fresh: fresh, Left: left, Lease: leases[i], Tags: w.tags, Drops: true})
			at = append(at, i)
			w.id = remote.ID(leases[i].Token)
		}
	}
	if len(puts) == 0 {
		return true, nil
	}
	within, cancel := c.l2.Bound(ctx)
	defer cancel()
	store := c.l2.PutWritten
	if op == "add" { // there was no drop
		store = c.l2.PutClaimed
	}
	refused, err := store(within, puts)
	var partly remote.KeyErrors
	if errors.As(err, &partly) {
		for j, failed := range partly {
			ws[at[j]].keep = ws[at[j]].keep && failed == nil
		}
	} else if err != nil {
		return false, remoteError(op, err)
	}
	for _, i := range refused {
		ws[at[i]].keep, ws[at[i]].late = false, true
		c.refusedRemote(ctx, ws[at[i]].key)
	}
	failed := c.announcePuts(within, op, ws) // before hooks, which take their time
	for j, i := range at {
		if w := &ws[i]; !w.late && !w.absent && (partly == nil || partly[j] == nil) {
			c.stored(ctx, w.key, w.value, "L2")
		}
	}
	return failed == nil, cmp.Or(failed, remoteError(op, err))
}

// announcePuts tells other instances that ws are stored: values that they have
// loaded since the drops are older. A Tier that announces has done so.
func (c *Cache[K, V]) announcePuts(ctx context.Context, op string, ws []write[K, V]) error {
	drops := make([]remote.Drop, len(ws))
	for i := range ws {
		drops[i].Key = ws[i].name
	}
	return remoteError(op, c.l2.AnnounceWritten(ctx, drops))
}
