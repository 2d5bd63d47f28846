package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/strata-cache/strata/internal/netpool"
	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/remote"
)

// A connection takes commands into its buffer, flushes them and reads replies. It
// belongs to one call at a time, or to a mux, which shares it. It may be entered
// (the server may watch keys, or be in a transaction) or unfit (the server takes
// no writes, or wants a new greeting). Invariant: after an error of a write or a
// read the connection is closed, so no call gets the reply to another.

const (
	// vectorFrom is the size from which a []byte argument is handed to the
	// kernel as it is instead of being copied into the write buffer.
	vectorFrom = 16 << 10
	// keepBuffer is the largest write buffer that a connection keeps.
	keepBuffer = 64 << 10
	// mostPushes is how often pushes are read before a call.
	mostPushes = 8
	// lastMoment is the time for which a write over TLS goes on after its caller
	// has left.
	lastMoment = 10 * time.Millisecond
)

// conn is one connection. It is used by one call at a time.
type conn struct {
	netpool.Slot
	nc    net.Conn
	r     *resp.Reader
	peek  *netpool.Peeker // looks for bytes on nc
	wire  netpool.Wire    // nc, for several commands at once
	out   sending         // them
	steps *resp.Steps

	// w holds the bytes to be written; vec, if not empty, holds those that come
	// before w[mark:], with the arguments that were too large to copy.
	w    []byte
	vec  net.Buffers
	mark int

	// deadline is the one set on nc.
	deadline time.Time
	// unfit says that the server takes no writes, or wants a new greeting.
	unfit bool
	// entered says that the server may have keys watched, or take the next
	// command for a part of a transaction.
	entered bool
	// interrupt makes every operation on nc fail, now and later.
	interrupt func()
}

// Close closes the connection. It does not wait for room for a farewell, as the
// Close of TLS does.
func (c *conn) Close() error {
	if t, ok := c.nc.(*tls.Conn); ok {
		return t.NetConn().Close()
	}
	return c.nc.Close()
}

// The methods up to SetWriteDeadline implement mux.Line, so that callers can
// share a connection.

// Write writes commands.
func (c *conn) Write(p []byte) (int, error) { return c.nc.Write(p) }

// Fill waits for bytes and takes them in.
func (c *conn) Fill() error { return c.r.Fill() }

// Next returns the next reply that is complete. Pushes are dropped: they are no
// replies.
func (c *conn) Next() ([]byte, error) {
	for {
		raw, err := c.r.Next()
		if err != nil || raw == nil || !resp.IsPush(raw) {
			return raw, err
		}
	}
}

// Buffered is the number of bytes that came in and were not taken.
func (c *conn) Buffered() int { return c.r.Buffered() }

// Quiet reports whether nothing was read but pushes, which it drops.
func (c *conn) Quiet() bool {
	raw, err := c.Next()
	if raw != nil || err != nil || c.r.Buffered() > 0 {
		return false
	}
	bytes, moved := c.peek.Held()
	if moved {
		c.deadline = time.Time{}
	}
	return !bytes
}

// Look implements [mux.Line]: it looks for bytes that have come although no
// reply is owed, in every place where they may lie.
func (c *conn) Look(reads bool) error {
	if reads && !c.Quiet() {
		return netpool.ErrUnasked
	}
	err := c.peek.Socket()
	for n := 0; err == netpool.ErrUnasked && reads && n < mostPushes && !c.peek.Layered(); n++ {
		// Pushes may come at any time. Those that are there are read without waiting.
		if c.SetReadDeadline(time.Time{}) != nil || c.Fill() != nil || !c.Quiet() {
			return err
		}
		err = c.peek.Socket()
	}
	return err
}

// SetReadDeadline sets the deadline of reads alone.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.deadline = time.Time{} // for the next call that has the connection alone
	return c.nc.SetReadDeadline(t)
}

// SetWriteDeadline sets the deadline of writes alone. TLS does not outlive a write
// that is interrupted, so a write that runs gets a moment to end.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.deadline = time.Time{}
	if _, ok := c.nc.(*tls.Conn); ok && !t.IsZero() {
		t = time.Now().Add(lastMoment)
	}
	return c.nc.SetWriteDeadline(t)
}

