//go:build linux

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/strata-cache/strata/internal/testing/checker"
)

// Origin is the database that Loaders ask and callers write to: it knows the
// version of each key, and the time of each write. Processes reach it by a unix
// socket, one line for a question and one for its answer.
type Origin struct {
	// Path is the path of the socket.
	Path string

	clock Clock
	l     net.Listener
	runs  sync.WaitGroup

	mu       sync.Mutex // guards below
	versions map[string]uint64
	reads    map[string]int
	held     map[string]*Hold
	writes   []checker.Write
	conns    map[net.Conn]struct{} // nil when closed
}

// Hold is a read that gets its answer late.
type Hold struct {
	// Arrived is closed when the read has come. Its answer is fixed then: later
	// writes do not change it.
	Arrived chan struct{}

	once     sync.Once
	released chan struct{}
}

// Release lets the answer go. It may be called more than once.
func (h *Hold) Release() { h.once.Do(func() { close(h.released) }) }

// StartOrigin starts an origin with a socket in dir.
func StartOrigin(dir string, clock Clock) (*Origin, error) {
	o := &Origin{
		Path: filepath.Join(dir, "origin"), clock: clock,
		versions: map[string]uint64{}, reads: map[string]int{}, held: map[string]*Hold{}, conns: map[net.Conn]struct{}{},
	}
	var lc net.ListenConfig
	var err error
	if o.l, err = lc.Listen(context.Background(), "unix", o.Path); err != nil {
		return nil, err
	}
	o.runs.Go(o.accept)
	return o, nil
}

func (o *Origin) accept() {
	for {
		c, err := o.l.Accept()
		if err != nil {
			return
		}
		o.mu.Lock()
		open := o.conns != nil
		if open {
			o.conns[c] = struct{}{}
			o.runs.Go(func() { o.serve(c) })
		}
		o.mu.Unlock()
		if !open {
			c.Close()
		}
	}
}

func (o *Origin) serve(c net.Conn) {
	defer func() {
		c.Close()
		o.mu.Lock()
		delete(o.conns, c)
		o.mu.Unlock()
	}()
	for in := bufio.NewScanner(c); in.Scan(); {
		verb, key, _ := strings.Cut(in.Text(), " ")
		var version uint64
		switch verb {
		case "R":
			var h *Hold
			if version, h = o.read(key); h != nil {
				close(h.Arrived)
				<-h.released
			}
		case "W":
			version = o.Write(key)
		default:
			return
		}
		if _, err := fmt.Fprintln(c, version); err != nil {
			return
		}
	}
}

func (o *Origin) read(key string) (uint64, *Hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads[key]++
	h := o.held[key]
	delete(o.held, key)
	return o.versions[key], h
}

// Write writes the next version of key.
func (o *Origin) Write(key string) (version uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.versions[key]++
	o.writes = append(o.writes, checker.Write{Key: key, Version: o.versions[key], At: o.clock.Now()})
	return o.versions[key]
}

// Hold makes the next read of key wait for its answer until it is released.
// Others are not held up.
func (o *Origin) Hold(key string) *Hold {
	h := &Hold{Arrived: make(chan struct{}), released: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held[key] = h
	return h
}

// Reads is how often key was read.
func (o *Origin) Reads(key string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reads[key]
}

// Writes returns a copy of all writes so far.
func (o *Origin) Writes() []checker.Write {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]checker.Write(nil), o.writes...)
}

// Close ends the origin. Held reads must have been released, as Close waits for them.
func (o *Origin) Close() {
	o.l.Close()
	o.mu.Lock()
	for c := range o.conns {
		c.Close()
	}
	o.conns = nil
	o.mu.Unlock()
	o.runs.Wait()
}

// originClient asks an Origin, over as many connections as there are questions
// at once.
type originClient struct {
	path string

	mu   sync.Mutex // guards below
	idle []*originConn
}

type originConn struct {
	net.Conn
	in *bufio.Reader
}

func (c *originClient) read(ctx context.Context, key string) (uint64, error) {
	return c.ask(ctx, "R", key)
}

// write is not given up: its effect would be unknown.
func (c *originClient) write(key string) (uint64, error) {
	return c.ask(context.Background(), "W", key)
}

func (c *originClient) ask(ctx context.Context, verb, key string) (uint64, error) {
	conn, err := c.take(ctx)
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	version, err := conn.ask(verb, key)
	if !stop() {
		return 0, errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		conn.Close()
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
	return version, nil
}

func (c *originClient) take(ctx context.Context) (*originConn, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		conn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return conn, nil
	}
	c.mu.Unlock()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.path)
	if err != nil {
		return nil, err
	}
	return &originConn{conn, bufio.NewReader(conn)}, nil
}

func (c *originConn) ask(verb, key string) (uint64, error) {
	if _, err := fmt.Fprintln(c, verb, key); err != nil {
		return 0, err
	}
	line, err := c.in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(line), 10, 64)
}
