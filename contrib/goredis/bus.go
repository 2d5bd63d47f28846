package goredis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/redis/bus"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/remote"
)

// Bus carries invalidations over Redis pub/sub. It is a [remote.Bus]. A [Tier]
// on the same server announces its drops itself, to followers of the same
// database: each database has channels of its own. Make it with [NewBus].
//
// All followers share one subscription. The Bus is a [remote.Checker]: about
// once a second it publishes to itself, over the connections of the client and
// only on a server that takes writes. If none of these messages comes back for
// three seconds, there is a gap.
type Bus struct {
	link   link
	b      *bus.Bus
	health *observe.ServerHealth
}

var (
	_ remote.Checker   = (*Bus)(nil)
	_ remote.Explainer = (*Bus)(nil)
)

// NewBus returns a bus on rdb's server. It opens no connection. All followers
// together have one connection of their own, which counts against no limit of
// rdb. The caller closes the client, after the followers were stopped. Clients
// other than *redis.Client are an error.
func NewBus(rdb redis.UniversalClient) (*Bus, error) {
	c, err := single(rdb)
	if err != nil {
		return nil, err
	}
	b := &Bus{link: newLink(c), health: observe.NewServerHealth(c.Options().Addr)}
	b.b = bus.New(bus.Config{
		Channel: b.channel,
		Subscribe: func(ctx context.Context, _, channel string) (*bus.Subscription, error) {
			return subscribe(ctx, c, channel), nil
		},
		Prove: b.prove,
	})
	return b, nil
}

// Health returns the state of the server that all caches of the Bus share. It is for package strata.
func (b *Bus) Health() any { return b.health }

// channel is the channel of a cache.
func (b *Bus) channel(name string) string { return layout.Channel(name, b.link.rdb.Options().DB) }

// prove publishes a message over the connections of writes, if the
// server takes writes. The message has a connection for itself, which a server may leave in
// a transaction.
func (b *Bus) prove(ctx context.Context, key, channel, text string) error {
	t, err := b.link.talk(ctx, true, func(ask layout.Ask) error { return bus.Prove(ask, key, channel, text) })
	if t.err != nil {
		return t.err
	}
	return err
}

// Checks is true: see [Bus].
func (b *Bus) Checks() bool { return true }

// Err returns the reason why no messages arrive at the moment: see
// [remote.Explainer].
func (b *Bus) Err() error { return b.b.Err() }

// Publish sends messages in one round trip. It does not send them again if it
// does not know whether they have arrived.
func (b *Bus) Publish(ctx context.Context, ms []remote.Message) error {
	calls := make([]call, len(ms))
	if len(ms) > 0 {
		ctx = observe.OwnerOf(ms[0].Name).Own(ctx)
	}
	for i := range ms {
		m := &ms[i]
		calls[i].args = []any{"PUBLISH", b.channel(m.Name), layout.Message(m)}
	}
	if err := b.link.exchange(ctx, calls); err != nil {
		return err
	}
	replies, err := values(calls)
	for _, v := range replies {
		switch {
		case err != nil:
		case v.Kind() == resp.Error:
			err = newRefusal(string(v.Bytes()))
		case v.Kind() != resp.Int: // it may be QUEUED
			err = errProtocol
		}
	}
	return err
}

// Follow calls f for each event of the named cache. A lost connection is a Gap,
// and is replaced until stop is called or the client is closed. If stop of the
// last follower is called during a dial, it waits for the end of the dial, at
// most for DialTimeout and ReadTimeout.
func (b *Bus) Follow(name string, f func(remote.Event)) (stop func()) { return b.b.Follow(name, f) }
