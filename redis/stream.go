package redis

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/internal/wire/mux"
)

// Stream is a string reply, read piece by piece. It holds a connection until Close. It
// is for one caller at a time.
//
// Options.Timeout bounds each piece and not the whole. The whole is bounded by the
// context of the call that made the stream.
type Stream struct {
	held
	size, left int64
	err        error // of reading; io.EOF at the end
	closed     bool
}

// Stream sends a command, as [Client.Do] does, and returns its reply, which is one
// string, as a stream. Null is [ErrNil]. The caller must Close it.
func (c *Client) Stream(ctx context.Context, args ...any) (s *Stream, err error) {
	name, err := c.o.checkCommand(args)
	if err != nil {
		return nil, err
	}
	if hasBody(args) {
		sent, large, free, err := c.prepareBodies(ctx, args)
		if err != nil {
			return nil, err
		}
		defer free()
		if args = sent; large {
			err = c.once(ctx, name, args, func(r route) error {
				s, err = r.streamOf(ctx, args)
				return err
			})
			return s, err
		}
	}
	slot := -1
	if c.cluster != nil {
		slot = slotOf(name, args)
	}
	err = c.follow(ctx, name, slot, func(attempt context.Context, r route) error {
		return r.n.traced(ctx, single(name), func() error {
			s, err = r.stream(attempt, ctx, name, args)
			return err
		})
	})
	return s, err
}

// stream is one attempt at Client.Stream. The whole is bounded by ctx.
func (r route) stream(attempt, ctx context.Context, name string, args []any) (*Stream, error) {
	var size int64
	held, err := r.take(attempt, ctx, name, func(cn *conn) (answer, err error) {
		if answer = cn.command(args); answer != nil {
			return answer, nil
		}
		if err = cn.flush(true); err == nil {
			size, answer, err = cn.streamHeader()
		}
		return answer, err
	})
	if err != nil {
		return nil, err
	}
	return &Stream{held: held, size: size, left: size}, nil
}

// streamOf is stream for a command with bodies.
func (r route) streamOf(ctx context.Context, args []any) (*Stream, error) {
	s, err := r.open(ctx, args)
	if err != nil {
		return nil, err
	}
	size, answer, err := s.cn.streamHeader()
	if err != nil {
		err = s.fail(err)
	}
	if err != nil || answer != nil {
		s.release(err == nil)
		return nil, errors.Join(err, answer)
	}
	return &Stream{held: s, size: size, left: size}, nil
}

// streamHeader reads the header of a string. answer is the error for a reply of
// another type.
func (c *conn) streamHeader() (size int64, answer, err error) {
	size, v, err := c.bulkHeader()
	if size < 0 && err == nil {
		answer = newReply(v).mismatch("string")
	}
	return size, answer, err
}

// Size is the length of the whole string in bytes.
func (s *Stream) Size() int64 { return s.size }

// Read implements io.Reader. If the server goes away in the middle, the error
// wraps io.ErrUnexpectedEOF.
func (s *Stream) Read(p []byte) (int, error) {
	if s.err == nil && s.left == 0 {
		s.finish()
	}
	if s.err != nil || len(p) == 0 {
		return 0, s.err
	}
	err := s.arm()
	n := 0
	if err == nil {
		n, err = s.cn.r.Body(p[:s.portion(len(p))])
	}
	if err != nil {
		s.err = s.fail(readError(err))
		return 0, s.err
	}
	if s.left -= int64(n); s.left == 0 {
		// The end is read with the last bytes: a caller that reads no further than Size has a clean
		// connection.
		s.finish()
	}
	return n, nil
}

// portion returns how many bytes a Read into a buffer of n bytes asks for. If the whole
// rest of a long string fits, it leaves the last 4 KiB for the next Read, which then gets
// them and the CRLF behind them from one read of the connection.
func (s *Stream) portion(n int) int {
	const tail = 4 << 10
	if int64(n) >= s.left && s.left > 4*tail {
		return int(s.left - tail)
	}
	return int(min(int64(n), s.left))
}

// finish reads the end of the string, behind its last byte.
func (s *Stream) finish() {
	err := s.arm()
	if err == nil {
		err = s.cn.r.EndBulk()
	}
	if err != nil {
		s.err = s.fail(readError(err))
		return
	}
	s.err = io.EOF
}

// WriteTo implements io.WriterTo: it copies the rest of the string to w. It
// returns how much w took, and the error of w or of the connection. The context
// cannot interrupt w.
func (s *Stream) WriteTo(w io.Writer) (total int64, err error) {
	if s.closed {
		return 0, s.err
	}
	defer s.cn.r.Release()
	for {
		if s.err == nil && s.left == 0 {
			s.finish()
		}
		if s.err != nil {
			break
		}
		p, err := s.some()
		if err != nil {
			break
		}
		n, err := w.Write(p)
		total += int64(max(n, 0))
		// The error of w is not that of the stream. Close finds the string unread, and closes the
		// connection.
		switch {
		case err != nil:
			return total, err
		case n != len(p):
			return total, io.ErrShortWrite
		}
	}
	if s.err == io.EOF {
		return total, nil
	}
	return total, s.err
}

