// Package memcached is a client for memcached and servers that speak its text
// protocol.
//
// A Client is lazy: [New] opens nothing, so that a service starts while its
// server is down. One Client serves all goroutines: small commands go over one
// connection that its callers share, the others over a pool. Every call ends when
// its context ends, also while it waits for a connection, writes, or is half-way
// through a reply; without a deadline Options.Timeout bounds it. A connection is
// closed if a reply was not read to its end, or does not belong to its command, so
// no call ever sees the value of another.
//
//	c, err := memcached.New(memcached.Options{Servers: []string{"localhost:11211"}})
//	...
//	err = c.Set(ctx, memcached.Item{Key: "greeting", Value: []byte("hello"), TTL: time.Minute})
//	...
//	item, err := c.Get(ctx, "greeting")
//	if errors.Is(err, memcached.ErrMiss) {
//
// # One key
//
// [Client.Get] reads an [Item], [Client.AppendGet] its value into memory of the
// caller without allocating anything. [Client.Set], [Client.Add], [Client.Replace]
// and [Client.CompareAndSwap] write one; [Client.Delete], [Client.Touch],
// [Client.Append] and [Client.Prepend] change it. [Client.Increment] and
// [Client.Decrement] count, [Client.IncrementFrom] and [Client.DecrementFrom] also
// count a missing key.
//
// # Many keys
//
// [Client.GetMany] reads, [Client.SetMany] writes and [Client.DeleteMany] removes any
// number of items in one round trip.
//
// # Large values
//
// [Client.GetTo] reads a value piece by piece, and [Client.SetFrom] writes one so. A
// value is never half stored. Servers take up to 1 MiB unless they are told
// otherwise; a larger one is [ErrTooLarge], and costs no connection.
//
// # Keys
//
// A key has 1 to 250 bytes, none of them a space or a control character. Any other
// key is [ErrBadKey]: then nothing is sent, no other key of a batch either.
// [Options.Keys] lets a client carry such keys.
//
// # Lives
//
// A life has whole seconds: the client rounds it up. Lives of more than 30 days, and
// until 2038, are sent as the server wants them.
//
// # Servers
//
// With servers from 1.6.10 on the client uses meta commands, by which each reply is
// known to belong to its command. With older servers, and proxies that do not know
// them, such as twemproxy, it works in classic mode. It finds out by trying;
// [Client.Abilities] tells.
//
// # A fleet
//
// Several servers share the keys, as [Fleet] says: by a [Placement] that other clients
// know, with an error, a miss or another server for the keys of a dead one. The dead
// server does not disturb the others. [Client.SetServers] changes the list.
//
// # As the shared tier of a cache
//
// [NewTier] makes a Tier, which is the L2 of caches of strata. memcached carries no
// messages, so the cache needs a Bus from elsewhere, such as the one of package redis,
// or a short Memory.TTL, after which an instance sees the changes of others. The page
// docs/guide/redis-or-memcached.md compares the choices.
//
// # Errors
//
// A missing key is [ErrMiss], a lost race of CompareAndSwap [ErrConflict], an Add or
// Replace that does not apply [ErrNotStored]. An error reply of the server is a
// [*ServerError], a failure of a connection a [*ConnError]. [SafeToRetry] tells which
// calls certainly had no effect. No error holds credentials or values.
package memcached

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/cache/limit"
	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/memcached/roster"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/wire/overdue"
)

// The files of this package, from the ground up; none uses a file of a later group:
//
//	errors, options            the values that go in and out
//	request                    keys, one command and its reply, in both modes
//	conn                       one connection
//	dial                       its opening
//	node                       one server
//	client                     the Client and its servers, before its calls
//	item, many, stream, admin
//	tier                       the Tier of a cache

// The servers of a client are a list that another one may replace. Invariant: a call looks at
// one list, and a server that stays keeps its node, with the connections and the record of it.

