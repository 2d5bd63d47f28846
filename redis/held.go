package redis

import (
	"context"
	"time"
)

// A held connection serves one caller for several exchanges: a stream, a body or a
// transaction. Invariant: the context of its call interrupts it at any time, each
// piece has the timeout of its own, and release gives it back only if it is clean.

// held is a connection that one caller keeps for several exchanges.
type held struct {
	n    *node
	cn   *conn
	ctx  context.Context
	stop func() bool
}

func (n *node) hold(ctx context.Context, cn *conn) held {
	h := held{n: n, cn: cn, ctx: ctx}
	if ctx.Done() != nil {
		h.stop = context.AfterFunc(ctx, cn.Interrupt)
	}
	return h
}

// take gives f a connection. If f returns two nils, take keeps the connection for ctx. An answer of
// f is the error of the call; an err of f is about the connection.
func (r route) take(attempt, ctx context.Context, name string, f func(*conn) (answer, err error)) (held, error) {
	now := time.Now()
	var answer error
	cn, calm, err := r.n.attempt(attempt, now, name, r.afterAsking(ctx, func(cn *conn) (err error) {
		answer, err = f(cn)
		return err
	}))
	switch {
	case cn == nil:
		return held{}, err
	case err == nil && answer == nil && calm:
		return r.n.hold(ctx, cn), nil
	}
	r.n.pool.Put(cn, err == nil && calm && cn.clean(), now)
	if err == nil {
		err = answer
	}
	if err == nil {
		err = &ConnError{Op: "read", Sent: true, Err: attempt.Err()}
	}
	return held{}, err
}

// arm gives the next piece its time. It does not undo an earlier interrupt, such
// as the end of the context: arm looks at the context afterwards.
func (h *held) arm() error {
	h.cn.Allow(time.Now(), h.n.o.Timeout)
	return h.ctx.Err()
}

// exchange gives f, which writes and reads, its time. It looks for unasked bytes
// first: f would take them for the reply. The look may remove the deadline.
func (h *held) exchange(f func() error) error {
	err := h.cn.Look(true)
	if err != nil {
		err = readError(err)
	} else if err = h.arm(); err != nil {
		err = &ConnError{Op: "write", Err: err}
	} else {
		err = f()
	}
	if err != nil {
		return h.fail(err)
	}
	return nil
}

// flush writes the buffer of the connection.
func (h *held) flush() error {
	err := h.arm()
	if err != nil {
		err = &ConnError{Op: "write", Err: err}
	} else {
		err = h.cn.flush(true)
	}
	if err != nil {
		return h.fail(err)
	}
	return nil
}

// look finds unasked bytes, which came although no reply is owed.
func (h *held) look() error {
	if err := h.cn.Look(true); err != nil {
		return h.fail(&ConnError{Op: "read", Err: err})
	}
	return nil
}

// reply reads the reply.
func (h *held) reply() (Reply, error) {
	v, err := h.cn.read()
	if err != nil {
		return Reply{}, h.fail(err)
	}
	return newReply(v), nil
}

// fail completes an error of the connection.
func (h *held) fail(err error) error {
	d, bounded := h.ctx.Deadline()
	err = h.cn.explain(h.ctx, bounded && !time.Now().Before(d), err)
	if h.cn.Reused() && faults.Lost(err) {
		h.n.pool.Lost(h.cn)
	}
	if h.n.left.Load() {
		return dismissed(err)
	}
	return err
}

// release gives the connection back, or closes it unless it is clean.
func (h *held) release(clean bool) {
	// The interrupt has begun, and may come when the next call has the connection already.
	if h.stop != nil && !h.stop() {
		clean = false
	}
	h.n.renewIfUnfit(h.cn)
	h.n.pool.Put(h.cn, clean && h.cn.clean(), time.Now())
}
