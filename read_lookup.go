// The look-up is the first stage of a read: L1 again, because an entry may have
// come since the caller looked, then L2. It settles a read with a fresh value, with
// a stale one that may be served while it is refreshed, or with "not found". Any
// other stale value becomes the candidate of the read.
// Invariant: a suspect entry, or an entry under a pending drop, settles no read that L2
// could answer; a value of L2 is decoded by the version of the program with the fingerprint
// that sealed it.

package strata

import (
	"context"
	"errors"
	"slices"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/internal/cache/l2"
	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/remote"
)

// lookUp looks up the reads in both tiers, lands the reads that this settles, and returns them. The others remain.
func (g *reads[K, V]) lookUp() (landed []*read[K, V]) {
	done := false
	defer func() {
		if !done { // a panic, or a callback has ended the goroutine
			landed = g.landRest(recover())
		}
	}()
	for _, r := range g.all {
		r.safely((*read[K, V]).lookAgain)
	}
	if g.c.l2.HasTier() {
		g.askTier()
	}
	for _, r := range g.all {
		if !r.outcome.settled && !r.goesOn() {
			r.safely((*read[K, V]).stopHere)
		}
	}
	rest := g.unsettled()
	if len(rest) < len(g.all) {
		landed = flight.Where(g.all, func(r *read[K, V]) bool { return r.outcome.settled })
		g.landBefore(landed)
	}
	g.all, done = rest, true
	return landed
}

// lookAgain looks for an entry that came to L1 since the caller looked. A stale one becomes the candidate.
func (r *read[K, V]) lookAgain() (settled bool) {
	c := r.c
	if r.call.noMemory {
		return false
	}
	e, now := c.near.Values.Peek(r.f.Key)
	if e == nil {
		return false
	}
	e = c.near.Aged(r.f.Key, e)
	v, since := c.near.Judge(r.f.Key, e)
	switch {
	case v == ledger.Invalid, v == ledger.Suspect && !c.l2.HasTier():
		return false
	case v == ledger.Suspect:
		r.suspect = suspect[K, V]{entry: e, since: since}
		return false
	case v == ledger.Stale, now >= e.Value.FreshUntil(e.Dead), r.call.refresh && (r.call.ahead || now >= e.Value.SoonAt(e.Dead)), r.call.skipRead:
		r.candidate.here, r.candidate.value, r.candidate.note, r.candidate.until = e, &e.Value.V, noteL1, c.near.OnErrorUntil(e)
		about := local.RecordOf(e)
		r.candidate.id, r.candidate.tags, r.candidate.own = about.ID, about.Traits.Tags(), about.Traits.Lives()
		r.candidate.times, r.candidate.kept = c.timesOf(e), e.Dead
		r.offer()
		return false
	}
	r.foundEntry(e)
	return true
}

// askTier asks L2 for the reads that L1 has not settled, in one round trip.
func (g *reads[K, V]) askTier() {
	s := g.c.l2
	ask := flight.Where(g.unsettled(), func(r *read[K, V]) bool { return r.named() && !r.l2.PassesBy(s) })
	switch {
	case len(ask) == 0:
		return
	case g.call.noRemote:
		for _, r := range ask {
			r.l2.Down = true
		}
	case len(ask) == 1:
		ask[0].l2.Allowed(s)
	default:
		s.AllowAll(sessions(ask))
	}
	ask = serving(ask)
	switch {
	case len(ask) == 0:
	case len(g.all) == 1 && g.all[0].skipsGet():
		g.all[0].skippedGet = true
	case len(ask) == 1:
		ask[0].safely((*read[K, V]).get)
	default:
		g.getAll(ask)
	}
}

// named finds the name of the key in L2. If there is none the error settles the
// read.
func (r *read[K, V]) named() (ok bool) {
	var err error
	if r.l2.Name, err = r.c.nameOf(r.f.Key); err != nil {
		r.settle(flight.Result[V]{Err: err})
	}
	return err == nil
}

// skipsGet reports whether a look-up in L2 would most likely find nothing. It is
// left to the question for the lease then: the answer to that brings the value that
// L2 holds. So a cold cache saves a round trip of each load, and a warm one asks
// only for values.
func (r *read[K, V]) skipsGet() bool {
	s := r.c.l2
	return r.loads && r.suspect.entry == nil && r.candidate.value == nil && r.c.o.Limits.MaxLoads == 0 && r.c.o.BatchWait == 0 &&
		s.MostlyAbsent() && s.Elders() == 0 && !r.l2.Probing() && s.StoresFreely()
}

