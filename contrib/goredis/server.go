package goredis

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/remote"
)

// maxValue is the largest value that Redis stores, in bytes.
const maxValue = 512 << 20

// server is a client of go-redis as a server of a tier.
type server struct {
	link
	health *observe.ServerHealth
	opened *openings
	missed uint32 // misses at the start of opened
	owner  *observe.Owner
}

// For returns the server for a space: hooks of the client are told of it by the contexts of
// commands, see strataotel.ClientProvider.
func (s *server) For(space string) tier.Server {
	named := *s
	named.owner = observe.OwnerOf(space)
	return &named
}

// Send implements tier.Server.
func (s *server) Send(ctx context.Context, put func([]byte, string) []byte, head string) (resp.Value, error) {
	calls := newCalls(put(nil, head), 1)
	if err := s.exchange(s.owner.Own(ctx), calls); err != nil {
		return resp.Value{}, err
	}
	return calls[0].reply.Value()
}

// Read implements tier.Server.
func (s *server) Read(ctx context.Context, timeout time.Duration, _ time.Time, put func([]byte, string) []byte, key string) (resp.Value, tier.Loan, error) {
	ctx, cancel := remote.Within(s.owner.Own(ctx), timeout)
	defer cancel()
	text := put(nil, key)
	for again := false; ; again = true {
		calls := newCalls(text, 1)
		err := s.exchange(ctx, calls)
		if err == nil {
			v, err := calls[0].reply.Value()
			return v, nil, err
		}
		if again || !lost(err) || heard(calls) {
			return resp.Value{}, nil, err
		}
	}
}

// Together implements tier.Server. A connection for one caller alone is expensive in
// go-redis. So f first talks over any connections: as long as no connection is opened
// meanwhile, all of them lead to the same server. Otherwise f talks once more, over one.
func (s *server) Together(ctx context.Context, twice bool, f func(layout.Ask) error) error {
	ctx = s.owner.Own(ctx)
	before := s.Opened()
	t, answer := s.talk(ctx, false, f)
	switch {
	case t.err == nil && (t.alone || t.asked < 2 || !twice || s.Opened() == before):
		return answer
	case t.err != nil && (!twice || !lost(t.err) || t.heard):
		return t.err
	}
	if t, answer = s.talk(ctx, true, f); t.err != nil {
		return t.err
	}
	return answer
}

// Opened implements tier.Server.
func (s *server) Opened() uint64 { return s.opened.n.Load() }

// MaxValue implements tier.Server.
func (s *server) MaxValue() int { return maxValue }

// blind reports whether the client has opened connections unseen by the hook. A client
// from WithTimeout shares the pool of another client, and the pool runs the hooks of
// that one.
func (s *server) blind() bool { return !s.opened.asked.Load() && misses(s.rdb) != s.missed }

// misses is the number of times that the pool of rdb had no connection.
func misses(rdb *redis.Client) uint32 {
	st := rdb.PoolStats()
	n := st.Misses
	if st.PipelineStats != nil {
		n += st.PipelineStats.Misses
	}
	return n
}

// openings is a hook of go-redis that counts connections.
type openings struct {
	n atomic.Uint64
	// asked is set by the first dial.
	asked atomic.Bool
}

var _ redis.Hook = (*openings)(nil)

// DialHook implements redis.Hook.
func (o *openings) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		o.asked.Store(true)
		nc, err := next(ctx, network, addr)
		if err == nil {
			o.n.Add(1)
		}
		return nc, err
	}
}

// ProcessHook implements redis.Hook.
func (*openings) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*openings) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