// exchange runs f, which writes and reads, under the context and its deadline,
// or the timeout if it has none. calm says that nothing can disturb the
// connection later.
func (c *conn) exchange(ctx context.Context, now time.Time, timeout time.Duration, f func(*conn) error) (calm bool, err error) {
	deadline, bounded := ctx.Deadline()
	if bounded {
		c.setDeadline(deadline)
	} else {
		c.allow(now, timeout)
	}
	var stop func() bool
	// The deadline of the connection is that of the context; a cancelled context
	// needs the interrupt.
	if caller, _ := remote.Split(ctx); caller.Done() != nil {
		stop = context.AfterFunc(caller, c.interrupt)
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
	if err != nil {
		err = explain(ctx, bounded, err)
	}
	return calm, err
}

// clean reports whether others can use the connection, after a call that went
// well.
func (c *conn) clean() bool { return !c.entered && c.Quiet() }

// allow lets operations take until the timeout, or up to an eighth more: moving
// the deadline costs more than comparing it.
func (c *conn) allow(now time.Time, timeout time.Duration) {
	if left := c.deadline.Sub(now); left < timeout || left > timeout+timeout/8 {
		c.setDeadline(now.Add(timeout + timeout/8))
	}
}

func (c *conn) setDeadline(t time.Time) {
	c.deadline = t
	// If it fails the connection is closed, and the next operation says so.
	_ = c.nc.SetDeadline(t)
}

// explain replaces the symptom on the connection by its cause.
func explain(ctx context.Context, bounded bool, err error) error {
	var ce *ConnError
	if !errors.As(err, &ce) {
		return err
	}
	switch {
	case ctx.Err() != nil:
		ce.Err = ctx.Err()
	case bounded && errors.Is(ce.Err, os.ErrDeadlineExceeded):
		ce.Err = context.DeadlineExceeded
	default:
		ce.Err = cause(ce.Err)
	}
	return err
}

// cause returns the reason behind an error of a connection.
func cause(err error) error {
	var broken *resp.ProtocolError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, os.ErrDeadlineExceeded):
		return os.ErrDeadlineExceeded
	case errors.As(err, &broken):
		return fmt.Errorf("%w: %s", ErrProtocol, broken.Reason)
	case errors.Is(err, netpool.ErrUnasked):
		return fmt.Errorf("%w: reply that no call has asked for", ErrProtocol)
	case errors.Is(err, net.ErrClosed):
		return ErrClosed
	}
	return err
}

// command puts a command into the write buffer. Large []byte arguments are not
// copied: they must stay as they are until flush returns. An error is about an
// argument; nothing of the command remains then.
func (c *conn) command(args []any) error {
	c.w = resp.AppendArray(c.w[:0], len(args))
	for _, a := range args {
		if b, ok := a.([]byte); ok {
			c.bulk(b)
			continue
		}
		var err error
		if c.w, err = resp.AppendArg(c.w, a); err != nil {
			c.w, c.vec, c.mark = c.w[:0], c.vec[:0], 0
			return argError(err)
		}
	}
	return nil
}

// bulk puts a string behind the bytes to be written, a large one without copying
// it.
func (c *conn) bulk(b []byte) {
	if len(b) < vectorFrom {
		c.w = resp.AppendBulk(c.w, b)
		return
	}
	c.w = resp.AppendBulkHeader(c.w, int64(len(b)))
	c.refer(b)
	c.w = append(c.w, '\r', '\n')
}

// refer puts b behind the buffer. b must stay as it is until flush returns.
func (c *conn) refer(b []byte) {
	c.vec = append(c.vec, c.w[c.mark:], b)
	c.mark = len(c.w)
}

