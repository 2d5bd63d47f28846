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

	"github.com/strata-cache/strata/internal/memcached/itemtier"
	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/observe/logthrottle"
	"github.com/strata-cache/strata/remote"
)

// Tier keeps a cache's entries in memcached. It is a [remote.Tier] that any number of
// caches share: each binds its own part by its name. It is also a [remote.Tagger], a
// [remote.Fleet] and a [remote.Prober]. It announces nothing: the cache publishes its drops
// on a bus of another kind, or has a short Memory.TTL.
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
// A Put of a value with tags takes one more. Each instance reads the counts of DropAll,
// which each server has, again when its knowledge is a second old.
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
// values absent, and so does one that was damaged; a lost tag counts as dropped.
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

var _ remote.Prober = (*Tier)(nil)

// NewTier returns a Tier over c, which it does not close.
// A key never moves to another server, whatever Fleet.Dead says: the keys of a server
// that does not answer are errors, and those of the others are not affected. After
// [Client.SetServers] it begins anew: values from before the change are absent.
func NewTier(c *Client) *Tier {
	t := itemtier.New(items{c}, c.o.Trace != nil, itemtier.Large)
	c.watch(func(ctx context.Context) error { return itemtier.Moved(ctx, t) })
	return &Tier{t, items{c}}
}

// Bind returns the view of the instance with the space s.
func (t *Tier) Bind(s remote.Space) remote.Tier {
	return &Tier{t.Tier.Bind(s).(*itemtier.Tier), t.items}
}

// Health is for package strata: the health of the servers, for all caches of the client.
func (t *Tier) Health() *logthrottle.Servers { return t.items.c.health }

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

// items is the itemtier.Store of a client. Its keys can all be sent as they are.
type items struct{ c *Client }

// Servers implements itemtier.Store.
func (s items) Servers() (first, n int) {
	l := s.c.servers.Now()
	return l.First, len(l.All)
}

// Name implements itemtier.Store.
func (s items) Name(server int) string {
	l, at, ok := s.c.servers.Numbered(server)
	if !ok {
		return "that has left"
	}
	return l.All[at].addr
}

// Home implements itemtier.Store.
func (s items) Home(key string) int {
	l := s.c.servers.Now()
	return l.First + l.Home(key)
}

// Beside implements itemtier.Store.
func (s items) Beside(what any, f func(context.Context)) {
	s.c.trials.Run(what, func(func()) { f(s.c.ctx) })
}

// Seconds implements itemtier.Store.
func (s items) Seconds(ctx context.Context, server int) (int64, error) {
	n, err := s.able(ctx, server)
	if err != nil {
		return 0, err
	}
	stats, err := n.stats(ctx, "")
	if err != nil {
		return 0, err
	}
	t, err := strconv.ParseInt(stats["time"], 10, 64)
	if err != nil || t <= 0 {
		return 0, fmt.Errorf("%w: time %q", ErrProtocol, stats["time"])
	}
	return t, nil
}

// errLeft is the error of an operation that has begun on a list of servers which was replaced
// twice since.
var errLeft = errors.New("memcached: the server has left the list")

// able returns a server, ErrClassic if that has no meta commands, and the error of one that
// is left alone. It is the server that is asked for, also if a key has another home: the
// counters of all servers have the same keys.
func (s items) able(ctx context.Context, server int) (itemServer, error) {
	l, at, ok := s.c.servers.Numbered(server)
	if !ok {
		return itemServer{}, errLeft
	}
	n, err := s.c.inService(l, at)
	if err == nil {
		err = n.canHold(ctx)
	}
	return itemServer{n}, err
}

// parallel is how many operations of a call are on their way at once. They go over the
// connection that callers share, so few round trips hold them all.
const parallel = 64

// Do implements itemtier.Store.
func (s items) Do(ctx context.Context, server int, ops []itemtier.Op) ([]itemtier.Result, error) {
	n, err := s.able(ctx, server)
	if err != nil {
		return nil, err
	}
	results := make([]itemtier.Result, len(ops))
	if len(ops) == 1 {
		results[0] = n.one(ctx, &ops[0])
	} else {
		n.each(ctx, ops, results)
	}
	for i := range results {
		if err := results[i].Err; err != nil && !refused(err) {
			return nil, err
		}
	}
	return results, nil
}

// itemServer executes the operations of a Tier on a server.
type itemServer struct{ *node }

// each executes several operations at once. They have different keys, so their order
// does not matter.
func (n itemServer) each(ctx context.Context, ops []itemtier.Op, results []itemtier.Result) {
	looks := n.looks(ctx, ops, results)
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range ops {
		if looks && ops[i].Kind == itemtier.Look {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			results[i] = n.one(ctx, &ops[i])
			<-slots
		})
	}
	wg.Wait()
}

