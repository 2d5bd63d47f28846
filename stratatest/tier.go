package stratatest

import (
	"context"
	"sync"
	"time"

	"github.com/strata-cache/strata/remote"
)

// Lanes is the number of lanes into which the tier of [NewTier] divides its
// keys.
const Lanes = 1024

// Tier is an in-memory [remote.Tier] with all optional abilities but those of a
// tier that remembers or weakens something. It keeps to the rules of the Redis
// tier, without a server: values of several schemas side by side under a key,
// leases, tokens, holds, lanes, tags, and a word per name.
//
// A Tier is one view; [Tier.Bind] makes others of the same store. What befalls
// a store befalls all views: [Tier.Restart], [Tier.Restore], [Tier.ForgetLane],
// [Tier.ForgetTags], [Tier.Spoil]. Its clock is time.Now. It starts no
// goroutine and never forgets a key by itself, so it is for tests only. All
// methods are safe for concurrent use. Use [NewTier] to make one.
type Tier struct {
	store *store
	space remote.Space
}

// store is what all views of a Tier share.
type store struct {
	lanes   int
	mu      sync.Mutex // guards all below, and all that hangs on them
	names   map[string]*nameSpace
	bus     *Bus
	foreign uint64
	clock   uint64 // counts epochs
	changes uint64 // counts drops, and whatever befalls the store
}

var _ whole = (*Tier)(nil)

// NewTier returns an empty tier that announces nothing.
func NewTier() *Tier { return NewTierLanes(Lanes) }

// NewTierLanes is [NewTier] with n lanes, from 1 to 65536. Few make positions
// cheap, and let keys meet in one lane.
func NewTierLanes(n int) *Tier {
	if n < 1 || n > 1<<16 {
		panic("stratatest: NewTierLanes: not 1 to 65536 lanes")
	}
	return &Tier{store: &store{lanes: n, names: map[string]*nameSpace{}}}
}

// Announce makes the tier, with all its views, announce its drops on b. Call it
// before the first cache uses the tier: a cache asks once. A nil b ends it.
func (t *Tier) Announce(b *Bus) {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	t.store.bus = b
}

// Announces reports whether the tier was given a bus.
func (t *Tier) Announces() bool {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	return t.store.bus != nil
}

// Bind returns the view that the cache with the space s uses.
func (t *Tier) Bind(s remote.Space) remote.Tier { return t.bind(s) }

func (t *Tier) bind(s remote.Space) *Tier { return &Tier{store: t.store, space: s} }

// Foreign returns the number of reads that met a value made unreadable by
// [Tier.Spoil].
func (t *Tier) Foreign() uint64 {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	return t.store.foreign
}

// Get implements [remote.Tier].
func (t *Tier) Get(ctx context.Context, keys []string) ([]remote.Held, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now, unlock := t.lock()
	defer unlock()
	held := make([]remote.Held, len(keys))
	t.own().asked = true
	for i, key := range keys {
		held[i] = t.read(t.record(key, now), now)
	}
	return held, nil
}

// Acquire implements [remote.Tier].
func (t *Tier) Acquire(ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
	return t.Refresh(ctx, key, 0, d)
}

// Refresh is Acquire, but that the value with this ID counts as stale.
func (t *Tier) Refresh(ctx context.Context, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
	if err := ctx.Err(); err != nil {
		return remote.Held{}, remote.Lease{}, err
	}
	now, unlock := t.lock()
	defer unlock()
	held, lease := t.acquire(key, id, d, now)
	return held, lease, nil
}

// AcquireMany is Acquire for many keys, in order, at one moment.
func (t *Tier) AcquireMany(ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	now, unlock := t.lock()
	defer unlock()
	held, leases := make([]remote.Held, len(keys)), make([]remote.Lease, len(keys))
	for i, key := range keys {
		held[i], leases[i] = t.acquire(key, 0, d, now)
	}
	return held, leases, nil
}

// acquire is Refresh. The store is locked.
func (t *Tier) acquire(key string, id remote.ID, d time.Duration, now time.Time) (remote.Held, remote.Lease) {
	r := t.record(key, now)
	held := t.read(r, now)
	lease := t.own().lease()
	s := r.slot(t.space.Schema)
	switch {
	case now.Before(r.hold):
		lease.Grant, lease.Wait = remote.OnHold, r.hold.Sub(now)
		held.Data = nil
	case held.Fresh > 0 && held.ID != id: // no lease is needed
	case s.lease.live(now):
		lease.Grant, lease.Wait = remote.Busy, s.lease.until.Sub(now)
		held.Data, s.awaited = nil, true
	default:
		s.lease, s.awaited = newRight(now, d), false
		r.keep(now, d)
		lease.Grant, lease.Token = remote.Granted, s.lease.token
	}
	return held, lease
}

