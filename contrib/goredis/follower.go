package goredis

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/internal/netpool"
	"github.com/strata-cache/strata/internal/redistier/layout"
	"github.com/strata-cache/strata/remote"
)

// A follower that hears nothing for pingAfter asks for a sign of life, and
// takes the connection for dead if none comes within pongWithin.
const (
	pingAfter  = time.Second
	pongWithin = 2 * time.Second
)

// follower follows one cache. go-redis would replace a lost connection by
// itself and say nothing, so each connection has a redis.PubSub of its own,
// which ends with it.
type follower struct {
	rdb       *redis.Client
	name      string
	tell      func(remote.Event)
	connected bool
}

// run follows until ctx ends or the client is closed.
func (fl *follower) run(ctx context.Context) {
	for failures := 1; ; failures++ {
		err := fl.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if fl.connected {
			failures = 1
			fl.lose()
		}
		if errors.Is(err, redis.ErrClosed) {
			return
		}
		pause := time.NewTimer(netpool.Backoff(failures))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

func (fl *follower) lose() {
	fl.connected = false
	fl.tell(remote.Event{State: remote.Gap})
}

// session is the life of one connection.
func (fl *follower) session(ctx context.Context) error {
	ps := fl.rdb.Subscribe(ctx) // to nothing yet, which opens no connection
	defer ps.Close()
	stop := context.AfterFunc(ctx, func() { ps.Close() })
	defer stop()
	if err := fl.subscribe(ctx, ps); err != nil {
		return err
	}
	// With a context that has ended go-redis reads and writes, but opens no
	// connection.
	spent, cancel := context.WithCancel(ctx)
	cancel()
	p := newPulse(spent, ps)
	defer p.stop()
	for {
		m, err := receive(spent, ps)
		if err != nil {
			return err
		}
		p.heard()
		fl.take(m)
	}
}

// subscribe opens the connection and sends the command.
func (fl *follower) subscribe(ctx context.Context, ps *redis.PubSub) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, fl.rdb.Options().DialTimeout)
	defer cancel()
	return ps.Subscribe(ctx, layout.Channel(fl.name))
}

// receive waits for what the server sends next.
func receive(ctx context.Context, ps *redis.PubSub) (m any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	return ps.Receive(ctx)
}

// take tells what the server has sent.
func (fl *follower) take(m any) {
	switch m := m.(type) {
	case *redis.Subscription:
		if fl.connected { // to another server, unseen
			fl.lose()
		}
		fl.connected = true
		fl.tell(remote.Event{State: remote.Connected})
	case *redis.Message:
		// Before Connected nothing was promised, so nothing is delivered.
		if message, ok := layout.ParseMessage(fl.name, m.Payload); ok && fl.connected {
			fl.tell(remote.Event{State: remote.Delivered, Messages: []remote.Message{message}})
		}
	}
}

// pulse closes a subscription whose server gives no sign of life. It does not
// set deadlines for that: one could pass in the middle of a message, and
// go-redis would take the rest of it for the next.
type pulse struct {
	ctx   context.Context
	ps    *redis.PubSub
	timer *time.Timer
	asked atomic.Bool // and not heard since
}

func newPulse(ctx context.Context, ps *redis.PubSub) *pulse {
	p := &pulse{ctx: ctx, ps: ps}
	p.timer = time.AfterFunc(time.Hour, p.beat)
	p.heard()
	return p
}

func (p *pulse) heard() {
	p.asked.Store(false)
	p.timer.Reset(pingAfter)
}

func (p *pulse) beat() {
	if p.asked.Swap(true) || p.ps.Ping(p.ctx) != nil {
		p.ps.Close()
		return
	}
	p.timer.Reset(pongWithin)
}

func (p *pulse) stop() { p.timer.Stop() }
