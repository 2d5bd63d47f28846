package redis

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/netpool"
	"github.com/strata-cache/strata/internal/resp"
)

const (
	// A subscription that hears nothing for pingAfter asks for a sign of life,
	// and takes the connection for dead if none comes within pongWithin.
	pingAfter  = time.Second
	pongWithin = 2 * time.Second
	// maxQueued and maxQueuedBytes bound the events that wait for Next.
	maxQueued      = 1024
	maxQueuedBytes = 16 << 20
)

// errOverflow is the reason of a gap that the reader of the events caused.
var errOverflow = errors.New("redis: subscription: events were not taken in time")

// EventKind says what a subscription reports.
type EventKind uint8

const (
	// Subscribed: the server has acknowledged all channels, for the first time
	// or again; what is published from here on arrives.
	Subscribed EventKind = iota + 1
	// Received: a message.
	Received
	// Gap: messages may have been lost since the last event, and nothing
	// arrives until the next Subscribed.
	Gap
)

// Event is one thing that happened to a subscription.
type Event struct {
	Kind EventKind
	// Channel and Payload are those of a message. The payload belongs to the
	// receiver.
	Channel string
	Payload []byte
	// Err is the reason of a gap.
	Err error
}

// Subscription receives what is published on channels. It has its own
// connection and replaces it when it fails, for as long as it takes; each time
// messages may have been lost it says so with a [Gap].
//
// Its events are queued up to a bound. If they are not taken in time, all that
// are queued are dropped for a Gap and, if the connection is well, a
// Subscribed.
type Subscription struct {
	c        *Client
	channels []any
	cancel   context.CancelFunc
	done     chan struct{} // closed when run has ended
	ready    chan struct{} // holds a token if the queue may have events

	mu    sync.Mutex // guards below
	queue []Event
	bytes int   // of the payloads in queue
	err   error // why it is not subscribed
	ended bool
}

// Subscribe subscribes to channels. It returns at once; the first Subscribed
// event says that the server has agreed. The subscription lives until ctx
// ends, [Subscription.Close] is called or the client is closed.
func (c *Client) Subscribe(ctx context.Context, channels ...string) (*Subscription, error) {
	if len(channels) == 0 {
		return nil, errors.New("redis: subscription: channels missing")
	}
	s := &Subscription{
		c:        c,
		channels: []any{"SUBSCRIBE"},
		done:     make(chan struct{}),
		ready:    make(chan struct{}, 1),
		err:      errors.New("redis: subscription: connecting"),
	}
	for _, name := range channels {
		s.channels = append(s.channels, name)
	}
	ctx, s.cancel = context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		s.cancel()
		return nil, ErrClosed
	}
	c.subs[s] = struct{}{}
	go s.run(ctx)
	return s, nil
}

// Close ends the subscription and waits for its goroutine. Next returns
// ErrClosed from then on. It can be called more than once; the error is always
// nil.
func (s *Subscription) Close() error {
	s.cancel()
	<-s.done
	return nil
}

// Err returns why nothing arrives at the moment, or nil if the subscription is
// in order.
func (s *Subscription) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Next returns the next event, waiting for it until ctx ends. After the
// subscription has ended it returns ErrClosed. It is for one caller at a time.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	for {
		s.mu.Lock()
		if s.ended {
			s.mu.Unlock()
			return Event{}, ErrClosed
		}
		if len(s.queue) > 0 {
			e := s.queue[0]
			s.queue[0] = Event{}
			s.queue = s.queue[1:]
			s.bytes -= len(e.Payload)
			s.mu.Unlock()
			return e, nil
		}
		s.mu.Unlock()
		select {
		case <-s.ready:
		case <-s.done:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// add queues an event.
func (s *Subscription) add(e Event) {
	s.mu.Lock()
	switch e.Kind {
	case Subscribed:
		s.err = nil
	case Gap:
		s.err = e.Err
	}
	full := len(s.queue) >= maxQueued || len(s.queue) > 0 && s.bytes+len(e.Payload) > maxQueuedBytes
	switch {
	case !full:
		s.queue = append(s.queue, e)
		s.bytes += len(e.Payload)
	case e.Kind == Gap:
		s.queue, s.bytes = []Event{e}, 0
	default:
		s.queue, s.bytes = []Event{{Kind: Gap, Err: errOverflow}, {Kind: Subscribed}}, 0
	}
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// run keeps the subscription alive until ctx ends.
func (s *Subscription) run(ctx context.Context) {
	defer s.end()
	failures := 0
	for ctx.Err() == nil {
		subscribed, err := s.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if subscribed {
			failures = 0
			s.add(Event{Kind: Gap, Err: err})
		} else {
			s.mu.Lock()
			s.err = err
			s.mu.Unlock()
		}
		failures++
		pause := time.NewTimer(netpool.Backoff(failures))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

func (s *Subscription) end() {
	s.cancel()
	s.c.mu.Lock()
	delete(s.c.subs, s)
	s.c.mu.Unlock()
	s.mu.Lock()
	s.ended, s.queue, s.err = true, nil, ErrClosed
	s.mu.Unlock()
	close(s.done)
}

// session is the life of one connection. It reports whether the server had
// agreed, and why it ended.
func (s *Subscription) session(ctx context.Context) (subscribed bool, err error) {
	dialling, cancel := context.WithTimeout(ctx, s.c.o.DialTimeout)
	defer cancel()
	o, err := s.c.speaker(dialling, -1)
	if err != nil {
		return false, err
	}
	cn, err := connect(dialling, o, &s.c.steps)
	if err != nil {
		return false, err
	}
	defer cn.nc.Close()
	stop := context.AfterFunc(ctx, func() { cn.nc.Close() })
	defer stop()

	cn.setDeadline(time.Now().Add(o.DialTimeout))
	if err := cn.command(s.channels); err != nil {
		return false, err
	}
	if err := cn.flush(true); err != nil {
		return false, err
	}
	acks := 0
	for {
		if err := s.await(cn, subscribed); err != nil {
			return subscribed, explain(ctx, false, err)
		}
		v, err := cn.r.Read()
		if err != nil {
			return subscribed, explain(ctx, false, readError(err))
		}
		if v.Kind() == resp.Error {
			return subscribed, serverError(v.Bytes())
		}
		p, err := v.Published()
		if err != nil {
			return subscribed, explain(ctx, false, readError(err))
		}
		if p.Ack {
			acks++
			if acks == len(s.channels)-1 {
				subscribed = true
				s.add(Event{Kind: Subscribed})
			}
		}
		// Before Subscribed nothing was promised, so nothing is delivered.
		if p.Message && subscribed {
			s.add(Event{Kind: Received, Channel: string(p.Channel), Payload: p.Payload})
		}
	}
}

// await waits until a frame begins to arrive, however long nothing is
// published, and asks the server for a sign of life meanwhile.
func (s *Subscription) await(cn *conn, subscribed bool) error {
	if !subscribed {
		return cn.wait() // the deadline of the greeting holds
	}
	if cn.r.Buffered() == 0 {
		cn.setDeadline(time.Now().Add(pingAfter))
		err := cn.wait()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			cn.setDeadline(time.Now().Add(pongWithin))
			if err = cn.command([]any{"PING"}); err == nil {
				err = cn.flush(true)
			}
			if err == nil {
				err = cn.wait()
			}
		}
		if err != nil {
			return err
		}
	}
	// What has begun must come to its end in time.
	if now := time.Now(); cn.deadline.Sub(now) < pongWithin/2 {
		cn.setDeadline(now.Add(pongWithin))
	}
	return nil
}
