// Package redis is a client for Redis and servers that speak its protocol, and
// what strata needs from it: [NewTier] and [NewBus] make a tier and a bus out
// of a [Client].
//
// A Client is lazy: [New] opens nothing, so that a service starts while its
// server is down. One Client serves all goroutines: what is small and quick
// goes over one connection that its callers share, the rest over a pool. Every
// call obeys its context while it waits for a connection, writes, and half-way
// through a reply; without a deadline Options.Timeout bounds it. A connection
// whose reply was not read to its end is closed, so no call ever sees another's
// reply.
//
// # One command
//
// [Client.Do] sends any command and returns a [Reply], which is taken apart by
// its methods. [Client.AppendGet] and [Client.Set] are GET and SET without
// allocating anything, [Client.Eval] runs a script.
//
// # Many commands
//
// A [Pipeline] sends any number of commands in one round trip; with
// [Pipeline.Get], [Pipeline.Set] and [Pipeline.Each], and with [Client.MGet],
// nothing is allocated for small values. [Client.Multi] is a pipeline that the
// server executes as a whole, and [Client.Watch] one that depends on what was
// read before.
//
// # Large values
//
// [Client.GetTo] and [Client.Stream] read a value piece by piece,
// [Client.SetFrom] and [Body] write one so, from a reader of known or unknown
// length. A value is never half stored. Options.MaxValue bounds what is sent
// and what is believed of a reply.
//
// # Messages
//
// [Client.Subscribe], [Client.PSubscribe] and [Client.SSubscribe] receive what
// is published. A [Subscription] replaces its connection for as long as it
// takes, and says with a [Gap] when messages may have been lost.
//
// # Clusters
//
// With [Options.Cluster] the same Client speaks to a Redis Cluster: each command
// goes to the node that serves its key, many at once to many nodes, and follows
// a slot that moves. A call that finds a node gone, or a slot without one, is
// tried again within its time as long as it has had no effect or only reads, so
// that a failover costs patience and no errors. What must be in one slot and is
// not is [ErrCrossSlot]; a slot that nobody serves is [ErrNoNode].
//
// # Errors
//
// An error reply of the server is an [*Error] and costs nothing. A failure of a
// connection is a [*ConnError] and costs the connection. A missing key is
// [ErrNil], a reply that is not of the type asked for [ErrType], a value that is
// too large [ErrTooLarge], a transaction of which
// nothing was executed [ErrAborted] or [ErrChanged]. [SafeToRetry] tells which
// calls certainly had no effect. No error holds credentials or values.
package redis

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/internal/slots"
)

// Client talks to one server, or to the nodes of a cluster, over pools of
// connections. It is safe for concurrent use. Make it with [New].
type Client struct {
	o       *Options // printed, a pointer says nothing
	home    *node    // the server; nil in a cluster
	cluster *cluster // nil without one
	steps   resp.Steps

	mu     sync.Mutex // guards below
	subs   map[*Subscription]struct{}
	closed bool
}

// New returns a client. It opens no connection. The error names every field of
// o that is wrong.
func New(o Options) (*Client, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &Client{o: &o, subs: map[*Subscription]struct{}{}}
	if o.Cluster {
		c.cluster = newCluster(c)
	} else {
		c.home = newNode(c, o.at(o.Addr), nil)
	}
	return c, nil
}

// Close closes all connections and subscriptions and waits for what the client
// has started. Calls that are running fail with ErrClosed, and so do all later
// ones. It can be called more than once; the error is always nil.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	var subs []*Subscription
	for s := range c.subs {
		subs = append(subs, s)
	}
	c.mu.Unlock()
	if c.cluster != nil {
		c.cluster.fleet.Close()
	} else {
		c.home.close()
	}
	for _, s := range subs {
		s.Close()
	}
	return nil
}

// Stats are counters of a [Client] since it was made, and the state of its
// pool now; in a cluster, the sums of those of all nodes. Subscriptions are not
// counted.
type Stats struct {
	// Reused calls found an idle connection; Waited calls did not, and Expired
	// ones gave up waiting.
	Reused, Waited, Expired uint64
	// Dials counts attempts to open a connection, DialErrors the failed ones.
	Dials, DialErrors uint64
	// Stale counts connections that were found dead when they were to be used
	// again, or were closed because another one was. Broken counts those
	// closed because a call failed or was cancelled half-way, or because
	// something had come that nobody asked for.
	Stale, Broken uint64
	// Retried counts calls that were sent again on another connection.
	Retried uint64
	// Open connections, those of them that are Idle, and calls Waiting.
	Open, Idle, Waiting int
}

