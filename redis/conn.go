package redis

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// A connection takes commands into its buffer, flushes them and reads replies. It
// belongs to one call at a time, or to a mux, which shares it. It may be entered
// (the server may watch keys, or be in a transaction) or unfit (the server takes
// no writes, or wants a new greeting). Invariant: after an error of a write or a
// read the connection is closed, so no call gets the reply to another.

// mostPushes bounds the reads of pushes before a call.
const mostPushes = 8

// mostAhead is the number of bytes of an incomplete push read before a call. A connection
// with more is given up: the call would wait for them.
const mostAhead = 1 << 20

// aMoment is the time for which a greeting waits for bytes that TLS holds back.
const aMoment = 20 * time.Millisecond

// conn is one connection. It is used by one call at a time.
type conn struct {
	pool.Slot
	pool.Socket
	r     *resp.Reader
	wire  pool.Wire // for several commands at once
	out   sending   // them
	steps *resp.Steps

	// unfit says that the server takes no writes, or wants a new greeting; good that it
	// has carried out a command of a call; repeatable that the next reply is the first one to
	// a call that may be repeated on another connection.
	unfit, good, repeatable bool
	// entered says that the server may have keys watched, or take the next
	// command for a part of a transaction.
	entered bool
	// term is the time for which the server is the primary that sentinels name, and
	// leave makes the connection outlive it. Both are nil without sentinels.
	term  *term
	leave func() bool
}

// Close closes the connection.
func (c *conn) Close() error {
	if c.leave != nil {
		c.leave()
	}
	return c.Socket.Close()
}

// belong makes the end of a term the end of a connection.
func (c *conn) belong(t *term) {
	c.term = t
	c.leave = context.AfterFunc(t.ctx, func() { c.Socket.Close() })
}

// Received returns the number of bytes that have arrived.
func (c *conn) Received() uint64 { return c.r.Received() }

// The methods up to Look, and the methods of Socket, implement mux.Line, so that callers
// can share a connection.

// Fill waits for bytes and takes them in.
func (c *conn) Fill() error { return c.term.reason(c.r.Fill()) }

// Write writes commands.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Socket.Write(p)
	return n, c.term.reason(err)
}

// Next returns the next complete reply. It drops pushes, which answer no command.
func (c *conn) Next() ([]byte, error) {
	for {
		raw, err := c.r.Next()
		if err != nil || raw == nil || !resp.IsPush(raw) {
			return raw, err
		}
	}
}

// Buffered returns the number of received bytes that were not taken.
func (c *conn) Buffered() int { return c.r.Buffered() }

// Quiet reports whether nothing was read but pushes, which it drops. The rest of the last
// one may be under way.
func (c *conn) Quiet() bool {
	raw, err := c.Next()
	if raw != nil || err != nil || c.r.Buffered() > 0 && !c.r.Pushing() {
		return false
	}
	return c.Silent()
}

// Look implements [mux.Line]: it looks for unasked bytes, which came although no reply is
// owed, in every place where they may lie.
func (c *conn) Look(reads bool) error {
	if c.term.over() {
		return errDeposed
	}
	if reads && !c.Quiet() {
		return pool.ErrUnasked
	}
	err := c.Peek.Socket()
	for n := 0; err == pool.ErrUnasked && reads && n < mostPushes && c.Buffered() <= mostAhead && !c.Peek.Layered(); {
		// Pushes may come at any time. Their bytes are read as far as they have arrived,
		// without waiting.
		if c.SetReadDeadline(time.Time{}) != nil || c.Fill() != nil || !c.Quiet() {
			return err
		}
		if !c.r.Pushing() {
			n++
		}
		err = c.Peek.Socket()
	}
	if err == nil && reads && c.r.Pushing() {
		return pool.ErrUnasked // the bytes behind the push cannot be seen yet
	}
	return err
}

// settle reads the pushes that have come unasked, and waits for the rest of a push that has
// begun. Any other bytes are an error.
func (c *conn) settle(ctx context.Context) error {
	for range 2 * mostPushes {
		raw, err := c.Next()
		for err == nil && raw == nil && c.Peek.Take(c.Fill) == nil { // from TLS, without waiting
			raw, err = c.Next()
		}
		for err == nil && raw == nil && c.r.Pushing() {
			if err = ctx.Err(); err != nil {
				break // Take may have removed the deadline that the end of ctx has set
			}
			if err = c.Fill(); err == nil {
				raw, err = c.Next()
			}
		}
		switch {
		case err != nil:
			return readError(err)
		case raw != nil, c.Buffered() > 0:
			return readError(pool.ErrUnasked)
		}
		switch err = c.Peek.Socket(); {
		case err == nil && c.Silent():
			return nil
		case err == nil:
			return readError(pool.ErrUnasked) // a part of a record of TLS
		case err != pool.ErrUnasked:
			return readError(err)
		}
		if c.Peek.Layered() { // it may be a message of TLS itself, behind which nothing comes
			_ = c.SetReadDeadline(time.Now().Add(aMoment))
		}
		if err = c.Fill(); err != nil && (ctx.Err() != nil || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return readError(err)
		}
		if c.Peek.Layered() {
			_ = c.SetReadDeadline(time.Time{})
		}
	}
	return readError(pool.ErrUnasked)
}

