package redis

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/internal/wire"
)

// A Body is sent while it is read, in one of three ways: a small one as a plain
// argument, one with a reader that hands over its bytes without a copy, any other one
// piece by piece. Invariant: if the reader has fewer bytes than announced, the
// connection is closed before the command is complete, so a server never stores a
// part of a value.

// pieceSize is the size of a piece of memory for a body.
const pieceSize = 64 << 10

const (
	// largestWrite is the number of bytes written under one deadline if a reader
	// hands over more at once.
	largestWrite = 256 << 10
	// bodyPiece is the number of bytes read at once from a Body too large for one
	// piece of memory. Reading a whole piece is not faster, and grows the process
	// by 16 KiB more.
	bodyPiece = 48 << 10
)

// Body is an argument of [Client.Do] or [Client.Stream], read while it is sent.
// So a large value is never held in memory.
//
// If Reader has fewer than Size bytes, fails or panics, the connection is
// closed, and the server never sees the command: a value is not half stored.
// Reader may have more; they are not read, so several Bodies of known Size can
// share one Reader: they are read in order. The goroutine of the call reads it,
// and the context cannot interrupt a Read that blocks. Options.Timeout bounds the
// sending of each piece. It bounds neither the whole nor the time that Reader
// takes.
type Body struct {
	Reader io.Reader
	// Size is the length in bytes. If it is negative, Reader is read to its end
	// before anything is sent: into memory up to 1 MiB, then into a temporary
	// file, which is removed.
	Size int64
}

// body is a Body of which the first bytes were read.
type body struct {
	first []byte // in a piece of memory; nil if r hands over all its bytes
	r     io.Reader
	size  int64
	spool *wire.Spool // r, if not nil
	later bool        // nothing was read: r may belong to one in front of it
}

func hasBody(args []any) bool {
	for _, a := range args {
		if _, ok := a.(Body); ok {
			return true
		}
	}
	return false
}

// prepareBodies replaces each Body by an argument that can be sent: the bytes of a small
// Body, a *body otherwise. large says that there is a *body. The caller must call
// free when the command has ended.
func (c *Client) prepareBodies(ctx context.Context, args []any) (sent []any, large bool, free func(), err error) {
	sent = slices.Clone(args)
	var all []*body
	giveBack := func() {
		for _, b := range all {
			b.free(&c.steps)
		}
	}
	whole := false
	defer func() {
		if !whole { // also if a reader panics
			giveBack()
		}
	}()
	for i, a := range args {
		given, ok := a.(Body)
		if !ok {
			continue
		}
		// A body behind a large one is read later: both may read from one reader, in order, and the
		// large one is read only while it is sent.
		b := &body{r: given.Reader, size: given.Size, later: large && given.Size >= 0}
		all = append(all, b)
		if err := c.begin(ctx, b); err != nil {
			return nil, false, nil, err
		}
		// A body that fits in one piece is an ordinary argument, and its command may use the shared
		// connection.
		if sent[i] = b; b.size == int64(len(b.first)) {
			sent[i] = b.first
			continue
		}
		large = true
	}
	whole = true
	return sent, large, giveBack, nil
}

// begin reads the first bytes of b, and all if their number is not known.
func (c *Client) begin(ctx context.Context, b *body) (err error) {
	switch {
	case ctx.Err() != nil:
		return &ConnError{Op: "wait", Err: ctx.Err()}
	case b.r == nil:
		return errors.New("redis: Body without Reader")
	case b.size > c.o.maxValue():
		return ErrTooLarge
	// The length stands in front of the value on the wire, so an unknown one has to be found out
	// before anything is sent.
	case b.size < 0:
		if b.spool, err = faults.Spool(ctx, b.r, &c.steps, c.o.maxValue()); err != nil {
			return err
		}
		b.r, b.size = b.spool, b.spool.Size()
	case b.later, b.size > pieceSize && b.direct():
		return nil
	}
	return b.start(&c.steps)
}

// start reads the first bytes.
func (b *body) start(s *resp.Steps) error {
	n := b.size
	if n > pieceSize {
		n = bodyPiece
	}
	b.first = s.Get()[:n]
	if _, err := wire.Fill(b.r, b.first); err != nil {
		return faults.Source(err)
	}
	return nil
}

// direct reports whether the reader hands over all its bytes without a copy, and
// these are exactly the bytes to send.
func (b *body) direct() bool {
	switch r := b.r.(type) {
	case *bytes.Reader:
		return int64(r.Len()) == b.size
	case *strings.Reader:
		return int64(r.Len()) == b.size
	case *bytes.Buffer:
		return int64(r.Len()) == b.size
	}
	return false
}

func (b *body) free(s *resp.Steps) {
	if b.spool != nil {
		b.spool.Close()
	}
	if b.first != nil {
		s.Put(b.first)
	}
}

// doBodies is Do for a command with Bodies.
func (c *Client) doBodies(ctx context.Context, name string, args []any) (reply Reply) {
	args, large, free, err := c.prepareBodies(ctx, args)
	if err != nil {
		return Reply{err: err}
	}
	defer free()
	if !large {
		return c.do(ctx, name, args)
	}
	err = c.once(ctx, name, args, func(r route) error {
		s, err := r.open(ctx, args)
		if err != nil {
			return err
		}
		reply, err = s.reply()
		s.release(err == nil)
		if err == nil {
			err = reply.err
		}
		return err
	})
	if err != nil {
		return Reply{err: err}
	}
	return reply
}

