// Entries of another process come into L1 if nothing has happened to their keys that
// would make them older than their readers may see.
//
// States of such an entry: covered, if every drop that it does not know of was carried
// out after the restore began; not covered, so that L2 has to be asked.
//
// Invariant: an entry goes into L1 under the lock of its key's flights, with the stamp
// from the begin of the restore, and only if its key is untouched since then. So it is
// judged by every drop heard of, or lost, since the restore began.

package transfer

import (
	"context"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/internal/snapshot/drops"
	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/remote"
)

// incoming is the entries of another process on their way into L1: a [transfer.Restore].
type incoming[K comparable, V any] struct {
	c       *Cache[K, V]
	watch   *flight.Watch[K]
	began   time.Time // before the position of cover was asked for
	cover   Cover
	taken   *Taken
	stamps  local.Stamps
	aliaser codec.Aliaser[V] // nil if the codec is none
	drops.Learner
}

func (r *incoming[K, V]) Close() {
	r.End() // the stream may have ended early
	r.c.Flights.Unwatch(r.watch)
	if w := r.cover.Witness; w != nil {
		r.c.Ledger.Dismiss(w)
	}
}

func (r *incoming[K, V]) Cover(ctx context.Context, position []byte) (suspect string) {
	return r.cover.Learn(ctx, position)
}

// Entry takes in e.
func (r *incoming[K, V]) Entry(e *format.Entry, ago time.Duration, keep bool) Outcome {
	c := r.c
	// For the stream, a closed cache is one without room: the rest need not be read.
	if c.Closed() {
		return Full
	}
	name := string(e.Key)
	key, err := c.Parse(name)
	if err != nil || c.TooLong(len(name)) || !usableTags(e.Tags) {
		return Unusable
	}
	if !r.cover.Covers(c.L2.Lane, name, len(e.Tags) > 0) {
		return Unconfirmed
	}
	if c.L2.Used() && c.L2.Dropped(name, e.Tags, r.began) {
		return Changed
	}
	// The clock of the other machine may be ahead of this one. A negative time would make lives
	// longer.
	ago = max(ago, 0)
	age := e.Age
	if age >= 0 {
		age += ago
	}
	// Admit, below, asks the drops that are known here about this entry, under the lock of its key.
	r.Ask(c.Flights.HashOf(key), e.Tags, age)
	fresh, left := Rest(e.Fresh, ago), Rest(e.Left, ago)
	// A stale negative entry is of no use: only values are served stale.
	if left <= 0 || e.NotFound && fresh <= 0 {
		return Over
	}
	if e.NotFound {
		return r.absent(key, e, fresh)
	}
	v, ok := r.decode(e.Value, keep)
	if !ok {
		return Unusable
	}
	// The options of this cache may keep stale values for a shorter time than those of the other.
	return r.insert(key, v, e, fresh, min(left, c.Kept(max(fresh, 0), e.Own)), ago)
}

func usableTags(tags []string) bool {
	for _, t := range tags {
		if envelope.CheckTag(t) != nil {
			return false
		}
	}
	return true
}

// decode is the value of an entry.
func (r *incoming[K, V]) decode(b []byte, keep bool) (v V, ok bool) {
	defer r.c.Contain("Remote.Codec")
	var err error
	if keep && r.aliaser != nil {
		v, err = r.aliaser.DecodeAlias(b)
	} else {
		v, err = r.c.Encoding.Decode(b)
	}
	return v, err == nil
}

// absent takes in a negative entry.
func (r *incoming[K, V]) absent(key K, e *format.Entry, fresh time.Duration) (o Outcome) {
	c := r.c
	n := c.NewNegative(key, c.NotFound, fresh, r.stampsOf(e))
	if v, _ := c.JudgeTags(n.Value.Traits); v != ledger.Valid {
		return Changed
	}
	n.Value.Taken = true
	o = Changed
	negative := r.negative(key)
	c.Flights.Restore(r.watch, key, func() {
		if r.over() {
			return
		}
		if negative || r.has(key) {
			o = Present
		} else if r.Admit(func() { c.Negatives.Set(n, 1) }) {
			o = r.stored(key)
		}
	})
	return o
}

// stampsOf returns the stamps of the entry made of e.
func (r *incoming[K, V]) stampsOf(e *format.Entry) local.Stamps {
	s := r.stamps
	s.Tags, s.Own = e.Tags, e.Own
	return s
}

// has reports whether L1 has a value for key. The lock of its flights is held.
func (r *incoming[K, V]) has(key K) bool {
	e, now := r.c.Values.Glance(key)
	return e != nil && now < e.Dead && !r.c.Ledger.Invalidates(e.Value.Stamp()) && !r.c.TagsDropped(e)
}

