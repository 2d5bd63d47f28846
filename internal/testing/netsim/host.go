package netsim

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
)

// ErrRefused is returned by [Host.Dial] while the host is down.
var ErrRefused = errors.New("netsim: connection refused")

// Host accepts connections, and serves each on a goroutine of its own. Its exported
// fields are set before the first Dial.
type Host struct {
	// Serve serves one connection, which is closed when it returns.
	Serve func(c *Conn)
	// Window is the window of the connections; see [Pair].
	Window int
	// OnDial, if set, is called with the client's end of the n-th connection,
	// counted from zero, before anything is sent. It can set faults.
	OnDial func(n int, client *Conn)

	serving sync.WaitGroup

	mu    sync.Mutex // guards below
	open  map[*Conn]struct{}
	dials int
	down  bool
}

// Dial opens a connection. It has the form of net.Dialer.DialContext.
func (h *Host) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	client, server := Pair(h.Window)
	n, err := h.accept(server)
	if err != nil {
		return nil, err
	}
	if h.OnDial != nil {
		h.OnDial(n, client)
	}
	return client, nil
}

func (h *Host) accept(c *Conn) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n = h.dials
	h.dials++
	if h.down {
		return n, ErrRefused
	}
	if h.open == nil {
		h.open = map[*Conn]struct{}{}
	}
	h.open[c] = struct{}{}
	h.serving.Go(func() {
		defer h.forget(c)
		h.Serve(c)
	})
	return n, nil
}

func (h *Host) forget(c *Conn) {
	h.mu.Lock()
	delete(h.open, c)
	h.mu.Unlock()
	c.Close()
}

// Dials returns the number of calls of Dial so far, including refused ones.
func (h *Host) Dials() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dials
}

// Open returns the number of open connections.
func (h *Host) Open() int { return len(h.all()) }

func (h *Host) all() []*Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.open))
}

// Stop resets all connections and refuses new ones until Start.
func (h *Host) Stop() {
	h.mu.Lock()
	h.down = true
	h.mu.Unlock()
	h.Drop()
}

// Start accepts connections again.
func (h *Host) Start() {
	h.mu.Lock()
	h.down = false
	h.mu.Unlock()
}

// Drop resets all connections.
func (h *Host) Drop() {
	for _, c := range h.all() {
		c.Reset()
	}
}

// Say sends bytes over all connections.
func (h *Host) Say(raw string) {
	for _, c := range h.all() {
		_, _ = c.Write([]byte(raw))
	}
}

// Close stops the host and waits for its goroutines.
func (h *Host) Close() {
	h.Stop()
	h.serving.Wait()
}
