package page

import (
	"context"
	"net"

	"github.com/strata-cache/strata/internal/testing/netsim"
)

// simulated is a listener of simulated connections, so that a server and its
// deadlines have the time of a bubble: on a busy machine no deadline is missed.
type simulated struct {
	accepted chan net.Conn
	closed   context.Context
	end      context.CancelFunc
}

func newSimulated() *simulated {
	l := &simulated{accepted: make(chan net.Conn)}
	l.closed, l.end = context.WithCancel(context.Background())
	return l
}

// Accept implements net.Listener.
func (l *simulated) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *simulated) Close() error {
	l.end()
	return nil
}

// Addr implements net.Listener.
func (l *simulated) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// dial has the form of net.Dialer.DialContext.
func (l *simulated) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := netsim.Pair(0)
	select {
	case l.accepted <- loopback{server, l.Addr()}:
		return client, nil
	case <-ctx.Done():
	case <-l.closed.Done():
	}
	return nil, net.ErrClosed
}

// loopback is a connection that comes from this machine.
type loopback struct {
	net.Conn
	addr net.Addr
}

// RemoteAddr implements net.Conn.
func (c loopback) RemoteAddr() net.Addr { return c.addr }