// flush writes the buffer. single says that it is one command, which a server
// executes only if it has all of it.
func (c *conn) flush(single bool) (err error) {
	if len(c.vec) == 0 {
		var n int
		n, err = c.nc.Write(c.w)
		err = writeError(err, int64(n), int64(len(c.w)), single)
	} else {
		c.vec = append(c.vec, c.w[c.mark:])
		var n, total int64
		for _, b := range c.vec {
			total += int64(len(b))
		}
		all := c.vec
		n, err = c.vec.WriteTo(c.nc)
		clear(all) // the arguments are the caller's
		c.vec, c.mark = all[:0], 0
		err = writeError(err, n, total, single)
	}
	c.w = c.w[:0]
	if cap(c.w) > keepBuffer {
		c.w = nil
	}
	return err
}

func writeError(err error, n, total int64, single bool) error {
	if err == nil {
		return nil
	}
	return &ConnError{Op: "write", Sent: n == total || n > 0 && !single, Err: err}
}

// read returns the next reply. Pushes are dropped: they are no replies.
func (c *conn) read() (v resp.Value, err error) {
	for {
		if v, err = c.r.Read(); err != nil {
			return v, readError(err)
		}
		if v.Kind() != resp.Push {
			c.noteUnfit(v)
			return v, nil
		}
	}
}

// ask sends the command that put puts into the buffer and returns the whole
// reply. An error of put is about an argument, and is in the reply: nothing is
// sent then.
func (c *conn) ask(put func(*conn) error) (reply Reply, err error) {
	if reply.err = put(c); reply.err != nil {
		return reply, nil
	}
	if err = c.flush(true); err != nil {
		return reply, err
	}
	v, err := c.read()
	return newReply(v), err
}

// noteUnfit notes whether a reply says that the connection is unfit.
func (c *conn) noteUnfit(v resp.Value) {
	if unfit(v) {
		c.unfit = true
	}
}

// borrow is read for a reply that holds until the connection is used again.
func (c *conn) borrow() (v resp.Value, err error) {
	for {
		if v, err = c.r.Borrow(); err != nil {
			return v, readError(err)
		}
		if v.Kind() != resp.Push {
			c.noteUnfit(v)
			return v, nil
		}
	}
}

// converse sends commands and calls read for the reply to each.
func (c *conn) converse(b *resp.Batch, read func() error) error {
	c.out = sending{Batch: b, Pieces: b.Pieces(c.steps)}
	err := c.wire.Converse(&c.out, read)
	c.out.Release()
	c.out = sending{}
	if err == nil {
		return nil
	}
	var failed *netpool.WriteError
	if errors.As(err, &failed) {
		return writeError(failed.Err, failed.Written, b.Size(), b.Len() == 1)
	}
	return err
}

// sending is a batch on its way.
type sending struct {
	*resp.Batch
	resp.Pieces
}

// appendBulk is read for a reply that should be a string.
func (c *conn) appendBulk(dst []byte) (out []byte, found bool, v resp.Value, err error) {
	for {
		out, found, v, err = c.r.AppendBulk(dst)
		if err != nil {
			return dst, false, v, readError(err)
		}
		if v.Kind() != resp.Push {
			c.noteUnfit(v)
			return out, found, v, nil
		}
	}
}

// bulkHeader is read for the header of a string.
func (c *conn) bulkHeader() (n int64, v resp.Value, err error) {
	for {
		n, v, err = c.r.BulkHeader()
		if err != nil {
			return -1, v, readError(err)
		}
		if v.Kind() != resp.Push {
			c.noteUnfit(v)
			return n, v, nil
		}
	}
}

func readError(err error) error { return &ConnError{Op: "read", Sent: true, Err: err} }

// lost reports whether err says that the peer has gone without a farewell.
func lost(err error) bool {
	var ce *ConnError
	return errors.As(err, &ce) && gone(ce.Err)
}

// gone is lost for the reason itself. The reason is not a passed deadline, nor a
// broken protocol, nor a Close by this client.
func gone(err error) bool {
	var broken *resp.ProtocolError
	if errors.As(err, &broken) {
		return false
	}
	for _, other := range []error{
		context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded,
		ErrProtocol, netpool.ErrUnasked, ErrClosed, net.ErrClosed, io.ErrUnexpectedEOF,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}
