package strata

import (
	"errors"
	"time"

	"github.com/strata-cache/strata/internal/envelope"
	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/remote"
)

// maxRemoteLife caps the life of what is stored in L2, where even NoExpiry
// needs a number.
const maxRemoteLife = 10 * 365 * 24 * time.Hour

// store does with the Loader's answer what the answer asks for: L2 first, then
// an entry for L1, which land inserts.
func (a *attempt[K, V]) store() {
	err := a.res.Err
	switch {
	case err == nil:
		a.res.Found, a.brought, a.res.Note = true, true, noteOrigin
		a.tags = nil
		a.keep(a.res.Value)
	case isAnswer(err, ErrNotFound):
		a.forget()
	case a.held == nil:
	case isAnswer(err, ErrNotModified):
		a.res = flight.Result[V]{Value: *a.held, Found: true, Note: noteOrigin}
		a.keepHeld()
	default:
		a.c.counts.staleServed.Add(1)
		a.res = flight.Result[V]{Value: *a.held, Found: true, Note: noteL1 | noteStale}
	}
}

// life returns how long a value stored by o is to live. It is not positive if
// the value is not to be stored.
func (c *Cache[K, V]) life(o call) time.Duration {
	if o.ttl == 0 {
		return c.jittered(c.o.TTL)
	}
	return c.jittered(o.ttl)
}

// keep stores v in L2 under the lease, and makes it the entry for L1 unless
// L2 knows that it must not be.
func (a *attempt[K, V]) keep(v V) {
	left := a.c.life(a.call)
	if a.call.err != nil {
		a.c.counts.encodeErrors.Add(1) // tags that cannot be
	}
	if a.noKeep || left <= 0 || a.call.err != nil {
		return
	}
	// The life counts from the end of the load, however slow L2 is.
	dead := l1.After(a.c.memory.Now(), left)
	id := remote.ID(0)
	if token := a.lease.Token; token != 0 {
		if a.put(v, left) {
			return
		}
		id = remote.ID(token)
	}
	e := a.c.entry(a.f.Key, v, left, a.stamps(a.tagsToKeep()), id)
	e.Dead = min(e.Dead, dead)
	e.Soon, e.Fresh = min(e.Soon, e.Dead), e.Dead
	a.entry = e
}

// tagsToKeep are those that the load has named, or else those of the value that
// still holds.
func (a *attempt[K, V]) tagsToKeep() []string {
	if len(a.call.tags) > 0 {
		return a.call.tags
	}
	return a.tags
}

// put stores v in L2. refused means that the key was dropped, or the lease
// lost, since the lease was given.
func (a *attempt[K, V]) put(v V, left time.Duration) (refused bool) {
	data, err := a.c.seal(a.name, v, a.tagsToKeep(), a.lease.Clock)
	if err != nil {
		a.c.counts.encodeErrors.Add(1)
		return false
	}
	ctx, cancel := a.opContext()
	defer cancel()
	left = min(left, maxRemoteLife)
	no, err := a.c.tier.Put(ctx, []remote.Put{{Key: a.name, Data: data, Fresh: left, Left: left, Lease: a.lease}})
	if errors.Is(err, remote.ErrValueTooLarge) {
		a.c.counts.encodeErrors.Add(1)
		return false // nothing was sent: the lease is given back
	}
	if !a.answered("put", err) {
		return false
	}
	a.lease.Token = 0 // used up, or gone
	if len(no) > 0 {
		a.c.counts.remoteRefused.Add(1)
	}
	return len(no) > 0
}

// keepHeld gives the held value a new life. L2 is not sent the value again if
// it holds that very value.
func (a *attempt[K, V]) keepHeld() {
	left := a.c.life(a.call)
	if a.noKeep || left <= 0 {
		return
	}
	// The clock of tags is in the value itself.
	if a.lease.Token == 0 || a.id == 0 || len(a.tagsToKeep()) > 0 {
		a.keep(*a.held)
		return
	}
	ctx, cancel := a.opContext()
	defer cancel()
	l2 := min(left, maxRemoteLife)
	refused, err := a.c.tier.Extend(ctx, a.name, l2, l2, a.lease, a.id)
	switch {
	case !a.answered("extend", err):
	case refused:
		a.keep(*a.held) // another value is held by now, or the lease is gone
		return
	default:
		a.lease.Token = 0
	}
	a.entry = a.c.entry(a.f.Key, *a.held, left, a.stamps(nil), a.id)
}

// forget drops what L2 holds for a key that the origin does not have.
func (a *attempt[K, V]) forget() {
	if a.id == 0 || a.lease.Token == 0 {
		return
	}
	ctx, cancel := a.opContext()
	defer cancel()
	_, err := a.c.tier.Drop(ctx, []remote.Drop{{Key: a.name}})
	if a.answered("drop", err) {
		a.lease.Token = 0
	}
}

// seal encodes v for L2, with its tags and the clock that it was loaded under.
func (c *Cache[K, V]) seal(name string, v V, tags []string, clock uint64) ([]byte, error) {
	b := envelope.Begin(nil)
	flags := envelope.Flags(0)
	if len(tags) > 0 {
		b = envelope.AppendTags(b, clock, tags)
		flags = envelope.Tagged
	}
	b, err := c.o.Remote.Codec.Append(b, v)
	if err != nil {
		return nil, err
	}
	envelope.Seal(b, name, c.schema, flags)
	return b, nil
}