// Client talks to one server, or to a fleet of them that share the keys, over a pool of
// connections to each. It is safe for concurrent use. Make it with [New].
type Client struct {
	o *Options // printed, a pointer says nothing
	*fleet
	dead Dead
}

// list are the servers at one time.
type list = roster.List[*node]

// fleet are the servers of a client, with the ejected ones. Views of a client share it.
type fleet struct {
	servers *roster.Roster[*node]
	steps   meta.Steps
	health  *observe.ServerHealth // of all Tiers, for the log
	trials  *limit.Background     // of ejected servers, and the questions of Tiers beside calls; ctx ends them
	ctx     context.Context
	cancel  context.CancelFunc

	mu    sync.Mutex // guards tiers
	tiers []func(context.Context) error
}

// besides is how many questions Tiers may ask beside calls.
const besides = 64

// newFleet returns the servers of valid options.
func newFleet(o *Options) (*fleet, error) {
	r, err := o.ring()
	if err != nil {
		return nil, err
	}
	f := &fleet{health: observe.NewServerHealth(o.Servers...), trials: limit.NewBackground(len(o.Servers) + besides)}
	f.servers = roster.New(roster.Mode(o.Fleet.Placement), r, o.places(), func(addr string) *node { return newNode(o, addr, &f.steps) })
	f.ctx, f.cancel = context.WithCancel(observe.Upkeep(context.Background()))
	return f, nil
}

// New returns a client. It opens no connection. The error names every wrong field of o.
func New(o Options) (*Client, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.Trace = observe.BoundTrace(o.Trace)
	f, err := newFleet(&o)
	if err != nil {
		return nil, err
	}
	return &Client{o: &o, fleet: f, dead: o.Fleet.Dead}, nil
}

// Close closes all connections and waits for the goroutines of the client. Running
// calls fail with ErrClosed, and so do all later ones. It can be called more than
// once; the error is always nil.
func (c *Client) Close() error {
	c.cancel()
	c.trials.Close()
	c.servers.Close()
	c.trials.Wait()
	return nil
}

// out returns whether a server of a list is left alone. A single server never is.
func out(l *list) func(server int) bool {
	return func(server int) bool { return len(l.All) > 1 && l.All[server].record.Out() }
}

// node returns the server for a key, or the server and an error if the server is left
// alone.
func (c *Client) node(key string) (*node, error) {
	l := c.servers.Now()
	n, err := c.inService(l, l.Home(key))
	if err != nil && c.dead == DeadMoves {
		if other := l.All[l.Ring.PickFrom(key, out(l))]; !other.record.Out() {
			return other, nil
		}
	}
	return n, err
}

// inService returns a server, and an error if it is left alone. If a trial of the server
// is due, inService begins it.
func (c *Client) inService(l *list, server int) (*node, error) {
	n := l.All[server]
	if !out(l)(server) {
		return n, nil
	}
	if n.record.Due(time.Now()) {
		c.trials.Run(n, func(func()) { _ = n.ping(c.ctx) })
	}
	last := n.record.Last()
	if last == nil { // the server came back just now
		return n, nil
	}
	// The error belongs to another call, so its chain says nothing about this one.
	return n, &ConnError{Op: "ejected", Err: errors.New(last.Error())}
}

// Ejected returns the names in Options.Servers of the servers that are ejected now:
// the client leaves them alone, since they do not answer; see [Fleet].
func (c *Client) Ejected() []string {
	var names []string
	l := c.servers.Now()
	for i, n := range l.All {
		if out(l)(i) {
			names = append(names, n.addr)
		}
	}
	return names
}

