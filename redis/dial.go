package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/watch"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// connect runs the functions of Options, dials and greets the server, on a
// goroutine of its own. Invariant: connect returns soon after its context has
// ended; every opened connection is returned or closed; a returned connection was
// greeted, and owes no reply.

// connect opens a connection and greets the server.
func connect(ctx context.Context, o *Options, steps *resp.Steps) (*conn, error) {
	return pool.Open(ctx, func(ctx context.Context) (*conn, error) { return open(ctx, o, steps) },
		func(err error) error { return &ConnError{Op: "dial", Err: err} })
}

// open does the work of connect.
func open(ctx context.Context, o *Options, steps *resp.Steps) (*conn, error) {
	g, err := o.greeting(ctx)
	if err != nil {
		return nil, &ConnError{Op: "greet", Err: err}
	}
	nc, failed := pool.Connect(ctx, o.DialContext, o.Network, o.Addr, o.TLS)
	if failed != nil {
		return nil, &ConnError{Op: failed.Op, Err: failed.Err, cut: failed.Cut}
	}
	c := &conn{
		Socket: pool.NewSocket(nc),
		r:      resp.NewReader(nc, resp.Limits{Bulk: o.MaxValue, Reply: o.MaxReply}),
		steps:  steps,
	}
	c.r.Share(steps)
	c.wire = c.Wire()
	// From here on the connection is open, and is closed on every way out but the last.
	greeted := false
	defer func() {
		if !greeted { // also if the greeting panics
			c.Close()
		}
	}()
	calm, err := c.exchange(ctx, time.Now(), o.DialTimeout, func(c *conn) error { return c.greet(ctx, g) })
	if err == nil && !calm {
		err = ctx.Err()
	}
	if err != nil {
		var ce *ConnError
		// A connection that is lost during the greeting may be the work of a proxy, or of a server
		// that restarts. It is told apart from a refusal, since another dial may succeed at once.
		cut := errors.As(err, &ce)
		if cut {
			err = ce.Err
			cut = gone(err) || errors.Is(err, io.ErrUnexpectedEOF)
		}
		return nil, &ConnError{Op: "greet", Err: err, cut: cut}
	}
	greeted = true
	return c, nil
}

// cut reports whether an error of connect says that the connection was lost
// before the server had answered the greeting. The server may well answer the
// next greeting.
func cut(err error) bool {
	var ce *ConnError
	return errors.As(err, &ce) && ce.cut
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
	return watch.Run(v), err
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
