package stratatest

import (
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
)

// record is the state of a key, for mutations to change.
type record struct {
	entryrules.State
	schema string // of the view
	now    int64
}

// own returns the slot of the view's value type.
func (r *record) own() *entryrules.Slot { return r.slot(r.schema) }

func (r *record) slot(schema string) *entryrules.Slot {
	for i := range r.Slots {
		if r.Slots[i].Schema == schema {
			return &r.Slots[i]
		}
	}
	r.Slots = append(r.Slots, entryrules.Slot{Schema: schema})
	return &r.Slots[len(r.Slots)-1]
}

// all returns the slots of all value types.
func (r *record) all() []*entryrules.Slot {
	var all []*entryrules.Slot
	for i := range r.Slots {
		all = append(all, &r.Slots[i])
	}
	return all
}

// end is a time d from now.
func (r *record) end(d time.Duration) int64 { return r.now + int64(d) }

// with runs f on the record of a key, with the store locked, and stores the
// record.
func with(t *Tier, key string, f func(r *record)) {
	at, unlock := t.lock()
	defer unlock()
	r := record{State: t.own().entries[key], schema: t.schema(), now: at.Now}
	r.Slots = slices.Clone(r.Slots)
	f(&r)
	r.Until = max(r.Until, r.end(100*long))
	t.own().entries[key] = r.State
}

// kept returns a function that puts the leases and the token of a key back.
func kept(t *Tier, key string) (restore func()) {
	var before entryrules.State
	with(t, key, func(r *record) { before = r.State })
	return func() {
		with(t, key, func(r *record) {
			for _, s := range before.Slots {
				r.slot(s.Schema).Lease = s.Lease
			}
			if r.Token.Token == 0 {
				r.Token = before.Token
			}
		})
	}
}
