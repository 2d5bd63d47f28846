package castier

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/remote"
)

// Tier is a [remote.Tier] over a [Store]. It is a [remote.Binder], a [remote.Tagger], a
// [remote.Fleet] and a [remote.Prober]; it announces nothing. Each Tier is one view; Bind makes
// others. Use [New] or [NewFleet] to make one. It needs no Close.
//
// A change reads the item of its key, decides, and writes it if it has not changed. So the Store
// decides which of two changes was first:
//
//	Get, Tags                    one GetMany
//	Acquire, Put, Drop, Extend,  one GetMany and one SwapMany, for any number of keys; and
//	Renew, Release               both again for those keys at which another client was first
//	DropAll, DropTags            one addition to a counter, and one change of each tag
//
// A Put of a value with tags reads the tags first. Each instance reads the counts of DropAll
// again, together with the next items, when its knowledge is a second old.
type Tier struct {
	*shared
	space  remote.Space
	schema string
	names  *namespace
	owner  *observe.Owner // nil unless the Fleet is told of it
}

// shared is the part that all views of a Tier share.
type shared struct {
	servers Fleet
	tells   bool
	least   atomic.Int64 // the least bytes of a value with an item of its own, zero if unknown
	foreign atomic.Uint64
	mu      sync.Mutex // guards byName
	byName  map[string]*namespace
}

var (
	_ remote.Tier   = (*Tier)(nil)
	_ remote.Binder = (*Tier)(nil)
	_ remote.Tagger = (*Tier)(nil)
	_ remote.Fleet  = (*Tier)(nil)
	_ remote.Prober = (*Tier)(nil)
)

// New returns the Tier of a Store, as the view of the cache without a name.
func New(s Store) *Tier { return NewFleet(single{s}) }

// teller is a Fleet that tells a Trace for which cache a command is. Package tracing
// carries the cache in the context of the call.
type teller interface{ TellsOwner() bool }

// NewFleet returns the Tier of several servers, as the view of the cache without a name.
func NewFleet(f Fleet) *Tier {
	t, ok := f.(teller)
	return (&shared{servers: f, tells: ok && t.TellsOwner(), byName: map[string]*namespace{}}).view(remote.Space{})
}

// Bind returns the view of the instance with the space s, a *Tier.
func (t *Tier) Bind(s remote.Space) remote.Tier { return t.view(s) }

func (s *shared) view(space remote.Space) *Tier {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.byName[space.Name]
	if n == nil {
		n = newNamespace(space.Name, s.servers)
		s.byName[space.Name] = n
	}
	t := &Tier{shared: s, space: space, schema: strconv.FormatUint(space.Schema, 16), names: n}
	if s.tells {
		t.owner = observe.OwnerOf(space.Name)
	}
	return t
}

// Recheck implements [remote.Tier].
func (t *Tier) Recheck() { t.names.recheck() }

// Foreign implements [remote.Prober]: the number of unreadable or foreign items read so far.
func (t *Tier) Foreign() uint64 { return t.foreign.Load() }

// Probe implements [remote.Prober]. It asks each server for its time, and warns of one without a
// [Clock].
func (t *Tier) Probe(ctx context.Context) (warnings []string, err error) {
	first, n := t.servers.Servers()
	for server := first; server < first+n; server++ {
		ctx, s, err := t.on(ctx, server)
		if err == nil {
			_, _, err = askTime(ctx, s)
		}
		if err != nil {
			return warnings, t.of(server, err)
		}
		if _, ok := s.(Clock); !ok && len(warnings) == 0 {
			warnings = append(warnings, "the store has no clock: lives, leases and holds rely on the clocks of the instances")
		}
	}
	return warnings, nil
}

// Acquire implements [remote.Tier].
func (t *Tier) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	all := make([]*change, len(r))
	tokens := make([]uint64, len(r))
	for i, request := range r {
		if err := checkName(request.Key); err != nil {
			return nil, err
		}
		tokens[i] = nonce()
		all[i] = &change{key: request.Key, of: i, early: true, op: func(namespace string) entryrules.Operation {
			return entryrules.Acquire{
				Schema: t.schema, Token: tokens[i], Length: up(d), Namespace: namespace, ID: uint64(request.Replace),
			}
		}}
	}
	clock := t.tagClock(ctx)
	acquired := make([]remote.Acquired, len(r))
	for left := all; len(left) > 0; left = t.fill(ctx, left, acquired) {
		t.apply(ctx, left)
		for _, c := range left {
			acquired[c.of] = c.acquired(tokens[c.of], clock)
			leaveOut(&acquired[c.of].Held, &c.answer.Held, r[c.of].Known)
		}
	}
	err := remote.JoinKeys(errorsOf(all))
	if _, some := err.(remote.KeyErrors); err != nil && !some { //nolint:errorlint // joined it is the error of all keys
		return nil, err
	}
	return acquired, nil
}

// acquired returns the result of an Acquire.
func (c *change) acquired(token, clock uint64) remote.Acquired {
	if c.err != nil {
		return remote.Acquired{Err: c.err}
	}
	l := remote.Lease{State: c.state, Clock: clock, Grant: c.answer.Grant, Wait: duration(c.answer.Wait)}
	if l.Grant == remote.Granted {
		l.Token = token
	}
	return remote.Acquired{Held: held(c.answer.Held, c.state, c.late), Lease: l}
}

