package strata

import (
	"context"
	"errors"
	"time"

	"github.com/strata-cache/strata/internal/envelope"
	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/remote"
)

// maxRemoteLife caps the life of what is stored in L2, where even NoExpiry
// needs a number.
const maxRemoteLife = 10 * 365 * 24 * time.Hour

// label gives what the Loader has brought its tags: those that the call and the
// load have named, or else those of the value that still holds, and those that
// Options.Tags has for a value.
func (a *attempt[K, V]) label() {
	switch err := a.res.Err; {
	case err == nil:
		a.c.nameTags(&a.call, a.f.Key, a.res.Value)
	case isAnswer(err, ErrNotFound):
	case a.held != nil && isAnswer(err, ErrNotModified):
		if len(a.call.tags) == 0 {
			a.call.tags = a.tags
		}
		a.c.nameTags(&a.call, a.f.Key, *a.held)
	default:
		return
	}
	a.res.Tags = a.call.tags
	if a.c.callError(a.call) != nil {
		a.c.counts.encodeErrors.Add(1) // tags that cannot be
		a.call.ttl = noLife
	}
}

// store does with the Loader's answer what the answer asks for: L2 first, then
// an entry for L1, which land inserts.
func (a *attempt[K, V]) store() {
	err := a.res.Err
	switch {
	case err == nil:
		a.res.Found, a.brought, a.res.Note = true, true, noteOrigin
		a.c.succeeded()
		a.keep(a.res.Value)
	case isAnswer(err, ErrNotFound):
		a.c.succeeded()
		a.keepAbsent(err)
	case a.held != nil && isAnswer(err, ErrNotModified):
		a.res = flight.Result[V]{Value: *a.held, Found: true, Note: noteOrigin, Tags: a.call.tags}
		a.c.succeeded()
		a.keepHeld()
	default:
		if a.remembers(err) {
			a.c.originFailed(a.f.Key, err)
			a.c.failed(a.f.Key, err)
		}
		if a.serveHeld(err) && !a.call.refresh {
			a.c.stale(a.ctx, a.f.Key, a.res.Value, err)
		}
	}
}

// keepAbsent remembers that the origin does not have the key, for as long as the
// call or the load has said, or else for NotFoundTTL.
func (a *attempt[K, V]) keepAbsent(err error) {
	left := a.c.o.NotFoundTTL
	if a.call.ttl != 0 {
		left = a.call.ttl
	}
	left = a.c.jittered(left)
	if a.noKeep {
		return
	}
	a.forgetRemote(left)
	if left > 0 && !a.noKeep {
		a.memo = a.absent(err, left, a.call.tags)
	}
}

// keep stores v in L2 under the lease, and makes it the entry for L1 unless
// L2 knows that it must not be.
func (a *attempt[K, V]) keep(v V) {
	left := a.c.life(a.call)
	if a.noKeep || left <= 0 {
		return
	}
	// The life counts from the end of the load, however slow L2 is.
	loaded := a.c.memory.Now()
	id := remote.ID(0)
	if token := a.lease.Token; token != 0 {
		if a.put(v, left) {
			return
		}
		id = remote.ID(token)
	}
	a.keepLoaded(v, left, loaded, id)
}

// keepLoaded makes v, which was loaded at some time, an entry for L1. One that
// L2 cannot confirm after a message was lost lives as without a bus.
func (a *attempt[K, V]) keepLoaded(v V, left time.Duration, loaded int64, id remote.ID) {
	past := time.Duration(a.c.memory.Now() - loaded)
	kept := a.c.kept(left)
	if a.l2.KeyTooLong {
		left, kept = min(left, UnconfirmedTTL), min(kept, UnconfirmedTTL)
	}
	a.entry = a.c.entry(a.f.Key, v, left-past, kept-past, a.stamps(a.call.tags), id)
	a.c.refreshSoon(a.entry, left-past, left, a.took)
}

// put stores v in L2. refused means that the key was dropped, or the lease
// lost, since the lease was given.
func (a *attempt[K, V]) put(v V, left time.Duration) (refused bool) {
	data, err := a.c.seal(a.l2.Name, v, a.call.tags, a.lease.Clock)
	if err != nil {
		a.c.counts.encodeErrors.Add(1)
		return false
	}
	ctx, cancel := a.opContext()
	defer cancel()
	fresh, kept := min(left, maxRemoteLife), min(a.c.kept(left), maxRemoteLife)
	p := remote.Put{Key: a.l2.Name, Data: data, Fresh: fresh, Left: kept, Lease: a.lease, Drops: a.call.skipRead}
	no, err := a.c.l2.Put(ctx, []remote.Put{p})
	if errors.Is(err, remote.ErrValueTooLarge) {
		a.c.counts.encodeErrors.Add(1)
		return false // nothing was sent: the lease is given back
	}
	if !a.answered("put", err) {
		return false
	}
	a.lease.Token, a.replaced = 0, true // used up, or gone
	if len(no) > 0 {
		a.c.refusedRemote(a.ctx, a.f.Key)
		return true
	}
	a.announceDrop(ctx, p)
	return false
}

// refusedRemote counts a value that L2 has refused.
func (c *Cache[K, V]) refusedRemote(ctx context.Context, key K) {
	c.counts.remoteRefused.Add(1)
	if hook := c.o.Hooks.Refused; hook != nil {
		c.tell(hook, Event{Context: ctx, Key: key, Tier: "L2"})
	}
}

// keepHeld gives the held value a new life. L2 is not sent the value again if
// it holds that very value.
func (a *attempt[K, V]) keepHeld() {
	left := a.c.life(a.call)
	if a.noKeep || left <= 0 {
		return
	}
	// The clock of tags is in the value itself.
	if a.lease.Token == 0 || a.id == 0 || len(a.call.tags) > 0 {
		a.keep(*a.held)
		return
	}
	loaded := a.c.memory.Now()
	ctx, cancel := a.opContext()
	defer cancel()
	fresh, kept := min(left, maxRemoteLife), min(a.c.kept(left), maxRemoteLife)
	refused, err := a.c.l2.Extend(ctx, a.l2.Name, fresh, kept, a.lease, a.id)
	switch {
	case !a.answered("extend", err):
	case refused:
		a.keep(*a.held) // another value is held by now, or the lease is gone
		return
	default:
		a.id, a.lease.Token, a.replaced = remote.ID(a.lease.Token), 0, true
	}
	a.keepLoaded(*a.held, left, loaded, a.id)
}

// sealAbsent is what L2 holds of a key that the origin does not have, with the tags
// of that answer.
func (c *Cache[K, V]) sealAbsent(name string, tags []string, clock uint64) []byte {
	b, flags := begin(tags, clock)
	envelope.Seal(b, name, c.l2.Schema(), flags|envelope.NotFound)
	return b
}

// seal encodes v for L2, with its tags and the clock that it was loaded under.
func (c *Cache[K, V]) seal(name string, v V, tags []string, clock uint64) ([]byte, error) {
	b, flags := begin(tags, clock)
	b, err := c.encode(b, v)
	if err != nil {
		return nil, err
	}
	envelope.Seal(b, name, c.l2.Schema(), flags)
	return b, nil
}

// begin begins an envelope with tags.
func begin(tags []string, clock uint64) (b []byte, f envelope.Flags) {
	b = envelope.Begin(nil)
	if len(tags) == 0 {
		return b, 0
	}
	return envelope.AppendTags(b, clock, tags), envelope.Tagged
}
