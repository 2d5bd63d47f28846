package memcached

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

// Tier keeps a cache's entries in memcached. It is a [remote.Tier] that any number of
// caches share: each binds its own part by its name. It is also a [remote.Tagger], a
// [remote.Fleet] and a [remote.Prober]. It announces nothing: the cache publishes its drops
// on a bus of another kind, or has a short Memory.TTL.
//
// It is a [castier.Tier] over the client: an entry is one item with the values, leases and
// fences of a key, and a change reads the item, decides, and writes it by compare-and-swap.
// DropAll is one round trip; castier.Tier documents the round trips of the other methods.
//
// Values are kept for whole seconds: a Put of a value with a shorter life is refused,
// with an error that matches [remote.ErrRefused]. The server's clock shows whole
// seconds, too; an instance comes to know it better from reading to reading. A life ends
// up to two seconds early, and never late.
//
// # Losses
//
// memcached may evict anything, and has nothing after a restart. A lost item takes
// its rights with it, so a late value is refused; a lost or damaged count of DropAll
// makes values absent; a lost tag counts as dropped.
//
// CAS numbers of a server begin again when it restarts. So a Tier gives each item a
// random number of its own, if the server lets it ([Abilities].OwnCAS, from 1.6.27 on):
// no write meets the number of another item.
//
// A server that gives the numbers itself promises less. There a change is written only
// if the client has opened no connection since it read the item. A stale write can still
// succeed if three things meet: the server restarts between the look at the connections
// and the arrival of the write, the write travels over a connection opened in this
// instant, and its item by chance has the very number.
//
// A server without meta commands, or a proxy, is refused with [ErrClassic].
type Tier struct {
	*castier.Tier
	items items
}

var _ remote.Prober = (*Tier)(nil)

// NewTier returns a Tier over c, which it does not close.
// A key never moves to another server; Fleet.Dead does not apply. Calls for the keys
// of a dead server are errors. Calls for the keys of the others are not affected, unless these have tags, whose items may be
// on the dead one.
// After [Client.SetServers] it begins anew: values from before the change are absent.
func NewTier(c *Client) *Tier {
	t := castier.NewFleet(items{c})
	c.watch(func(ctx context.Context) error { return castier.Moved(ctx, t) })
	return &Tier{t, items{c}}
}

// Bind returns the view of the instance with the space s.
func (t *Tier) Bind(s remote.Space) remote.Tier {
	return &Tier{t.Tier.Bind(s).(*castier.Tier), t.items}
}

// Health returns the state of the servers that all caches of the client share. It is for package strata.
func (t *Tier) Health() any { return t.items.c.health }

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

// canHold returns ErrClassic if a server has no meta commands. Another server may have come to its address: then a
// connection shows it.
func (n *node) canHold(ctx context.Context) error {
	able, err := n.ready(ctx)
	if err == nil && !able.Meta {
		able, err = n.look(ctx)
	}
	if err == nil && !able.Meta {
		err = ErrClassic
	}
	return err
}

// items is the castier.Fleet of a client. Its keys can all be sent as they are.
type items struct{ c *Client }

// TellsOwner says that a Trace is told for which cache a command is.
func (s items) TellsOwner() bool { return s.c.o.Trace != nil }

// Servers implements castier.Fleet.
func (s items) Servers() (first, n int) {
	l := s.c.servers.Now()
	return l.First, len(l.All)
}

// Name implements castier.Fleet.
func (s items) Name(server int) string {
	l, at, ok := s.c.servers.Numbered(server)
	if !ok {
		return "that has left"
	}
	return l.All[at].addr
}

// Home implements castier.Fleet.
func (s items) Home(key string) int {
	l := s.c.servers.Now()
	return l.First + l.Home(key)
}

// Beside implements castier.Fleet.
func (s items) Beside(what any, f func(context.Context)) {
	s.c.trials.Run(what, func(func()) { f(s.c.ctx) })
}

// errLeft is the error of an operation that began on a list of servers replaced twice since.
var errLeft = errors.New("memcached: the server has left the list")

