package pool

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// Bytes that have arrived on a connection which owes no reply would be taken for
// the reply to the next command. A Peeker finds them, in the socket and in TLS.
// Invariant: a look never waits and takes nothing from the socket, so the
// connection can be used as before.

// ErrUnasked is the error for a reply that no call has asked for.
var ErrUnasked = errors.New("pool: reply that no call has asked for")

// ErrForeign is the error for a reply that belongs to another command.
var ErrForeign = errors.New("pool: reply to another command")

// ErrRefused says that the server carries out nothing any more on a connection over which it
// has served before.
var ErrRefused = errors.New("the server has ceased to know the user of a connection")

// aPast is a deadline in the past.
var aPast = time.Unix(1, 0) // read-only

// Peeker looks for bytes that have arrived on a connection and were not read, in
// the socket and in a layer such as TLS above it. Bytes on a connection that owes
// no reply would be taken for the next reply. A Peeker never waits, and takes
// nothing from the socket. It is not safe for concurrent use, but
// [Peeker.Socket] may be called while another goroutine reads.
type Peeker struct {
	own  interface{ Unread() (int, error) }
	raw  syscall.RawConn
	once func(fd uintptr)
	err  error // of once
	// layer lies above the socket, tap between the two.
	layer net.Conn
	tap   *Tap
	one   [1]byte
}

// mostLayers bounds the connections above a socket.
const mostLayers = 8

// NewPeeker returns a Peeker for nc. The method NetConn of nc, which a tls.Conn
// has, gives the connection below. A connection that is not a socket, and has
// neither this method nor a method Unread of its own, cannot be looked at.
func NewPeeker(nc net.Conn) *Peeker {
	p := &Peeker{}
	for range mostLayers {
		upper, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		if p.layer == nil {
			p.layer = nc
		}
		nc = upper.NetConn()
		if tap, ok := nc.(*Tap); ok && p.tap == nil {
			p.tap, nc = tap, tap.Conn
		}
	}
	p.own, _ = nc.(interface{ Unread() (int, error) })
	if sc, ok := nc.(syscall.Conn); ok && p.own == nil {
		p.raw, p.err = sc.SyscallConn()
		p.once = func(fd uintptr) { p.err = peek(fd, p.one[:]) }
	}
	return p
}

// Socket returns [ErrUnasked] if bytes wait at the socket, another error if the
// peer has closed the connection, and nil if neither is known.
func (p *Peeker) Socket() error {
	switch {
	case p.own != nil:
		n, err := p.own.Unread()
		if n > 0 {
			return ErrUnasked
		}
		return err
	case p.raw == nil:
		return p.err
	}
	if err := p.raw.Control(p.once); err != nil {
		return err
	}
	return p.err
}

// Layered reports whether a layer lies above the socket: to read the bytes that
// wait at the socket may then mean to wait for more.
func (p *Peeker) Layered() bool { return p.layer != nil }

// Take calls read, which reads from the connection. It gets the bytes that a layer above the
// socket holds, and an error if there are none: it does not wait. Without a layer read is not
// called. No other goroutine may read meanwhile. The read deadline may be removed.
func (p *Peeker) Take(read func() error) error {
	switch {
	case p.layer == nil:
		return os.ErrDeadlineExceeded
	case p.tap != nil:
		p.tap.shut = true
		defer func() { p.tap.shut = false }()
		return read()
	}
	_ = p.layer.SetReadDeadline(aPast)
	err := read()
	_ = p.layer.SetReadDeadline(time.Time{})
	return err
}

// Held reports whether a layer above the socket holds bytes. No goroutine may
// read meanwhile. moved says that the read deadline was removed.
func (p *Peeker) Held() (bytes, moved bool) {
	if p.layer == nil {
		return false, false
	}
	if p.tap != nil {
		p.tap.shut = true
		n, _ := p.layer.Read(p.one[:])
		p.tap.shut = false
		return n > 0 || p.tap.partial(), false
	}
	_ = p.layer.SetReadDeadline(aPast)
	n, _ := p.layer.Read(p.one[:])
	_ = p.layer.SetReadDeadline(time.Time{})
	return n > 0, true
}

// Tap lies between a socket and the TLS above it. It lets a [Peeker] make TLS
// hand out the bytes that it holds and no more, and knows whether these end in
// the middle of a record.
type Tap struct {
	net.Conn
	shut bool
	// head is the beginning of a record, of which got bytes have come; left is the
	// number of missing bytes after a complete head.
	head      [5]byte
	got, left int
}

// NewTap returns a Tap above nc.
func NewTap(nc net.Conn) *Tap { return &Tap{Conn: nc} }

// Read implements net.Conn.
func (t *Tap) Read(p []byte) (int, error) {
	if t.shut {
		return 0, os.ErrDeadlineExceeded // which TLS outlives
	}
	n, err := t.Conn.Read(p)
	t.follow(p[:max(n, 0)])
	return n, err
}

// follow finds the ends of records. A record begins with its type, its version
// and its length, five bytes in all.
func (t *Tap) follow(p []byte) {
	for len(p) > 0 {
		if t.left > 0 {
			n := min(t.left, len(p))
			t.left -= n
			p = p[n:]
			continue
		}
		n := copy(t.head[t.got:], p)
		p = p[n:]
		if t.got += n; t.got == len(t.head) {
			t.got, t.left = 0, int(t.head[3])<<8|int(t.head[4])
		}
	}
}

// partial reports whether a part of a record has come.
func (t *Tap) partial() bool { return t.got > 0 || t.left > 0 }
