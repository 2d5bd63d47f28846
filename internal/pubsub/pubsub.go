// Package pubsub keeps a subscription to channels of a Redis server alive over
// connections that come and go, and tells when messages may have been lost.
package pubsub

import (
	"context"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/resp"
)

// Conn is a connection of a subscription. SetDeadline and Close may be called
// while another method runs.
type Conn interface {
	// Send writes a command.
	Send(args ...any) error
	// Wait returns when something begins to arrive. It can be repeated.
	Wait() error
	// Read returns what arrives next.
	Read() (Heard, error)
	// Buffered is the number of bytes that have arrived and were not read.
	Buffered() int
	// SetDeadline bounds all of these.
	SetDeadline(time.Time)
	// Close makes all of these fail.
	Close() error
}

// Heard is what a server has sent.
type Heard struct {
	resp.Published
	// Refusal is the text of an error, or nil.
	Refusal []byte
	// Push says that it may come although nobody has asked.
	Push bool
	// Size is how many bytes it holds.
	Size int
}

// Hear makes sense of what a server has sent.
func Hear(v resp.Value) (Heard, error) {
	if v.Kind() == resp.Error {
		return Heard{Refusal: v.Bytes()}, nil
	}
	p, err := v.Published()
	return Heard{Published: p, Push: v.Kind() == resp.Push, Size: v.Size()}, err
}

// Config says what is subscribed and how. Fields are required unless they say
// otherwise.
type Config struct {
	// Command is SUBSCRIBE, PSUBSCRIBE or SSUBSCRIBE, with its Channels, or
	// patterns.
	Command  string
	Channels []string
	// Joins says that channels are joined later, by [Subscription.Join]. Events
	// that are not taken in time then cost the connection.
	Joins bool
	// Connect opens a connection within DialTimeout.
	Connect     func(ctx context.Context) (Conn, error)
	DialTimeout time.Duration
	// Backoff is the pause after the n-th failure in a row.
	Backoff func(n int) time.Duration
	// Refused makes an error of one that the server sent.
	Refused func(text []byte) error
	// Broken makes an error of what happened to a connection.
	Broken func(ctx context.Context, err error) error
	// Unasked is the reason if something comes that nobody asked for.
	Unasked error
	// Final reports whether the subscription is to end with an error; nil means
	// that it outlives all of them.
	Final func(err error) bool
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

	mu     sync.Mutex          // guards below
	joined map[string]struct{} // beside Config.Channels
	live   *listener           // nil without a connection
}

// New begins a subscription, which lives until ctx ends or it is closed. ended
// is called at its end.
func New(ctx context.Context, o Config, ended func()) *Subscription {
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

// Err returns why nothing arrives at the moment.
func (s *Subscription) Err() error { return s.events.why() }

// Next returns the next event.
func (s *Subscription) Next(ctx context.Context) (Event, error) { return s.events.next(ctx) }

// Join subscribes to a further channel. A [Subscribed] event with the channel
// says that the server has agreed, each time that it is joined and on each new
// connection. A channel that the server refuses is asked for again.
func (s *Subscription) Join(channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined[channel] = struct{}{}
	s.live.order(order{channel: channel})
}

// Leave ends the subscription to a channel that was joined.
func (s *Subscription) Leave(channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.joined, channel)
	s.live.order(order{channel: channel, leave: true})
}

// Renew gives the connection up for another one, because of err.
func (s *Subscription) Renew(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.live; l != nil {
		l.renewed = err
		_ = l.Close() // it is given up
	}
}

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

// listen takes what the server sends until that ends.
func (s *Subscription) listen(ctx context.Context, l *listener) error {
	for acks := 0; ; {
		h, err := l.next()
		if err != nil {
			return s.o.Broken(ctx, err)
		}
		switch {
		case h.Refusal != nil:
			// It may subscribe and not ping: that is a sign of life, too.
			if !l.subscribed || !denied(h.Refusal) || !l.refused() {
				return s.o.Refused(h.Refusal)
			}
		case h.Ended && l.left(string(h.Channel)):
		case h.Ended:
			return s.o.Ended
		case h.Ack && l.subscribed && !l.answered(string(h.Channel)):
			return s.o.Ended // and begun anew, perhaps elsewhere, by whoever carries the connection
		case h.Ack && l.subscribed:
			err = s.tell(Event{Kind: Subscribed, Channel: string(h.Channel)})
		case h.Ack:
			if acks++; acks == len(s.o.Channels) {
				s.begin(l)
				err = s.tell(Event{Kind: Subscribed})
			}
		case h.Message && l.subscribed: // before, nothing was promised
			e := Event{Kind: Received, Pattern: string(h.Pattern), Channel: string(h.Channel), Payload: h.Payload}
			e.size = h.Size + len(e.Pattern) + len(e.Channel) // the payload keeps its reply
			err = s.tell(e)
		case !h.Message && !h.Push && !l.answered(""):
			return s.o.Broken(ctx, s.o.Unasked)
		}
		if err != nil {
			return err
		}
	}
}

// begin notes that the server has agreed to what the subscription began with,
// and asks for what was joined since.
func (s *Subscription) begin(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.subscribed = true
	s.live = l
	for c := range s.joined {
		l.order(order{channel: c})
	}
}

// tell queues an event. Events that are not taken in time end the session of a
// subscription that joins channels.
func (s *Subscription) tell(e Event) error {
	if s.events.add(e) || !s.o.Joins {
		return nil
	}
	return s.o.Overflow
}
