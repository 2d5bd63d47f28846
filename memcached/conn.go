package memcached

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// A connection takes commands into its buffer, flushes them and reads replies. It belongs to one
// call at a time, or to a mux, which shares it. Some errors of the server leave open where the next
// reply begins: they spoil the connection. Invariant: after an error of a write or a read, and once
// spoilt, the connection is closed, so no call gets the reply to another.

// conn is one connection. It is used by one call at a time.
type conn struct {
	pool.Slot
	pool.Socket
	r *meta.Reader
	// spoilt says that the server has answered a command with an error after which
	// the stream cannot be trusted.
	spoilt bool
}

// errSpoilt is the error of calls that wait behind an error of the server.
var errSpoilt = &meta.ProtocolError{Reason: "the server has not understood a command"} // read-only

// Received is the number of bytes received so far.
func (c *conn) Received() uint64 { return c.r.Received() }

// The methods up to Look implement mux.Line, together with the methods of Socket,
// so that callers can share a connection.

// Fill waits for bytes and takes them in.
func (c *conn) Fill() error { return c.r.Fill() }

// Next returns the next complete reply.
func (c *conn) Next() ([]byte, error) {
	if c.spoilt {
		return nil, errSpoilt
	}
	raw, err := c.r.Next()
	if len(raw) > 0 && mayBeError(raw[0]) {
		r, _ := meta.Parse(raw)
		c.note(&r)
	}
	return raw, err
}

// mayBeError reports whether a reply with this first byte may be an error.
func mayBeError(first byte) bool { return first == 'E' || first == 'C' || first == 'S' }

// note notes whether the stream can be trusted after r.
func (c *conn) note(r *meta.Reply) {
	if r.Fatal() {
		c.spoilt = true
	}
}

// Buffered is the number of bytes that came in and were not taken.
func (c *conn) Buffered() int { return c.r.Buffered() }

// Quiet reports whether all bytes read so far were taken.
func (c *conn) Quiet() bool { return !c.spoilt && c.r.Buffered() == 0 && c.Silent() }

// Look looks for bytes that came although no reply is owed, in every place
// where they may lie.
func (c *conn) Look(reads bool) error {
	if reads && !c.Quiet() {
		return pool.ErrUnasked
	}
	return c.Peek.Socket()
}

// exchange runs f, which writes and reads, under the context and its deadline,
// or the timeout if it has none. calm says that nothing can disturb the
// connection later.
func (c *conn) exchange(ctx context.Context, now time.Time, timeout time.Duration, f func(*conn) error) (calm bool, err error) {
	calm, err = pool.Exchange(ctx, &c.Socket, now, timeout, c, f)
	if err != nil {
		_, bounded := ctx.Deadline()
		err = faults.Explain(ctx, bounded, err)
	}
	return calm, err
}

// flush writes the buffer. single says that it is one command.
func (c *conn) flush(single bool) error {
	n, total, err := c.Flush()
	return faults.Written(err, n, total, single)
}

// read returns the next line of a reply. It is valid until the connection is used
// again.
func (c *conn) read() (meta.Reply, error) {
	r, err := c.r.Read()
	if err != nil {
		return r, readError(err)
	}
	c.note(&r)
	return r, nil
}

// value reads a value of size bytes, and appends it to dst.
func (c *conn) value(dst []byte, size int64) ([]byte, error) {
	out, err := c.r.Append(dst, size)
	if err != nil {
		return dst, readError(err)
	}
	return out, nil
}

// end reads the END of values.
func (c *conn) end() error {
	r, err := c.read()
	switch {
	case err != nil:
		return err
	case r.Kind != meta.End:
		return errForeign()
	}
	return nil
}