// SetServers replaces Options.Servers, and Fleet.Weights, while calls run. Each running
// call ends on the server that it began on. A server that stays keeps its connections and
// its state; the connections of a removed one are closed when they are idle. Keys move as
// the [Placement] says. The same list again changes nothing.
//
// A removed server keeps its items from before, and a plain client reads them again when the
// server comes back: see the guide, docs/guide/fleet-of-memcached.md. Tiers over the client
// use no value from before the change. SetServers tells this each server, within ctx. If one
// does not answer, the error is, or has in its chain, a [remote.NotToldError] or the error of
// the server. The new list is used nevertheless, and that server is told before its first
// use. After any other error the list of before is used.
//
// Each instance has its own list. A drop by an instance with another list does not reach the
// values that this instance reads from L2, until both have the same list and SetServers has
// returned on the last; the values that L1 took over meanwhile live for their TTL.
func (c *Client) SetServers(ctx context.Context, servers []string, weights ...int) error {
	o := *c.o
	o.Servers, o.Fleet.Weights = slices.Clone(servers), slices.Clone(weights)
	if len(servers) == 0 {
		return errors.New("memcached: Options.Servers: SetServers needs at least one server")
	}
	if err := o.validate(); err != nil {
		return err
	}
	r, err := o.ring()
	if err != nil {
		return err
	}
	if !c.servers.Replace(r, o.places()) {
		return ErrClosed
	}
	c.health.Rename(c.servers.Now().Names()...)
	c.mu.Lock()
	tiers := slices.Clone(c.tiers)
	c.mu.Unlock()
	var errs []error
	for _, tell := range tiers {
		errs = append(errs, tell(ctx))
	}
	return errors.Join(errs...)
}

// watch makes SetServers call f for a Tier.
func (c *Client) watch(f func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tiers = append(c.tiers, f)
}

// misses reports whether a read of a dead server is a miss. A call whose time is up
// fails nevertheless.
func (c *Client) misses(ctx context.Context) bool {
	return c.dead == DeadMisses && overdue.Err(ctx) == nil
}

// do carries out a request at the server of its key.
func (c *Client) do(ctx context.Context, key string, q request, dst []byte) (answer, error) {
	var err error
	if q.Key, err = c.o.Keys.wire(key); err == nil && q.Op.Stores() {
		err = room(&q.Key, int64(len(q.Value)), c.o.MaxValue)
	}
	if err != nil {
		return answer{}, err
	}
	n, err := c.node(q.Key.Text)
	var a answer
	if err == nil {
		a, err = n.do(ctx, q, dst)
	}
	if err != nil && q.Op.Reads() && c.misses(ctx) && dead(err) {
		return answer{}, ErrMiss
	}
	return a, err
}

// expiry checks a life, and converts it to the form that the server wants.
func expiry(life time.Duration) (int64, error) {
	if life < 0 {
		return 0, fmt.Errorf("memcached: negative life: %v", life)
	}
	return meta.Expiry(life, time.Now()), nil
}

// PoolStats are counters of the pools of a [Client] since it was made, and their state
// now, over all servers, also the removed ones.
type PoolStats struct {
	// Reused calls found an idle connection, Waited calls did not. Expired calls
	// gave up waiting.
	Reused, Waited, Expired uint64
	// Dials counts attempts to open a connection that have ended, DialErrors the failed ones.
	Dials, DialErrors uint64
	// Stale counts idle connections found dead before their next use, and those
	// closed along with one. Broken counts those closed because a call failed or
	// was cancelled half-way, or because of bytes that no call had asked for.
	Stale, Broken uint64
	// Retried counts calls sent again on another connection.
	Retried uint64
	// Open is the number of connections now, Idle the number of unused ones among them, Waiting the
	// number of calls that wait for one.
	Open, Idle, Waiting int
}

// PoolStats returns the counters and the state of the pools.
func (c *Client) PoolStats() PoolStats { return PoolStats(c.servers.Stats()) }

// String describes the client without credentials.
func (c *Client) String() string { return "memcached.Client" + c.LogValue().String() }

// GoString is String.
func (c *Client) GoString() string { return c.String() }

// Format implements [fmt.Formatter] by String.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue implements slog.LogValuer. It leaves credentials out.
func (c *Client) LogValue() slog.Value {
	o := *c.o
	o.Servers = c.servers.Now().Names()
	return o.LogValue()
}
