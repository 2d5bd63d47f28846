package pool

import (
	"context"
	"time"
)

// Listener is a connection that counts the received bytes.
type Listener interface {
	Conn
	Received() uint64
}

// Attempt gives f a connection. If the connection was found dead before any byte of
// a reply came (lost tells by the error of f), and repeat permits it, f runs once
// more on another one. An error of f is about the connection, which is closed if f
// does not return; calm is as in [Exchange]. The caller must put back the
// connection that it gets.
func Attempt[C Listener](ctx context.Context, p *Pool[C], now time.Time, f func(C) (calm bool, err error), lost, repeat func(error) bool) (cn C, calm bool, err error) {
	var none C
	for again := false; ; again = true {
		if cn, err = p.Get(ctx, now); err != nil {
			return none, false, err
		}
		before := cn.Received()
		calm, err = guarded(p, now, cn, f)
		// A byte of the reply means that the server has got the call: to repeat it could carry it
		// out twice.
		if err == nil || !cn.slot().reused || cn.Received() != before || !lost(err) {
			return cn, calm, err
		}
		p.Lost(cn)
		if again || !repeat(err) {
			return cn, calm, err
		}
		p.Retry(cn, now)
	}
}

// guarded calls f, and closes the connection if f does not return.
func guarded[C Conn](p *Pool[C], now time.Time, cn C, f func(C) (bool, error)) (calm bool, err error) {
	// A panic, or an end of the goroutine, in f must not leave the connection open and in use for
	// ever.
	returned := false
	defer func() {
		if !returned {
			p.Put(cn, false, now)
		}
	}()
	calm, err = f(cn)
	returned = true
	return calm, err
}
