//go:build linux

package cluster

import (
	"context"
	"net"
	"sync"
	"time"
)

// Way is a direction through a Proxy.
type Way uint8

// The ways: of requests, of replies, and both.
const (
	Requests Way = 1 << iota
	Replies
	BothWays = Requests | Replies
)

// Proxy passes TCP connections on, and fails on request. Its methods are safe
// for concurrent use.
type Proxy struct {
	// Addr is where it listens, on the loopback interface.
	Addr string

	l    net.Listener
	runs sync.WaitGroup

	mu      sync.Mutex // guards below
	target  string
	held    Way
	changed chan struct{} // closed when held changes
	slow    time.Duration
	refuses bool
	conns   map[net.Conn]struct{} // nil when closed
}

// StartProxy starts a proxy for target.
func StartProxy(target string) (*Proxy, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: l.Addr().String(), l: l, target: target, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.runs.Go(p.accept)
	return p, nil
}

// Aim passes new connections on to target.
func (p *Proxy) Aim(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// BlackHole stops all bytes in the given direction, without an error at either end: sent
// bytes wait, and connections can be opened and stay open. A Way of 0 lets all bytes pass.
func (p *Proxy) BlackHole(way Way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = way
	close(p.changed)
	p.changed = make(chan struct{})
}

// Slow delays each piece of bytes, in both directions, by d.
func (p *Proxy) Slow(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = d
}

// Refuse says whether new connections are closed at once.
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = yes
}

// Reset breaks all connections.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reset()
}

func (p *Proxy) reset() {
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // the rest of the bytes is lost, and the other side gets a reset
		}
		c.Close()
	}
}

// Close ends the proxy and all its connections.
func (p *Proxy) Close() {
	p.BlackHole(0)
	p.l.Close()
	p.mu.Lock()
	p.reset()
	p.conns = nil
	p.mu.Unlock()
	p.runs.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.runs.Go(func() { p.pass(c) })
	}
}

// keep remembers c until it is forgotten, and reports whether it may be used.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil || p.refuses {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}

// pass passes a connection on until either side ends it.
func (p *Proxy) pass(client net.Conn) {
	defer p.forget(client)
	if !p.keep(client) {
		return
	}
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	d := net.Dialer{Timeout: 5 * time.Second}
	server, err := d.DialContext(context.Background(), "tcp", target)
	if err != nil {
		return
	}
	defer p.forget(server)
	if !p.keep(server) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer client.Close()
		p.copy(client, server, Replies)
	})
	defer wg.Wait()
	defer server.Close()
	p.copy(server, client, Requests)
}

// copy passes bytes on. An end is passed on like bytes: not through a black
// hole.
func (p *Proxy) copy(to, from net.Conn, way Way) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.wait(way)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait waits until bytes in the given direction may go on.
func (p *Proxy) wait(way Way) {
	p.mu.Lock()
	slow := p.slow
	p.mu.Unlock()
	if slow > 0 {
		time.Sleep(slow)
	}
	for {
		p.mu.Lock()
		held, changed := p.held&way != 0, p.changed
		p.mu.Unlock()
		if !held {
			return
		}
		<-changed
	}
}