// errorsOf returns the errors of changes.
func errorsOf[C interface{ failure() error }](all []C) []error {
	errs := make([]error, len(all))
	for i, c := range all {
		errs[i] = c.failure()
	}
	return errs
}

// Put implements [remote.Tier]. A value with a life shorter than a step of the store's [Clock] has
// an error that matches [remote.ErrRefused]. If only some values have an error, it is
// [remote.KeyErrors].
func (t *Tier) Put(ctx context.Context, p []remote.Put) (refused []int, err error) {
	all := make([]*change, len(p))
	for i, put := range p {
		if err := checkName(put.Key); err != nil {
			return nil, err
		}
		data, c := put.Data, &change{key: put.Key, early: true}
		if t.isLarge(ctx, put.Key, data) {
			data = refer(nonce())
			c.large = &large{value: put.Data, refer: data}
		}
		c.op = func(string) entryrules.Operation {
			return entryrules.Put{
				Schema: t.schema, Token: put.Lease.Token, Fresh: put.Fresh.Milliseconds(), Left: put.Left.Milliseconds(),
				Namespace: put.Lease.State, Data: data, Drops: put.Drops, Quiet: put.Lease.Quiet,
			}
		}
		all[i] = c
	}
	t.makeTags(ctx, p)
	t.apply(ctx, all)
	for i, c := range all {
		if c.err == nil && !c.answer.Done {
			refused = append(refused, i)
		}
	}
	return refused, remote.JoinKeys(errorsOf(all))
}

// tooShort returns an error if op stores a value that lives for less than a step of the clock.
func (t *Tier) tooShort(server int, op entryrules.Operation) error {
	var left time.Duration
	switch op := op.(type) {
	case entryrules.Put:
		left = duration(op.Left)
	case entryrules.Extend:
		left = duration(op.Left)
	}
	if left <= 0 || left >= maxStep || left >= t.names.clock(server).steps() {
		return nil
	}
	return fmt.Errorf("%w: %w: the store counts lives in steps of %v, and a value is kept for %v", remote.ErrRefused, entryrules.ErrTooShort, t.names.clock(server).steps(), left)
}

// Drop implements [remote.Tier]. If only some servers answer, the error is
// [remote.KeyErrors], and the others have confirmed.
func (t *Tier) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	var clock uint64
	all := make([]*change, len(d))
	tokens := make([]uint64, len(d))
	for i, drop := range d {
		if err := checkName(drop.Key); err != nil {
			return nil, err
		}
		if drop.Token > 0 {
			tokens[i] = nonce()
		}
		all[i] = &change{key: drop.Key, op: func(string) entryrules.Operation {
			return entryrules.Drop{
				Soft: drop.Soft, Left: drop.Left.Milliseconds(), Hold: up(drop.Hold),
				Token: tokens[i], Life: up(drop.Token),
			}
		}}
		if drop.Token > 0 && clock == 0 {
			clock = t.tagClock(ctx)
		}
	}
	t.apply(ctx, all)
	leases := make([]remote.Lease, len(d))
	for i, c := range all {
		if c.err == nil && tokens[i] != 0 {
			// The key is dropped although the drop may be quiet: giving the token alone is the same
			// work. But the Put announces it.
			quiet := d[i].Quiet && !d[i].Soft && d[i].Hold <= 0
			leases[i] = remote.Lease{Token: tokens[i], State: c.state, Clock: clock, Grant: remote.Granted, Quiet: quiet}
		}
	}
	return leases, remote.JoinKeys(errorsOf(all))
}

// Extend implements [remote.Tier].
func (t *Tier) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (refused bool, err error) {
	done, err := t.one(ctx, key, entryrules.Extend{
		Schema: t.schema, Token: l.Token, ID: uint64(id), Fresh: fresh.Milliseconds(), Left: left.Milliseconds(), Namespace: l.State,
	})
	return err == nil && !done, err
}

// Release implements [remote.Tier].
func (t *Tier) Release(ctx context.Context, key string, l remote.Lease) error {
	_, err := t.one(ctx, key, entryrules.Release{Schema: t.schema, Token: l.Token})
	return err
}

// Renew implements [remote.Tier].
func (t *Tier) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (renewed bool, err error) {
	return t.one(ctx, key, entryrules.Renew{Schema: t.schema, Token: l.Token, Length: up(d)})
}

// one executes one operation on one key, at the earliest time: a hold, or a lease that is renewed or given back, is not
// over before it is over for all instances.
func (t *Tier) one(ctx context.Context, key string, op entryrules.Operation) (done bool, err error) {
	if err := checkName(key); err != nil {
		return false, err
	}
	c := &change{key: key, early: true, op: func(string) entryrules.Operation { return op }}
	t.apply(ctx, []*change{c})
	return c.err == nil && c.answer.Done, c.err
}

// up returns a Duration in ms, rounded up: a hold or a lease is never shorter than its
// caller asked for.
func up(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}

// duration returns a number of ms as a Duration, at most the longest.
func duration(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(max(ms, math.MinInt64/int64(time.Millisecond))) * time.Millisecond
}

// nonce returns a random number other than zero.
func nonce() uint64 {
	for {
		if n := rand.Uint64(); n != 0 {
			return n
		}
	}
}
