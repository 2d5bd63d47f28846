// Package pubsub keeps a subscription to channels of a Redis server alive over
// connections that come and go, and tells when messages may have been lost.
package pubsub

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/resp"
)

const (
	// A subscription that hears nothing for pingAfter asks for a sign of life,
	// and takes the connection for dead if none comes within pongWithin.
	pingAfter  = time.Second
	pongWithin = 2 * time.Second
)

// Conn is a connection of a subscription.
type Conn interface {
	// Send writes a command.
	Send(args ...any) error
	// Wait returns when something begins to arrive. It can be repeated.
	Wait() error
	// Read returns what arrives next.
	Read() (resp.Value, error)
	// Buffered is the number of bytes that have arrived and were not read.
	Buffered() int
	// SetDeadline bounds all of these.
	SetDeadline(time.Time)
	// Close makes all of these fail.
	Close() error
}

// Config says what is subscribed and how. All fields are required.
type Config struct {
	// Command is SUBSCRIBE, PSUBSCRIBE or SSUBSCRIBE, with its Channels, or
	// patterns.
	Command  string
	Channels []string
	// Connect opens a connection within DialTimeout.
	Connect     func(ctx context.Context) (Conn, error)
	DialTimeout time.Duration
	// Backoff is the pause after the n-th failure in a row.
	Backoff func(n int) time.Duration
	// Refused makes an error of one that the server sent.
	Refused func(text []byte) error
	// Broken makes an error of what happened to a connection.
	Broken func(ctx context.Context, err error) error
	// Closed is the error after the end, Overflow that of a gap caused by
	// events that were not taken, Connecting that of a subscription that was
	// never in order, Ended that of one that the server has ended.
	Closed, Overflow, Connecting, Ended error
}

// Subscription receives what is published.
type Subscription struct {
	o      Config
	cancel context.CancelFunc
	run    sync.WaitGroup
	events queue
}

// New begins a subscription, which lives until ctx ends or it is closed. ended
// is called at its end.
func New(ctx context.Context, o Config, ended func()) *Subscription {
	s := &Subscription{o: o, events: newQueue(o)}
	ctx, s.cancel = context.WithCancel(ctx)
	s.run.Go(func() {
		defer ended()
		defer s.events.end()
		defer s.cancel()
		s.keep(ctx)
	})
	return s
}

// Close ends the subscription and waits for its goroutine.
func (s *Subscription) Close() {
	s.cancel()
	s.run.Wait()
}

// Err returns why nothing arrives at the moment.
func (s *Subscription) Err() error { return s.events.why() }

// Next returns the next event.
func (s *Subscription) Next(ctx context.Context) (Event, error) { return s.events.next(ctx) }

// keep keeps the subscription alive until ctx ends.
func (s *Subscription) keep(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		subscribed, err := s.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if subscribed {
			failures = 0
			s.events.add(Event{Kind: Gap, Err: err})
		} else {
			s.events.fail(err)
		}
		failures++
		pause := time.NewTimer(s.o.Backoff(failures))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// session is the life of one connection. It reports whether the server had
// agreed, and why it ended.
func (s *Subscription) session(ctx context.Context) (subscribed bool, err error) {
	dialling, cancel := context.WithTimeout(ctx, s.o.DialTimeout)
	cn, err := s.o.Connect(dialling)
	cancel()
	if err != nil {
		return false, err
	}
	defer cn.Close()
	stop := context.AfterFunc(ctx, func() { cn.Close() })
	defer stop()

	cn.SetDeadline(time.Now().Add(s.o.DialTimeout))
	args := []any{s.o.Command}
	for _, c := range s.o.Channels {
		args = append(args, c)
	}
	if err := cn.Send(args...); err != nil {
		return false, s.o.Broken(ctx, err)
	}
	l := listener{Conn: cn}
	for acks := 0; ; {
		v, err := l.next()
		if err != nil {
			return l.subscribed, s.o.Broken(ctx, err)
		}
		if v.Kind() == resp.Error {
			if l.subscribed && bytes.HasPrefix(v.Bytes(), []byte("NOPERM ")) {
				continue // it may subscribe and not ping: that is a sign of life, too
			}
			return l.subscribed, s.o.Refused(v.Bytes())
		}
		p, err := v.Published()
		switch {
		case err != nil:
			return l.subscribed, s.o.Broken(ctx, err)
		case p.Ended:
			return l.subscribed, s.o.Ended
		case p.Ack:
			if acks++; acks == len(s.o.Channels) {
				l.subscribed = true
				s.events.add(Event{Kind: Subscribed})
			}
		case p.Message && l.subscribed: // before, nothing was promised
			e := Event{Kind: Received, Pattern: string(p.Pattern), Channel: string(p.Channel), Payload: p.Payload}
			e.size = v.Size() + len(e.Pattern) + len(e.Channel) // the payload keeps its reply
			s.events.add(e)
		}
	}
}

// listener hears what the server sends.
type listener struct {
	Conn
	deadline   time.Time
	subscribed bool
}

func (l *listener) set(t time.Time) {
	l.deadline = t
	l.SetDeadline(t)
}

// next returns what comes next, however long nothing is published. The deadline
// of the greeting holds until the server has agreed.
func (l *listener) next() (resp.Value, error) {
	if l.subscribed {
		if err := l.await(); err != nil {
			return resp.Value{}, err
		}
	}
	return l.Read()
}

// await waits until something begins to arrive, and asks the server for a sign
// of life meanwhile.
func (l *listener) await() error {
	if l.Buffered() == 0 {
		l.set(time.Now().Add(pingAfter))
		err := l.Wait()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			l.set(time.Now().Add(pongWithin))
			if err = l.Send("PING"); err == nil {
				err = l.Wait()
			}
		}
		if err != nil {
			return err
		}
	}
	// What has begun must come to its end in time.
	if now := time.Now(); l.deadline.Sub(now) < pongWithin/2 {
		l.set(now.Add(pongWithin))
	}
	return nil
}
