package redis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/wire"
	"github.com/strata-cache/strata/internal/wire/mux"
	"github.com/strata-cache/strata/internal/wire/pool"
	"github.com/strata-cache/strata/remote"
)

// A node is one server with its pool of connections. run gives a call a
// connection of its own; shared.go has the connection that calls share.
// Invariant: a connection that run takes from the pool goes back, and only a
// clean one is used again.

// node is one server in the use of a client.
type node struct {
	o    *Options      // with its address
	addr func() string // the address of the server; nil: it is in o
	// terms are the terms of the server, or nil if it has none, as in a cluster.
	terms interface {
		number() uint64
		holds(ctx context.Context, number uint64) error
	}
	// look checks now and then whether the address still leads to the same server. It is nil if
	// that does not matter.
	look func(now time.Time)
	pool *pool.Pool[*conn]
	// lines shares a connection for small and quick commands; sizes knows which
	// replies are large.
	lines    *mux.Pair[*conn]
	commands sync.Pool // of *command
	sizes    wire.LargeKeys
	// serial is a number of its own in a cluster; home is a Tier's knowledge of
	// the server there.
	serial uint64
	home   layout.Home
	// opened counts connections opened to serve calls, before their first use. A
	// failover shows in it: no connection survives a failover. In a cluster it also
	// counts other events that may have changed the server's role.
	opened atomic.Uint64
	// left is set before the node is closed because it has left its cluster.
	left atomic.Bool
}

// newNode returns a node with no connection. dial opens one with the options of
// the node.
func newNode(o Options, dial func(context.Context, *Options) (*conn, error)) *node {
	n := &node{o: &o}
	n.home.Serves(time.Now())
	n.lines = mux.NewPair(pool.Config[*conn]{
		Dial: func(ctx context.Context) (*conn, error) {
			cn, err := dial(ctx, n.o)
			if err == nil {
				n.opened.Add(1)
				cn.good = false
			}
			return cn, err
		},
		Limits: o.limits(),
		Errors: faults,
	}, (*conn).refused)
	n.pool = n.lines.Pool
	return n
}

// changed makes a Tier ask the server anew for its identity and role: it may serve other slots.
func (n *node) changed() {
	n.home.Serves(time.Now())
	n.opened.Add(1)
}

// close closes all connections and waits for the goroutines of the node.
func (n *node) close() {
	n.lines.Close()
}

// silent returns for how long calls have waited without the end of any call.
func (n *node) silent(now time.Time) time.Duration {
	return n.lines.Silent(now)
}

// run gives f a connection and takes it back.
func (n *node) run(ctx context.Context, name string, f func(*conn) error) error {
	now := time.Now()
	cn, calm, err := n.attempt(ctx, now, name, f)
	if cn != nil {
		n.pool.Put(cn, calm && err == nil && cn.clean(), now)
	}
	return err
}

// round sends commands and calls onReply for the reply to each. name is a command
// that stands for all of them.
func (n *node) round(ctx context.Context, name string, b *resp.Batch, onReply func(*conn) error) error {
	if n.o.Trace == nil {
		return n.roundAlone(ctx, name, b, onReply)
	}
	return n.traced(ctx, remote.Command{Name: "PIPELINE", Batch: b.Len()}, func() error { return n.roundAlone(ctx, name, b, onReply) })
}

func (n *node) roundAlone(ctx context.Context, name string, b *resp.Batch, onReply func(*conn) error) error {
	return n.run(ctx, name, func(cn *conn) error {
		defer cn.r.Release()
		// A proxy may carry out a part of a batch, so that only the rest is refused.
		cn.repeatable = cn.repeatable && (b.Len() == 1 || resp.ReadsOnly(name))
		return cn.converse(b, func() error { return onReply(cn) })
	})
}

// attempt gives f a connection. If it was found dead before any byte of a
// reply came, and the command either was not sent or only reads, f runs once
// more on another one. An error of f is about the connection. The caller must
// put back the connection that it gets.
//
// If the first reply says that the server does not know the user of the connection any
// more, f has done nothing, and runs once more on a new one.
func (n *node) attempt(ctx context.Context, now time.Time, name string, f func(*conn) error) (cn *conn, calm bool, err error) {
	for again := false; ; again = true {
		once := func(cn *conn) (bool, error) {
			cn.repeatable = !again && cn.good
			calm, err := cn.exchange(ctx, now, n.o.Timeout, f)
			cn.repeatable = false
			n.renewIfUnfit(cn)
			return calm, err
		}
		cn, calm, err = pool.Attempt(ctx, n.pool, now, once, func(err error) bool { return SafeToRetry(err) || resp.ReadsOnly(name) })
		if cn == nil || !errors.Is(err, pool.ErrRefused) {
			return cn, calm, err
		}
		n.pool.Lost(cn)
		n.pool.Retry(cn, now)
	}
}

// renewIfUnfit renews all connections if the server has said over cn that they
// are unfit.
func (n *node) renewIfUnfit(cn *conn) {
	if cn.unfit {
		n.renew()
	}
}

// renew replaces all connections after the server has refused writes, or has said that
// it does not know the user of a connection. In the first case it is no longer a
// primary, or has lost its replicas; a connection to the right server has to be opened
// anew. In the second case only a new greeting helps.
func (n *node) renew() {
	n.lines.Renew(time.Now())
}

// traced runs f, which sends the command c to the server, and tells Options.Trace of it. Calls on
// the fast path look for a Trace before, so that they cost nothing without one.
func (n *node) traced(ctx context.Context, c remote.Command, f func() error) error {
	if n.o.Trace == nil {
		return f()
	}
	c.System, c.Network, c.Addr, c.DB = "redis", n.o.Network, n.o.Addr, n.o.DB
	if n.addr != nil {
		c.Addr = n.addr()
	}
	return observe.RunTraced(ctx, n.o.Trace, c, f, status)
}

// status returns the code of the error reply in err, and whether it is about a missing key.
func status(err error) (code string, missing bool) {
	var refused *Error
	if errors.As(err, &refused) {
		code = refused.Code
	}
	return code, errors.Is(err, ErrNil)
}

// single describes one command.
func single(name string) remote.Command { return remote.Command{Name: name} }
