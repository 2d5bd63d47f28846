package itemtier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/observe/tracing"
	"github.com/strata-cache/strata/remote"
)

// errShort means that a life is shorter than the seconds in which items live.
var errShort = fmt.Errorf("%w: the store counts lives in whole seconds, and a value is kept for less than one", remote.ErrRefused)

// Tier is a [remote.Tier] over a Store. It is a [remote.Binder], a [remote.Tagger] and a
// [remote.Fleet]; it announces nothing. Each is one view; Bind makes others. Use New to make one.
type Tier struct {
	*shared
	store  Store
	space  remote.Space
	schema string
	names  *namespace
}

// shared is what all views of a Tier share.
type shared struct {
	servers Store
	tells   bool
	large   int // the least bytes of a value that has an item of its own
	foreign atomic.Uint64
	mu      sync.Mutex // guards byName
	byName  map[string]*namespace
}

var (
	_ remote.Tier   = (*Tier)(nil)
	_ remote.Binder = (*Tier)(nil)
	_ remote.Tagger = (*Tier)(nil)
	_ remote.Fleet  = (*Tier)(nil)
)

// New returns the Tier of a store, as the view of the cache without a name. tells says that the
// contexts of operations name their cache, as package traced has it. large is [Large], except
// in tests.
func New(s Store, tells bool, large int) *Tier {
	return (&shared{servers: s, tells: tells, large: large, byName: map[string]*namespace{}}).view(remote.Space{})
}

// Bind returns the view of the instance with the space s.
func (t *Tier) Bind(s remote.Space) remote.Tier { return t.view(s) }

func (s *shared) view(space remote.Space) *Tier {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.byName[space.Name]
	if n == nil {
		n = newNamespace(space.Name, s.servers)
		s.byName[space.Name] = n
	}
	t := &Tier{shared: s, store: s.servers, space: space, schema: strconv.FormatUint(space.Schema, 16), names: n}
	if s.tells {
		t.store = owned{s.servers, tracing.OwnerOf(space.Name)}
	}
	return t
}

// Foreign returns the number of items that were read and are not of this Tier.
func (t *Tier) Foreign() uint64 { return t.foreign.Load() }

// Recheck implements [remote.Tier].
func (t *Tier) Recheck() { t.names.recheck() }

// now returns the present time of a server.
func (t *Tier) now(ctx context.Context, server int) (instant, error) {
	return t.names.clock(server).now(ctx, func(ctx context.Context) (int64, error) { return t.store.Seconds(ctx, server) })
}

// Get implements [remote.Tier]. If only some servers answer, the error is
// [remote.KeyErrors]. Large values take a second round trip, unless they are known.
func (t *Tier) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	all := make([]remote.Held, len(keys))
	errs := make([]error, len(keys))
	byServer := map[int][]int{}
	for i, key := range keys {
		if err := checkName(key); err != nil {
			return nil, err
		}
		item, _ := t.entry(key)
		home := t.store.Home(item)
		byServer[home] = append(byServer[home], i)
	}
	each(byServer, func(server int, some []int) {
		if err := t.of(server, t.read(ctx, server, keys, known, some, all)); err != nil {
			for _, i := range some {
				all[i], errs[i] = remote.Held{}, err
			}
		}
	})
	return all, joined(ctx, errs)
}

// read reads the entries of some keys from their server.
func (t *Tier) read(ctx context.Context, server int, keys []string, known []remote.ID, some []int, all []remote.Held) error {
	var lost map[int]uint64
	for turn := 0; len(some) > 0; turn++ {
		if turn == maxTurns {
			return errContended
		}
		if err := t.states(ctx, server, keys, known, some, all); err != nil {
			return err
		}
		var values []*wanted
		for _, i := range some {
			if _, is := referred(all[i].Data); is {
				values = append(values, &wanted{at: i, key: keys[i], held: &all[i]})
			}
		}
		if len(values) == 0 {
			return nil
		}
		if err := t.fetch(ctx, server, values); err != nil {
			return err
		}
		// An item that is not there may be of a value that was replaced since the state was read.
		some = nil
		for _, w := range values {
			if w.lost != 0 && lost[w.at] != w.lost {
				if lost == nil {
					lost = map[int]uint64{}
				}
				some, lost[w.at] = append(some, w.at), w.lost
			}
		}
	}
	return nil
}

