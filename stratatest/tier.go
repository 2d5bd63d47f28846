package stratatest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/remote"
)

// Lanes is the number of lanes into which the tier of [NewTier] divides its
// keys.
const Lanes = 1024

// Tier is an in-memory [remote.Tier] with all abilities, but no [remote.Fleet]. It decides as the
// Redis tier does, without a server: values of several schemas side by side
// under a key, leases, tokens, holds, lanes, tags, and a namespace state per
// name.
//
// A Tier is one view; [Tier.Bind] makes others of the same store. Losses of the
// store concern all views: [Tier.Restart], [Tier.Restore], [Tier.ForgetLane],
// [Tier.ForgetTags], [Tier.Spoil]. Its clock is time.Now. It starts no
// goroutine and never forgets a key by itself, so it is for tests only. All
// methods are safe for concurrent use. Use [NewTier] to make one.
type Tier struct {
	store *store
	space remote.Space
}

// store is the data that all views of a Tier share.
type store struct {
	lanes   int
	mu      sync.Mutex // guards below
	names   map[string]*namespace
	bus     *Bus
	foreign uint64
	clock   uint64 // counts epochs
	changes uint64 // counts drops and losses
	moves   atomic.Uint64
}

var (
	_ remote.Tier      = (*Tier)(nil)
	_ remote.Reader    = (*Tier)(nil)
	_ remote.Binder    = (*Tier)(nil)
	_ remote.Tagger    = (*Tier)(nil)
	_ remote.Announcer = (*Tier)(nil)
	_ remote.Mover     = (*Tier)(nil)
	_ remote.Prober    = (*Tier)(nil)
)

// NewTier returns an empty tier that announces nothing.
func NewTier() *Tier { return NewTierLanes(Lanes) }

// NewTierLanes is [NewTier] with n lanes, from 1 to 65536. With few lanes
// positions are cheap, and keys share lanes.
func NewTierLanes(n int) *Tier {
	if n < 1 || n > 1<<16 {
		panic("stratatest: NewTierLanes: not 1 to 65536 lanes")
	}
	return &Tier{store: &store{lanes: n, names: map[string]*namespace{}}}
}

// Announce makes the tier, with all its views, announce its drops on b. Call it
// before the first cache uses the tier, because a cache calls Announces once. A
// nil b ends it.
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

// Bind returns the view of the instance with the space s.
func (t *Tier) Bind(s remote.Space) remote.Tier { return t.bind(s) }

func (t *Tier) bind(s remote.Space) *Tier { return &Tier{store: t.store, space: s} }

// Moves returns the number of calls of [Tier.Restart] and [Tier.Restore]: all views
// learn of them at once.
func (t *Tier) Moves() uint64 { return t.store.moves.Load() }

// Foreign returns the number of reads of a value that [Tier.Spoil] has made
// unreadable.
func (t *Tier) Foreign() uint64 {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	return t.store.foreign
}

// Get implements [remote.Tier].
func (t *Tier) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at, unlock := t.lock()
	defer unlock()
	n := t.own()
	n.asked = true
	held := make([]remote.Held, len(keys))
	for i, key := range keys {
		held[i] = t.read(n.entries[key].Slot(t.schema()).Value, at)
		if i < len(known) {
			t.leaveOut(&held[i], key, known[i])
		}
	}
	return held, nil
}

// Read implements [remote.Reader].
func (t *Tier) Read(ctx context.Context, timeout time.Duration, key string, dst []byte) (remote.Held, error) {
	ctx, cancel := remote.Within(ctx, timeout)
	defer cancel()
	held, err := t.Get(ctx, []string{key})
	if err != nil {
		return remote.Held{}, err
	}
	if h := held[0]; h.Data == nil || cap(dst) < len(h.Data) {
		return h, nil
	}
	held[0].Data = append(dst[:0], held[0].Data...)
	return held[0], nil
}

// Self implements [remote.Reader].
func (t *Tier) Self() remote.Tier { return t }

// Acquire implements [remote.Tier]: requests are decided in order, at one moment.
func (t *Tier) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at, unlock := t.lock()
	defer unlock()
	acquired := make([]remote.Acquired, len(r))
	for i := range r {
		acquired[i] = t.acquire(&r[i], d, at)
	}
	return acquired, nil
}

