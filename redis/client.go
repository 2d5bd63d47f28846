// Package redis is a client for Redis and servers that speak its protocol.
// [NewTier] and [NewBus] make the tier and the bus of a cache out of a [Client].
//
// A Client is lazy: [New] opens nothing, so that a service starts while its
// server is down. One Client serves all goroutines: small and quick commands go
// over one connection that its callers share, the others over a pool. Every
// call ends when its context ends, also while it waits for a connection, writes,
// or is half-way through a reply; without a deadline Options.Timeout bounds it. A
// connection is closed if a reply was not read to its end, so no call ever sees
// the reply to another.
//
// # One command
//
// [Client.Do] sends any command and returns a [Reply], which is taken apart by
// its methods. [Client.AppendGet] and [Client.Set] are GET and SET without
// allocating anything, [Client.Eval] runs a script.
//
// # Many commands
//
// A [Pipeline] sends any number of commands in one round trip. [Pipeline.Get],
// [Pipeline.Set], [Pipeline.Each] and [Client.MGet] allocate nothing for small
// values. [Client.Multi] is a pipeline that the server executes as a whole, and
// [Client.Watch] one that depends on values read before.
//
// # Large values
//
// [Client.GetTo] and [Client.Stream] read a value piece by piece.
// [Client.SetFrom] and [Body] write a value piece by piece, from a reader of
// known or unknown length. A value is never half stored. Options.MaxValue bounds
// values that are sent, and the lengths that the client accepts in replies.
//
// # Messages
//
// [Client.Subscribe], [Client.PSubscribe] and [Client.SSubscribe] receive
// messages. A [Subscription] replaces its connection for as long as it takes,
// and says with a [Gap] when messages may have been lost.
//
// # Clusters
//
// With [Options.Cluster] the same Client speaks to a Redis Cluster: each command
// goes to the node that serves its key, many at once to many nodes, and follows a
// moving slot. A call that finds a node gone, or a slot without one, is repeated
// within its time as long as it has had no effect or only reads, so that a
// failover costs time and no errors. Keys in several slots that must be in one
// are [ErrCrossSlot]; a slot without a node is [ErrNoNode].
//
// # Sentinel
//
// With [Options.Sentinel] the same Client speaks to the primary that sentinels
// name. It listens to all sentinels of the Options, and follows a failover when
// one of them tells of it: all connections to the old primary are closed at once.
// It uses a server only if the server itself says that it is a primary; else calls
// fail with [ErrNoPrimary]. Reads that were waiting are repeated at the new
// primary; other calls fail if they were sent.
//
// # Errors
//
// An error reply of the server is an [*Error] and costs nothing. A failure of a
// connection is a [*ConnError] and costs the connection. A missing key is
// [ErrNil], a reply of another type than the caller asked for [ErrType], a value
// over the limit [ErrTooLarge], a transaction without any effect [ErrAborted] or
// [ErrChanged]. [SafeToRetry] tells which calls certainly had no effect. No error
// holds credentials or values.
package redis

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/redis/bus"
	"github.com/strata-cache/strata/internal/redis/resp"
)

// The files of this package, from the ground up; none uses a file of a later
// group:
//
//	options, reply, argument, sizes    the values that go in and out
//	term, conn, dial, exec, listen     one connection
//	node, shared, route                one server
//	sentinel, round, primary           the server that sentinels name
//	cluster, follow, scatter           many servers
//	client, held                       the Client, before its calls
//	body, do, mget, stream, pipeline, script, tx, subscribe, tierserver, tier, bus, print
//
// docs/architecture.md follows a GET and a redirection through them.

// Client talks to one server, or to the nodes of a cluster, over pools of
// connections. It is safe for concurrent use. Make it with [New].
type Client struct {
	o       *Options              // printed, a pointer says nothing
	home    *node                 // the server; nil in a cluster
	primary *primary              // the server that sentinels name; nil without them
	cluster *cluster              // nil without one
	health  *observe.ServerHealth // of all Tiers and Buses, for the log
	steps   resp.Steps
	terms   terms // of the server; none in a cluster
	question
	// looked is the time at which a connection was last opened to compare its server with the one before, as since
	// tells it from made. looks are the goroutines that open such connections.
	made   time.Time
	looked atomic.Int64
	looks  sync.WaitGroup

	gone context.Context // ends with Close
	end  context.CancelFunc

	mu     sync.Mutex // guards below
	subs   map[*bus.Subscription]struct{}
	closed bool
}

// question is the question for the run of its server that each new connection
// asks.
type question struct {
	// identifies says that it is asked: a Tier or Bus uses the client.
	identifies atomic.Bool
	// plain says that servers are asked by INFO instead of a script.
	plain atomic.Bool
	// shy is the number of connections in a row that a server has ended upon the
	// question.
	shy atomic.Int32
}

// New returns a client. It opens no connection. The error names every wrong field
// of o.
func New(o Options) (*Client, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.Trace = observe.BoundTrace(o.Trace)
	c := &Client{o: &o, made: time.Now(), health: observe.NewServerHealth(o.server()), subs: map[*bus.Subscription]struct{}{}}
	c.gone, c.end = context.WithCancel(context.Background())
	switch {
	case o.Cluster:
		c.cluster = newCluster(c.o, &c.steps)
	case o.Sentinel.Primary != "":
		c.primary = newPrimary(c.o, &c.steps, &c.terms)
		c.home = newNode(o, c.primary.dial)
		c.home.addr, c.home.terms = c.primary.addr, c.primary
	default:
		c.home = newNode(o.at(o.Addr), c.dial)
		c.home.terms, c.home.look = &c.terms, c.look
	}
	return c, nil
}