// getAll asks L2 for the values of ask in one round trip.
func (g *reads[K, V]) getAll(ask []*read[K, V]) {
	ctx, cancel := g.c.l2.Bound(g.ctx)
	defer cancel()
	g.getSome(ctx, ask)
}

// getSome is getAll under ctx. If one key is too long L2 was sent nothing: halves
// of the reads ask for themselves then.
func (g *reads[K, V]) getSome(ctx context.Context, ask []*read[K, V]) {
	names, known := make([]string, len(ask)), []remote.ID(nil)
	for i, r := range ask {
		names[i], known = r.l2.Name, l2.Knows(known, len(ask), i, r.known())
	}
	held, err := g.c.l2.Read(ctx, names, known...)
	if half := len(ask) / 2; half > 0 && errors.Is(err, remote.ErrKeyTooLong) {
		g.getSome(ctx, ask[:half])
		g.getSome(ctx, ask[half:])
		return
	}
	g.c.answered("get", err, ask)
	all, boxes := g.c.boxes.Take(len(ask)), []sealed(nil)
	defer g.c.boxes.Give(all)
	for i, r := range ask {
		if !r.l2.Down {
			boxes = all[:len(boxes)+1]
			r.unseal(&boxes[len(boxes)-1], &held[i])
		}
	}
	if ask = serving(ask); len(ask) == 0 {
		return
	}
	g.getOlder(ctx, ask, boxes)
	drops := g.tagDrops(ctx, ask, boxes)
	for i, r := range ask {
		r.safely(func(*read[K, V]) bool { return r.useSealed(&boxes[i], drops) })
	}
}

// tagDrops asks L2 for the drops of the tags of all boxes at once.
func (g *reads[K, V]) tagDrops(ctx context.Context, ask []*read[K, V], boxes []sealed) map[string]remote.Tag {
	var tags []string
	var tagged []*read[K, V]
	for i, r := range ask {
		if len(boxes[i].tags) > 0 {
			tags, tagged = append(tags, boxes[i].tags...), append(tagged, r)
		}
	}
	if len(tagged) == 0 {
		return nil
	}
	slices.Sort(tags)
	drops, ok := tagged[0].l2.TagDrops(ctx, g.ctx, g.c.l2, slices.Compact(tags))
	for i, r := range ask {
		switch {
		case len(boxes[i].tags) == 0:
		case !ok && r != tagged[0]:
			r.l2.Failed(&tagged[0].l2)
		case ok:
			r.l2.Knows(g.c.l2, drops, boxes[i].tags)
		}
	}
	return drops
}

// get looks at the value that L2 holds, and reports whether it settles the read.
func (r *read[K, V]) get() (settled bool) {
	r.skippedGet = false
	held, err := r.c.l2.ReadOne(r.ctx, r.l2.Name, r.known(), &r.buffer)
	if !r.answered("get", err) {
		return r.serveSuspect()
	}
	var box sealed
	if r.unseal(&box, &held); !r.getOlder(&box) {
		return r.serveSuspect()
	}
	if len(box.tags) == 0 {
		return r.useSealed(&box, nil)
	}
	ctx, cancel := r.opContext()
	defer cancel()
	return r.useSealed(&box, r.tagDrops(ctx, &box))
}

// getOlder looks for the value of an older version, until box has one, and reports
// whether L2 has answered.
func (r *read[K, V]) getOlder(box *sealed) (answered bool) {
	for i := range r.c.l2.Elders() {
		if box.state != absent {
			break
		}
		ctx, cancel := r.opContext()
		held, err := r.c.l2.ReadOlder(ctx, i, []string{r.l2.Name})
		cancel()
		if !r.answered("get", err) {
			return false
		}
		r.unsealOlder(box, &held[0])
	}
	return true
}

// unsealOlder is unseal into a box without a value; the older value may be absent.
func (r *read[K, V]) unsealOlder(box *sealed, h *remote.Held) {
	var older sealed
	if r.unseal(&older, h); older.state != absent {
		*box = older
	}
}

// getOlder is getOlder of the reads of ask with an empty box, in one round trip
// for each version.
func (g *reads[K, V]) getOlder(ctx context.Context, ask []*read[K, V], boxes []sealed) {
	for i := range g.c.l2.Elders() {
		var rest []*read[K, V]
		var at []int
		var names []string
		for k, r := range ask {
			if boxes[k].state == absent && !r.l2.Down {
				rest, at, names = append(rest, r), append(at, k), append(names, r.l2.Name)
			}
		}
		if len(rest) == 0 {
			break
		}
		held, err := g.c.l2.ReadOlder(ctx, i, names)
		g.c.answered("get", err, rest)
		for j, r := range rest {
			if !r.l2.Down {
				r.unsealOlder(&boxes[at[j]], &held[j])
			}
		}
	}
}

