package goredis

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/internal/redis/bus"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/wire/pool"
)

var (
	errOverflow   = errors.New("goredis: subscription: events were not taken in time")
	errConnecting = errors.New("goredis: subscription: connecting")
	errEnded      = errors.New("goredis: subscription: ended by the server")
)

// subscribe begins a subscription that further channels can join.
func subscribe(ctx context.Context, rdb *redis.Client, channel string) *bus.Subscription {
	var runs sync.WaitGroup
	return bus.NewSubscription(ctx, bus.SubscriptionConfig{
		Command:     "SUBSCRIBE",
		Channels:    []string{channel},
		Joins:       true,
		Connect:     func(context.Context) (bus.Conn, error) { return newSubscriber(ctx, rdb, &runs), nil },
		DialTimeout: rdb.Options().DialTimeout,
		Backoff:     pool.Backoff,
		Refused:     func(text []byte) error { return newRefusal(string(text)) },
		Broken:      func(_ context.Context, err error) error { return err },
		Unasked:     errProtocol,
		Final:       func(err error) bool { return errors.Is(err, redis.ErrClosed) },
		Closed:      redis.ErrClosed,
		Overflow:    errOverflow,
		Connecting:  errConnecting,
		Ended:       errEnded,
	}, runs.Wait)
}

// subscriber is a connection of a subscription. go-redis would replace a lost
// connection by itself without an event, so each connection has a redis.PubSub
// of its own, which ends with it. A goroutine reads, without deadlines: a
// deadline could pass in the middle of a message, and go-redis would take the
// rest of it for the next message.
type subscriber struct {
	ctx   context.Context // of the subscription
	spent context.Context // has ended: go-redis reads and writes, but opens no connection
	ps    *redis.PubSub
	runs  *sync.WaitGroup // of goroutines that read
	heard chan received
	moved chan struct{} // holds one when the deadline has moved
	done  chan struct{} // closed by Close

	first *received // an arrived message, not read yet

	mu       sync.Mutex // guards below
	open     bool       // a connection was opened
	closed   bool
	deadline time.Time
}

// received is one result of go-redis: a message or an error.
type received struct {
	m   any
	err error
}

func newSubscriber(ctx context.Context, rdb *redis.Client, runs *sync.WaitGroup) *subscriber {
	spent, cancel := context.WithCancel(ctx)
	cancel()
	return &subscriber{
		ctx: ctx, spent: spent, ps: rdb.Subscribe(ctx), // without a channel it opens no connection
		runs: runs, heard: make(chan received), moved: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// Send implements bus.Conn. The first command opens the connection.
func (s *subscriber) Send(args ...any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	var channels []string
	for _, a := range args[1:] {
		channels = append(channels, a.(string))
	}
	s.mu.Lock()
	first := !s.open
	s.open = true
	deadline := s.deadline
	s.mu.Unlock()
	ctx := s.spent
	if first {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(s.ctx, deadline)
		defer cancel()
	}
	switch args[0] {
	case "SUBSCRIBE":
		err = s.ps.Subscribe(ctx, channels...)
	case "UNSUBSCRIBE":
		err = s.ps.Unsubscribe(ctx, channels...)
	case "PING":
		err = s.ps.Ping(ctx)
	}
	if first && err == nil {
		s.receive()
	}
	return err
}

// receive starts to receive, unless the connection is closed.
func (s *subscriber) receive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.runs.Go(func() {
		for {
			m, err := receive(s.spent, s.ps)
			select {
			case s.heard <- received{m, err}:
			case <-s.done:
				return
			}
			if err != nil && !answered(err) {
				return
			}
		}
	})
}

// receive waits for the next message of the server.
func receive(ctx context.Context, ps *redis.PubSub) (m any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	return ps.Receive(ctx)
}

// answered reports whether an error is an error reply of the server.
func answered(err error) bool {
	var e redis.Error
	return errors.As(err, &e)
}

// Wait implements bus.Conn.
func (s *subscriber) Wait() error {
	for s.first == nil {
		s.mu.Lock()
		deadline := s.deadline
		s.mu.Unlock()
		timer := time.NewTimer(time.Until(deadline))
		select {
		case h := <-s.heard:
			s.first = &h
		case <-timer.C:
			return os.ErrDeadlineExceeded
		case <-s.moved:
		case <-s.done:
			timer.Stop()
			return os.ErrClosed
		}
		timer.Stop()
	}
	return nil
}

// Read implements bus.Conn.
func (s *subscriber) Read() (read bus.Heard, whole bool, err error) {
	if err := s.Wait(); err != nil {
		return read, false, err
	}
	h := *s.first
	s.first = nil
	if h.err != nil {
		if answered(h.err) {
			return bus.Heard{Refusal: []byte(h.err.Error())}, true, nil
		}
		return read, false, h.err
	}
	var p resp.Published
	switch m := h.m.(type) {
	case *redis.Subscription:
		p = resp.Published{Ack: m.Kind == "subscribe", Ended: m.Kind == "unsubscribe", Channel: []byte(m.Channel)}
	case *redis.Message:
		p = resp.Published{Message: true, Channel: []byte(m.Channel), Payload: []byte(m.Payload)}
	}
	return bus.Heard{Published: p, Size: len(p.Channel) + len(p.Payload)}, true, nil
}

// Buffered implements bus.Conn.
func (s *subscriber) Buffered() int {
	if s.first == nil {
		return 0
	}
	return 1
}

// SetDeadline implements bus.Conn.
func (s *subscriber) SetDeadline(t time.Time) {
	s.mu.Lock()
	s.deadline = t
	s.mu.Unlock()
	select {
	case s.moved <- struct{}{}:
	default:
	}
}

// Close implements bus.Conn.
func (s *subscriber) Close() error {
	s.mu.Lock()
	if !s.closed {
		close(s.done)
	}
	s.closed = true
	s.mu.Unlock()
	return s.ps.Close()
}