// On implements castier.Fleet. It returns ErrClassic if the server has no meta commands, and the
// error of an ejected server.
func (s items) On(ctx context.Context, server int) (castier.Store, error) {
	l, at, ok := s.c.servers.Numbered(server)
	if !ok {
		return nil, errLeft
	}
	n, err := s.c.inService(l, at)
	if err == nil {
		err = n.canHold(ctx)
	}
	if err != nil {
		return nil, err
	}
	return itemServer{n}, nil
}

// parallel is how many operations of a call are on their way at once. They go over the
// connection that callers share, so all of them take few round trips.
const parallel = 64

// itemServer is the castier.Store of a server. It goes to its own server, also if a key has
// another home: the counters of all servers have the same keys.
type itemServer struct{ *node }

var (
	_ castier.Clock   = itemServer{}
	_ castier.Counter = itemServer{}
	_ castier.Toucher = itemServer{}
)

// each calls f for n operations at once. They have different keys, so their order does not
// matter. A refusal by the server is the error of one of them, any other error is the error
// of all.
func each(n int, f func(i int) error) error {
	if n == 1 {
		return f(0)
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			errs[i] = f(i)
			<-slots
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, remote.ErrRefused) && !errors.Is(err, ErrTooLarge) {
			return err
		}
	}
	return remote.JoinKeys(errs)
}

// Now implements castier.Clock.
func (n itemServer) Now(ctx context.Context) (t time.Time, step time.Duration, err error) {
	stats, err := n.stats(ctx, "")
	if err != nil {
		return t, 0, err
	}
	at, err := strconv.ParseInt(stats["time"], 10, 64)
	if err != nil || at <= 0 {
		return t, 0, fmt.Errorf("%w: time %q", ErrProtocol, stats["time"])
	}
	return time.Unix(at, 0), time.Second, nil
}

// GetMany implements castier.Store: several items are one command, on a connection of its own.
func (n itemServer) GetMany(ctx context.Context, keys []string) ([]castier.Item, error) {
	items := make([]castier.Item, len(keys))
	if len(keys) == 1 {
		var err error
		items[0], err = n.read(ctx, keys[0])
		return items, err
	}
	opened := n.opened()
	b := &batch{n: n.node, keys: keys, at: make([]int, len(keys)), cas: true}
	for i := range keys {
		b.at[i] = i
	}
	found := make(map[string]Item, len(keys))
	b.get(ctx, found)
	for i, key := range keys {
		if is, ok := found[key]; ok {
			if is.CAS == 0 {
				return nil, errNoCAS
			}
			items[i] = castier.Item{Value: is.Value, Version: versionOf(is.CAS, opened)}
		}
	}
	return items, b.failed.orNil()
}

// SwapMany implements castier.Store.
func (n itemServer) SwapMany(ctx context.Context, swaps []castier.Swap) ([]bool, error) {
	swapped := make([]bool, len(swaps))
	if len(swaps) == 1 {
		var err error
		swapped[0], err = n.write(ctx, &swaps[0], own())
		return swapped, err
	}
	err := each(len(swaps), func(i int) (err error) {
		swapped[i], err = n.write(ctx, &swaps[i], own())
		return err
	})
	return swapped, err
}

// AddMany implements castier.Counter.
func (n itemServer) AddMany(ctx context.Context, adds []castier.Add) ([]uint64, error) {
	sums := make([]uint64, len(adds))
	err := each(len(adds), func(i int) (err error) {
		sums[i], err = n.count(ctx, &adds[i])
		return err
	})
	return sums, err
}

// TouchMany implements castier.Toucher.
func (n itemServer) TouchMany(ctx context.Context, touches []castier.Touch) ([]bool, error) {
	touched := make([]bool, len(touches))
	err := each(len(touches), func(i int) error {
		at, err := expiry(touches[i].Life)
		if err == nil {
			_, err = n.send(ctx, touches[i].Key, request{Op: meta.OpTouch, Expiry: at})
		}
		if touched[i] = err == nil; errors.Is(err, ErrMiss) {
			return nil
		}
		return err
	})
	return touched, err
}