// Put implements [remote.Tier].
func (t *Tier) Put(ctx context.Context, p []remote.Put) (refused []int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now, unlock := t.lock()
	defer unlock()
	var messages []remote.Message
	for i, put := range p {
		r := t.record(put.Key, now)
		written := r.token.is(put.Lease.Token, now)
		awaited := r.slot(t.space.Schema).awaited
		if !r.consume(t.space.Schema, put.Lease.Token, now) {
			refused = append(refused, i)
			continue
		}
		if put.Drops && !written {
			r.clearForLease(now)
		}
		r.slots[t.space.Schema] = newSlot(put, now)
		r.keep(now, put.Left)
		switch {
		case put.Drops || written:
			messages = append(messages, t.dropped(remote.Dropped, put.Key, now))
		case awaited:
			messages = append(messages, t.message(remote.Ended, put.Key))
		}
	}
	t.announce(messages)
	return refused, nil
}

// Drop implements [remote.Tier].
func (t *Tier) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now, unlock := t.lock()
	defer unlock()
	leases := make([]remote.Lease, len(d))
	messages := make([]remote.Message, len(d))
	for i, drop := range d {
		r := t.record(drop.Key, now)
		r.drop(drop, now)
		if r.token.token != 0 {
			leases[i] = t.own().lease()
			leases[i].Token, leases[i].Grant = r.token.token, remote.Granted
		}
		kind := remote.Dropped
		if drop.Soft {
			kind = remote.Expired
		}
		messages[i] = t.dropped(kind, drop.Key, now)
	}
	t.announce(messages)
	return leases, nil
}

// Extend implements [remote.Tier].
func (t *Tier) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (refused bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	now, unlock := t.lock()
	defer unlock()
	r := t.record(key, now)
	s := r.slot(t.space.Schema)
	held := id != 0 && s.id == id && now.Before(s.left) && beforeExpiries(s.word) == beforeExpiries(l.Word)
	if !held || s.spoilt || !s.lease.was(l.Token) || now.Before(r.hold) {
		return true, nil
	}
	if s.release() {
		t.announce([]remote.Message{t.message(remote.Ended, key)})
	}
	s.id, s.fresh, s.left, s.soft, s.word = remote.ID(l.Token), now.Add(fresh), now.Add(left), false, l.Word
	r.keep(now, left)
	return false, nil
}

// Release gives a lease back. A lease that is gone is no error.
func (t *Tier) Release(ctx context.Context, key string, l remote.Lease) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now, unlock := t.lock()
	defer unlock()
	s := t.record(key, now).slot(t.space.Schema)
	if !s.lease.was(l.Token) {
		return nil
	}
	if s.release() {
		t.announce([]remote.Message{t.message(remote.Ended, key)})
	}
	return nil
}

// Renew lets a lease run for d from now, and reports whether it was still
// there.
func (t *Tier) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	now, unlock := t.lock()
	defer unlock()
	r := t.record(key, now)
	s := r.slot(t.space.Schema)
	if !s.lease.was(l.Token) {
		return false, nil
	}
	s.lease.until = now.Add(d)
	r.keep(now, d)
	return true, nil
}

// lock locks the store and returns the time at which that happened: within the
// lock time does not go back.
func (t *Tier) lock() (now time.Time, unlock func()) {
	t.store.mu.Lock()
	return time.Now(), t.store.mu.Unlock
}

// read returns the state and a copy of the value that r holds for the view's
// schema.
func (t *Tier) read(r *record, now time.Time) remote.Held {
	s := r.slots[t.space.Schema]
	if s == nil || s.id == 0 {
		return remote.Held{}
	}
	current, expired := t.own().standing(s.word)
	if !current {
		return remote.Held{}
	}
	if s.spoilt {
		t.store.foreign++
		return remote.Held{}
	}
	return s.held(now, expired)
}

// record returns what is known of key.
func (t *Tier) record(key string, now time.Time) *record {
	n := t.own()
	r := n.records[key]
	if r == nil || r.empty() || !now.Before(r.until) {
		r = &record{slots: map[uint64]*slot{}}
		n.records[key] = r
	}
	return r
}

// message announces something about key, or about everything.
func (t *Tier) message(kind remote.Kind, key string) remote.Message {
	return remote.Message{Name: t.space.Name, Kind: kind, From: t.space.Instance, Key: key}
}

// dropped announces a drop of key, and moves its lane on.
func (t *Tier) dropped(kind remote.Kind, key string, now time.Time) remote.Message {
	t.store.changes++
	m := t.message(kind, key)
	m.Lane = t.Lane(key)
	m.Was, m.Is = t.own().move(m.Lane)
	m.Hold = max(0, t.record(key, now).hold.Sub(now))
	return m
}

// announce sends messages while the store is locked, so that their order is
// that of the drops. The bus only queues them.
func (t *Tier) announce(m []remote.Message) {
	if t.store.bus != nil && len(m) > 0 {
		t.store.bus.hub.send(m)
	}
}
