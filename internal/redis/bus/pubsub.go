// A Subscription to channels of a Redis server stays alive: it reconnects after errors,
// and reports when messages may have been lost.
//
// States of a Subscription: connecting (dialling, or waiting for the server
// to agree); subscribed; pausing after a failure; ended.
//
// Invariant: between a Subscribed event and the next Gap, the events hold
// every message that the server has sent, in order.

package bus

import (
	"context"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
)

// Conn is a connection of a subscription. SetDeadline and Close may be called
// while another method runs.
type Conn interface {
	// Send writes a command.
	Send(args ...any) error
	// Wait returns when the first bytes of a reply arrive. It can be called
	// again.
	Wait() error
	// Read returns the next reply, or that only a part of it has come: then it is
	// called again.
	Read() (h Heard, whole bool, err error)
	// Buffered returns the number of received bytes that Read has not consumed.
	Buffered() int
	// SetDeadline bounds Send, Wait and Read.
	SetDeadline(time.Time)
	// Close makes Send, Wait and Read fail.
	Close() error
}

// Heard is one reply or message of a server.
type Heard struct {
	resp.Published
	// Refusal is the text of an error reply, or nil.
	Refusal []byte
	// Push is true for a push message of RESP3, which needs no command.
	Push bool
	// Size is the number of bytes that it holds.
	Size int
}

// Hear converts a value that a server has sent.
func Hear(v resp.Value) (Heard, error) {
	if v.Kind() == resp.Error {
		return Heard{Refusal: v.Bytes()}, nil
	}
	p, err := v.Published()
	return Heard{Published: p, Push: v.Kind() == resp.Push, Size: v.Size()}, err
}

// SubscriptionConfig is the channels and functions of a subscription. Fields are required
// unless their comment says otherwise.
type SubscriptionConfig struct {
	// Command is SUBSCRIBE, PSUBSCRIBE or SSUBSCRIBE, and Channels are its
	// channels or patterns.
	Command  string
	Channels []string
	// Joins allows [Subscription.Join]. With Joins, an overflow of the event
	// queue closes the connection.
	Joins bool
	// Connect opens a connection within DialTimeout.
	Connect     func(ctx context.Context) (Conn, error)
	DialTimeout time.Duration
	// Backoff is the pause after the n-th failure in a row.
	Backoff func(n int) time.Duration
	// Refused converts the text of an error reply to an error.
	Refused func(text []byte) error
	// Broken converts the error of a connection.
	Broken func(ctx context.Context, err error) error
	// Unasked is the error for a reply without a command.
	Unasked error
	// Final reports whether an error ends the subscription; nil means that none
	// does.
	Final func(err error) bool
	// Closed is the error after the end of the subscription, Overflow the error
	// of a gap caused by a full queue, Connecting the error before the server
	// has first agreed, and Ended the error after the server has ended the
	// subscription.
	Closed, Overflow, Connecting, Ended error
}

// Subscription receives the messages of its channels. Use [NewSubscription] to make one.
type Subscription struct {
	o      SubscriptionConfig
	cancel context.CancelFunc
	run    sync.WaitGroup
	events queue

	mu     sync.Mutex          // guards below
	joined map[string]struct{} // in addition to SubscriptionConfig.Channels
	live   *listener           // nil without a connection
}

// NewSubscription starts a subscription, which lives until ctx ends or Close is called.
// ended is called at its end.
func NewSubscription(ctx context.Context, o SubscriptionConfig, ended func()) *Subscription {
	s := &Subscription{o: o, events: newQueue(o), joined: map[string]struct{}{}}
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

// Err returns the reason why no messages arrive at present, or nil.
func (s *Subscription) Err() error { return s.events.why() }

// Next returns the next event.
func (s *Subscription) Next(ctx context.Context) (Event, error) { return s.events.next(ctx) }

// Join subscribes to a further channel. When the server has agreed, a
// [Subscribed] event with the channel follows, for the last of several Joins and Leaves and on each new
// connection. If the server refuses a channel, the command is repeated after a
// pause.
func (s *Subscription) Join(channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined[channel] = struct{}{}
	s.live.order(order{channel: channel})
}

// Leave ends the subscription to a channel that Join began.
func (s *Subscription) Leave(channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.joined, channel)
	s.live.order(order{channel: channel, leave: true})
}

// Renew replaces the connection by a new one; err is the reason for the gap.
func (s *Subscription) Renew(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.live; l != nil {
		l.renewed = err
		_ = l.Close() // keep connects again
	}
}

// keep runs one session after the other until ctx ends or an error is final.
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
		if s.o.Final != nil && s.o.Final(err) {
			return
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

// session runs one connection. It reports whether the server had agreed, and
// returns the reason for the end.
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
	l := &listener{Conn: cn, mu: &s.mu}
	err = s.listen(ctx, l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = nil
	if l.renewed != nil {
		err = l.renewed
	}
	return l.subscribed, err
}

// listen handles the server's replies until the connection fails or the server
// ends the subscription.
func (s *Subscription) listen(ctx context.Context, l *listener) error {
	for acks := 0; ; {
		h, err := l.next()
		if err != nil {
			return s.o.Broken(ctx, err)
		}
		switch {
		case h.Refusal != nil:
			// A user may have the right to subscribe but not to PING. A refused
			// PING also shows that the server answers.
			if !l.subscribed || !denied(h.Refusal) || !l.refused() {
				return s.o.Refused(h.Refusal)
			}
		case h.Ended && l.left(string(h.Channel)):
		case h.Ended:
			return s.o.Ended
		case h.Ack && l.subscribed && !l.answered(string(h.Channel)):
			return s.o.Ended // an intermediary has subscribed again, perhaps on another server
		case h.Ack && l.subscribed && l.followed(string(h.Channel)): // the last command about the channel counts
		case h.Ack && l.subscribed:
			err = s.emit(Event{Kind: Subscribed, Channel: string(h.Channel)})
		case h.Ack:
			if acks++; acks == len(s.o.Channels) {
				s.begin(l)
				err = s.emit(Event{Kind: Subscribed})
			}
		case h.Message && l.subscribed: // messages before the agreement are not reported
			e := Event{Kind: Received, Pattern: string(h.Pattern), Channel: string(h.Channel), Payload: h.Payload}
			e.size = h.Size + len(e.Pattern) + len(e.Channel) // the payload keeps its reply in memory
			err = s.emit(e)
		case !h.Message && !h.Push && !l.answered(""):
			return s.o.Broken(ctx, s.o.Unasked)
		}
		if err != nil {
			return err
		}
	}
}

// begin records that the server has agreed to SubscriptionConfig.Channels, and subscribes
// to the joined channels.
func (s *Subscription) begin(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.subscribed = true
	s.live = l
	for c := range s.joined {
		l.order(order{channel: c})
	}
}

// emit queues an event. If the queue is full, it returns the error that ends
// the session of a subscription with SubscriptionConfig.Joins.
func (s *Subscription) emit(e Event) error {
	if s.events.add(e) || !s.o.Joins {
		return nil
	}
	return s.o.Overflow
}
