package itemtier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/entryrules"
	"github.com/strata-cache/strata/remote"
)

// errShort means that a life is shorter than the seconds in which items live.
var errShort = fmt.Errorf("%w: the store counts lives in whole seconds, and a value is kept for less than one", remote.ErrRefused)

// Tier is a [remote.Tier] over a Store. It is a [remote.Binder] and a [remote.Tagger];
// it announces nothing. Each is one view; Bind makes others. Use New to make one.
type Tier struct {
	*shared
	space  remote.Space
	schema string
	names  *namespace
}

// shared is what all views of a Tier share.
type shared struct {
	store   Store
	foreign atomic.Uint64
	mu      sync.Mutex // guards byName
	byName  map[string]*namespace
}

var (
	_ remote.Tier   = (*Tier)(nil)
	_ remote.Binder = (*Tier)(nil)
	_ remote.Tagger = (*Tier)(nil)
)

// New returns the Tier of a store, as the view of the cache without a name.
func New(s Store) *Tier {
	return (&shared{store: s, byName: map[string]*namespace{}}).view(remote.Space{})
}

// Bind returns the view of the instance with the space s.
func (t *Tier) Bind(s remote.Space) remote.Tier { return t.view(s) }

func (s *shared) view(space remote.Space) *Tier {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.byName[space.Name]
	if n == nil {
		n = newNamespace(space.Name, s.store.Servers())
		s.byName[space.Name] = n
	}
	return &Tier{shared: s, space: space, schema: strconv.FormatUint(space.Schema, 16), names: n}
}

// Foreign returns the number of items that were read and are not of this Tier.
func (t *Tier) Foreign() uint64 { return t.foreign.Load() }

// Recheck implements [remote.Tier].
func (t *Tier) Recheck() { t.names.recheck() }

// now returns the present time of a server.
func (t *Tier) now(ctx context.Context, server int) (instant, error) {
	return t.names.clocks[server].now(ctx, func(ctx context.Context) (int64, error) { return t.store.Seconds(ctx, server) })
}

// Get implements [remote.Tier]. If only some servers answer, the keys of the others
// are reported as absent: Acquire then fails for them.
func (t *Tier) Get(ctx context.Context, keys []string) ([]remote.Held, error) {
	all := make([]remote.Held, len(keys))
	byServer := map[int][]int{}
	for i, key := range keys {
		if err := checkName(key); err != nil {
			return nil, err
		}
		item, _ := t.entry(key)
		home := t.store.Home(item)
		byServer[home] = append(byServer[home], i)
	}
	var failed errorList
	each(byServer, func(server int, some []int) {
		if err := t.read(ctx, server, keys, some, all); err != nil {
			failed.add(err)
		}
	})
	if failed.len() == len(byServer) || ctx.Err() != nil {
		return all, failed.join(ctx.Err())
	}
	return all, nil
}

