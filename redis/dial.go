package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// connect runs the functions of Options, dials and greets the server, on a
// goroutine of its own. Invariant: connect returns soon after its context has
// ended; every opened connection is returned or closed; a returned connection was
// greeted, and owes no reply.

// connect opens a connection and greets the server.
func connect(ctx context.Context, o *Options, steps *resp.Steps) (*conn, error) {
	return pool.Open(ctx, faults, func(ctx context.Context) (*conn, error) { return open(ctx, o, steps) })
}

// open does the work of connect.
func open(ctx context.Context, o *Options, steps *resp.Steps) (*conn, error) {
	g, err := o.greeting(ctx)
	if err != nil {
		return nil, &ConnError{Op: "greet", Err: err}
	}
	nc, err := pool.Connect(ctx, faults, o.DialContext, o.Network, o.Addr, o.TLS)
	if err != nil {
		return nil, err
	}
	c := &conn{
		Socket: pool.NewSocket(nc),
		r:      resp.NewReader(nc, resp.Limits{Bulk: o.MaxValue, Reply: o.MaxReply}),
		steps:  steps,
	}
	c.r.Share(steps)
	c.wire = c.Wire()
	err = pool.Greet(ctx, faults, c, func(c *conn) (calm bool, err error) {
		return c.exchange(ctx, time.Now(), o.DialTimeout, func(c *conn) error { return c.greet(ctx, g) })
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// greet brings the connection into the wanted state. No bytes may lie behind the
// answer of the server, or the first call would get them.
func (c *conn) greet(ctx context.Context, g resp.Greeting) error {
	refused, err := g.Do(func(args ...any) (resp.Value, error) {
		// Bytes that came without a command would be taken for the reply to this one.
		if err := c.settle(ctx); err != nil {
			return resp.Value{}, err
		}
		if err := c.command(args); err != nil {
			return resp.Value{}, err
		}
		if err := c.flush(true); err != nil {
			return resp.Value{}, err
		}
		return c.read()
	})
	switch {
	case err != nil:
		return err
	case refused != "":
		return serverError([]byte(refused))
	}
	return c.settle(ctx)
}

// greeting returns the greeting for a new connection.
func (o *Options) greeting(ctx context.Context) (g resp.Greeting, err error) {
	g = resp.Greeting{Username: o.Username, Password: o.Password, Name: o.ClientName, DB: o.DB, Protocol: o.Protocol}
	if o.Credentials == nil {
		return g, nil
	}
	if g.Username, g.Password, err = o.Credentials(ctx); err != nil {
		return g, fmt.Errorf("redis: credentials: %w", err)
	}
	return g, nil
}

// runScript is the script that answers with the run id of the server: INFO is long.
const runScript = `return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')`

// serverRun asks the server of a connection for its run id: by a script unless plain is
// set, which it sets if the server permits no scripts. The id is empty if the server does
// not tell it.
func (c *conn) serverRun(ctx context.Context, timeout time.Duration, plain *atomic.Bool) (string, error) {
	var refused *Error
	if !plain.Load() {
		v, err := c.once(ctx, timeout, "EVAL", runScript, 0)
		if err == nil {
			return string(v.Bytes()), nil
		}
		if !errors.As(err, &refused) {
			return "", err
		}
		// The server permits no scripts, or has none. It is not asked by a script again.
		plain.Store(true)
	}
	v, err := c.once(ctx, timeout, "INFO", "server")
	if errors.As(err, &refused) {
		return "", nil
	}
	return layout.Run(v), err
}

// once sends one command over a connection outside of a pool. An error reply is
// an error.
func (c *conn) once(ctx context.Context, timeout time.Duration, args ...any) (v resp.Value, err error) {
	calm, err := c.exchange(ctx, time.Now(), timeout, func(c *conn) (err error) {
		if err = c.Look(true); err != nil {
			return &ConnError{Op: "read", Err: err}
		}
		if err = c.command(args); err == nil {
			err = c.flush(true)
		}
		if err == nil {
			v, err = c.read()
		}
		return err
	})
	// A connection on which the context has ended cannot be trusted, even if the reply has come: an
	// interrupt may still be on its way.
	switch {
	case err != nil:
		return v, err
	case !calm:
		return v, &ConnError{Op: "read", Sent: true, Err: ctx.Err()}
	case v.Kind() == resp.Error:
		return v, serverError(v.Bytes())
	}
	return v, nil
}
