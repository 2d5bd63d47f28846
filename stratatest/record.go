package stratatest

import (
	"math/rand/v2"
	"time"

	"github.com/strata-cache/strata/remote"
)

// record is what a store knows of one key: what concerns all schemas, and a
// slot for each. It is kept as long as the longest-lived thing in it, and what
// has run out stays until then or until it is replaced: Redis forgets whole
// keys.
type record struct {
	slots map[uint64]*slot
	token right     // of the last drop that was asked for one
	hold  time.Time // no lease is given before
	until time.Time // when all of it is forgotten
}

// slot is what one schema holds under a key. Without an id it holds no value.
type slot struct {
	data        []byte
	id          remote.ID
	word        string // of the name space, from the right under which the value was stored
	fresh, left time.Time
	soft        bool
	spoilt      bool
	lease       right
	awaited     bool // somebody was told that the lease is taken
}

// right is the permission to store until a point in time.
type right struct {
	token uint64
	until time.Time
}

// newRight returns a right that none of its holders can guess.
func newRight(now time.Time, d time.Duration) right {
	return right{token: nonce(), until: now.Add(d)}
}

// nonce returns a random number that is not zero.
func nonce() uint64 {
	for {
		if n := rand.Uint64(); n != 0 {
			return n
		}
	}
}

func (r right) live(now time.Time) bool { return r.token != 0 && now.Before(r.until) }

func (r right) was(token uint64) bool { return r.token == token && token != 0 }

func (r right) is(token uint64, now time.Time) bool { return r.was(token) && r.live(now) }

// newSlot stores p; its right names the value. A value without time left is not kept.
func newSlot(p remote.Put, now time.Time) *slot {
	if p.Left <= 0 {
		return &slot{}
	}
	return &slot{
		data: append([]byte{}, p.Data...), id: remote.ID(p.Lease.Token), word: p.Lease.Word,
		fresh: now.Add(p.Fresh), left: now.Add(p.Left),
	}
}

// held returns the value's state, and a copy of the value. expired says that
// all values were made stale since.
func (s *slot) held(now time.Time, expired bool) remote.Held {
	if !now.Before(s.left) {
		return remote.Held{}
	}
	h := remote.Held{Data: append([]byte{}, s.data...), ID: s.id, Left: s.left.Sub(now), Soft: s.soft || expired, All: expired && !s.soft}
	if !h.Soft {
		h.Fresh = max(0, s.fresh.Sub(now))
	}
	return h
}

// release ends the lease, and reports whether somebody waits for that.
func (s *slot) release() (awaited bool) {
	awaited = s.awaited
	s.lease, s.awaited = right{}, false
	return awaited
}

// keep lets the record live for d more, if it does not live longer.
func (r *record) keep(now time.Time, d time.Duration) {
	if end := now.Add(d); end.After(r.until) {
		r.until = end
	}
}

// taken is called after something was taken out of the record. Without anything
// in it, the record is a new one.
func (r *record) taken() {
	if r.empty() {
		r.until = time.Time{}
	}
}

// empty reports whether there is nothing in the record, not even something that
// has run out.
func (r *record) empty() bool {
	for _, s := range r.slots {
		if s.id != 0 || s.lease.token != 0 || s.awaited {
			return false
		}
	}
	return r.token.token == 0 && r.hold.IsZero()
}

// slot returns the slot of a schema, which may be empty.
func (r *record) slot(schema uint64) *slot {
	s := r.slots[schema]
	if s == nil {
		s = &slot{}
		r.slots[schema] = s
	}
	return s
}

// consume uses a right up, and reports whether it was one. A token from a drop
// is stronger than leases: it voids them, and what was stored under one since
// the drop is older than what comes now, in whatever schema. A lease that has
// run out is good until another takes its place.
func (r *record) consume(schema, token uint64, now time.Time) bool {
	s := r.slot(schema)
	if r.token.is(token, now) {
		r.clear(now)
		return true
	}
	if s.lease.was(token) && !now.Before(r.hold) {
		s.release()
		r.taken()
		return true
	}
	return false
}

// clear removes all but a hold.
func (r *record) clear(now time.Time) {
	hold := r.hold
	*r = record{slots: map[uint64]*slot{}}
	r.keepHold(hold, now)
}

// clearForLease is clear, but for the token of a drop: what comes under that is
// newer than what comes under a lease.
func (r *record) clearForLease(now time.Time) {
	token := r.token
	r.clear(now)
	if token.live(now) {
		r.token = token
		r.keep(now, token.until.Sub(now))
	}
}

// keepHold sets the end of the hold, unless that is over.
func (r *record) keepHold(hold, now time.Time) {
	if hold.After(now) {
		r.hold = hold
		r.keep(now, hold.Sub(now))
	}
}

// drop makes all schemas' values absent or stale, and voids all rights.
func (r *record) drop(d remote.Drop, now time.Time) {
	hold := r.hold
	if end := now.Add(d.Hold); end.After(hold) {
		hold = end
	}
	r.token = right{}
	if d.Soft {
		for _, s := range r.slots {
			s.release()
			s.soft = true
			if end := now.Add(d.Left); d.Left > 0 && end.Before(s.left) {
				s.left = end
			}
		}
		r.taken()
	} else {
		r.clear(now)
	}
	r.keepHold(hold, now)
	if d.Token > 0 {
		r.token = newRight(now, d.Token)
		r.keep(now, d.Token)
	}
}