// Close closes all connections and subscriptions and waits for the goroutines of
// the client. Running calls fail with ErrClosed, and so do all later ones. It can
// be called more than once; the error is always nil.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	var subs []*bus.Subscription
	for s := range c.subs {
		subs = append(subs, s)
	}
	c.mu.Unlock()
	c.end()
	// Each part may wait a tenth of a second for a dial that hangs, so all are closed at once.
	var all sync.WaitGroup
	for _, s := range subs {
		all.Go(s.Close)
	}
	if c.primary != nil {
		all.Go(c.primary.close)
	}
	if c.cluster != nil {
		c.cluster.fleet.Close()
	} else {
		c.home.close()
	}
	all.Wait()
	c.looks.Wait()
	return nil
}

// Stats are counters of a [Client] since it was made, and the state of its pool
// now; in a cluster, the sums over all nodes. Subscriptions and connections to
// sentinels are not counted.
type Stats struct {
	// Reused calls found an idle connection, Waited calls did not. Expired calls
	// gave up waiting.
	Reused, Waited, Expired uint64
	// Dials counts attempts to open a connection that have ended, DialErrors the failed ones.
	Dials, DialErrors uint64
	// Stale counts idle connections that a call took and found dead, and those
	// closed along with one, or because their server is not the right one any
	// more. Broken counts connections closed because a call failed or was
	// cancelled half-way, or because bytes arrived that no call had asked for.
	Stale, Broken uint64
	// Retried counts calls sent again on another connection.
	Retried uint64
	// Open counts connections, Idle those of them without a call, and Waiting the
	// calls that wait for one.
	Open, Idle, Waiting int
}

// Stats returns the counters and the state of the pool.
func (c *Client) Stats() Stats {
	if c.cluster != nil {
		return Stats(c.cluster.stats())
	}
	return Stats(c.home.pool.Stats())
}

// dial opens a connection to the only server, or for a subscription to a node of a
// cluster.
func (c *Client) dial(ctx context.Context, o *Options) (*conn, error) {
	if c.cluster != nil {
		return connect(ctx, o, &c.steps)
	}
	began := time.Now()
	cn, err := connect(ctx, o, &c.steps)
	if err != nil {
		return nil, err
	}
	t := c.terms.first(o.Addr)
	if c.identifies.Load() {
		t, err = c.meet(ctx, cn, began)
	}
	if err != nil {
		cn.Close()
		return nil, err
	}
	cn.belong(t)
	return cn, nil
}

// meet returns the term of a connection dialled at the given time. If the
// connection leads to another server than the older ones, it closes all of those.
func (c *Client) meet(ctx context.Context, cn *conn, dialled time.Time) (*term, error) {
	c.looked.Store(c.since(dialled))
	run, err := cn.serverRun(ctx, c.o.DialTimeout, &c.plain)
	if err != nil {
		return nil, c.unidentified(err)
	}
	c.shy.Store(0)
	t := c.terms.meet(dialled, run)
	if t == nil {
		return nil, &ConnError{Op: "dial", Err: errDeposed, cut: true}
	}
	return t, nil
}

// lookEvery is the time after which a Tier makes the client open a connection, to see
// whether the address still leads to the same server. It is the time after which a bus
// is silent.
const lookEvery = 3 * time.Second

// since returns the nanoseconds from the begin of the client on, and from an hour before: a wall clock that is set back
// changes nothing, and the first look is not in its first seconds.
func (c *Client) since(t time.Time) int64 { return int64(t.Sub(c.made) + time.Hour) }

// look opens a connection in the background if none was opened for lookEvery. A bus on
// the same client does that by itself.
func (c *Client) look(now time.Time) {
	last, at := c.looked.Load(), c.since(now)
	if at-last < int64(lookEvery) || !c.identifies.Load() || !c.looked.CompareAndSwap(last, at) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || last == 0 { // the first call opens a connection anyway
		return
	}
	c.looks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.o.DialTimeout)
		defer cancel()
		defer context.AfterFunc(c.gone, cancel)()
		if cn, err := c.dial(ctx, c.home.o); err == nil { // else the present connections may be as good as before
			cn.Close()
		}
	})
}

// mostShy is how many connections in a row a server may end upon the question for its run. After
// that it is not asked any more.
const mostShy = 3

// unidentified returns the error of a dial that lost its connection before the server had
// told its run. Some proxies end a connection upon an unknown command. So a server that
// has never told its run is not asked for ever.
func (c *Client) unidentified(err error) error {
	if !faults.Lost(err) {
		return err
	}
	if c.shy.Add(1) >= mostShy && c.terms.untold() {
		c.identifies.Store(false)
	}
	return &ConnError{Op: "greet", Err: err, cut: true}
}

// do is Do for a command without a Body.
func (c *Client) do(ctx context.Context, name string, args []any) Reply {
	if c.cluster != nil {
		return c.cluster.do(ctx, name, args)
	}
	return route{n: c.home}.do(ctx, name, args)
}

// follow makes a call at the node that serves slot, or at any node if slot is
// negative. f is one attempt.
func (c *Client) follow(ctx context.Context, name string, slot int, f func(context.Context, route) error) error {
	if c.cluster != nil {
		return c.cluster.follow(ctx, c.cluster.target(name, slot), f)
	}
	return f(ctx, route{n: c.home})
}
