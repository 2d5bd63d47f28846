package memcached

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/wire"
)

// A value is streamed over a connection of its own, piece by piece, each under a
// timeout of its own. Invariant: if the reader has fewer bytes than announced, or
// fails, the connection is closed before the command is complete, so a server never
// stores a part of a value.

// pieceSize is how much of a value is read at once.
const pieceSize = 48 << 10

// GetTo copies the value of key to w piece by piece, and returns how many bytes w
// took. A missing key is [ErrMiss]; nothing is written then. After an error in the
// middle w has a part of the value. Options.Timeout bounds each piece and not the
// whole; the context cannot interrupt w.
func (c *Client) GetTo(ctx context.Context, key string, w io.Writer) (total int64, err error) {
	q := request{Op: meta.OpGet}
	if q.Key, err = c.o.Keys.wire(key); err != nil {
		return 0, err
	}
	n, err := c.node(q.Key.Text)
	if err == nil {
		err = n.traced(ctx, n.name(q.Op), 1, func() error { total, err = n.getTo(ctx, &q, w); return err })
	}
	if err != nil && total == 0 && dead(err) && c.misses(ctx) {
		err = ErrMiss
	}
	return total, err
}

// getTo is GetTo for a request.
func (n *node) getTo(ctx context.Context, q *request, w io.Writer) (total int64, err error) {
	able, err := n.ready(ctx)
	if err != nil {
		return 0, err
	}
	if q.Meta = able.Meta; !q.Meta && q.Key.Binary {
		return 0, ErrClassic
	}
	q.Opaque = n.opaque.Add(1)
	var answer error
	err = n.run(ctx, true, func(cn *conn) error {
		cn.put(q)
		if err := cn.flush(true); err != nil {
			return err
		}
		answer, err = n.copyValue(ctx, cn, q, &total, w)
		return err
	})
	if err == nil {
		err = answer
	}
	return total, err
}

// copyValue reads the reply to a get and copies its value to w. answer is the error
// for a reply without one.
func (n *node) copyValue(ctx context.Context, cn *conn, q *request, total *int64, w io.Writer) (answer, err error) {
	r, err := cn.read()
	switch {
	case err != nil:
		return nil, err
	case !q.Fits(&r):
		return nil, errForeign()
	case r.Size < 0:
		return verdict(&r), nil
	}
	item, left := r.Kind == meta.Item, r.Size
	defer cn.r.Release()
	front := q.Key.Front()
	if int64(len(front)) > left {
		return nil, errForeignItem
	}
	if got, err := cn.r.Buffer.Append(nil, len(front)); err != nil {
		return nil, readError(err)
	} else if string(got) != string(front) {
		return nil, errForeignItem
	}
	for left -= int64(len(front)); left > 0; {
		if err := n.arm(ctx, cn); err != nil {
			return nil, readError(err)
		}
		p, err := cn.r.Some(left)
		if err != nil {
			return nil, readError(err)
		}
		left -= int64(len(p))
		m, err := w.Write(p)
		*total += int64(max(m, 0))
		if err == nil && m != len(p) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return nil, err
		}
	}
	if err := n.arm(ctx, cn); err != nil {
		return nil, readError(err)
	}
	if err := cn.r.EndValue(); err != nil {
		return nil, readError(err)
	}
	if item {
		return nil, cn.end()
	}
	return nil, nil
}

// errForeignItem says that an item belongs to another key with the same hash: its
// value is not read to the end.
var errForeignItem = fmt.Errorf("%w: another key has the same hash", ErrMiss)

// arm gives the next piece its time. This might undo an interrupt that came
// before, by the end of the context: so arm looks at the context afterwards.
func (n *node) arm(ctx context.Context, cn *conn) error {
	if _, bounded := ctx.Deadline(); !bounded {
		cn.Allow(time.Now(), n.o.Timeout)
	}
	return ctx.Err()
}

// SetFrom stores the next size bytes of r as the value of item, as Set does;
// item.Value is ignored. If size is negative r is read to its end before anything is
// sent: into memory up to 1 MiB, then into a temporary file, which is removed. More
// than Options.MaxValue is [ErrTooLarge], and nothing is sent.
//
// If r has fewer bytes, fails or panics, the connection is closed, and nothing is
// stored. r may have more; they are not read. Options.Timeout bounds the sending of
// each piece, and not the time that r takes, in which the context cannot interrupt it.
func (c *Client) SetFrom(ctx context.Context, item Item, r io.Reader, size int64) error {
	if err := ctx.Err(); err != nil {
		return &ConnError{Op: "wait", Err: err}
	}
	item.Value = nil
	q, err := c.o.storing(meta.OpSet, &item)
	if err != nil {
		return err
	}
	if q.Key, err = c.o.Keys.wire(item.Key); err != nil {
		return err
	}
	if size < 0 {
		s, err := faults.Spool(ctx, r, &c.steps, int64(c.o.MaxValue))
		if err != nil {
			return err
		}
		defer s.Close()
		r, size = s, s.Size()
	}
	if err := room(&q.Key, size, c.o.MaxValue); err != nil {
		return err
	}
	if size <= small {
		q.Value = make([]byte, size)
		if _, err := wire.Fill(r, q.Value); err != nil {
			return faults.Source(err)
		}
		_, err = c.do(ctx, item.Key, q, nil)
		return err
	}
	n, err := c.node(q.Key.Text)
	if err != nil {
		return err
	}
	return n.traced(ctx, n.name(q.Op), 1, func() error { return n.setFrom(ctx, &q, r, size) })
}

// setFrom stores a value, read from r while it is sent.
func (n *node) setFrom(ctx context.Context, q *request, r io.Reader, size int64) error {
	able, err := n.ready(ctx)
	if err != nil {
		return err
	}
	if q.Meta = able.Meta; !q.Meta && q.Key.Binary {
		return ErrClassic
	}
	q.Opaque = n.opaque.Add(1)
	var answer error
	err = n.runOnce(ctx, func(cn *conn) (err error) {
		if err = n.sendFrom(ctx, cn, q, r, size); err != nil {
			return err
		}
		a, err := cn.answer(q, nil)
		answer = a.err
		return err
	})
	if err == nil {
		err = answer
	}
	return err
}

// sendFrom sends a command and its value.
func (n *node) sendFrom(ctx context.Context, cn *conn, q *request, r io.Reader, size int64) error {
	piece := n.steps.Get()
	defer n.steps.Put(piece)
	front := q.Key.Front()
	cn.W = append(q.AppendTo(cn.W, size+int64(len(front))), front...)
	for left := size; left > 0; {
		piece = piece[:min(pieceSize, left)]
		if _, err := wire.Fill(r, piece); err != nil {
			cn.Forget()
			return faults.Source(err)
		}
		cn.Refer(piece)
		if left -= int64(len(piece)); left == 0 {
			cn.W = meta.AppendEnd(cn.W)
		}
		if err := n.arm(ctx, cn); err != nil {
			return &ConnError{Op: "write", Err: err}
		}
		if err := cn.flush(true); err != nil {
			var ce *ConnError
			if errors.As(err, &ce) {
				ce.Sent = ce.Sent && left == 0
			}
			return err
		}
	}
	return nil
}
