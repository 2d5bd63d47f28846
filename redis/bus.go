package redis

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/redis/bus"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/remote"
)

// Bus carries invalidations over Redis pub/sub. It is a [remote.Bus]. A [Tier] on
// the same server announces its drops itself, to the followers of the same
// database: each database has channels of its own.
//
// All followers share one subscription, over one connection. It is a
// [remote.Checker]: about once a second the Bus publishes to itself, over the
// connections of the Client and only where writes are taken. If no such message
// comes back for three seconds there is a gap. So a demoted server does not pass for
// connected, nor does a server that min-replicas-to-write keeps from writing. A deposed
// server does not either: each third message goes over a connection opened for it, and
// with sentinels only if most of them confirm the primary.
type Bus struct {
	c *Client
	b *bus.Bus
}

var (
	_ remote.Checker   = (*Bus)(nil)
	_ remote.Explainer = (*Bus)(nil)
)

// NewBus returns a bus on c's server. It opens no connection before the first
// Follow. The caller closes the client, after it has stopped the followers.
func NewBus(c *Client) *Bus {
	c.identifies.Store(true)
	o := bus.Config{
		Channel:   func(name string) string { return layout.Channel(name, c.o.DB) },
		Subscribe: c.joinable,
		Prove:     c.prove,
	}
	if c.cluster == nil && c.primary == nil {
		o.Fresh, o.Astray = c.proveAnew, func() { c.terms.begin(c.o.Addr) }
	}
	return &Bus{c: c, b: bus.New(o)}
}

// Health returns the state of the server that all caches of the client share. It is for package strata.
func (b *Bus) Health() any { return b.c.health }

// joinable begins a subscription that further channels can join, in a cluster
// where the slot of key is served.
func (c *Client) joinable(ctx context.Context, key, channel string) (*bus.Subscription, error) {
	s, err := c.subscribe(ctx, "SUBSCRIBE", slots.Of(key), []string{channel}, true)
	if err != nil {
		return nil, err
	}
	return s.s, nil
}

// prove publishes a message over the connections of writes, and only if the server
// takes writes. With sentinels it is sent only if they confirm the primary: else the
// messages of other instances may go elsewhere.
func (c *Client) prove(ctx context.Context, key, channel, text string) error {
	over := func(srv tier.Server) error {
		return srv.Together(ctx, true, func(ask layout.Ask) error { return bus.Prove(ask, key, channel, text) })
	}
	if c.cluster != nil {
		return tierCluster{k: c.cluster}.Follow(ctx, key, true, func(_ context.Context, n tier.Node) error { return over(n) })
	}
	if c.primary != nil {
		if _, err := c.primary.locate(ctx); err != nil {
			return err
		}
		if err := c.primary.holds(ctx, c.primary.number()); err != nil {
			return err
		}
	}
	return over(tierServer{r: route{n: c.home}})
}

// proveAnew is prove over a connection opened for it. If this connection leads to
// another server than the older ones, those are closed.
func (c *Client) proveAnew(ctx context.Context, key, channel, text string) error {
	cn, err := c.dial(ctx, c.home.o)
	if err != nil {
		return err
	}
	defer cn.Close()
	_, err = cn.exchange(ctx, time.Now(), c.o.Timeout, func(cn *conn) error {
		return bus.Prove(func(b *layout.Batch) ([]resp.Value, error) { return cn.askAll(b.Text, b.N) }, key, channel, text)
	})
	return err
}

// Checks is true: see [Bus].
func (b *Bus) Checks() bool { return true }

// Err returns the reason why nothing arrives at the moment: see [remote.Explainer].
func (b *Bus) Err() error { return b.b.Err() }

// Publish sends messages in one round trip.
func (b *Bus) Publish(ctx context.Context, ms []remote.Message) error {
	if len(ms) == 0 {
		return ctx.Err()
	}
	if b.c.o.Trace != nil {
		ctx = observe.OwnerOf(ms[0].Name).Own(ctx)
	}
	p := b.c.Pipeline()
	for i := range ms {
		m := &ms[i]
		p.Add("PUBLISH", layout.Channel(m.Name, b.c.o.DB), layout.Message(m))
	}
	replies, err := p.Do(ctx)
	if err != nil {
		return err
	}
	for _, r := range replies {
		if _, err := r.Int(); err != nil { // it may be QUEUED
			return err
		}
	}
	return nil
}

// Follow calls f for every event of the named cache. A lost connection is a Gap, and is
// replaced until stop is called. A closed client sends no events.
func (b *Bus) Follow(name string, f func(remote.Event)) (stop func()) { return b.b.Follow(name, f) }
