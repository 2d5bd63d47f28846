package servers

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// Line is a dialer that counts its connections and can cut them. The zero Line is ready
// for use; its methods are safe for concurrent use.
type Line struct {
	// Dials counts connections, Writes the calls of Write on them, Sent and
	// Received their bytes.
	Dials, Writes, Sent, Received atomic.Int64

	mu    sync.Mutex // guards below
	cut   bool
	conns map[net.Conn]struct{}
}

var errCut = errors.New("servers: line is cut")

// DialContext opens a connection.
func (l *Line) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	l.Dials.Add(1)
	if l.isCut() {
		return nil, errCut
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	conn := &lineConn{c, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		c.Close()
		return nil, errCut
	}
	if l.conns == nil {
		l.conns = map[net.Conn]struct{}{}
	}
	l.conns[conn] = struct{}{}
	return conn, nil
}

func (l *Line) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// Cut breaks all connections, and refuses new ones until Join.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns {
		c.(*lineConn).Conn.Close()
	}
	clear(l.conns)
}

// Join lets connections be made again.
func (l *Line) Join() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

type lineConn struct {
	net.Conn
	line *Line
}

func (c *lineConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.line.Writes.Add(1)
	c.line.Sent.Add(int64(n))
	return n, err
}

func (c *lineConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.line.Received.Add(int64(n))
	return n, err
}

func (c *lineConn) Close() error {
	c.line.mu.Lock()
	delete(c.line.conns, c)
	c.line.mu.Unlock()
	return c.Conn.Close()
}
