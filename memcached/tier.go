package memcached

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/itemtier"
	"github.com/strata-cache/strata/remote"
)

// Tier keeps a cache's entries in memcached. It is a [remote.Tier] that any number of
// caches share: each binds its own part by its name. It is also a [remote.Tagger] and
// a [remote.Prober]. It announces nothing: the cache publishes its drops on a bus of
// another kind, or has a short Memory.TTL.
//
// An entry is one item with the values, leases and fences of a key. A change reads the
// item, decides, and writes it by compare-and-swap; so the server decides which of two
// changes was first:
//
//	Get, Tags                    one round trip
//	Acquire, Put, Drop, Extend,  two, and two more for each time that another client
//	Renew, Release               was first
//	DropAll                      one
//
// Each instance reads the counts of DropAll again when its knowledge is a second old.
//
// Values are kept for whole seconds: a Put of one that is kept for less is refused, with
// an error that matches [remote.ErrRefused]. The server's clock shows whole seconds,
// too; an instance comes to know it better from reading to reading. A life ends up to
// two seconds early, and never late.
//
// # Losses
//
// memcached may evict anything, and has nothing after a restart. An item that is lost
// takes its rights with it, so a late value is refused; a lost count of DropAll makes
// values absent; a lost tag counts as dropped, and so does one that was never used, when
// it is first asked for.
//
// CAS numbers of a server begin again when it restarts. So a Tier gives each item a
// random number of its own, if the server lets it ([Abilities].OwnCAS, from 1.6.27 on):
// no write meets the number of another item.
//
// A server that gives the numbers itself promises less. There a change is written only
// if the client has opened no connection since it read the item. A stale write can still
// succeed if the server restarts between that look and the arrival of the write, over a
// connection that is opened in this instant, to an item that by chance has the very
// number.
//
// A server without meta commands, or a proxy, is refused with [ErrClassic].
type Tier struct {
	*itemtier.Tier
	items items
}

var (
	_ remote.Tier   = (*Tier)(nil)
	_ remote.Binder = (*Tier)(nil)
	_ remote.Tagger = (*Tier)(nil)
	_ remote.Prober = (*Tier)(nil)
)

// NewTier returns a Tier over c, which it does not close.
// A key never moves to another server, whatever Fleet.Dead says: the keys of a server
// that does not answer are errors, and those of the others are not affected.
func NewTier(c *Client) *Tier { return newTier(items{c.pinned()}) }

func newTier(s items) *Tier { return &Tier{itemtier.New(s), s} }

// Bind returns the view of the instance with the space s.
func (t *Tier) Bind(s remote.Space) remote.Tier {
	return &Tier{t.Tier.Bind(s).(*itemtier.Tier), t.items}
}

// Probe implements [remote.Prober]. It reports nothing: no setting of memcached weakens
// the promises of a cache. It fails if a server does not answer, and with [ErrClassic] if
// one cannot hold entries.
func (t *Tier) Probe(ctx context.Context) (warnings []string, err error) {
	return nil, t.items.c.everyServer(func(n *node) error {
		if err := n.ping(ctx); err != nil {
			return err
		}
		return n.canHold(ctx)
	})
}

// canHold returns ErrClassic if a server has no meta commands.
func (n *node) canHold(ctx context.Context) error {
	able, err := n.ready(ctx)
	if err == nil && !able.Meta {
		err = ErrClassic
	}
	return err
}

// items is the itemtier.Store of a client, which is pinned.
type items struct{ c *Client }

// Servers implements itemtier.Store.
func (s items) Servers() int { return len(s.c.all) }

// Home implements itemtier.Store.
func (s items) Home(key string) int {
	k, err := s.c.o.Keys.wire(key)
	if err != nil {
		return 0 // each operation on the key fails
	}
	return s.c.home(k.text)
}

// Seconds implements itemtier.Store.
func (s items) Seconds(ctx context.Context, server int) (int64, error) {
	if err := s.able(ctx, server); err != nil {
		return 0, err
	}
	stats, err := s.c.all[server].stats(ctx, "")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(stats["time"], 10, 64)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%w: time %q", ErrProtocol, stats["time"])
	}
	return n, nil
}

// able returns ErrClassic if a server has no meta commands, and the error of one that is
// left alone.
func (s items) able(ctx context.Context, server int) error {
	n, err := s.c.inService(server)
	if err != nil {
		return err
	}
	return n.canHold(ctx)
}

// opened returns a number that changes with each connection that is opened to the server
// of a key.
func (s items) opened(key string) uint64 { return s.c.all[s.Home(key)].pool.Stats().Dials }

// parallel is how many operations of a call are on their way at once. They go over the
// connection that callers share, so few round trips hold them all.
const parallel = 64

