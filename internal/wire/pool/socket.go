package pool

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/strata-cache/strata/remote"
)

// A Socket is a connection without its protocol: bytes to write, a deadline, and an
// interrupt. It belongs to one call at a time, or to a mux. Invariant: after an
// interrupt every operation fails, unless the call that has the connection then
// sets a later deadline; an interrupted call is never calm.

const (
	// vectorFrom is the size from which bytes are handed to the kernel as they
	// are instead of being copied into the write buffer.
	vectorFrom = 16 << 10
	// keepBuffer is the largest write buffer that a connection keeps.
	keepBuffer = 64 << 10
	// lastMoment is the time for which a write over TLS goes on after its caller
	// has left.
	lastMoment = 10 * time.Millisecond
)

// Socket is a network connection with a write buffer and a deadline.
type Socket struct {
	// Peek looks for received bytes that were not read.
	Peek *Peeker
	// W holds the bytes to write, behind the bytes that Refer has put in front.
	W []byte
	// Interrupt makes every operation fail, now and later.
	Interrupt func()

	nc net.Conn
	// try writes without waiting.
	try *Trier
	// vec, if not empty, holds the bytes before W[mark:], with the slices that
	// were too large to copy.
	vec  net.Buffers
	mark int
	// deadline is the one set on nc.
	deadline time.Time
}

// NewSocket returns the Socket of nc.
func NewSocket(nc net.Conn) Socket {
	return Socket{
		Peek: NewPeeker(nc), Interrupt: func() { _ = nc.SetDeadline(aPast) },
		nc: nc, try: NewTrier(nc),
	}
}

// Wire returns the connection for a conversation.
func (s *Socket) Wire() Wire { return Wire{Conn: s.nc, Try: s.try, Interrupt: s.Interrupt} }

// Close closes the connection. It does not wait for room for a farewell, as the
// Close of TLS does.
func (s *Socket) Close() error {
	if t, ok := s.nc.(*tls.Conn); ok {
		return t.NetConn().Close()
	}
	return s.nc.Close()
}

// Write writes p past the buffer.
func (s *Socket) Write(p []byte) (int, error) { return s.nc.Write(p) }

// Silent reports whether no layer above the socket holds received bytes. No
// goroutine may read meanwhile.
func (s *Socket) Silent() bool {
	bytes, moved := s.Peek.Held()
	if moved {
		s.deadline = time.Time{}
	}
	return !bytes
}

// SetReadDeadline sets the deadline of reads alone.
func (s *Socket) SetReadDeadline(t time.Time) error {
	s.deadline = time.Time{} // for the next call that has the connection alone
	return s.nc.SetReadDeadline(t)
}

// SetWriteDeadline sets the deadline of writes alone. TLS does not outlive an
// interrupted write, so a running write gets a moment to end.
func (s *Socket) SetWriteDeadline(t time.Time) error {
	s.deadline = time.Time{}
	if _, ok := s.nc.(*tls.Conn); ok && !t.IsZero() {
		t = time.Now().Add(lastMoment)
	}
	return s.nc.SetWriteDeadline(t)
}

// Allow lets operations take until the timeout, or up to an eighth more: moving
// the deadline costs more than comparing it.
func (s *Socket) Allow(now time.Time, timeout time.Duration) {
	if left := s.deadline.Sub(now); left < timeout || left > timeout+timeout/8 {
		s.SetDeadline(now.Add(timeout + timeout/8))
	}
}

// SetDeadline sets the deadline of all operations.
func (s *Socket) SetDeadline(t time.Time) {
	s.deadline = t
	// If it fails the connection is closed, and the next operation says so.
	_ = s.nc.SetDeadline(t)
}

// Keep runs look, which looks for bytes of a connection that has the deadline of a call of ctx, and sets
// the deadline anew if look has removed it. It returns the error of look, and the reason why ctx has ended: look may
// have undone the interrupt at that moment.
func (s *Socket) Keep(ctx context.Context, look func() error) error {
	until := s.deadline
	if err := look(); err != nil || s.deadline.Equal(until) {
		return err
	}
	s.SetDeadline(until)
	return ctx.Err()
}

// Exchange runs f, which writes to s and reads from it, under the context and its
// deadline, or the timeout if it has none. calm says that nothing can disturb the
// connection later.
func Exchange[C any](ctx context.Context, s *Socket, now time.Time, timeout time.Duration, c C, f func(C) error) (calm bool, err error) {
	if deadline, bounded := ctx.Deadline(); bounded {
		s.SetDeadline(deadline)
	} else {
		s.Allow(now, timeout)
	}
	var stop func() bool
	// The deadline of the context is set on the connection; a cancelled context
	// needs the interrupt.
	if caller, _ := remote.Split(ctx); caller.Done() != nil {
		stop = context.AfterFunc(caller, s.Interrupt)
	}
	defer func() {
		if stop != nil { // f panics: the context may live for long
			stop()
		}
	}()
	err = f(c)
	// If it is too late to stop the interrupt, it may come at any time.
	calm = stop == nil || stop()
	stop = nil
	return calm, err
}

// Bulk puts b behind the bytes to be written, without copying it if it is large:
// then it must stay as it is until Flush returns.
func (s *Socket) Bulk(b []byte) {
	if len(b) < vectorFrom {
		s.W = append(s.W, b...)
		return
	}
	s.Refer(b)
}

// Refer puts b behind the bytes to be written without copying it. b must stay as it
// is until Flush returns.
func (s *Socket) Refer(b []byte) {
	s.vec = append(s.vec, s.W[s.mark:], b)
	s.mark = len(s.W)
}

// Forget drops the bytes to be written.
func (s *Socket) Forget() { s.W, s.vec, s.mark = s.W[:0], s.vec[:0], 0 }

// Flush writes the buffer. It returns how many bytes were written, and how many
// there were.
func (s *Socket) Flush() (n, total int64, err error) {
	if len(s.vec) == 0 {
		var m int
		m, err = s.nc.Write(s.W)
		n, total = int64(m), int64(len(s.W))
	} else {
		s.vec = append(s.vec, s.W[s.mark:])
		for _, b := range s.vec {
			total += int64(len(b))
		}
		all := s.vec
		n, err = s.vec.WriteTo(s.nc)
		clear(all) // the bytes are the caller's
		s.vec, s.mark = all[:0], 0
	}
	s.W = s.W[:0]
	if cap(s.W) > keepBuffer {
		s.W = nil
	}
	return n, total, err
}
