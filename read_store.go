// The store is the fourth stage of a read: the answer of the Loader goes to L2
// under the lease, and becomes an entry, or a negative entry, for L1. The answers
// are: a value, "not found", "not modified" (the candidate gets a new life), and a
// failure (the candidate is served if it may be).
// Invariant: a value that L2 refuses, because its key was dropped or its lease
// lost since, is not stored in L1 either.

package strata

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/internal/cache/l2"
	"github.com/strata-cache/strata/remote"
)

// maxRemoteLife caps the life of a value in L2, where even NoExpiry needs a number.
const maxRemoteLife = 10 * 365 * 24 * time.Hour

// toStore is the answer of a load on its way to L2.
type toStore[K comparable, V any] struct {
	r   *read[K, V]
	put remote.Put
	// left is the life of the value; loaded is when its load ended, from when the life counts, however slow L2 is.
	left   time.Duration
	loaded int64
	// negative says that the answer is "not found".
	negative bool
	// form is the encoded value in put.
	form []byte
}

// store stores the answers of all unsettled reads, with one round trip to L2.
func (g *reads[K, V]) store() {
	open := g.unsettled()
	var stores []toStore[K, V]
	var s toStore[K, V]
	for _, r := range open {
		r.right.noStore = r.right.noStore || g.c.tuned.off.Load() // turned off during the load
		r.label()
		if r.keep(&s) {
			stores = append(stores, s)
		}
	}
	if len(stores) > 0 {
		g.c.storeRemote(g.ctx, stores)
	}
	for _, r := range open {
		r.supersede()
	}
}

// label gives the answer of the Loader its tags: the tags that the call and the load have named, or else the tags of
// the value that still holds. For a value it adds the tags of Options.Tags.
func (r *read[K, V]) label() {
	o, k := &r.outcome, &r.candidate
	switch err := o.res.Err; {
	case err == nil:
		r.c.nameTags(&r.call, r.f.Key, o.res.Value)
	case isAnswer(err, ErrNotFound):
	case k.value != nil && isAnswer(err, ErrNotModified):
		if len(r.call.tags) == 0 {
			r.call.tags = k.tags
		}
		r.call.own = k.own.With(r.call.own)
		r.c.nameTags(&r.call, r.f.Key, *k.value)
	default:
		return
	}
	o.res.Tags = r.call.tags
	if err := r.c.callError(&r.call); err != nil {
		r.c.notStored("L2", r.f.Key, err) // tags that cannot be
		r.call.ttl = noLife
	}
}

// keep makes an entry for L1 of an answer that needs no store in L2. For any other answer it
// reports true, and writes to s how L2 stores it.
func (r *read[K, V]) keep(s *toStore[K, V]) (ok bool) {
	res := &r.outcome.res
	switch err := res.Err; {
	case err == nil:
		r.outcome.loaded, res.Note = true, noteOrigin
		r.c.origin.Answered()
		var data []byte
		if ok = r.keepValue(res.Value, s); ok {
			data = s.put.Data
		}
		r.compare(data)
		return ok
	case isAnswer(err, ErrNotFound):
		r.c.origin.Answered()
		return r.keepNotFound(err, s)
	case r.candidate.value != nil && isAnswer(err, ErrNotModified):
		*res = flight.Result[V]{Value: *r.candidate.value, Found: true, Note: noteOrigin, Tags: r.call.tags}
		r.outcome.loaded = true
		r.c.origin.Answered()
		return r.keepCandidate(s)
	default:
		r.loadFailed(err)
		return false
	}
}

// compare counts a load that replaces the candidate, if there is one. data is the new value as L2
// gets it; nil if L2 does not.
func (r *read[K, V]) compare(data []byte) {
	if k := &r.candidate; k.value != nil {
		defer r.c.contain("Equal")
		r.c.compared.Loaded(k.value, &r.outcome.res.Value, k.sum, data)
	}
}

// loadFailed remembers that the load has failed, if that says something about the
// origin, and serves the candidate if it may be.
func (r *read[K, V]) loadFailed(err error) {
	remembered := r.remembers(err)
	r.relive() // before other reads find the failure
	if remembered {
		r.c.origin.Unanswered()
		begun := r.outcome.ended - int64(r.outcome.took)
		r.c.flights.WithRight(r.f, func(right bool) { r.c.near.Failed(r.f.Key, err, r.call.own, begun, right) })
	}
	r.serveCandidate(err)
}