// Do implements itemtier.Store.
func (s items) Do(ctx context.Context, server int, ops []itemtier.Op) ([]itemtier.Result, error) {
	if err := s.able(ctx, server); err != nil {
		return nil, err
	}
	results := make([]itemtier.Result, len(ops))
	if len(ops) == 1 {
		results[0] = s.one(ctx, &ops[0])
	} else {
		s.all(ctx, ops, results)
	}
	for i := range results {
		if err := results[i].Err; err != nil && !refused(err) {
			return nil, err
		}
	}
	return results, nil
}

// all executes several operations at once. They have different keys, so their order
// does not matter.
func (s items) all(ctx context.Context, ops []itemtier.Op, results []itemtier.Result) {
	looks := s.looks(ctx, ops, results)
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range ops {
		if looks && ops[i].Kind == itemtier.Look {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			results[i] = s.one(ctx, &ops[i])
			<-slots
		})
	}
	wg.Wait()
}

// looks executes all Looks as one call, and reports whether there were enough of them
// for that.
func (s items) looks(ctx context.Context, ops []itemtier.Op, results []itemtier.Result) bool {
	var keys []string
	for i := range ops {
		if ops[i].Kind == itemtier.Look {
			keys = append(keys, ops[i].Key)
		}
	}
	if len(keys) < 2 {
		return false
	}
	found, err := s.c.GetMany(ctx, keys)
	taken := map[string]bool{}
	for i := range ops {
		if ops[i].Kind != itemtier.Look {
			continue
		}
		item, ok := found[ops[i].Key]
		if taken[ops[i].Key] { // a key may be there twice, but its value has one owner
			item.Value = bytes.Clone(item.Value)
		}
		taken[ops[i].Key] = true
		results[i] = itemtier.Result{Done: ok, Data: item.Value, Err: err}
	}
	return true
}

// refused reports whether an error is the server's answer to one operation.
func refused(err error) bool {
	return errors.Is(err, remote.ErrRefused) || errors.Is(err, ErrTooLarge)
}

// one executes one operation.
func (s items) one(ctx context.Context, op *itemtier.Op) itemtier.Result {
	switch op.Kind {
	case itemtier.Look, itemtier.Read:
		return s.read(ctx, op)
	case itemtier.Write:
		return s.write(ctx, op)
	default:
		return s.count(ctx, op)
	}
}

func (s items) read(ctx context.Context, op *itemtier.Op) itemtier.Result {
	opened := s.opened(op.Key)
	item, err := s.c.Get(ctx, op.Key)
	if errors.Is(err, ErrMiss) {
		return itemtier.Result{}
	}
	v := itemtier.Version{CAS: item.CAS}
	if v.CAS < ownFrom {
		v.Connection = opened
	}
	return itemtier.Result{Done: err == nil, Data: item.Value, Version: v, Err: err}
}

// ownFrom is the least CAS number that a Tier gives to an item. No server counts so far.
const ownFrom = 1 << 63

// own returns a random CAS number, which no other item has had.
func own() uint64 { return ownFrom | rand.Uint64() }

func (s items) write(ctx context.Context, op *itemtier.Op) itemtier.Result {
	how := opCAS
	if op.Version.CAS == 0 {
		how = opAdd
	}
	q, err := s.c.o.storing(how, &Item{Value: op.Data, TTL: time.Duration(op.Life) * time.Second, CAS: op.Version.CAS})
	if err == nil {
		if c := op.Version.Connection; c != 0 && c != s.opened(op.Key) {
			return itemtier.Result{}
		}
		q.own = own()
		_, err = s.c.do(ctx, op.Key, q, nil)
	}
	switch {
	case errors.Is(err, ErrNotStored), errors.Is(err, ErrConflict), errors.Is(err, ErrMiss):
		return itemtier.Result{}
	case errors.Is(err, ErrTooLarge):
		err = fmt.Errorf("%w: %w", remote.ErrValueTooLarge, err)
	}
	return itemtier.Result{Done: err == nil, Err: err}
}

// count adds to a counter. A counter that is not there is made; if another client does
// so first, the addition is tried again.
func (s items) count(ctx context.Context, op *itemtier.Op) itemtier.Result {
	for {
		n, err := s.c.Increment(ctx, op.Key, op.Delta)
		if !errors.Is(err, ErrMiss) {
			return itemtier.Result{Count: n, Err: err}
		}
		err = s.c.Add(ctx, Item{Key: op.Key, Value: strconv.AppendUint(nil, op.First, 10)})
		if !errors.Is(err, ErrNotStored) {
			return itemtier.Result{Count: op.First, Err: err}
		}
	}
}