// read reads the entries of some keys from their server.
func (t *Tier) read(ctx context.Context, server int, keys []string, some []int, all []remote.Held) error {
	at, err := t.now(ctx, server)
	if err != nil {
		return err
	}
	r := t.names.ask(server, time.Now())
	ops := r.ops(t.names)
	for _, i := range some {
		item, _ := t.entry(keys[i])
		ops = append(ops, Op{Kind: Look, Key: item})
	}
	results, err := t.store.Do(ctx, server, ops)
	if err != nil {
		return err
	}
	if results, err = r.answer(t.names, results); err != nil {
		return err
	}
	for k, i := range some {
		if results[k].Err != nil {
			return results[k].Err
		}
		if results[k].Done {
			_, name := t.entry(keys[i])
			all[i] = held(t.open(results[k].Data, name).Slot(t.schema).Value, r.state, at.late)
		}
	}
	return nil
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
		all[i] = &change{key: request.Key, early: true, op: func(namespace string) entryrules.Operation {
			return entryrules.Acquire{
				Schema: t.schema, Token: tokens[i], Length: up(d), Namespace: namespace, ID: uint64(request.Replace),
			}
		}}
	}
	clock := t.tagClock(ctx)
	t.apply(ctx, all)
	if err := wholly(ctx, all); err != nil {
		return nil, err
	}
	acquired := make([]remote.Acquired, len(r))
	for i, c := range all {
		acquired[i] = c.acquired(tokens[i], clock)
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

// wholly returns an error if all changes have failed, or if the caller has left.
func wholly(ctx context.Context, all []*change) error {
	var failed errorList
	for _, c := range all {
		if c.err != nil {
			failed.add(c.err)
		}
	}
	if len(all) > 0 && failed.len() == len(all) || ctx.Err() != nil {
		return failed.join(ctx.Err())
	}
	return nil
}

// partly returns an error if any change has failed.
func partly(all []*change) error {
	var failed errorList
	for _, c := range all {
		if c.err != nil {
			failed.add(c.err)
		}
	}
	return failed.join(nil)
}

// Put implements [remote.Tier]. A value that is kept for less than a second is an
// error.
func (t *Tier) Put(ctx context.Context, p []remote.Put) (refused []int, err error) {
	all := make([]*change, len(p))
	for i, put := range p {
		if err := checkPut(put.Key, put.Left); err != nil {
			return nil, err
		}
		all[i] = &change{key: put.Key, early: true, op: func(string) entryrules.Operation {
			return entryrules.Put{
				Schema: t.schema, Token: put.Lease.Token, Fresh: put.Fresh.Milliseconds(), Left: put.Left.Milliseconds(),
				Namespace: put.Lease.State, Data: put.Data, Drops: put.Drops,
			}
		}}
	}
	t.apply(ctx, all)
	for i, c := range all {
		if c.err == nil && !c.answer.Done {
			refused = append(refused, i)
		}
	}
	return refused, partly(all)
}

// checkPut returns the reason why no value can be kept under key for left.
func checkPut(key string, left time.Duration) error {
	if left > 0 && left < time.Second {
		return errShort
	}
	return checkName(key)
}

// Drop implements [remote.Tier].
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
			leases[i] = remote.Lease{Token: tokens[i], State: c.state, Clock: clock, Grant: remote.Granted}
		}
	}
	return leases, partly(all)
}

// Extend implements [remote.Tier].
func (t *Tier) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (refused bool, err error) {
	if err := checkPut(key, left); err != nil {
		return false, err
	}
	done, err := t.one(ctx, key, true, entryrules.Extend{
		Schema: t.schema, Token: l.Token, ID: uint64(id), Fresh: fresh.Milliseconds(), Left: left.Milliseconds(), Namespace: l.State,
	})
	return err == nil && !done, err
}

// Release implements [remote.Tier].
func (t *Tier) Release(ctx context.Context, key string, l remote.Lease) error {
	_, err := t.one(ctx, key, false, entryrules.Release{Schema: t.schema, Token: l.Token})
	return err
}

// Renew implements [remote.Tier].
func (t *Tier) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (renewed bool, err error) {
	return t.one(ctx, key, false, entryrules.Renew{Schema: t.schema, Token: l.Token, Length: up(d)})
}

// one executes one operation on one key.
func (t *Tier) one(ctx context.Context, key string, early bool, op entryrules.Operation) (done bool, err error) {
	if err := checkName(key); err != nil {
		return false, err
	}
	c := &change{key: key, early: early, op: func(string) entryrules.Operation { return op }}
	t.apply(ctx, []*change{c})
	return c.err == nil && c.answer.Done, c.err
}

// DropAll implements [remote.Tier]: it counts a drop on each server.
func (t *Tier) DropAll(ctx context.Context, soft bool) error {
	kind := byte(dropsItem)
	if soft {
		kind = expiriesItem
	}
	servers := map[int]Op{}
	for server := range t.store.Servers() {
		servers[server] = t.names.counter(kind, 1)
	}
	var failed errorList
	each(servers, func(server int, op Op) {
		if _, err := t.do(ctx, server, op); err != nil {
			failed.add(err)
		}
	})
	t.names.recheck()
	return failed.join(nil)
}

// up returns a Duration in ms, rounded up: a hold or a lease is not shorter than it was
// asked for.
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
	return time.Duration(ms) * time.Millisecond
}

// nonce returns a random number that is not zero.
func nonce() uint64 {
	for {
		if n := rand.Uint64(); n != 0 {
			return n
		}
	}
}

// errorList collects errors of several goroutines.
type errorList struct {
	mu   sync.Mutex // guards errs
	errs []error
}

func (l *errorList) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *errorList) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.errs)
}

// join returns all errors as one; more is another, or nil.
func (l *errorList) join(more error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(append(l.errs, more)...)
}