// keepValue makes v an entry for L1, or writes to s how to store it in L2 before that.
func (r *read[K, V]) keepValue(v V, s *toStore[K, V]) (ok bool) {
	life, loaded := r.c.life(&r.call), r.outcome.ended
	if r.right.noStore || life <= 0 {
		return false
	}
	lease := r.right.lease
	if lease.Token == 0 {
		r.keepLoaded(v, life, loaded, 0, nil)
		return false
	}
	data, at, err := r.seal(v, lease.Clock)
	if err != nil {
		r.c.notStored("L2", r.f.Key, err)
		if !r.c.o.Memory.Encoded {
			r.keepLoaded(v, life, loaded, remote.ID(lease.Token), nil)
		}
		return false
	}
	left, kept := r.c.remoteLives(life, r.call.own)
	put := remote.Put{Key: r.l2.Name, Data: data, Fresh: left, Left: kept, Lease: lease, Drops: r.call.skipRead, Tags: r.call.tags}
	*s = toStore[K, V]{r: r, left: life, loaded: loaded, put: put}
	if r.c.o.Memory.Encoded {
		s.form = data[at:]
	}
	return true
}

// remoteLives returns for how long a value is fresh in L2, and for how long it is kept
// there, if it is fresh here for left.
func (c *core) remoteLives(left time.Duration, own *expiry.Own) (fresh, kept time.Duration) {
	return min(left, maxRemoteLife), min(c.kept(left, own), maxRemoteLife)
}

// keepNotFound makes "not found" a negative entry for L1, for as long as the call or the load has said, or else for
// NotFoundTTL; or writes to s how to tell L2 before that. L2 drops the value that it holds then.
func (r *read[K, V]) keepNotFound(err error, s *toStore[K, V]) (ok bool) {
	left := r.c.lifeOfAbsent(&r.call)
	if r.right.noStore {
		return false
	}
	lease, drops := r.right.lease, r.candidate.id != 0 || r.call.skipRead
	if lease.Token == 0 || left <= 0 && !drops {
		r.outcome.negative = r.absent(err, left, r.call.tags)
		return false
	}
	there := max(0, min(left, maxRemoteLife))
	put := remote.Put{Key: r.l2.Name, Fresh: there, Left: there, Lease: lease, Drops: drops, Tags: r.call.tags}
	if there > 0 {
		put.Data = r.c.sealAbsent(r.l2.Name, r.call.tags, lease.Clock)
	}
	*s = toStore[K, V]{r: r, left: left, negative: true, put: put}
	return true
}

// keepCandidate gives the candidate a new life. L2 is not sent the value again if it holds that very value.
func (r *read[K, V]) keepCandidate(s *toStore[K, V]) (ok bool) {
	k := &r.candidate
	left := r.c.life(&r.call)
	if r.right.noStore || left <= 0 {
		return false
	}
	// The clock of tags is in the value itself, and so are its own lives.
	if r.right.lease.Token == 0 || k.id == 0 || len(r.call.tags) > 0 || !k.own.Equal(r.call.own) {
		return r.keepValue(*k.value, s)
	}
	loaded := r.outcome.ended
	fresh, kept := r.c.remoteLives(left, k.own)
	refused, answered := r.l2.Extend(r.ctx, r.c.l2, fresh, kept, r.right.lease, k.id)
	switch {
	case !answered:
	case refused: // another value is held by now, or the lease is gone
		return r.keepValue(*k.value, s)
	default:
		k.id = remote.ID(r.right.lease.Token)
		r.right.lease.Token, r.right.used = 0, true
	}
	r.keepLoaded(*k.value, left, loaded, k.id, nil)
	return false
}

// storeRemote stores answers in L2 in one round trip, under ctx and the leases of
// their reads, and gives each read the entry for L1 that it may have then.
func (c *Cache[K, V]) storeRemote(ctx context.Context, stores []toStore[K, V]) {
	puts := make([]remote.Put, len(stores))
	for i := range stores {
		puts[i] = stores[i].put
	}
	op, cancel := c.l2.Bound(ctx)
	defer cancel()
	refused, err := c.l2.Put(op, puts)
	// Nothing was sent, because one of the values is too large for L2.
	if len(stores) > 1 && errors.Is(err, remote.ErrValueTooLarge) && !errors.As(err, new(remote.KeyErrors)) {
		for i := range stores {
			c.storeRemote(ctx, stores[i:i+1])
		}
		return
	}
	rs := make([]*read[K, V], len(stores))
	for i := range stores {
		rs[i] = stores[i].r
	}
	c.answered("put", err, rs)
	for i := range stores {
		s := &stores[i]
		switch e := remote.ErrorOf(err, i); {
		case errors.Is(e, remote.ErrValueTooLarge):
			c.notStored("L2", s.r.f.Key, remote.ErrValueTooLarge)
			s.keepHere()
		case e != nil, s.r.l2.Down: // the lease of a value that L2 cannot keep is released
			s.keepHere()
		case slices.Contains(refused, i):
			s.refused()
		default:
			s.stored(op)
		}
	}
}

