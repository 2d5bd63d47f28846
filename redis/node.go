package redis

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/netpool"
	"github.com/strata-cache/strata/internal/netpool/mux"
	"github.com/strata-cache/strata/internal/redistier/words"
	"github.com/strata-cache/strata/internal/resp"
)

// node is one server as a client uses it.
type node struct {
	o    *Options // with its address
	pool *netpool.Pool[*conn]
	// mux shares a connection for what is small and quick; sizes knows what is
	// not small.
	mux *mux.Mux[*conn]
	// past is for what only reads while mux is stuck, strayed whether it was used
	// since.
	past    *mux.Mux[*conn]
	strayed atomic.Bool
	tickets sync.Pool // of *ticket
	sizes   sizes
	// serial is a number of its own in a cluster; home is what a Tier knows of
	// the server there.
	serial uint64
	home   words.Home
	// opened counts connections that were opened to serve calls, before they
	// are used. A failover shows in it: no connection survives one. In a
	// cluster it also counts what else may have changed the server's part.
	opened atomic.Uint64
}

// newNode returns a node with no connection. c lends it what all nodes share.
// greet, if not nil, follows the greeting on every connection.
func newNode(c *Client, o Options, greet func(context.Context, *conn) error) *node {
	n := &node{o: &o}
	n.pool = netpool.New(netpool.Config[*conn]{
		Dial: func(ctx context.Context) (*conn, error) {
			cn, err := connect(ctx, n.o, &c.steps)
			if err == nil && greet != nil {
				if err = greet(ctx, cn); err != nil {
					cn.Close()
				}
			}
			if err != nil {
				return nil, err
			}
			n.opened.Add(1)
			return cn, nil
		},
		Again:       cut,
		DialTimeout: o.DialTimeout,
		Timeout:     o.Timeout,
		MaxConns:    o.MaxConns,
		MaxIdle:     o.MaxIdle,
		IdleTimeout: o.IdleTimeout,
		MaxLifetime: o.MaxLifetime,
		Fail:        func(op string, err error) error { return &ConnError{Op: op, Err: err} },
		Look:        func(cn *conn) error { return cn.Look(true) },
		Closed:      ErrClosed,
	})
	shared := mux.Config{
		Timeout: o.Timeout,
		Fail: func(op string, sent bool, err error) error {
			return &ConnError{Op: op, Sent: sent, Err: cause(err)}
		},
		Lost:        gone,
		DialTimeout: o.DialTimeout,
		Closed:      ErrClosed,
	}
	n.mux, n.past = mux.New(n.pool, shared), mux.New(n.pool, shared)
	return n
}

// doubt makes a Tier ask the server anew what it is.
func (n *node) doubt() { n.opened.Add(1) }

// close closes all connections and waits for what the node has started.
func (n *node) close() {
	n.mux.Close()
	n.past.Close()
	n.pool.Close()
}

// silent is for how long calls have waited of which none has ended.
func (n *node) silent(now time.Time) time.Duration {
	return max(n.mux.Silent(now), n.past.Silent(now), n.pool.Silent(now))
}

// ask sends what put puts into the buffer and returns the whole reply. An
// error of put is about an argument: nothing is sent then.
func (n *node) ask(ctx context.Context, name string, put func(*conn) error) (reply Reply) {
	err := n.run(ctx, name, func(cn *conn) error {
		if reply.err = put(cn); reply.err != nil {
			return nil
		}
		if err := cn.flush(true); err != nil {
			return err
		}
		v, err := cn.read()
		reply = newReply(v)
		return err
	})
	if err != nil {
		return Reply{err: err}
	}
	return reply
}

// appendGet is Client.AppendGet over a connection of its own: the bytes are
// read straight into dst if it has room for them.
func (n *node) appendGet(ctx context.Context, dst []byte, key string) ([]byte, error) {
	out := dst
	var answer error
	err := n.run(ctx, "GET", func(cn *conn) error {
		cn.w = resp.AppendGet(cn.w, key)
		if err := cn.flush(true); err != nil {
			return err
		}
		var found bool
		var v resp.Value
		var err error
		out, found, v, err = cn.appendBulk(dst)
		if !found && err == nil {
			answer = newReply(v).mismatch("string")
		}
		return err
	})
	if err == nil {
		err = answer
	}
	if err != nil {
		return dst, err
	}
	n.sizes.note(key, len(out)-len(dst))
	return out, nil
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

// attempt gives f a connection. If it was found dead before any byte of a
// reply came, and the command either was not sent or only reads, f runs once
// more on another one. An error of f is about the connection. Whoever gets a
// connection must put it back.
func (n *node) attempt(ctx context.Context, now time.Time, name string, f func(*conn) error) (cn *conn, calm bool, err error) {
	for again := false; ; again = true {
		if cn, err = n.pool.Get(ctx, now); err != nil {
			return nil, false, err
		}
		before := cn.r.Received()
		calm, err = n.exchange(ctx, now, cn, f)
		if err == nil || !cn.Reused() || cn.r.Received() != before || !lost(err) {
			return cn, calm, err
		}
		n.pool.Lost(cn)
		if again || !SafeToRetry(err) && !resp.ReadsOnly(name) {
			return cn, calm, err
		}
		n.pool.Retry(cn, now)
	}
}

// renew is called when the server has said that it takes no writes: it was a
// primary, or was taken for one, and connections do not outlive that, and so may
// have been one that has lost its replicas; or that it does not know who asks:
// that is only said anew in a greeting.
func (n *node) renew() {
	if n.pool.Renew(time.Now()) {
		n.mux.Renew()
		n.past.Renew()
	}
}

// unfit reports whether a reply says that the server takes no writes, or does not
// know who asks.
func unfit(v resp.Value) bool {
	if v.Kind() != resp.Error {
		return false
	}
	switch string(codeOf(v)) {
	case "READONLY", "NOREPLICAS", "NOAUTH":
		return true
	}
	return false
}

// codeOf is the first word of an error.
func codeOf(v resp.Value) []byte {
	code, _, _ := bytes.Cut(v.Bytes(), []byte(" "))
	return code
}

// exchange gives f a connection, which is closed if f does not return.
func (n *node) exchange(ctx context.Context, now time.Time, cn *conn, f func(*conn) error) (calm bool, err error) {
	returned := false
	defer func() {
		if !returned {
			n.pool.Put(cn, false, now)
		}
	}()
	calm, err = cn.exchange(ctx, now, n.o.Timeout, f)
	returned = true
	n.look(cn)
	return calm, err
}

// look looks at what the server has said over a connection.
func (n *node) look(cn *conn) {
	if cn.unfit {
		n.renew()
	}
}
