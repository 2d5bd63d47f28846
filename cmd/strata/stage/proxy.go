package stage

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// proxy passes connections on to a server, until it is broken: then it closes all of them,
// and each new one at once.
type proxy struct {
	listener net.Listener
	to       string
	runs     sync.WaitGroup

	mu     sync.Mutex // guards below
	broken bool
	open   map[net.Conn]struct{}
}

// newProxy listens on a port of its own, for connections to an address.
func newProxy(ctx context.Context, to string) (*proxy, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, to: to, open: map[net.Conn]struct{}{}}
	// One goroutine accepts, and each connection has its own.
	p.runs.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		if p.enter(c) {
			p.runs.Go(func() { p.pass(c) })
		}
	}
}

// enter notes that a connection is open, or closes it.
func (p *proxy) enter(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		c.Close()
		return false
	}
	p.open[c] = struct{}{}
	return true
}

func (p *proxy) leave(c net.Conn) {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
	c.Close()
}

// pass copies in both directions until one end is closed.
func (p *proxy) pass(c net.Conn) {
	defer p.leave(c)
	s, err := dial(context.Background(), p.to)
	if err != nil {
		return
	}
	// The proxy may have been broken while this connection was made, too late for set to close it.
	if !p.enter(s) {
		return
	}
	defer p.leave(s)
	var back sync.WaitGroup
	// The end of one direction closes the other end, which ends the copy in the other direction.
	back.Go(func() {
		_, _ = io.Copy(c, s) // an error is the end of the connection
		c.Close()
	})
	_, _ = io.Copy(s, c)
	s.Close()
	back.Wait()
}

// dial connects to a nearby server: its timeout is short.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 2 * time.Second}
	return d.DialContext(ctx, "tcp", addr)
}

// set breaks or mends the proxy.
func (p *proxy) set(broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = broken
	if broken {
		for c := range p.open {
			c.Close()
		}
	}
}

func (p *proxy) isBroken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken
}

// close ends all connections and waits for the goroutines.
func (p *proxy) close() {
	p.listener.Close()
	p.set(true)
	p.runs.Wait()
}