// stored keeps in L1 an answer that L2 has stored.
func (s *toStore[K, V]) stored(ctx context.Context) {
	s.r.right.lease.Token, s.r.right.used = 0, true
	s.keepHere()
	if !s.negative {
		s.r.c.stored(s.r.ctx, s.r.f.Key, s.r.outcome.res.Value, "L2")
	}
	if s.put.Drops {
		_ = s.r.c.l2.Announce(ctx, []remote.Drop{{Key: s.put.Key}}) // or it is pending
	}
}

// refused notes that L2 has refused an answer: L1 keeps nothing of it, nor the entry
// that it has, since the key was dropped during the load.
func (s *toStore[K, V]) refused() {
	r := s.r
	r.right.lease.Token, r.right.used = 0, true
	r.right.noStore = r.right.noStore || s.negative
	r.c.refusedRemote(r.ctx, r.f.Key)
}

// keepHere makes the answer an entry for L1.
func (s *toStore[K, V]) keepHere() {
	if s.negative {
		s.r.outcome.negative = s.r.absent(s.r.outcome.res.Err, s.left, s.r.call.tags)
		return
	}
	s.r.keepLoaded(s.r.outcome.res.Value, s.left, s.loaded, remote.ID(s.put.Lease.Token), s.form)
}

// keepLoaded makes v an entry for L1. Its life began at loaded, the time of its load. A
// value that L2 cannot confirm after a lost message lives as without a bus. form is the encoded v, or nil.
func (r *read[K, V]) keepLoaded(v V, left time.Duration, loaded int64, id remote.ID, form []byte) {
	kept := r.c.kept(left, r.call.own)
	if r.l2.KeyTooLong {
		left, kept = min(left, UnconfirmedTTL), min(kept, UnconfirmedTTL)
	}
	e := r.c.near.New(loaded, r.f.Key, v, left, kept, r.stamps(r.call.tags, r.call.own), record{ID: id, Born: loaded})
	r.c.near.RefreshSoon(e, loaded, left, left, r.outcome.took)
	if form != nil { // it will not be at hand when the read lands
		r.c.mark(e, form)
	}
	r.outcome.entry, r.outcome.res.Times = e, r.c.timesOf(e)
}

// refusedRemote counts a value that L2 has refused.
func (c *Cache[K, V]) refusedRemote(ctx context.Context, key K) {
	c.counts.remoteRefused.Add(1)
	if hook := c.o.Hooks.Refused; hook != nil {
		c.tell(hook, Event{Context: ctx, Key: key, Tier: "L2"})
	}
}

// sealAbsent returns the value by which L2 remembers that the origin does not have a key, with the tags of that answer.
func (c *core) sealAbsent(name string, tags []string, clock uint64) []byte {
	b, flags := begin(nil, tags, nil, clock)
	envelope.Seal(b, name, c.l2.Schema(), flags|envelope.NotFound)
	return b
}

// seal appends v to b as L2 has it, with its tags, the clock under which it was loaded, and
// its own lives. b is empty. at is where the encoded v begins.
func (c *Cache[K, V]) seal(b []byte, name string, v V, tags []string, own *expiry.Own, clock uint64) (sealed []byte, at int, err error) {
	b, flags := begin(b, tags, own, clock)
	at = len(b)
	if b, err = c.encode(b, v); err == nil && len(b) < at {
		err = local.ErrNotAppended
	}
	if err != nil {
		return nil, 0, err
	}
	envelope.Seal(b, name, c.l2.Schema(), flags)
	return b, at, nil
}

// seal encodes a value in the read's buffer, seals it, and copies it to memory of the right size,
// since a tier may send it after its caller has left.
func (r *read[K, V]) seal(v V, clock uint64) (sealed []byte, at int, err error) {
	b, at, err := r.c.seal(r.buffer[:0], r.l2.Name, v, r.call.tags, r.call.own, clock)
	switch {
	case err != nil:
		return nil, 0, err
	case cap(b) > l2.MaxBuffer:
		return b, at, nil
	}
	r.buffer = b
	return bytes.Clone(b), at, nil
}

// begin begins an envelope with tags and lives, in the memory of dst.
func begin(dst []byte, tags []string, own *expiry.Own, clock uint64) (b []byte, f envelope.Flags) {
	b = envelope.Begin(dst)
	if len(tags) > 0 {
		b, f = envelope.AppendTags(b, clock, tags), envelope.Tagged
	}
	if own != nil {
		b, f = envelope.AppendLives(b, own), f|envelope.Lived
	}
	return b, f
}
