package redis

import (
	"context"
	"errors"
	"io"
	"time"
)

// pieceSize is what streams copy through.
const pieceSize = 64 << 10

// held is a connection held for longer than one exchange.
type held struct {
	n    *node
	cn   *conn
	ctx  context.Context
	stop func() bool
}

func (n *node) hold(ctx context.Context, cn *conn) held {
	h := held{n: n, cn: cn, ctx: ctx}
	if ctx.Done() != nil {
		h.stop = context.AfterFunc(ctx, cn.interrupt)
	}
	return h
}

// take gives f a connection that stays held for ctx if f has neither an answer,
// which is against what was asked for, nor an error, which is about the
// connection.
func (h hop) take(attempt, ctx context.Context, name string, f func(*conn) (answer, err error)) (held, error) {
	now := time.Now()
	var answer error
	cn, calm, err := h.n.attempt(attempt, now, name, h.behind(func(cn *conn) (err error) {
		answer, err = f(cn)
		return err
	}))
	switch {
	case cn == nil:
		return held{}, err
	case err == nil && answer == nil && calm:
		return h.n.hold(ctx, cn), nil
	}
	h.n.pool.Put(cn, err == nil && calm && cn.clean(), now)
	if err == nil {
		err = answer
	}
	if err == nil {
		err = &ConnError{Op: "read", Sent: true, Err: attempt.Err()}
	}
	return held{}, err
}

// arm gives the next piece its time. An interrupt that came before, such as that
// of the context, is not undone by it: the context is looked at afterwards.
func (h *held) arm() error {
	h.cn.allow(time.Now(), h.n.o.Timeout)
	return h.ctx.Err()
}

// exchange gives f, which writes and reads, its time. What has come before
// would be taken for the reply.
func (h *held) exchange(f func() error) error {
	err := h.arm()
	if err != nil {
		err = &ConnError{Op: "write", Err: err}
	} else if err = h.cn.Look(true); err != nil {
		err = readError(err)
	} else {
		err = f()
	}
	if err != nil {
		return h.fail(err)
	}
	return nil
}

// fail completes an error of the connection.
func (h *held) fail(err error) error {
	d, bounded := h.ctx.Deadline()
	err = explain(h.ctx, bounded && !time.Now().Before(d), err)
	if h.cn.Reused() && lost(err) {
		h.n.pool.Lost(h.cn)
	}
	return err
}

// release gives the connection back, or closes it unless it is clean.
func (h *held) release(clean bool) {
	if h.stop != nil && !h.stop() {
		clean = false
	}
	h.n.look(h.cn)
	h.n.pool.Put(h.cn, clean && h.cn.clean(), time.Now())
}

// Stream is a string reply that is read piece by piece. It holds a connection
// until Close. It is for one caller at a time.
//
// Options.Timeout bounds each piece and not the whole; the context given to
// the call that made the stream bounds the whole.
type Stream struct {
	held
	size, left int64
	err        error // what reading has come to; io.EOF at the end
	closed     bool
}

// Stream sends a command, as [Client.Do] does, whose reply is one string, and
// returns it as a stream. Null is [ErrNil]. The caller must Close it.
func (c *Client) Stream(ctx context.Context, args ...any) (s *Stream, err error) {
	name, err := c.o.checkCommand(args)
	if err != nil {
		return nil, err
	}
	if hasBody(args) {
		sent, large, free, err := c.embody(ctx, args)
		if err != nil {
			return nil, err
		}
		defer free()
		if args = sent; large {
			err = c.once(ctx, name, args, func(h hop) error {
				s, err = h.streamOf(ctx, args)
				return err
			})
			return s, err
		}
	}
	slot := -1
	if c.cluster != nil {
		slot = slotOf(name, args)
	}
	err = c.reach(ctx, name, slot, func(attempt context.Context, h hop) error {
		s, err = h.stream(attempt, ctx, name, args)
		return err
	})
	return s, err
}

// stream is one attempt at Client.Stream. The whole is bounded by ctx.
func (h hop) stream(attempt, ctx context.Context, name string, args []any) (*Stream, error) {
	var size int64
	held, err := h.take(attempt, ctx, name, func(cn *conn) (answer, err error) {
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
func (h hop) streamOf(ctx context.Context, args []any) (*Stream, error) {
	s, err := h.open(ctx, args)
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

// streamHeader reads the header of a string. answer is what came instead.
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
		s.finish()
	}
	return n, nil
}

// portion is how much of a buffer of n bytes is filled: if the rest of the string
// fits, its last bytes come later, together with what ends it.
func (s *Stream) portion(n int) int {
	const tail = 4 << 10
	if int64(n) >= s.left && s.left > 4*tail {
		return int(s.left - tail)
	}
	return int(min(int64(n), s.left))
}

// finish reads what follows the last byte.
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
	s.release(s.err == io.EOF)
	if s.err == nil || s.err == io.EOF {
		s.err = ErrClosed
	}
	return nil
}

// GetTo copies the value of key to w piece by piece, and returns how many
// bytes w took. A missing key is [ErrNil]; nothing is written then. After an
// error in the middle w has a part of the value.
func (c *Client) GetTo(ctx context.Context, key string, w io.Writer) (int64, error) {
	s, err := c.Stream(ctx, "GET", key)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	return s.WriteTo(w)
}
