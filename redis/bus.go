package redis

import (
	"context"
	"sync"

	"github.com/strata-cache/strata/internal/redistier/layout"
	"github.com/strata-cache/strata/remote"
)

// Bus carries invalidations over Redis pub/sub. It is a [remote.Bus]. What a
// [Tier] on the same server drops is announced by the Tier itself.
type Bus struct {
	c *Client
}

// NewBus returns a bus on c's server. Each follower has a connection of its
// own. The client stays the caller's to close, after the followers were
// stopped.
func NewBus(c *Client) *Bus { return &Bus{c: c} }

// Publish sends messages in one round trip.
func (b *Bus) Publish(ctx context.Context, ms []remote.Message) error {
	if len(ms) == 0 {
		return ctx.Err()
	}
	p := b.c.Pipeline()
	for i := range ms {
		m := &ms[i]
		p.Add("PUBLISH", layout.Channel(m.Name), layout.Message(m))
	}
	replies, err := p.Do(ctx)
	if err != nil {
		return err
	}
	for _, r := range replies {
		if err := r.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Follow calls f for everything that happens to the named cache. A lost
// connection is a Gap, and replaced until stop is called.
func (b *Bus) Follow(name string, f func(remote.Event)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	s, err := b.c.Subscribe(ctx, layout.Channel(name))
	if err != nil { // the client is closed: nothing will ever arrive
		cancel()
		return func() {}
	}
	var wg sync.WaitGroup
	wg.Go(func() { deliver(ctx, s, name, f) })
	return func() {
		cancel()
		_ = s.Close() // always nil
		wg.Wait()
	}
}

// deliver passes on the events of s until it ends.
func deliver(ctx context.Context, s *Subscription, name string, f func(remote.Event)) {
	for {
		e, err := s.Next(ctx)
		if err != nil {
			return
		}
		switch e.Kind {
		case Subscribed:
			f(remote.Event{State: remote.Connected})
		case Gap:
			f(remote.Event{State: remote.Gap})
		case Received:
			if m, ok := layout.ParseMessage(name, string(e.Payload)); ok {
				f(remote.Event{State: remote.Delivered, Messages: []remote.Message{m}})
			}
		}
	}
}