// states reads the states of some keys from their server.
func (t *Tier) states(ctx context.Context, server int, keys []string, known []remote.ID, some []int, all []remote.Held) error {
	at, err := t.now(ctx, server)
	if err != nil {
		return err
	}
	r := t.ask(ctx, server)
	ops := r.ops(t.names)
	for _, i := range some {
		item, _ := t.entry(keys[i])
		ops = append(ops, Op{Kind: Look, Key: item})
	}
	results, err := t.store.Do(ctx, server, ops)
	if err != nil {
		return err
	}
	if results, err = t.answer(ctx, &r, results); err != nil {
		return err
	}
	for k, i := range some {
		if all[i] = (remote.Held{}); results[k].Err != nil {
			return results[k].Err
		}
		if results[k].Done {
			_, name := t.entry(keys[i])
			v := t.open(results[k].Data, name).Slot(t.schema).Value
			if all[i] = held(v, r.state, at.late); len(known) > 0 {
				leaveOut(&all[i], &v, known[i])
			}
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
	if err := joined(ctx, errorsOf(all)); err != nil {
		if _, some := err.(remote.KeyErrors); !some { //nolint:errorlint // joined with the end of the context it is that of all keys
			return nil, err
		}
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

// joined returns the errors of the arguments of a call as one. If the caller has left, it
// is that of all of them.
func joined(ctx context.Context, errs []error) error {
	err := remote.JoinKeys(errs)
	if _, some := err.(remote.KeyErrors); some && ctx.Err() != nil { //nolint:errorlint // joined with the end of the context it is that of all keys
		return errors.Join(err, ctx.Err())
	}
	return err
}

// errorsOf returns the errors of changes.
func errorsOf[C interface{ failure() error }](all []C) []error {
	errs := make([]error, len(all))
	for i, c := range all {
		errs[i] = c.failure()
	}
	return errs
}

// Put implements [remote.Tier]. A value that is kept for less than a second is an
// error. If only some servers answer, the error is [remote.KeyErrors].
func (t *Tier) Put(ctx context.Context, p []remote.Put) (refused []int, err error) {
	all := make([]*change, len(p))
	for i, put := range p {
		if err := checkPut(put.Key, put.Left); err != nil {
			return nil, err
		}
		data, c := put.Data, &change{key: put.Key, early: true}
		if t.isLarge(data) {
			data = refer(nonce())
			c.large = &large{value: put.Data, refer: data}
		}
		c.op = func(string) entryrules.Operation {
			return entryrules.Put{
				Schema: t.schema, Token: put.Lease.Token, Fresh: put.Fresh.Milliseconds(), Left: put.Left.Milliseconds(),
				Namespace: put.Lease.State, Data: data, Drops: put.Drops,
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

// checkPut returns the reason why no value can be kept under key for left.
func checkPut(key string, left time.Duration) error {
	if left > 0 && left < time.Second {
		return errShort
	}
	return checkName(key)
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
			leases[i] = remote.Lease{Token: tokens[i], State: c.state, Clock: clock, Grant: remote.Granted}
		}
	}
	return leases, remote.JoinKeys(errorsOf(all))
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

// DropAll implements [remote.Tier]: it counts a drop on each server. If only some
// servers answer, the error is a [remote.NotToldError].
func (t *Tier) DropAll(ctx context.Context, soft bool) error {
	defer t.names.recheck()
	return onAll(t.store, func(server int) error { return t.dropOn(ctx, server, soft) })
}

// Moved is called after the list of the servers of t has changed. A server of the new list may
// have items that missed the drops of the time in which it was left out, or in which their keys
// had other homes. So no value from before is used: each server counts a drop of everything,
// for each namespace that is in use, now or before it is used next. If only some servers have
// answered, the error is a [remote.NotToldError].
func Moved(ctx context.Context, t *Tier) error {
	if first, _ := t.servers.Servers(); first == 0 {
		return nil
	}
	t.mu.Lock()
	all := slices.DeleteFunc(slices.Collect(maps.Values(t.byName)), (*namespace).unused)
	t.mu.Unlock()
	return onAll(t.servers, func(server int) error {
		for _, n := range all {
			if err := (&Tier{shared: t.shared, store: t.servers, names: n}).know(ctx, server); err != nil {
				return err
			}
		}
		return nil
	})
}

// know asks for the counters of a server, unless they are known.
func (t *Tier) know(ctx context.Context, server int) error {
	r := t.ask(ctx, server)
	if r.done {
		return nil
	}
	results, err := t.store.Do(ctx, server, r.ops(t.names))
	if err == nil {
		_, err = t.answer(ctx, &r, results)
	}
	return t.of(server, err)
}

// onAll calls f for all servers at once. If it fails for some of them, the error is a
// [remote.NotToldError].
func onAll(s Store, f func(server int) error) error {
	servers := map[int]bool{}
	first, n := s.Servers()
	for i := range n {
		servers[first+i] = true
	}
	var mu sync.Mutex // guards untold and errs
	var untold []string
	var errs []error
	each(servers, func(server int, _ bool) {
		if err := f(server); err != nil {
			mu.Lock()
			defer mu.Unlock()
			untold, errs = append(untold, s.Name(server)), append(errs, err)
		}
	})
	switch len(untold) {
	case 0:
		return nil
	case len(servers):
		return errors.Join(errs...)
	}
	slices.Sort(untold)
	return &remote.NotToldError{Servers: untold, Err: errors.Join(errs...)}
}

// dropOn counts a drop on a server.
func (t *Tier) dropOn(ctx context.Context, server int, soft bool) error {
	kind := byte(dropsItem)
	if soft {
		kind = expiriesItem
	}
	results, err := t.store.Do(ctx, server, append(t.tellEarlier(server, kind), t.names.counter(t.names.fleet(), kind, 1)))
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return t.of(server, err)
}

// Servers implements [remote.Fleet].
func (t *Tier) Servers() []string {
	first, n := t.store.Servers()
	all := make([]string, n)
	for i := range all {
		all[i] = t.store.Name(first + i)
	}
	return all
}

// ServerOf implements [remote.Fleet].
func (t *Tier) ServerOf(key string) string {
	item, _ := t.entry(key)
	return t.store.Name(t.store.Home(item))
}

// DropAllOf implements [remote.Fleet]. A server that has left the list has nothing to drop: if
// it comes back, no value from before is used.
func (t *Tier) DropAllOf(ctx context.Context, server string, soft bool) error {
	first, n := t.store.Servers()
	for at := first; at < first+n; at++ {
		if t.store.Name(at) == server {
			defer t.names.recheck()
			return t.dropOn(ctx, at, soft)
		}
	}
	if first == 0 {
		return fmt.Errorf("itemtier: there is no server %q", server)
	}
	return nil
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