// goesOn reports whether stopHere has nothing to do, as in most cases.
func (r *read[K, V]) goesOn() bool { return r.loads && r.c.near.Negatives.Len() == 0 }

// stopHere settles a read that may not go on to its load: it has no Loader, or the
// last load has failed a moment ago.
func (r *read[K, V]) stopHere() (settled bool) {
	if l2.Over(r.ctx) {
		return false
	}
	if !r.loads {
		r.outcome.how = endAbsent
		if k := &r.candidate; k.value != nil && r.c.memory.Now() < k.kept {
			r.settle(r.stale())
		}
		return true
	}
	err := r.c.near.Throttled(r.f.Key)
	if err == nil {
		return false
	}
	// A value of L2 is newer than the failure, or stale and better than that.
	if r.skippedGet && r.get() {
		return true
	}
	if l2.Over(r.ctx) {
		return false
	}
	r.fail(err)
	return true
}

// useHeld takes the value that L2 holds. A fresh one settles the read.
func (r *read[K, V]) useHeld(ctx context.Context, h remote.Held) (settled bool) {
	var box sealed
	r.unseal(&box, &h)
	return r.useSealed(&box, r.tagDrops(ctx, &box))
}

// tagDrops asks L2 for the drops of the tags of one box.
func (r *read[K, V]) tagDrops(ctx context.Context, box *sealed) (drops map[string]remote.Tag) {
	if len(box.tags) > 0 {
		if known, ok := r.l2.TagDrops(ctx, r.ctx, r.c.l2, box.tags); ok && r.l2.Knows(r.c.l2, known, box.tags) {
			drops = known
		}
	}
	return drops
}

// useSealed is useHeld for an unsealed value, and the drops of its tags.
func (r *read[K, V]) useSealed(box *sealed, drops map[string]remote.Tag) (settled bool) {
	if r.call.skipRead {
		r.useHeldBefore(box, drops)
		return false
	}
	h, o := &box.held, r.open(box, drops)
	r.c.l2.LogForeign()
	same := r.call.refresh && r.candidate.value != nil && h.ID == r.candidate.id // the one to refresh
	if r.l2.Down {                                                               // L2 has failed at the question about tags
		return r.serveSuspect()
	}
	r.c.l2.LookedUp(o.state != absent)
	switch {
	case o.state == notFound:
		r.outcome.how = endL2
		r.outcome.res.Err, r.outcome.res.Tags = ErrNotFound, o.tags
		r.outcome.negative = r.absent(ErrNotFound, min(h.Fresh, h.Left), o.tags)
		return true
	case o.state == fresh && !same:
		r.found(o.value, o.tags, endL2)
		r.keepHeld(&o, h)
		r.outcome.res.Times = r.c.timesOf(r.outcome.entry)
		return true
	case same:
		r.c.expiredRemote(r.f.Key, &o, h)
		return r.sumUp(box)
	}
	r.c.counts.remoteMisses.Add(1)
	return o.state == stale && (r.useStale(o, h) || r.sumUp(box))
}

// sumUp notes the sum of the candidate, which is the value in box. It settles no read.
func (r *read[K, V]) sumUp(box *sealed) (settled bool) {
	if box.held.Same {
		return false // its bytes are not at hand
	}
	if r.candidate.sum = 0; box.version == 0 {
		r.candidate.sum = r.c.compared.Sum(box.payload)
	}
	return false
}

// keepHeld makes an entry for L1 of the value that L2 holds.
func (r *read[K, V]) keepHeld(o *opened[V], h *remote.Held) {
	now, left := r.c.memory.Now(), min(h.Fresh, h.Left)
	born := r.c.births.Before(now, left)
	if s := r.suspect.entry; s != nil && local.RecordOf(s).ID == h.ID {
		born = local.RecordOf(s).Born
	}
	e := r.c.near.New(now, r.f.Key, o.value, left, h.Left, r.stamps(o.tags, o.own), record{ID: h.ID, Born: born})
	// L2 does not say how long the value's life was, only how much of it is left. If
	// a short life were due at once, instances would take turns at refreshing it.
	r.c.near.RefreshSoon(e, now, left, min(r.c.tuned.ttl(), left), 0)
	if o.form != nil { // it will not be at hand when the read lands
		r.c.mark(e, o.form)
	}
	r.outcome.entry = e
}

