package goredis

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/internal/redistier/layout"
	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/remote"
)

// Bus carries invalidations over Redis pub/sub. It is a [remote.Bus]. What a
// [Tier] on the same server drops is announced by the Tier itself. Make it with
// [NewBus].
type Bus struct {
	link link
}

var _ remote.Bus = (*Bus)(nil)

// NewBus returns a bus on rdb's server. It opens no connection; each follower
// has one of its own, which counts against no limit of rdb. The client stays
// the caller's to close, after the followers were stopped. Clients other than
// *redis.Client are an error.
func NewBus(rdb redis.UniversalClient) (*Bus, error) {
	c, err := single(rdb)
	if err != nil {
		return nil, err
	}
	return &Bus{newLink(c)}, nil
}

// Publish sends messages in one round trip. They are not sent again if it is
// not known whether they arrived.
func (b *Bus) Publish(ctx context.Context, ms []remote.Message) error {
	calls := make([]call, len(ms))
	for i := range ms {
		m := &ms[i]
		calls[i].args = []any{"PUBLISH", layout.Channel(m.Name), layout.Message(m)}
	}
	if err := b.link.exchange(ctx, calls); err != nil {
		return err
	}
	replies, err := values(calls)
	for _, v := range replies {
		if v.Kind() == resp.Error && err == nil {
			err = newRefusal(string(v.Bytes()))
		}
	}
	return err
}

// Follow calls f for everything that happens to the named cache. A lost
// connection is a Gap, and replaced until stop is called or the client is
// closed. A stop that falls into a dial waits for its end, at most for
// DialTimeout and ReadTimeout.
func (b *Bus) Follow(name string, f func(remote.Event)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	fl := &follower{rdb: b.link.rdb, name: name, tell: f}
	var wg sync.WaitGroup
	wg.Go(func() { fl.run(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}
