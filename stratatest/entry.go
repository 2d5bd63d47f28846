package stratatest

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/remote"
)

// lock locks the store and returns the time at which it did.
func (t *Tier) lock() (at entryrules.Clock, unlock func()) {
	t.store.mu.Lock()
	return entryrules.Clock{Now: time.Now().UnixNano(), Slack: int64(time.Second)}, t.store.mu.Unlock
}

// schema is the name of the view's value type in the states of entries.
func (t *Tier) schema() string { return strconv.FormatUint(t.space.Schema, 16) }

// decide executes an operation on key. It returns the answer and the messages
// to announce, at most one.
func (t *Tier) decide(key string, op entryrules.Operation, at entryrules.Clock) (entryrules.Answer, []remote.Message) {
	n := t.own()
	next, a := entryrules.Decide(n.entries[key], op, at)
	if next.Empty() {
		delete(n.entries, key)
	} else {
		n.entries[key] = next
	}
	switch a.Announce {
	case remote.Dropped, remote.Expired:
		return a, []remote.Message{t.dropped(a.Announce, key, a.Hold)}
	case remote.Ended:
		return a, []remote.Message{t.message(a.Announce, key)}
	}
	return a, nil
}

// read judges a value for the view. It returns a copy of the data.
func (t *Tier) read(v entryrules.Value, at entryrules.Clock) remote.Held {
	if v.Unreadable {
		t.store.foreign++
	}
	r := v.Read(t.own().state(), at.Now)
	if r.ID == 0 {
		return remote.Held{}
	}
	h := remote.Held{
		ID: remote.ID(r.ID), Fresh: time.Duration(r.Fresh), Left: time.Duration(r.Left), Soft: r.Soft, All: r.All,
	}
	if v.Data != nil {
		// The caller owns the copy. An empty value is not nil: nil says that the bytes were left
		// out.
		h.Data = append([]byte{}, v.Data...)
	}
	return h
}

// leaveOut leaves out the data of h, held under key, if its bytes equal the bytes of
// the value with the ID known.
func (t *Tier) leaveOut(h *remote.Held, key string, known remote.ID) {
	if v := t.own().entries[key].Slot(t.schema()).Value; h.Data != nil && v.Is(uint64(known)) {
		h.Data, h.Same = nil, true
	}
}

// nonce returns a random number other than zero.
func nonce() uint64 {
	for {
		if n := rand.Uint64(); n != 0 {
			return n
		}
	}
}