// exchange runs f, which writes and reads, under the context and its deadline,
// or the timeout if it has none. calm says that nothing can disturb the
// connection later.
func (c *conn) exchange(ctx context.Context, now time.Time, timeout time.Duration, f func(*conn) error) (calm bool, err error) {
	calm, err = pool.Exchange(ctx, &c.Socket, now, timeout, c, f)
	if err != nil {
		_, bounded := ctx.Deadline()
		err = c.explain(ctx, bounded, err)
	}
	return calm, err
}

// clean reports whether others can use the connection, after a call that went
// well.
func (c *conn) clean() bool { return !c.entered && c.Quiet() && c.Buffered() == 0 }

// explain replaces the symptom in an error of this connection by its cause.
func (c *conn) explain(ctx context.Context, bounded bool, err error) error {
	if f, ok := faults.Inside(err); ok {
		f.Err = c.term.reason(f.Err)
		err = faults.Fail(f)
	}
	return faults.Explain(ctx, bounded, err)
}

// command puts a command into the write buffer. Large []byte arguments are not
// copied: they must stay as they are until flush returns. An error is about an
// argument; nothing of the command remains then.
func (c *conn) command(args []any) error {
	c.W = resp.AppendArray(c.W[:0], len(args))
	for _, a := range args {
		if b, ok := a.([]byte); ok {
			c.bulk(b)
			continue
		}
		var err error
		if c.W, err = resp.AppendArg(c.W, a); err != nil {
			c.Forget()
			return argError(err)
		}
	}
	return nil
}

// bulk puts a string behind the bytes to be written, a large one without copying
// it.
func (c *conn) bulk(b []byte) {
	c.W = resp.AppendBulkHeader(c.W, int64(len(b)))
	c.Bulk(b)
	c.W = append(c.W, '\r', '\n')
}

// flush writes the buffer. single says that it is one command, which a server
// executes only if it has all of it.
func (c *conn) flush(single bool) error {
	n, total, err := c.Flush()
	return faults.Written(err, n, total, single)
}

// read returns the next reply. It drops pushes, which answer no command.
func (c *conn) read() (v resp.Value, err error) { return c.readTo(nil) }

// readTo is read, with memory of s for the reply; nil is no Slab.
func (c *conn) readTo(s *resp.Slab) (v resp.Value, err error) {
	for {
		if v, err = c.r.ReadTo(s); err != nil {
			return v, readError(err)
		}
		if v.Kind() != resp.Push {
			return v, c.judge(v)
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

// judge learns from a reply. If the reply says that the server does not know the user of
// the connection any more, and the call can be repeated on another connection, judge
// returns an error in place of the reply.
func (c *conn) judge(v resp.Value) error {
	first := c.repeatable
	c.repeatable = false
	switch {
	case v.Kind() != resp.Error:
		c.good = true
	case first && disowned(v.Bytes()):
		return &ConnError{Op: "read", Err: pool.ErrRefused}
	case unfit(v):
		c.unfit = true
	default:
		c.good = true
	}
	return nil
}

// refused reports whether a reply over the shared connection says that the server, which has
// served over the connection before, does not know its user any more.
func (c *conn) refused(reply []byte) bool {
	if reply[0] != '-' || !disowned(reply[1:]) {
		c.good = true
		return false
	}
	return c.good
}

// borrow is read for a reply that holds until the connection is used again.
func (c *conn) borrow() (v resp.Value, err error) {
	for {
		if v, err = c.r.Borrow(); err != nil {
			return v, readError(err)
		}
		if v.Kind() != resp.Push {
			return v, c.judge(v)
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
	var failed *pool.WriteError
	if errors.As(err, &failed) {
		return faults.Written(failed.Err, failed.Written, b.Size(), b.Len() == 1)
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
			return out, found, v, c.judge(v)
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
			return n, v, c.judge(v)
		}
	}
}

func readError(err error) error { return &ConnError{Op: "read", Sent: true, Err: err} }