// looks executes all Looks as one call, and reports whether there were enough of them
// for that.
func (n itemServer) looks(ctx context.Context, ops []itemtier.Op, results []itemtier.Result) bool {
	b := &batch{n: n.node}
	for i := range ops {
		if ops[i].Kind == itemtier.Look {
			b.keys, b.at = append(b.keys, ops[i].Key), append(b.at, len(b.keys))
		}
	}
	if len(b.keys) < 2 {
		return false
	}
	found := make(map[string]Item, len(b.keys))
	b.get(ctx, found)
	err := b.failed.orNil()
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
func (n itemServer) one(ctx context.Context, op *itemtier.Op) itemtier.Result {
	switch op.Kind {
	case itemtier.Look, itemtier.Read:
		return n.read(ctx, op.Key)
	case itemtier.Write, itemtier.Set:
		return n.write(ctx, op)
	case itemtier.Touch:
		return n.touch(ctx, op)
	default:
		return n.count(ctx, op)
	}
}

// send carries out a request for a key.
func (n itemServer) send(ctx context.Context, key string, q request) (answer, error) {
	q.Key.Text = key
	return n.do(ctx, q, nil)
}

// opened returns a number that changes with each connection that is opened to the server.
func (n itemServer) opened() uint64 { return n.pool.Stats().Dials }

func (n itemServer) read(ctx context.Context, key string) itemtier.Result {
	opened := n.opened()
	a, err := n.send(ctx, key, request{Op: meta.OpGets})
	if errors.Is(err, ErrMiss) {
		return itemtier.Result{}
	}
	v := itemtier.Version{CAS: a.cas}
	if v.CAS < ownFrom {
		v.Connection = opened
	}
	return itemtier.Result{Done: err == nil, Data: a.value, Version: v, Err: err}
}

// ownFrom is the least CAS number that a Tier gives to an item. No server counts so far.
const ownFrom = 1 << 63

// own returns a random CAS number, which no other item has had.
func own() uint64 { return ownFrom | rand.Uint64() }

func (n itemServer) write(ctx context.Context, op *itemtier.Op) itemtier.Result {
	how := meta.OpCAS
	switch {
	case op.Kind == itemtier.Set:
		how = meta.OpSet
	case op.Version.CAS == 0:
		how = meta.OpAdd
	}
	q, err := n.o.storing(how, &Item{Value: op.Data, TTL: time.Duration(op.Life) * time.Second, CAS: op.Version.CAS})
	if err == nil {
		if c := op.Version.Connection; c != 0 && c != n.opened() {
			return itemtier.Result{}
		}
		if op.Kind == itemtier.Write { // a counter is never compared
			q.Own = own()
		}
		_, err = n.send(ctx, op.Key, q)
	}
	switch {
	case errors.Is(err, ErrNotStored), errors.Is(err, ErrConflict), errors.Is(err, ErrMiss):
		return itemtier.Result{}
	case errors.Is(err, ErrTooLarge):
		err = fmt.Errorf("%w: %w", remote.ErrValueTooLarge, err)
	}
	return itemtier.Result{Done: err == nil, Err: err}
}

// touch gives an item another life.
func (n itemServer) touch(ctx context.Context, op *itemtier.Op) itemtier.Result {
	at, err := expiry(time.Duration(op.Life) * time.Second)
	if err == nil {
		_, err = n.send(ctx, op.Key, request{Op: meta.OpTouch, Expiry: at})
	}
	if errors.Is(err, ErrMiss) {
		return itemtier.Result{}
	}
	return itemtier.Result{Done: err == nil, Err: err}
}

// count adds to a counter. One that is not there, or holds no number, is made; if another
// client does so first, the addition is tried again.
func (n itemServer) count(ctx context.Context, op *itemtier.Op) itemtier.Result {
	for {
		c, err := counted(n.send(ctx, op.Key, request{Op: meta.OpIncr, Delta: op.Delta}))
		damaged := noNumber(err)
		switch {
		case !damaged && !errors.Is(err, ErrMiss):
			return itemtier.Result{Done: err == nil, Count: c, Err: err}
		case op.First == 0:
			return itemtier.Result{}
		}
		made := itemtier.Op{Kind: op.Kind, Key: op.Key, Data: strconv.AppendUint(nil, op.First, 10)}
		if damaged {
			found := n.read(ctx, op.Key)
			if _, err := strconv.ParseUint(string(found.Data), 10, 64); err == nil {
				continue // another client has made it
			}
			if made.Version = found.Version; found.Err != nil {
				return found
			}
		}
		if r := n.write(ctx, &made); r.Done || r.Err != nil {
			return itemtier.Result{Done: r.Done, Count: op.First, Err: r.Err}
		}
	}
}
