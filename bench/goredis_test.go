package bench

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/bench/internal/rig"
	adapter "github.com/strata-cache/strata/contrib/goredis"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// BenchmarkL2GoRedis compares the tier over the own client with the one over
// go-redis, on a server of their own: a read of 256 bytes, one of a hundred such
// entries, and the work of a miss, which takes a lease and stores. Callers have
// a timeout, as the calls of a cache do.
func BenchmarkL2GoRedis(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run("goroutines="+strconv.Itoa(n), func(b *testing.B) {
			p := newPair(b)
			for _, op := range []struct {
				name string
				do   func(context.Context, remote.Tier) error
			}{
				{"read", func(ctx context.Context, t remote.Tier) error { return p.read(ctx, t, p.keys[:1]) }},
				{"read100", func(ctx context.Context, t remote.Tier) error { return p.read(ctx, t, p.keys) }},
				{"miss", p.miss},
			} {
				b.Run(op.name, func(b *testing.B) {
					over := func(t remote.Tier) func(int, int) error {
						return func(int, int) error {
							ctx, cancel := remote.WithTimeout(context.Background(), time.Minute)
							defer cancel()
							return op.do(ctx, t)
						}
					}
					compare(b, rig.Load{Goroutines: n, For: l2Turn}, []rig.Way{
						{Name: "own", Call: over(p.own)}, {Name: "go-redis", Call: over(p.adapted)},
					})
				})
			}
		})
	}
}

// pair is two tiers on one server.
type pair struct {
	own, adapted remote.Tier
	keys         []string // of entries that the server has
	value        []byte
	next         atomic.Int64
}

func newPair(b *testing.B) *pair {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	ctx := context.Background()
	server, err := servers.RunRedis()
	if errors.Is(err, servers.ErrMissing) {
		b.Skip(err)
	}
	must(err)
	b.Cleanup(server.Close)
	client, err := server.Open()
	must(err)
	b.Cleanup(func() { client.Close() })
	rdb := goredis.NewClient(&goredis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	b.Cleanup(func() { rdb.Close() })
	adapted, err := adapter.NewTier(rdb)
	must(err)
	space := remote.Space{Name: "pair", Schema: 1, Instance: 1}
	p := &pair{own: redis.NewTier(client).Bind(space), adapted: adapted.Bind(space), keys: rig.Keys(100), value: bytes.Repeat([]byte{'v'}, 256)}
	for _, k := range p.keys {
		must(p.store(ctx, p.own, k, time.Hour))
	}
	return p
}

func (p *pair) read(ctx context.Context, t remote.Tier, keys []string) error {
	held, err := t.Get(ctx, keys)
	if err == nil && len(held[len(keys)-1].Data) != len(p.value) {
		return errAbsent
	}
	return err
}

func (p *pair) miss(ctx context.Context, t remote.Tier) error {
	return p.store(ctx, t, "new:"+strconv.FormatInt(p.next.Add(1), 10), 10*time.Second)
}

func (p *pair) store(ctx context.Context, t remote.Tier, key string, life time.Duration) error {
	_, lease, err := kit.Acquire(ctx, t, key, 5*time.Second)
	if err != nil {
		return err
	}
	refused, err := t.Put(ctx, []remote.Put{{Key: key, Data: p.value, Fresh: life, Left: life, Lease: lease}})
	if err == nil && len(refused) > 0 {
		return errRefused
	}
	return err
}
