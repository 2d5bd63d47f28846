package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/netpool"
	"github.com/strata-cache/strata/internal/resp"
)

// errEscaped stands for the error of a function of Options that did not return.
var errEscaped = errors.New("redis: a function of Options has panicked or not returned")

// connect opens a connection and greets the server. What it calls is not ours,
// and no call that would be ended by a panic: that is an error here.
func connect(ctx context.Context, o *Options, steps *resp.Steps) (cn *conn, err error) {
	err = &ConnError{Op: "dial", Err: errEscaped}
	var wg sync.WaitGroup
	wg.Go(func() { // a goroutine of its own can be ended by runtime.Goexit
		defer func() { _ = recover() }()
		cn, err = open(ctx, o, steps)
	})
	wg.Wait()
	return cn, err
}

// open does the work of connect.
func open(ctx context.Context, o *Options, steps *resp.Steps) (*conn, error) {
	g, err := o.greeting(ctx)
	if err != nil {
		return nil, &ConnError{Op: "greet", Err: err}
	}
	nc, err := o.DialContext(ctx, o.Network, o.Addr)
	if err != nil {
		return nil, &ConnError{Op: "dial", Err: err}
	}
	if nc == nil {
		return nil, &ConnError{Op: "dial", Err: errors.New("redis: DialContext returned no connection")}
	}
	raw, greeted := nc, false
	defer func() {
		if !greeted { // also if a callback of TLS panics
			raw.Close()
		}
	}()
	if o.TLS != nil {
		tc := tls.Client(nc, o.TLS)
		if err := tc.HandshakeContext(ctx); err != nil {
			return nil, &ConnError{Op: "greet", Err: err}
		}
		nc = tc
	}
	c := &conn{
		nc:    nc,
		r:     resp.NewReader(nc, resp.Limits{Bulk: o.MaxValue, Reply: o.MaxReply}),
		steps: steps,
	}
	c.r.Share(steps)
	c.interrupt = func() { nc.SetDeadline(time.Unix(1, 0)) }
	c.wire = netpool.Wire{Conn: nc, Try: netpool.NewTrier(nc), Interrupt: c.interrupt}
	calm, err := c.exchange(ctx, time.Now(), o.DialTimeout, func(c *conn) error { return c.greet(g) })
	if err == nil && !calm {
		err = ctx.Err()
	}
	if err != nil {
		var ce *ConnError
		if errors.As(err, &ce) {
			err = ce.Err
		}
		return nil, &ConnError{Op: "greet", Err: err}
	}
	greeted = true
	return c, nil
}

// greet brings the connection into the wanted state.
func (c *conn) greet(g resp.Greeting) error {
	refused, err := g.Do(func(args ...any) (resp.Value, error) {
		if err := c.command(args); err != nil {
			return resp.Value{}, err
		}
		if err := c.flush(true); err != nil {
			return resp.Value{}, err
		}
		return c.read()
	})
	if err == nil && refused != "" {
		err = serverError([]byte(refused))
	}
	return err
}

// greeting returns what a new connection is greeted with.
func (o *Options) greeting(ctx context.Context) (g resp.Greeting, err error) {
	g = resp.Greeting{Username: o.Username, Password: o.Password, Name: o.ClientName, DB: o.DB, Protocol: o.Protocol}
	if o.Credentials == nil {
		return g, nil
	}
	if g.Username, g.Password, err = o.Credentials(ctx); err != nil {
		return g, fmt.Errorf("redis: credentials: %w", err)
	}
	if g.Username != "" && g.Password == "" {
		return g, errors.New("redis: credentials: user without password")
	}
	return g, nil
}