// some returns the next bytes, from the memory of the connection.
func (s *Stream) some() (p []byte, err error) {
	if err = s.arm(); err == nil {
		p, err = s.cn.r.Some(s.left)
	}
	if err != nil {
		s.err = s.fail(readError(err))
		return nil, s.err
	}
	s.left -= int64(len(p))
	return p, nil
}

// Close gives the connection back. If the string was not read to its end the
// connection is closed instead. It can be called more than once; the error is
// always nil.
func (s *Stream) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	// The rest of a string could be longer than a new connection is worth.
	s.release(s.err == io.EOF)
	if s.err == nil || s.err == io.EOF {
		s.err = ErrClosed
	}
	return nil
}

// GetTo copies the value of key to w piece by piece, and returns how many
// bytes w took. A missing key is [ErrNil]; nothing is written then. After an
// error in the middle w has a part of the value. Nothing is allocated. A value
// expected to be small comes over the shared connection, and is one Write.
func (c *Client) GetTo(ctx context.Context, key string, w io.Writer) (int64, error) {
	if c.cluster == nil {
		v, err := route{n: c.home}.startCopy(ctx, ctx, key)
		if err != nil {
			return 0, err
		}
		return v.writeTo(w)
	}
	var v copying
	err := c.cluster.follow(ctx, c.cluster.target("GET", slots.Of(key)), func(attempt context.Context, r route) (err error) {
		v, err = r.startCopy(attempt, ctx, key)
		return err
	})
	if err != nil {
		return 0, err
	}
	return v.writeTo(w)
}

// copying is a string on its way to a writer: it has come whole, or is still to be read.
type copying struct {
	whole  answer
	stream Stream // if whole has none
}

// startCopy begins to read the value of key. The rest of it is bounded by ctx.
func (r route) startCopy(attempt, ctx context.Context, key string) (v copying, err error) {
	if r.n.o.Trace == nil {
		return r.startCopyEither(attempt, ctx, key)
	}
	err = r.n.traced(ctx, single("GET"), func() error {
		v, err = r.startCopyEither(attempt, ctx, key)
		return err
	})
	return v, err
}

// startCopyEither is startCopy over the shared connection, or one of its own.
func (r route) startCopyEither(attempt, ctx context.Context, key string) (v copying, err error) {
	if c := r.shared(key); c != nil {
		c.lend = lentWhole
		c.text = resp.AppendGet(c.text, key)
		a, err := r.n.share(attempt, "GET", c, time.Now())
		switch {
		case err == nil && a.value.Kind() != resp.Bulk:
			err = newReply(a.value).mismatch("string")
			a.free()
			return v, err
		case err != mux.ErrElsewhere:
			a.found = err == nil
			r.n.noteStreamed(key, int64(a.size))
			return copying{whole: a}, err
		}
	}
	var size int64
	v.stream.held, err = r.take(attempt, ctx, "GET", func(cn *conn) (answer, err error) {
		cn.W = resp.AppendGet(cn.W, key)
		if err = cn.flush(true); err == nil {
			size, answer, err = cn.streamHeader()
		}
		return answer, err
	})
	if err == nil {
		v.stream.size, v.stream.left = size, size
		r.n.noteStreamed(key, size)
	}
	return v, err
}

// noteStreamed learns from the size of a value copied to a writer: a value too large for
// the buffer of a connection needs no memory over a connection of its own.
func (n *node) noteStreamed(key string, size int64) {
	if size > streamFrom {
		size = math.MaxInt32
	}
	n.sizes.Note(key, int(size))
}

// writeTo writes the whole string to w. It may be called once.
func (v *copying) writeTo(w io.Writer) (int64, error) {
	if !v.whole.found {
		defer v.stream.Close()
		return v.stream.WriteTo(w)
	}
	defer v.whole.free()
	p := v.whole.value.Bytes()
	if len(p) == 0 {
		return 0, nil
	}
	n, err := w.Write(p)
	if err == nil && n != len(p) {
		err = io.ErrShortWrite
	}
	return int64(max(n, 0)), err
}

// SetFrom sets key to the next n bytes of r, with a life of ttl (zero: for
// ever; rounded up to whole milliseconds). r and n are the Reader and the Size of
// a [Body], also if r fails or n is negative. More than
// Options.MaxValue is [ErrTooLarge], and nothing is sent.
//
// In a cluster, a value longer than 64 KiB is sent to a node that has just
// confirmed that it serves the key. If the slot moves meanwhile, nothing is stored
// and [SafeToRetry] reports true for the error.
func (c *Client) SetFrom(ctx context.Context, key string, r io.Reader, n int64, ttl time.Duration) error {
	if err := c.o.checkSet(n, ttl); err != nil {
		return err
	}
	args := []any{"SET", key, Body{Reader: r, Size: n}}
	if ttl > 0 {
		args = append(args, "PX", int64((ttl-1)/time.Millisecond+1))
	}
	return c.Do(ctx, args...).Ok()
}