// once makes a call at the node that serves its key. The call cannot be repeated,
// because its arguments are read only once.
func (c *Client) once(ctx context.Context, name string, args []any, f func(route) error) error {
	if c.cluster == nil {
		return c.home.traced(ctx, single(name), func() error { return f(route{n: c.home}) })
	}
	at, err := c.cluster.find(ctx, name, args)
	if err != nil {
		return err
	}
	err = at.n.traced(ctx, single(name), func() error { return f(at) })
	// A redirection cannot be followed, because the reader was read. But nothing was stored, and
	// the error says so: SafeToRetry reports true for it.
	var refused *Error
	if errors.As(err, &refused) {
		if _, v := c.cluster.judge(at, false, err); v != final {
			return &ConnError{Op: "route", Err: err} // nothing was stored
		}
	}
	return c.cluster.dismissed(err)
}

// open takes a connection and sends a command with bodies. The reply is still
// to be read.
func (r route) open(ctx context.Context, args []any) (s held, err error) {
	cn, err := r.n.pool.Get(ctx, time.Now())
	if err != nil {
		return s, err
	}
	s = r.n.hold(ctx, cn)
	sent := false
	defer func() { // also if a reader panics
		if !sent {
			s.release(false)
		}
	}()
	if r.asking {
		cn.W = append(cn.W, asking...)
		if err = s.flush(); err == nil {
			_, err = s.reply()
		}
		if err == nil {
			err = s.look()
		}
	}
	if err == nil {
		err = s.send(args)
	}
	sent = err == nil
	return s, err
}

// send sends a command with bodies.
func (h *held) send(args []any) error {
	cn := h.cn
	cn.W = resp.AppendArray(cn.W[:0], len(args))
	for _, a := range args {
		var err error
		switch v := a.(type) {
		case *body:
			cn.W = resp.AppendBulkHeader(cn.W, v.size)
			err = h.sendBody(v)
			// The end of the value waits in the buffer and leaves with the next piece: before it
			// the server does not carry out the command.
			cn.W = append(cn.W, '\r', '\n')
		case []byte:
			cn.bulk(v)
		default:
			if cn.W, err = resp.AppendArg(cn.W, a); err != nil {
				err = argError(err)
			}
		}
		if err != nil {
			return err
		}
	}
	return h.flush()
}

// sendBody writes the buffer and the bytes of b, but for the last piece of them,
// which stays in the buffer.
func (h *held) sendBody(b *body) error {
	switch {
	case b.later:
		if err := b.start(h.cn.steps); err != nil {
			return err
		}
	case b.first == nil:
		return h.sendDirect(b)
	}
	// Each piece is written before the next one is read, into the same memory. The last one stays
	// in the buffer, so that it leaves in one write with what follows. If the reader ends early,
	// the server has never got the whole command.
	for left := b.size - int64(len(b.first)); left > 0; {
		h.cn.Refer(b.first)
		if err := h.flush(); err != nil {
			return err
		}
		b.first = b.first[:min(bodyPiece, left)]
		if _, err := wire.Fill(b.r, b.first); err != nil {
			return faults.Source(err)
		}
		left -= int64(len(b.first))
	}
	h.cn.Refer(b.first)
	return nil
}

// sendDirect is sendBody for a reader that hands over all its bytes.
func (h *held) sendDirect(b *body) error {
	w := handover{h: h}
	n, err := b.r.(io.WriterTo).WriteTo(&w)
	switch {
	case w.err != nil:
		return w.err
	case err == nil && n != b.size:
		err = io.ErrUnexpectedEOF // another goroutine reads from it
	}
	if err != nil {
		return faults.Source(err)
	}
	return nil
}

// handover writes to a connection the bytes that a reader hands over.
type handover struct {
	h   *held
	err error
}

// Write implements io.Writer.
func (w *handover) Write(p []byte) (n int, err error) {
	for n < len(p) && w.err == nil {
		// A reader may hand over any number of bytes at once. Each part of them gets a timeout of
		// its own, as a piece does.
		part := p[n:min(len(p), n+largestWrite)]
		w.h.cn.Refer(part)
		if w.err = w.h.flush(); w.err == nil {
			n += len(part)
		}
	}
	return n, w.err
}

// find returns the route for a call that cannot be repeated.
func (k *cluster) find(ctx context.Context, name string, args []any) (at route, err error) {
	slot, ask := slotOf(name, args), []any{"PING"}
	if i := slots.FirstKey(name, len(args), func(i int) string { return argText(args[i]) }); i > 0 {
		ask = []any{"EXISTS", args[i]}
	}
	// A small read of the key follows all redirections, and can be repeated. The node that answers
	// it serves the key, or did a moment ago.
	err = k.follow(ctx, target{slot: slot, repeatable: true}, func(ctx context.Context, r route) error {
		at = r
		return r.do(ctx, ask[0].(string), ask).Err()
	})
	return at, err
}