// acquire decides one request. The store is locked.
func (t *Tier) acquire(r *remote.Request, d time.Duration, at entryrules.Clock) remote.Acquired {
	lease := t.own().lease()
	token := nonce()
	a, _ := t.decide(r.Key, entryrules.Acquire{
		Schema: t.schema(), Token: token, Length: int64(d), Namespace: lease.State, ID: uint64(r.Replace),
	}, at)
	lease.Grant, lease.Wait = a.Grant, time.Duration(a.Wait)
	if a.Grant == remote.Granted {
		lease.Token = token
	}
	held := t.read(a.Held, at)
	t.leaveOut(&held, r.Key, r.Known)
	return remote.Acquired{Held: held, Lease: lease}
}

// Put implements [remote.Tier].
func (t *Tier) Put(ctx context.Context, p []remote.Put) (refused []int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at, unlock := t.lock()
	defer unlock()
	var messages []remote.Message
	for i, put := range p {
		a, m := t.decide(put.Key, entryrules.Put{
			Schema: t.schema(), Token: put.Lease.Token, Fresh: int64(put.Fresh), Left: int64(put.Left),
			Namespace: put.Lease.State, Data: append([]byte{}, put.Data...), Drops: put.Drops, Quiet: put.Lease.Quiet,
		}, at)
		if !a.Done {
			refused = append(refused, i)
		}
		messages = append(messages, m...)
	}
	t.announce(messages)
	return refused, nil
}

// Drop implements [remote.Tier].
func (t *Tier) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at, unlock := t.lock()
	defer unlock()
	leases := make([]remote.Lease, len(d))
	var messages []remote.Message
	for i, drop := range d {
		op := entryrules.Drop{Soft: drop.Soft, Left: int64(drop.Left), Hold: int64(drop.Hold)}
		if drop.Token > 0 {
			op.Token, op.Life = nonce(), int64(drop.Token)
			leases[i] = t.own().lease()
			leases[i].Token, leases[i].Grant = op.Token, remote.Granted
			op.Quiet = drop.Quiet
		}
		a, m := t.decide(drop.Key, op, at)
		leases[i].Quiet = a.Announce == 0
		messages = append(messages, m...)
	}
	t.announce(messages)
	return leases, nil
}

// Extend implements [remote.Tier].
func (t *Tier) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (refused bool, err error) {
	done, err := t.change(ctx, key, entryrules.Extend{
		Schema: t.schema(), Token: l.Token, ID: uint64(id), Fresh: int64(fresh), Left: int64(left), Namespace: l.State,
	})
	return err == nil && !done, err
}

// Release implements [remote.Tier].
func (t *Tier) Release(ctx context.Context, key string, l remote.Lease) error {
	_, err := t.change(ctx, key, entryrules.Release{Schema: t.schema(), Token: l.Token})
	return err
}

// Renew implements [remote.Tier].
func (t *Tier) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	return t.change(ctx, key, entryrules.Renew{Schema: t.schema(), Token: l.Token, Length: int64(d)})
}

// Recheck does nothing: the tier remembers nothing between operations.
func (t *Tier) Recheck() {}

// Probe reports no warnings: nothing weakens the promises of a cache.
func (t *Tier) Probe(context.Context) (warnings []string, err error) { return nil, nil }

// change executes an operation on one key, announces it, and reports whether it
// was done.
func (t *Tier) change(ctx context.Context, key string, op entryrules.Operation) (done bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	at, unlock := t.lock()
	defer unlock()
	a, m := t.decide(key, op, at)
	t.announce(m)
	return a.Done, nil
}

// message is a message about key, or about everything.
func (t *Tier) message(kind remote.Kind, key string) remote.Message {
	return remote.Message{Name: t.space.Name, Kind: kind, From: t.space.Instance, Key: key}
}

// dropped is the message about a drop of key, with the rest of a hold. It gives
// the lane another version.
func (t *Tier) dropped(kind remote.Kind, key string, hold int64) remote.Message {
	t.store.changes++
	m := t.message(kind, key)
	m.Lane = t.Lane(key)
	m.Was, m.Is = t.own().move(m.Lane)
	m.Hold = time.Duration(hold)
	return m
}

// announce sends messages while the store is locked, so that they have the
// order of the drops. The bus only queues them.
func (t *Tier) announce(m []remote.Message) {
	if t.store.bus != nil && len(m) > 0 {
		t.store.bus.hub.send(m)
	}
}