// Large implements castier.Toucher.
func (itemServer) Large() int { return 0 }

// send carries out a request for a key.
func (n itemServer) send(ctx context.Context, key string, q request) (answer, error) {
	q.Key.Text = key
	return n.do(ctx, q, nil)
}

// opened returns a number that changes with each new connection to the server, before it is used.
func (n itemServer) opened() uint64 { return n.pool.Begun() }

func (n itemServer) read(ctx context.Context, key string) (castier.Item, error) {
	opened := n.opened()
	a, err := n.send(ctx, key, request{Op: meta.OpGets})
	switch {
	case errors.Is(err, ErrMiss):
		return castier.Item{}, nil
	case err != nil:
		return castier.Item{}, err
	case a.cas == 0:
		return castier.Item{}, errNoCAS
	}
	return castier.Item{Value: a.value, Version: versionOf(a.cas, opened)}, nil
}

// errNoCAS is the error of an item without a CAS number. No change of it could be made.
var errNoCAS = fmt.Errorf("memcached: the server keeps no CAS numbers, as one that was started with -C: %w", remote.ErrRefused)

// ownFrom is the least CAS number that a Tier gives to an item. No server counts so far.
const ownFrom = 1 << 63

// own returns a random CAS number, which no other item has had.
func own() uint64 { return ownFrom | rand.Uint64() }

// versionOf returns the version of an item. The server's own numbers begin again when the
// server restarts. So a version with such a number also has the number of connections opened
// before the item was read.
func versionOf(cas, opened uint64) castier.Version {
	if cas >= ownFrom {
		return castier.Version{Number: cas}
	}
	return castier.Version{Number: cas, Text: strconv.FormatUint(opened, 10)}
}

// write writes an item, and gives it the CAS number own; if own is zero, the server chooses the
// number.
func (n itemServer) write(ctx context.Context, w *castier.Swap, own uint64) (written bool, err error) {
	how := meta.OpCAS
	if w.Version == (castier.Version{}) {
		how = meta.OpAdd
	}
	q, err := n.o.storing(how, &Item{Value: w.Value, TTL: w.Life, CAS: w.Version.Number})
	if err == nil {
		if c := w.Version.Text; c != "" && c != strconv.FormatUint(n.opened(), 10) {
			return false, nil
		}
		q.Own = own
		_, err = n.send(ctx, w.Key, q)
	}
	switch {
	case errors.Is(err, ErrNotStored), errors.Is(err, ErrConflict), errors.Is(err, ErrMiss):
		return false, nil
	case errors.Is(err, ErrTooLarge):
		err = fmt.Errorf("%w: %w", remote.ErrValueTooLarge, err)
	}
	return err == nil, err
}

// count adds to a counter. It makes a counter that does not exist or holds no number. If
// another client makes it first, the addition is tried again.
func (n itemServer) count(ctx context.Context, a *castier.Add) (sum uint64, err error) {
	for seen := (castier.Version{}); ; {
		c, err := counted(n.send(ctx, a.Key, request{Op: meta.OpIncr, Delta: a.Delta}))
		damaged := noNumber(err)
		switch {
		case !damaged && !errors.Is(err, ErrMiss):
			return c, err
		case a.First == 0:
			return 0, nil
		}
		made := castier.Swap{Key: a.Key, Value: strconv.AppendUint(nil, a.First, 10)}
		if damaged {
			found, err := n.read(ctx, a.Key)
			if err != nil {
				return 0, err
			}
			// Another client may have made it meanwhile. But the server takes some numbers for none, such as one with very many
			// zeros before it: the same item is damaged the second time.
			if _, err := strconv.ParseUint(string(found.Value), 10, 64); err == nil && found.Version != seen {
				seen = found.Version
				continue
			}
			made.Version = found.Version
		}
		if ok, err := n.write(ctx, &made, 0); ok || err != nil { // a counter is never compared
			return a.First, err
		}
	}
}
