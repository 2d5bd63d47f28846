// Package netsim is an in-memory network for tests in synctest bubbles: pairs
// of connections with a bounded window, deadlines by timers, and faults.
package netsim

import (
	"cmp"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// ErrReset is the error of both ends after [Conn.Reset], or beyond the limit of
// [Conn.CutAfter].
var ErrReset = errors.New("netsim: connection reset")

// Conn is one end of a pair. It is a net.Conn. Faults are set on the receiving
// end, at any time.
type Conn struct {
	in, out *half
	read    deadline
	write   deadline
}

// Pair returns two connected ends. In each direction at most window bytes (64
// KiB if zero) are written and not yet read; a writer of more bytes waits.
func Pair(window int) (*Conn, *Conn) {
	if window <= 0 {
		window = 64 << 10
	}
	ab, ba := newHalf(window), newHalf(window)
	return &Conn{in: ba, out: ab}, &Conn{in: ab, out: ba}
}

// CutAfter resets the connection once this end has received n bytes since the
// beginning. The end never receives more.
func (c *Conn) CutAfter(n int) { c.in.change(func() { c.in.cut = n }) }

// StallAfter lets this end receive n bytes since the beginning, and then
// neither bytes nor the end of the stream. The peer can write until the window
// is full. A negative n ends the stall.
func (c *Conn) StallAfter(n int) { c.in.change(func() { c.in.stall = n }) }

// Slice lets every Read of this end return at most n bytes. Zero means no such
// limit.
func (c *Conn) Slice(n int) { c.in.change(func() { c.in.slice = n }) }

// Reset makes both ends fail at once.
func (c *Conn) Reset() {
	c.in.fail(ErrReset)
	c.out.fail(ErrReset)
}

// Received returns the number of bytes that this end has read.
func (c *Conn) Received() int {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return c.in.received
}

// Unread returns the number of bytes that have arrived and wait for a Read. If none can
// arrive any more, it returns the reason as an error.
func (c *Conn) Unread() (int, error) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return c.in.arrived(len(c.in.buf))
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p, &c.read)
	if err == ErrReset {
		c.out.fail(ErrReset)
	}
	return n, opError("read", err)
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p, &c.write)
	return n, opError("write", err)
}

// TryWrite writes the bytes that fit into the window, and does not wait for
// more room.
func (c *Conn) TryWrite(p []byte) (int, error) {
	n, _, err := c.out.tryWrite(p, &c.write)
	if n > 0 {
		c.out.change(func() {}) // wakes the reader
	}
	return n, opError("write", err)
}

func opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "sim", Err: err}
}

// Close implements net.Conn. The peer reads the bytes in the window, then the
// end of the stream; its writes fail.
func (c *Conn) Close() error {
	c.in.change(func() { // in one step: a Read of this end gets net.ErrClosed
		c.in.readerClosed, c.in.err = true, cmp.Or(c.in.err, ErrReset)
	})
	c.out.change(func() { c.out.writerClosed = true })
	return c.SetDeadline(time.Time{})
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return &net.UnixAddr{Name: "sim", Net: "sim"} }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.LocalAddr() }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return nil
}

// half is one direction of a pair.
type half struct {
	window int

	mu       sync.Mutex // guards below
	changed  chan struct{}
	buf      []byte
	received int
	cut      int // negative: never
	stall    int // negative: never
	slice    int
	err      error // the error of both ends

	readerClosed, writerClosed bool
}

func newHalf(window int) *half {
	return &half{window: window, changed: make(chan struct{}), cut: -1, stall: -1}
}

// change calls f and wakes the waiting reader and writer.
func (h *half) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *half) fail(err error) {
	h.change(func() {
		if h.err == nil {
			h.err = err
		}
	})
}

func (h *half) read(p []byte, d *deadline) (int, error) {
	for {
		n, wait, err := h.tryRead(p, d)
		if n > 0 {
			h.change(func() {}) // wakes the writer
		}
		if wait == nil {
			return n, err
		}
		select {
		case <-wait:
		case <-d.passed():
		}
	}
}

// tryRead reads the available bytes. If there are none yet, wait is not nil.
func (h *half) tryRead(p []byte, d *deadline) (n int, wait <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.readerClosed:
		return 0, nil, net.ErrClosed
	case d.isPassed():
		return 0, nil, os.ErrDeadlineExceeded
	case len(p) == 0:
		return 0, nil, nil
	}
	if n, err = h.arrived(len(p)); n > 0 {
		copy(p, h.buf[:n])
		h.buf = h.buf[n:]
		h.received += n
		return n, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	return 0, h.changed, nil
}

// arrived returns the number of bytes that one Read can return, at most most.
// If no more bytes can arrive, it returns the reason as an error. mu is held.
func (h *half) arrived(most int) (n int, err error) {
	if h.readerClosed {
		return 0, net.ErrClosed
	}
	n = min(most, len(h.buf))
	if h.slice > 0 {
		n = min(n, h.slice)
	}
	if h.stall >= 0 {
		n = min(n, max(0, h.stall-h.received))
	}
	if h.cut >= 0 {
		n = min(n, max(0, h.cut-h.received))
	}
	switch {
	case n > 0 && h.err == nil:
		return n, nil
	case h.cut >= 0 && h.received >= h.cut:
		return 0, ErrReset
	case h.err != nil:
		return 0, h.err
	case h.writerClosed && len(h.buf) == 0 && h.stall < 0:
		return 0, io.EOF
	}
	return 0, nil
}

func (h *half) write(p []byte, d *deadline) (n int, err error) {
	for {
		m, wait, err := h.tryWrite(p[n:], d)
		n += m
		if m > 0 {
			h.change(func() {}) // wakes the reader
		}
		if err != nil || n == len(p) {
			return n, err
		}
		if wait == nil {
			continue
		}
		select {
		case <-wait:
		case <-d.passed():
		}
	}
}

func (h *half) tryWrite(p []byte, d *deadline) (n int, wait <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.writerClosed:
		return 0, nil, net.ErrClosed
	case d.isPassed():
		return 0, nil, os.ErrDeadlineExceeded
	case h.err != nil:
		return 0, nil, h.err
	case h.cut >= 0 && h.received >= h.cut:
		return 0, nil, ErrReset
	}
	n = min(len(p), h.window-len(h.buf))
	if n == 0 && len(p) > 0 {
		return 0, h.changed, nil
	}
	h.buf = append(h.buf, p[:n]...)
	return n, nil, nil
}

// deadline is a point in time with a channel. The channel is closed at that time.
type deadline struct {
	mu    sync.Mutex // guards below
	timer *time.Timer
	ch    chan struct{}
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	old := d.ch
	d.ch = make(chan struct{})
	switch left := time.Until(t); {
	case t.IsZero():
	case left <= 0:
		close(d.ch)
	default:
		ch := d.ch
		d.timer = time.AfterFunc(left, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.ch == ch {
				close(ch)
			}
		})
	}
	// Wakes the waiters of the old deadline, which then wait for the new one.
	if old != nil {
		select {
		case <-old:
		default:
			close(old)
		}
	}
}

func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ch == nil {
		d.ch = make(chan struct{})
	}
	return d.ch
}

func (d *deadline) isPassed() bool {
	select {
	case <-d.passed():
		return true
	default:
		return false
	}
}
