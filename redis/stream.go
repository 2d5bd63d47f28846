package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/strata-cache/strata/internal/netpool"
	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/internal/slots"
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
	h.n.pool.Put(cn, err == nil && calm && cn.r.Buffered() == 0, now)
	if err == nil {
		err = answer
	}
	if err == nil {
		err = &ConnError{Op: "read", Sent: true, Err: attempt.Err()}
	}
	return held{}, err
}

// arm gives the next piece its time. An interrupt that came before is not
// undone by it: the context is looked at afterwards.
func (h *held) arm() error {
	deadline := time.Now().Add(h.n.o.Timeout)
	if d, ok := h.ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	h.cn.setDeadline(deadline)
	return h.ctx.Err()
}

// exchange gives f, which writes and reads, its time. What has come before
// would be taken for the reply.
func (h *held) exchange(f func() error) error {
	err := h.arm()
	switch {
	case err != nil:
		err = &ConnError{Op: "write", Err: err}
	case h.cn.r.Buffered() > 0:
		err = readError(netpool.ErrUnasked)
	default:
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
	h.n.pool.Put(h.cn, clean && h.cn.r.Buffered() == 0, time.Now())
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
func (c *Client) Stream(ctx context.Context, args ...any) (*Stream, error) {
	name, err := c.o.checkCommand(args)
	if err != nil {
		return nil, err
	}
	slot := -1
	if c.cluster != nil {
		slot = slotOf(name, args)
	}
	var s *Stream
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
		if err = cn.flush(true); err != nil {
			return nil, err
		}
		var v resp.Value
		if size, v, err = cn.bulkHeader(); size < 0 && err == nil {
			answer = newReply(v).mismatch("string")
		}
		return answer, err
	})
	if err != nil {
		return nil, err
	}
	return &Stream{held: held, size: size, left: size}, nil
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
		n, err = s.cn.r.Body(p[:min(int64(len(p)), s.left)])
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
// returns how much w took, and the error of w or of the connection.
func (s *Stream) WriteTo(w io.Writer) (int64, error) {
	piece := make([]byte, max(1, min(pieceSize, s.left)))
	return io.CopyBuffer(w, struct{ io.Reader }{s}, piece)
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

// SetFrom sets key to the next n bytes of r, with a life of ttl (zero: for
// ever; rounded up to whole milliseconds). r may have more bytes; they are not
// read. If r has fewer or fails, the connection is closed, and the server
// keeps the value it had.
//
// Options.Timeout bounds each piece and not the whole, and not the time that r
// takes.
//
// In a cluster, a value that is longer than 64 KiB is sent to the node that has
// just said that it serves the key. If the slot moves meanwhile, nothing is
// stored and the error is one that [SafeToRetry] knows.
func (c *Client) SetFrom(ctx context.Context, key string, r io.Reader, n int64, ttl time.Duration) error {
	if n < 0 {
		return errors.New("redis: negative length")
	}
	if err := c.o.checkSet(n, ttl); err != nil {
		return err
	}
	piece := make([]byte, max(1, min(pieceSize, n)))
	first := piece[:min(int64(len(piece)), n)]
	if _, err := io.ReadFull(r, first); err != nil {
		return sourceError(err)
	}
	set := func(ctx context.Context, at hop) error { return at.setFrom(ctx, key, first, piece, r, n, ttl) }
	if c.cluster == nil {
		return set(ctx, hop{n: c.home})
	}
	if len(first) == int(n) {
		return c.cluster.follow(ctx, way{slot: slots.Of(key)}, set)
	}
	at, err := c.cluster.find(ctx, key)
	if err != nil {
		return err
	}
	err = set(ctx, at)
	var refused *Error
	if errors.As(err, &refused) {
		if _, v := c.cluster.judge(at, false, err); v != final {
			return &ConnError{Op: "route", Err: err} // nothing was stored
		}
	}
	return err
}

// setFrom sets key to n bytes: the first ones, and the rest from r by pieces.
func (h hop) setFrom(ctx context.Context, key string, first, piece []byte, r io.Reader, n int64, ttl time.Duration) error {
	cn, err := h.n.pool.Get(ctx, time.Now())
	if err != nil {
		return err
	}
	s := h.n.hold(ctx, cn)
	clean := false
	defer func() { s.release(clean) }() // also if r panics
	if h.asking {
		cn.w = append(cn.w, asking...)
		if _, err := s.last(); err != nil {
			return err
		}
	}
	cn.w = resp.AppendSetHead(cn.w[:0], key, ttl)
	cn.w = resp.AppendBulkHeader(cn.w, n)
	if err := s.copyFrom(first, piece, r, n); err != nil {
		return err
	}
	cn.w = resp.AppendLife(append(cn.w, '\r', '\n'), ttl)
	reply, err := s.last()
	clean = err == nil
	if err != nil {
		return err
	}
	return reply.Ok()
}

// copyFrom writes what is in the buffer, the first piece, and the rest of n
// bytes from r.
func (h *held) copyFrom(first, piece []byte, r io.Reader, n int64) error {
	for {
		if err := h.write(first); err != nil {
			return err
		}
		if n -= int64(len(first)); n == 0 {
			return nil
		}
		first = piece[:min(int64(len(piece)), n)]
		if _, err := io.ReadFull(r, first); err != nil {
			return sourceError(err)
		}
	}
}

func (h *held) write(p []byte) error {
	h.cn.w = append(h.cn.w, p...)
	if err := h.arm(); err != nil {
		return h.fail(&ConnError{Op: "write", Err: err})
	}
	if err := h.cn.flush(true); err != nil {
		var ce *ConnError
		if errors.As(err, &ce) {
			ce.Sent = false // a part of a command has no effect
		}
		return h.fail(err)
	}
	return nil
}

// last writes the end of the command and reads the reply.
func (h *held) last() (Reply, error) {
	if err := h.write(nil); err != nil {
		return Reply{}, err
	}
	v, err := h.cn.read()
	if err != nil {
		return Reply{}, h.fail(err)
	}
	return newReply(v), nil
}

// sourceError is the error for a reader that gives no more.
func sourceError(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("redis: reading the value: %w", err)
}