// serveSuspect settles the read with its suspect entry, if L2 fails to confirm it, and the entry may still be used.
func (r *read[K, V]) serveSuspect() (settled bool) {
	e := r.suspect.entry
	if e == nil || l2.Over(r.ctx) || r.c.memory.Now() >= e.Value.FreshUntil(e.Dead) || !r.c.lasts(r.suspect.since) {
		return false
	}
	r.c.counts.degraded.Add(1)
	r.foundEntry(e)
	r.outcome.res.Note |= noteDegraded
	return true
}

// opened is an opened value of L2.
type opened[V any] struct {
	value V
	state heldState
	tags  []string
	own   *expiry.Own // nil: the windows and lives of the Options
	byTag bool        // one of tags has expired it
	form  []byte      // the encoded value, of this version of the program; nil if it is not at hand
}

// heldState is the state of the value that L2 holds under a key.
type heldState uint8

const (
	absent heldState = iota
	stale
	fresh
	notFound // an answer of the origin: it does not have the key
)

// sealed is a value that L2 holds, without its envelope.
type sealed struct {
	held    remote.Held
	state   heldState // absent if it cannot be read, or must not be used
	flags   envelope.Flags
	payload []byte
	version int // of the program that sealed it: 0 is this one
	tags    []string
	clock   uint64      // of tags, from before its load
	own     *expiry.Own // nil: the windows and lives of the Options
}

// unseal removes the envelope of a value into the zero box. An unreadable value counts as absent;
// the next store replaces it.
func (r *read[K, V]) unseal(box *sealed, h *remote.Held) {
	if box.held = *h; h.Absent() || h.Data == nil && !h.Same {
		return
	}
	state := stale
	if h.Fresh > 0 {
		state = fresh
	}
	if h.Same { // there is no envelope: the read has the value
		if box.state, box.own = state, r.candidate.own; r.candidate.value == nil {
			box.own = local.RecordOf(r.suspect.entry).Traits.Lives()
		}
		return
	}
	payload, flags, version, err := r.c.l2.Open(h.Data, r.l2.Name)
	ok := err == nil
	if ok && flags&envelope.Tagged != 0 {
		box.clock, box.tags, payload, ok = envelope.CutTags(payload)
	}
	if ok && flags&envelope.Lived != 0 {
		box.own, payload, ok = envelope.CutLives(payload)
	}
	switch {
	case !ok:
		r.c.l2.Unreadable()
		*box = sealed{held: *h}
		return
	case len(box.tags) > 0 && r.l2.BlocksTags(r.c.l2, box.tags): // before L2 is asked about them
		*box = sealed{held: *h}
		return
	}
	box.payload, box.flags, box.version, box.state = payload, flags, version, state
}

// open decodes the value in box, unless the drops of its tags have made it absent.
func (r *read[K, V]) open(box *sealed, drops map[string]remote.Tag) (o opened[V]) {
	o.state, o.tags, o.own = box.state, box.tags, box.own
	if len(box.tags) > 0 {
		o.state, o.byTag = r.afterDrops(box, drops)
	}
	isNotFound := box.flags&envelope.NotFound != 0
	switch {
	case o.state == absent, isNotFound && o.state != fresh:
		return opened[V]{}
	case isNotFound:
		o.state = notFound
		return o
	case box.held.Same && r.candidate.value != nil:
		o.value = *r.candidate.value
		return o
	case box.held.Same, r.suspect.entry != nil && local.RecordOf(r.suspect.entry).ID == box.held.ID:
		r.c.counts.confirmed.Add(1)
		o.value = r.suspect.entry.Value.V
		return o
	}
	var err error
	if o.value, err = r.c.decode(box.payload, box.version); err != nil {
		r.c.l2.Unreadable()
		return opened[V]{}
	}
	if box.version == 0 && r.c.o.Memory.Encoded {
		o.form = box.payload
	}
	return o
}

// afterDrops returns the state in which the drops of its tags have left a value.
func (r *read[K, V]) afterDrops(box *sealed, drops map[string]remote.Tag) (state heldState, byTag bool) {
	latest := l2.LatestDrop(drops, box.tags)
	switch {
	case latest.Dropped > box.clock, r.l2.Down:
		return absent, false
	case latest.Expired > box.clock:
		return stale, true
	}
	return box.state, false
}
