package goredis

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/internal/redistier/watch"
	"github.com/strata-cache/strata/internal/resp"
)

// link makes the calls of a client end with their context. go-redis looks at
// deadlines only if ContextTimeoutEnabled is set, and at nothing else once it
// writes or reads. Where that is too late it works in a goroutine of its own,
// which the caller may leave behind.
type link struct {
	rdb *redis.Client
	// prompt says that go-redis looks at deadlines.
	prompt bool
	// slots holds a token for each such goroutine. There are as many as rdb has
	// connections: one more would wait for a connection anyway.
	slots chan struct{}
}

func newLink(rdb *redis.Client) link {
	o := rdb.Options()
	return link{rdb, o.ContextTimeoutEnabled, make(chan struct{}, max(o.PoolSize, 1))}
}

// start runs f in a goroutine, once there is a slot for it.
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

// exchange makes calls over any connection, in one round trip. If the error is
// none that lost knows, somebody may still write to calls.
func (l link) exchange(ctx context.Context, calls []call) error {
	if ctx.Err() != nil {
		return gone(ctx)
	}
	if _, bounded := ctx.Deadline(); bounded && l.prompt {
		// Another goroutine would cost as much as the rest of the call.
		return result(ctx, do(ctx, l.rdb, calls))
	}
	done := make(chan error, 1)
	if err := l.start(ctx, func() { done <- do(ctx, l.rdb, calls) }); err != nil {
		return err
	}
	return await(ctx, done)
}

// await returns what do has returned, or earlier if ctx ends.
func await(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return result(ctx, err)
	case <-ctx.Done():
		return gone(ctx)
	}
}

// result is what do has returned as an error of ours.
func result(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	// go-redis has looked at the clock too.
	if d, ok := ctx.Deadline(); ctx.Err() != nil || ok && !time.Now().Before(d) {
		return gone(ctx)
	}
	return failed(err)
}

// talk is a conversation of several round trips. Any connections will do, until
// it begins to watch keys: from then on it has one to itself.
type talk struct {
	link
	ctx context.Context
	// asked counts round trips that came to something; alone says that all were
	// over one connection.
	asked int
	alone bool
	// err is why the talk is over. heard says that the server had begun to
	// answer.
	err   error
	heard bool

	// asks goes to the goroutine that has the connection, if there is one, and
	// done comes back. clean says that the connection watches nothing; it is set
	// before asks is closed. ended is closed when the goroutine is done.
	asks  chan []call
	done  chan error
	clean bool
	ended chan struct{}
}

// talk lets f talk to the server, over one connection if alone is set. answer is
// the error of f, which may be that of the talk.
func (l link) talk(ctx context.Context, alone bool, f func(watch.Ask) error) (t *talk, answer error) {
	t = &talk{link: l, ctx: ctx, alone: alone}
	defer t.end()
	answer = f(t.ask)
	t.clean = t.err == nil
	return t, answer
}

// end lets the connection go. One that is in order is back with the others when
// end returns.
func (t *talk) end() {
	if t.asks == nil {
		return
	}
	close(t.asks)
	if t.clean {
		<-t.ended
	}
}

// ask implements watch.Ask.
func (t *talk) ask(b *watch.Batch) (replies []resp.Value, err error) {
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
// it or runs none. It is sent again, or done without, as if it never had been
// sent.
func notRun(v resp.Value) bool {
	return v.Kind() == resp.Error && bytes.HasPrefix(v.Bytes(), []byte("NOSCRIPT ")) || watch.NoScripts(v)
}

func (t *talk) exchange(calls []call) error {
	watches := calls[0].args[0] == "WATCH"
	if t.asked == 0 {
		t.alone = t.alone || watches
	}
	if t.asks == nil && (watches || t.alone) {
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

// serve has a connection and does what is asked until nobody asks any more.
func (t *talk) serve() {
	cn := t.rdb.Conn()
	defer close(t.ended)
	defer cn.Close()
	used := false
	for calls := range t.asks {
		err := do(t.ctx, cn, calls)
		used = used || err == nil
		t.done <- err
	}
	if used && !t.clean {
		// An answer may have come when nobody waited for it any more. Whoever
		// gets the connection next must not inherit the keys that it watches.
		// One that is broken is not used again, and go-redis says so at once.
		_ = do(context.WithoutCancel(t.ctx), cn, newCalls([]byte("*1\r\n$7\r\nUNWATCH\r\n"), 1))
	}
}
