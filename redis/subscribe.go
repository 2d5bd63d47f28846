package redis

import (
	"context"
	"errors"
	"slices"

	"github.com/strata-cache/strata/internal/redis/bus"
	"github.com/strata-cache/strata/internal/redis/slots"
)

// EventKind is the kind of an event of a subscription.
type EventKind uint8

const (
	// Subscribed: the server has acknowledged all channels, for the first time
	// or again; messages published from here on arrive.
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
	// Channel and Payload are set for a message. The payload belongs to the
	// receiver.
	Channel string
	Payload []byte
	// Pattern is the pattern that the channel has matched, if the subscription is
	// to patterns.
	Pattern string
	// Err is the reason of a gap.
	Err error
}

// Subscription receives the messages of channels. It has its own
// connection and replaces it when it fails, for as long as it takes; each time
// messages may have been lost it says so with a [Gap].
//
// Its events are queued up to a bound. If they are not taken in time, a Gap
// replaces all queued events; a Subscribed follows it if the connection is well.
type Subscription struct {
	s *bus.Subscription
}

var errNoChannels = errors.New("redis: subscription: channels missing")

// Subscribe subscribes to channels. It returns at once; the first Subscribed
// event says that the server has agreed. The subscription lives until ctx
// ends, [Subscription.Close] is called or the client is closed.
//
// In a cluster the subscription is at the node that serves the slot of the first
// channel, if this node can be reached: [Client.Do] sends a PUBLISH on the
// channel there. Messages published at other nodes arrive too.
func (c *Client) Subscribe(ctx context.Context, channels ...string) (*Subscription, error) {
	if len(channels) == 0 {
		return nil, errNoChannels
	}
	return c.subscribe(ctx, "SUBSCRIBE", slots.Of(channels[0]), channels, false)
}

// PSubscribe is Subscribe for all channels that match one of the patterns: ? is
// any character, * any number of them, [ab] one of these. A message that several
// patterns match comes once for each.
func (c *Client) PSubscribe(ctx context.Context, patterns ...string) (*Subscription, error) {
	return c.subscribe(ctx, "PSUBSCRIBE", -1, patterns, false)
}

// SSubscribe is Subscribe for sharded channels, of Redis 7 and later: messages of
// SPUBLISH stay within the nodes that serve the slot of the channel.
// All channels must be in one slot, or else the error is ErrCrossSlot. When the
// slot moves there is a [Gap], and the subscription goes on at the other node.
func (c *Client) SSubscribe(ctx context.Context, channels ...string) (*Subscription, error) {
	slot := -1
	if c.cluster != nil {
		var err error
		if slot, err = sameSlot(channels); err != nil {
			return nil, err
		}
	}
	return c.subscribe(ctx, "SSUBSCRIBE", slot, channels, false)
}

// subscribe begins a subscription. joins says that further channels will join.
func (c *Client) subscribe(ctx context.Context, command string, slot int, channels []string, joins bool) (*Subscription, error) {
	if len(channels) == 0 {
		return nil, errNoChannels
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	s := &Subscription{}
	config := c.o.listening(command, slices.Clone(channels), c.subscriber(slot, command == "SSUBSCRIBE"))
	config.Joins = joins
	s.s = bus.NewSubscription(ctx, config, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subs, s.s)
	})
	c.subs[s.s] = struct{}{} // the callback waits for c.mu
	return s, nil
}

// Close ends the subscription and waits for its goroutine. Next returns
// ErrClosed from then on. It can be called more than once; the error is always
// nil.
func (s *Subscription) Close() error {
	s.s.Close()
	return nil
}

// Err returns why nothing arrives at the moment, or nil if the subscription is
// in order.
func (s *Subscription) Err() error { return s.s.Err() }

// Next returns the next event, waiting for it until ctx ends. After the
// subscription has ended it returns ErrClosed. It is for one caller at a time.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	e, err := s.s.Next(ctx)
	return Event{Kind: EventKind(e.Kind), Channel: e.Channel, Payload: e.Payload, Pattern: e.Pattern, Err: e.Err}, err
}

// subscriber returns the function that opens a connection for a subscription: in
// a cluster, to the node that serves the slot, or after a failure to any unless it is bound
// to the slot.
func (c *Client) subscriber(slot int, bound bool) func(context.Context) (bus.Conn, error) {
	failed := false
	return func(ctx context.Context) (bus.Conn, error) {
		at := slot
		if failed && !bound {
			at = -1
		}
		failed = !failed
		o, err := c.subscribeOptions(ctx, at)
		if err != nil {
			return nil, err
		}
		cn, err := c.dialSubscriber(ctx, o)
		if err != nil {
			c.refreshTopology()
			return nil, err
		}
		failed = false
		return subscriber{hearing{cn}, c, o.Addr}, nil
	}
}

// dialSubscriber opens a connection for a subscription.
func (c *Client) dialSubscriber(ctx context.Context, o *Options) (*conn, error) {
	if c.primary != nil {
		return c.primary.dial(ctx, o)
	}
	return c.dial(ctx, o)
}

// refreshTopology makes a cluster ask for its topology: the node of a subscription may
// not be the right one any more.
func (c *Client) refreshTopology() {
	if c.cluster != nil {
		c.cluster.fleet.Refresh("")
	}
}

// subscriber is the connection of a subscription of a Client.
type subscriber struct {
	hearing
	c    *Client
	addr string
}

// Wait implements bus.Conn. A node that has left its cluster may live on, and
// receives no messages.
func (s subscriber) Wait() error {
	if k := s.c.cluster; k != nil {
		if v := k.fleet.View(); v != nil && !v.Known(s.addr) {
			return errDismissed
		}
	}
	return s.hearing.Wait()
}

// Close implements bus.Conn.
func (s subscriber) Close() error {
	s.c.refreshTopology()
	return s.hearing.Close()
}

// subscribeOptions returns the options for a server to subscribe at: the one that serves
// a slot, or any if slot is negative.
func (c *Client) subscribeOptions(ctx context.Context, slot int) (*Options, error) {
	if c.cluster == nil {
		return c.home.o, nil
	}
	for n := 0; ; n++ {
		r, err := c.cluster.pick(slot, false)
		if err == nil {
			return r.n.o, nil
		}
		if _, v := c.cluster.judge(r, true, err); v == final || !c.cluster.pause(ctx, n) {
			return nil, err
		}
	}
}
