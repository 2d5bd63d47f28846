package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// Open runs functions of the program, which may panic or not return, on a goroutine
// of its own. Invariant: Open returns soon after its context has ended; every
// opened connection is returned or closed.

// ErrNotReturned stands for the error of a function of the program that did not
// return.
var ErrNotReturned = errors.New("pool: a function has panicked or not returned")

// leaveAfter is the time for which Open waits for a function after its context has
// ended.
const leaveAfter = 100 * time.Millisecond

// opened is the outcome of opening a connection.
type opened[C Conn] struct {
	cn  C
	err error
}

// Open calls open, which may call functions of the program: a panic in them is an
// ErrNotReturned here, because no caller is there to receive it. If open does not
// return when ctx has ended it is left behind, the connection that it opens is
// closed, and the error is ctx.Err(). e completes these errors.
func Open[C Conn](ctx context.Context, e *Errors, open func(context.Context) (C, error)) (C, error) {
	done, left := make(chan opened[C]), make(chan struct{})
	go func() { // a goroutine of its own can be ended by runtime.Goexit
		var none C
		r := opened[C]{err: e.Fail(Failure{Op: "dial", Err: ErrNotReturned})}
		defer func() {
			_ = recover()
			select {
			case done <- r:
			case <-left:
				if r.cn != none {
					r.cn.Close()
				}
			}
		}()
		r.cn, r.err = open(ctx)
	}()
	select {
	case r := <-done:
		return r.cn, r.err
	case <-ctx.Done():
	}
	late := time.NewTimer(leaveAfter)
	defer late.Stop()
	select {
	case r := <-done:
		return r.cn, r.err
	case <-late.C:
		close(left)
		var none C
		return none, e.Fail(Failure{Op: "dial", Err: ctx.Err()})
	}
}

// ErrNoConn says that a dial has returned neither a connection nor an error.
var ErrNoConn = errors.New("DialContext returned no connection")

// Connect opens a connection by dial, and puts TLS on top of it unless config is nil.
func Connect(ctx context.Context, e *Errors, dial func(ctx context.Context, network, addr string) (net.Conn, error), network, addr string, config *tls.Config) (net.Conn, error) {
	nc, err := dial(ctx, network, addr)
	if err == nil && nc == nil {
		err = ErrNoConn
	}
	switch {
	case err != nil:
		return nil, e.Fail(Failure{Op: "dial", Err: err})
	case config == nil:
		return nc, nil
	}
	secured := false
	defer func() {
		if !secured { // also if a callback of TLS panics
			nc.Close()
		}
	}()
	c := tls.Client(NewTap(nc), config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, e.Fail(Failure{Op: "greet", Cut: ctx.Err() == nil && broken(err), Err: err})
	}
	secured = true
	return c, nil
}

// broken reports whether a handshake has failed because the connection was lost.
func broken(err error) bool {
	var op *net.OpError // also made of messages of the peer
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &op) && (op.Op == "read" || op.Op == "write") && !op.Timeout()
}

// ServerName returns config, which may be nil, with the host of addr as the
// expected name in the certificate, unless config has a name.
func ServerName(config *tls.Config, addr string) *tls.Config {
	if config == nil || config.ServerName != "" {
		return config
	}
	if host, _, err := net.SplitHostPort(addr); err == nil {
		config = config.Clone()
		config.ServerName = host
	}
	return config
}
