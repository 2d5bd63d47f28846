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
// # One key
//
// [Client.Get] reads an [Item], [Client.AppendGet] its value into memory of the
// caller without allocating anything. [Client.Set], [Client.Add], [Client.Replace]
// and [Client.CompareAndSwap] write one; [Client.Delete], [Client.Touch],
// [Client.Increment] and [Client.Decrement] change it.
//
// # Many keys
//
// [Client.GetMany] reads, and [Client.SetMany] writes, any number of items in one
// round trip.
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
// is [ErrBadKey], and nothing is sent, also of a batch. [Options.Keys] lets other
// keys be carried.
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
// # As the shared tier of a cache
//
// [NewTier] makes a Tier, which is the L2 of caches of strata.
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
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/strata-cache/strata/internal/mcmeta"
	"github.com/strata-cache/strata/internal/netpool"
)

// The files of this package, from the ground up; none uses a file of a later group:
//
//	errors, options            the values that go in and out
//	request                    keys, one command and its reply, in both modes
//	conn                       one connection
//	dial                       its opening
//	node                       one server
//	client                     the Client, before its calls
//	item, many, stream, admin
//	tier                       the Tier of a cache

// Client talks to one server over a pool of connections. It is safe for concurrent
// use. Make it with [New].
type Client struct {
	o     *Options // printed, a pointer says nothing
	home  *node
	steps mcmeta.Steps
}

// New returns a client. It opens no connection. The error names every field of
// o that is wrong.
func New(o Options) (*Client, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if addr := o.Servers[0]; network(addr) == "tcp" {
		o.TLS = netpool.ServerName(o.TLS, addr)
	}
	c := &Client{o: &o}
	c.home = newNode(c.o, o.Servers[0], &c.steps)
	return c, nil
}

// Close closes all connections and waits for the goroutines of the client. Calls
// that are running fail with ErrClosed, and so do all later ones. It can be called
// more than once; the error is always nil.
func (c *Client) Close() error {
	for n := range c.nodes() {
		n.close()
	}
	return nil
}

// node returns the server of a key.
func (c *Client) node(string) *node { return c.home }

// nodes yields all servers.
func (c *Client) nodes() func(yield func(*node) bool) {
	return func(yield func(*node) bool) { yield(c.home) }
}

// do carries out a request at the server of its key.
func (c *Client) do(ctx context.Context, key string, q request, dst []byte) (answer, error) {
	var err error
	if q.key, err = c.o.Keys.wire(key); err != nil {
		return answer{}, err
	}
	return c.node(q.key.text).do(ctx, q, dst)
}

// expiry checks a life, and converts it to what the server wants.
func expiry(life time.Duration) (int64, error) {
	if life < 0 {
		return 0, fmt.Errorf("memcached: negative life: %v", life)
	}
	return expiryOf(life, time.Now()), nil
}

// PoolStats are counters of the pool of a [Client] since it was made, and its state
// now.
type PoolStats struct {
	// Reused calls found an idle connection, Waited calls did not. Expired calls
	// gave up waiting.
	Reused, Waited, Expired uint64
	// Dials counts attempts to open a connection, DialErrors the failed ones.
	Dials, DialErrors uint64
	// Stale counts connections that were found dead when they were to be used
	// again, or were closed because another one was. Broken counts those closed
	// because a call failed or was cancelled half-way, or because of bytes that
	// no call had asked for.
	Stale, Broken uint64
	// Retried counts calls that were sent again on another connection.
	Retried uint64
	// Open connections, those of them that are Idle, and calls Waiting.
	Open, Idle, Waiting int
}

// PoolStats returns the counters and the state of the pool.
func (c *Client) PoolStats() PoolStats {
	var all netpool.Stats
	for n := range c.nodes() {
		all.Add(n.pool.Stats())
	}
	return PoolStats(all)
}

// String describes the client without credentials.
func (c *Client) String() string { return "memcached.Client" + c.o.LogValue().String() }

// GoString is String.
func (c *Client) GoString() string { return c.String() }

// Format implements [fmt.Formatter] by String.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue implements slog.LogValuer. It leaves credentials out.
func (c *Client) LogValue() slog.Value { return c.o.LogValue() }
