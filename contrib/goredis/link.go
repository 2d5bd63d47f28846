package goredis

import (
	"bytes"
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/wire/overdue"
)

// link makes the calls of a client end with their context. go-redis keeps to
// deadlines only if ContextTimeoutEnabled is set, and does not notice a cancel
// while it writes or reads. Where that would be too late, go-redis works in another
// goroutine, which the caller may leave behind.
type link struct {
	rdb *redis.Client
	// prompt says that go-redis keeps to deadlines.
	prompt bool
	// slots holds a token for each such goroutine. There are as many as rdb has
	// connections: one more would wait for a connection anyway.
	slots chan struct{}
}

func newLink(rdb *redis.Client) link {
	o := rdb.Options()
	return link{rdb, o.ContextTimeoutEnabled, make(chan struct{}, max(o.PoolSize, 1))}
}

// start runs f in a goroutine, when there is a slot for it.
func (l link) start(ctx context.Context, f func()) error {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return gone(ctx)
	}
	go func() {
		defer func() { <-l.slots }()
		f()
	}()
	return nil
}

// exchange makes calls over any connection, in one round trip. After an error for which
// lost reports false, an abandoned goroutine may still write to calls.
func (l link) exchange(ctx context.Context, calls []call) error {
	if ctx.Err() != nil {
		return gone(ctx)
	}
	if _, bounded := ctx.Deadline(); bounded && l.prompt {
		// Another goroutine would cost as much as the rest of the call.
		return result(ctx, do(ctx, l.rdb, calls))
	}
	// The buffer lets the goroutine end after its caller has left.
	done := make(chan error, 1)
	if err := l.start(ctx, func() { done <- do(ctx, l.rdb, calls) }); err != nil {
		return err
	}
	return await(ctx, done)
}

// await returns the result of do, or an error when ctx ends earlier.
func await(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return result(ctx, err)
	case <-ctx.Done():
		return gone(ctx)
	}
}

// result turns the error of do into one of this package.
func result(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if overdue.Err(ctx) != nil { // go-redis compares the deadline with the clock too
		return gone(ctx)
	}
	return failed(err)
}

// talk is a conversation of several round trips. It uses any connections until
// it begins to watch keys; from then on it has one connection for itself.
type talk struct {
	link
	ctx context.Context
	// asked counts round trips with an effect. alone says that all of them used one
	// connection.
	asked int
	alone bool
	// err is the reason for the end of the talk. heard says that the server had
	// begun to answer.
	err   error
	heard bool

	// asks carries calls to the goroutine with the connection, if there is one, and
	// done brings back their error. ended is closed when the goroutine is done.
	asks  chan []call
	done  chan error
	ended chan struct{}
}

// talk lets f talk to the server, over one connection if alone is set. answer is the
// error of f. It may also be the error of the talk.
func (l link) talk(ctx context.Context, alone bool, f func(layout.Ask) error) (t *talk, answer error) {
	t = &talk{link: l, ctx: ctx, alone: alone}
	defer t.end()
	answer = f(t.ask)
	return t, answer
}

// end releases the connection. When end returns, a usable connection is back in
// the pool.
func (t *talk) end() {
	if t.asks == nil {
		return
	}
	close(t.asks)
	if t.err == nil {
		select {
		case <-t.ended:
		case <-t.ctx.Done(): // a server may not answer the commands that free the connection
		}
	}
}

// ask implements layout.Ask.
func (t *talk) ask(b *layout.Batch) (replies []resp.Value, err error) {
	if t.err != nil {
		return nil, t.err
	}
	calls := newCalls(b.Text, b.N)
	if t.err = t.exchange(calls); t.err == nil {
		replies, t.err = values(calls)
	}
	if !slices.ContainsFunc(replies, notRun) {
		t.asked++
	}
	t.heard = t.heard || t.err == nil || lost(t.err) && heard(calls)
	return replies, t.err
}

// notRun reports whether a script was not run, because the server does not know
// it or runs none. The round trip had no effect then.
func notRun(v resp.Value) bool {
	return v.Kind() == resp.Error && bytes.HasPrefix(v.Bytes(), []byte("NOSCRIPT ")) || layout.NoScripts(v)
}

func (t *talk) exchange(calls []call) error {
	watches := calls[0].args[0] == "WATCH"
	if t.asked == 0 {
		t.alone = t.alone || watches
	}
	if t.asks == nil && (watches || t.alone) {
		// The buffers let the caller leave: neither side waits for the other one.
		t.asks, t.done, t.ended = make(chan []call, 1), make(chan error, 1), make(chan struct{})
		if err := t.start(t.ctx, t.serve); err != nil {
			return err
		}
	}
	if t.asks == nil {
		return t.link.exchange(t.ctx, calls)
	}
	t.asks <- calls
	return await(t.ctx, t.done)
}

// serve takes a connection and makes the calls from asks until asks is closed.
func (t *talk) serve() {
	cn := t.rdb.Conn()
	defer close(t.ended)
	defer cn.Close()
	var left session
	for calls := range t.asks {
		err := do(t.ctx, cn, calls)
		left.hear(calls)
		t.done <- err
	}
	left.free(context.WithoutCancel(t.ctx), cn)
}

// session is the state in which a connection would come back to its pool.
type session struct {
	// watches says that the server watches keys, and queues that it takes the next command for a part
	// of a transaction.
	watches, queues bool
}

// hear learns from the replies to calls. A reply may be missing: then go-redis uses the connection no more.
func (s *session) hear(calls []call) {
	for i := range calls {
		v, err := calls[i].reply.Value()
		if err != nil {
			return
		}
		refused := v.Kind() == resp.Error
		switch calls[i].args[0] {
		case "WATCH":
			s.watches = s.watches || !refused
		case "MULTI":
			s.queues = s.queues || !refused
		case "UNWATCH":
			s.watches = s.watches && !v.OK() // in a transaction it is only queued
		case "EXEC", "DISCARD": // old servers stay in a transaction of which they refuse the end
			if !refused || bytes.HasPrefix(v.Bytes(), []byte("EXECABORT ")) {
				*s = session{}
			}
		}
	}
}

// free makes sure that the next user of the connection inherits neither watched keys nor a
// transaction. A reply may have come when no caller waited for it any more. If the connection is
// broken, go-redis does not use it again, and do returns at once.
func (s *session) free(ctx context.Context, cn doer) {
	if s.watches && !s.queues {
		calls := newCalls([]byte("*1\r\n$7\r\nUNWATCH\r\n"), 1)
		_ = do(ctx, cn, calls)
		s.hear(calls)
	}
	if s.watches || s.queues {
		_ = do(ctx, cn, []call{{args: []any{"DISCARD"}, last: true}})
	}
}