// Stats returns the counters and the state of the pool.
func (c *Client) Stats() Stats {
	if c.cluster != nil {
		return c.cluster.stats()
	}
	return Stats(c.home.pool.Stats())
}

// add adds the counters and the state of a pool.
func (s *Stats) add(t Stats) {
	s.Reused += t.Reused
	s.Waited += t.Waited
	s.Expired += t.Expired
	s.Dials += t.Dials
	s.DialErrors += t.DialErrors
	s.Stale += t.Stale
	s.Broken += t.Broken
	s.Retried += t.Retried
	s.Open += t.Open
	s.Idle += t.Idle
	s.Waiting += t.Waiting
}

// Ping asks the server, or one of the primaries of a cluster, for a sign of
// life.
func (c *Client) Ping(ctx context.Context) error { return c.Do(ctx, "PING").Err() }

// Do sends one command and returns the whole reply, at most Options.MaxReply
// bytes of it. The first argument is the command's name; arguments may be
// string, []byte, integers, floats, bool (1 or 0) and [Body]. They may be
// changed after Do has returned. One larger than Options.MaxValue is
// [ErrTooLarge]; nothing is sent then.
//
// Commands that change the connection for those who use it next, such as
// SELECT, MULTI, SUBSCRIBE or CLIENT SETNAME, are refused.
//
// In a cluster a command goes to the node that serves its first key. MGET, DEL,
// UNLINK, EXISTS, TOUCH and MSET with keys in several slots are split, and their
// replies joined; if a part fails, others may have been carried out. Commands
// without a key, such as SCAN, KEYS, DBSIZE or FLUSHALL, speak to one primary,
// whichever it is.
func (c *Client) Do(ctx context.Context, args ...any) Reply {
	name, err := c.o.checkCommand(args)
	if err != nil {
		return Reply{err: err}
	}
	if hasBody(args) {
		return c.doBodies(ctx, name, args)
	}
	return c.do(ctx, name, args)
}

func (c *Client) do(ctx context.Context, name string, args []any) Reply {
	if c.cluster != nil {
		return c.cluster.do(ctx, name, args)
	}
	return c.home.do(ctx, name, args)
}

// reach makes a call about a key, or about none if slot is negative, where that
// is served. f is one attempt.
func (c *Client) reach(ctx context.Context, name string, slot int, f func(context.Context, hop) error) error {
	if c.cluster != nil {
		return c.cluster.follow(ctx, c.cluster.way(name, slot), f)
	}
	return f(ctx, hop{n: c.home})
}

// AppendGet appends the value of key to dst and returns the longer slice. The
// bytes are read straight into dst if it has room for them, and then nothing
// is allocated. A missing key is ErrNil; on any error dst is returned with its
// old length, but bytes behind it may have been overwritten.
func (c *Client) AppendGet(ctx context.Context, dst []byte, key string) ([]byte, error) {
	if c.cluster == nil {
		return c.home.get(ctx, dst, key)
	}
	out := dst
	err := c.cluster.follow(ctx, c.cluster.way("GET", slots.Of(key)), func(ctx context.Context, h hop) (err error) {
		out, err = h.get(ctx, dst, key)
		return err
	})
	return out, err
}

// commandName returns the name of a command in upper case, if it may be sent
// over a connection that others use.
func commandName(args []any) (string, error) {
	if len(args) == 0 {
		return "", errors.New("redis: command missing")
	}
	name, ok := textArg(args[0])
	if !ok || name == "" {
		return "", errors.New("redis: command is not a string")
	}
	name, sub := strings.ToUpper(name), ""
	if len(args) > 1 && (name == "CLIENT" || name == "SCRIPT") {
		sub, _ = textArg(args[1])
	}
	if resp.ChangesConnection(name, strings.ToUpper(sub)) {
		return "", errors.New("redis: " + name + " changes the connection, which others use next")
	}
	return name, nil
}

func textArg(arg any) (string, bool) {
	switch v := arg.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}