// over reports whether everything was dropped since the restore began: its entries would be absent in L1, and would
// take room there.
func (r *incoming[K, V]) over() bool { return r.c.Ledger.Invalidates(r.stamps.Generation) }

// negative reports whether L1 has a negative entry or a failure of key. That may call the program's Key, so no
// lock of flights is held. The watch sees a negative entry that comes later; a failure harms no entry.
func (r *incoming[K, V]) negative(key K) bool { return r.c.Recall(key) != nil }

// insert puts v into L1 as the entry of key.
func (r *incoming[K, V]) insert(key K, v V, from *format.Entry, fresh, left, ago time.Duration) (o Outcome) {
	c := r.c
	// The Weigher of this cache decides, not the weight that the other has found.
	weight, ok := c.Weigh(key, v)
	if !ok {
		return Unusable
	}
	now := c.Values.Now()
	about := local.Record{ID: remote.ID(from.ID)}
	if from.Age >= 0 {
		about.Born = now - int64(from.Age) - int64(ago)
	}
	e := c.New(now, key, v, fresh, left, r.stampsOf(from), about)
	if c.TagsDropped(e) {
		return Changed
	}
	if from.Expired {
		e.Value.Expire(now, e.Dead) // the snapshot does not say since when
	}
	life := Life(from, fresh, ago)
	if c.L2.HasTier() {
		// The other instance may have the value from L2, which does not say how long its life was. If
		// a short life were due at once, each instance that starts would refresh the value.
		life = fresh
	}
	c.RefreshSoon(e, now, fresh, life, 0)
	e.Value.State |= expiry.Taken
	if !c.Mark(e, nil) {
		return Unusable
	}
	var removed []local.Removal[K, V]
	o = Changed
	negative := r.negative(key)
	c.Flights.Restore(r.watch, key, func() {
		switch {
		case r.over():
			return
		case negative || r.has(key):
			o = Present
			return
		}
		r.Admit(func() {
			o = Full
			if c.Values.Fits(e, weight) {
				if removed, ok = c.Values.Set(e, weight); ok {
					o = r.stored(key)
				}
			}
		})
	})
	// Functions of the program are called without the lock of flights.
	c.Values.Notify(removed)
	if o == Stored {
		c.Stored(key, v)
	}
	// An entry that was in use there must not be the first that this cache evicts.
	if o == Stored && from.Uses > 0 {
		c.Values.Touch(key)
	}
	return o
}

// stored notes that the entry of key is in L1, if the snapshot may still tell of a
// later drop.
func (r *incoming[K, V]) stored(key K) Outcome {
	if r.c.Drops != nil {
		r.taken.Add(r.c.Flights.HashOf(key))
	}
	return Stored
}

// withdraw removes the entries of L1 that old reports.
func (r *incoming[K, V]) withdraw(old func(*drops.Aged) bool) {
	for e := range r.c.Values.Each() {
		r.withdrawKey(e.Key, false, old)
	}
	for n := range r.c.Negatives.All() {
		r.withdrawKey(n.Key, false, old)
	}
}

// withdrawKey is withdraw for one key. With lasting no entry of it is taken in any more.
func (r *incoming[K, V]) withdrawKey(key K, lasting bool, old func(*drops.Aged) bool) {
	c, hash, taken := r.c, r.c.Flights.HashOf(key), false
	var removed []local.Removal[K, V]
	c.Flights.Withdraw(key, lasting, func() (gone bool) {
		if e, _ := c.Values.Glance(key); e != nil && old(&drops.Aged{Hash: hash, Tags: local.RecordOf(e).Traits.Tags(), Taken: e.Value.State&expiry.Taken != 0, Born: c.Born(e)}) {
			taken = e.Value.State&expiry.Taken != 0
			removed, gone = c.ForgetValue(key), true
		}
		if n, _ := c.Negatives.Peek(key); n != nil && n.Value.NotFound && old(&drops.Aged{Hash: hash, Tags: n.Value.Traits.Tags(), Taken: n.Value.Taken}) {
			c.Negatives.Delete(key)
			gone, taken = true, taken || n.Value.Taken
		}
		return gone
	})
	if taken {
		r.taken.Withdraw(hash)
	}
	c.Values.Notify(removed)
}

func (r *incoming[K, V]) Drop(name []byte, ago time.Duration) {
	if key, err := r.c.Parse(string(name)); err == nil {
		began := r.c.Values.Now() - int64(ago)
		r.withdrawKey(key, !r.Learner.Drop(r.c.Flights.HashOf(key)), func(e *drops.Aged) bool { return e.Taken || e.Born != 0 && e.Born < began })
	}
}
