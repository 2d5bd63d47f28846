package wire

import (
	"context"
	"errors"
	"testing"

	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/redis"
)

// system is a kind of server, with the compared clients.
type system struct {
	name     string
	networks []string
	// launch starts a server. The second result is the address on the network.
	launch func(tb testing.TB, network string) (server, string)
	// openers open each family, in the order of the rows.
	openers []func(endpoint) (family, error)
}

var (
	redisSystem = &system{ // read-only
		name: "Redis", networks: []string{"tcp", "unix"}, launch: launchRedis,
		openers: []func(endpoint) (family, error){
			openFloor(redisDialect), openStrata, openGoRedis, openGoRedisDuplex, openRueidis, openValkey, openRedigo,
		},
	}
	memcachedSystem = &system{ // read-only
		name: "memcached", networks: []string{"tcp"}, launch: launchMemcached,
		openers: []func(endpoint) (family, error){
			openFloor(memcachedDialect), openStrataMemcached, openGomemcache, openGrafana, openRainycape, openCouchbase, openByHand,
		},
	}
)

// systemOf returns the system of a name.
func systemOf(name string) *system {
	if name == redisSystem.name {
		return redisSystem
	}
	return memcachedSystem
}

// server is a running server: the benchmark fills it, empties it and looks at it.
type server interface {
	pid() int
	version(ctx context.Context) string
	empty(ctx context.Context) error
	set(ctx context.Context, key string, value []byte) error
	get(ctx context.Context, key string) ([]byte, error)
}

// setting is a server of a system.
type setting struct {
	system *system
	server server
	at     endpoint
}

func (s *system) start(tb testing.TB, network string) *setting {
	tb.Helper()
	one, addr := s.launch(tb, network)
	return &setting{system: s, server: one, at: endpoint{network, addr}}
}

// store empties the server and stores all that a job may read.
func (s *setting) store(j *job) error {
	ctx := context.Background()
	if err := s.server.empty(ctx); err != nil {
		return err
	}
	for k := range min(len(j.keys), stored) {
		if err := s.server.set(ctx, j.keys[k], j.value(k)); err != nil {
			return err
		}
	}
	return nil
}

// redisServer implements server.
type redisServer struct {
	*servers.RedisServer
	client *redis.Client
}

func launchRedis(tb testing.TB, network string) (server, string) {
	tb.Helper()
	one, err := servers.RunRedis()
	started(tb, err)
	tb.Cleanup(one.Close)
	client, err := one.Open()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close() })
	addr := one.Addr
	if network == "unix" {
		addr = one.Socket
	}
	return redisServer{one, client}, addr
}

// started ends a test without a server.
func started(tb testing.TB, err error) {
	tb.Helper()
	switch {
	case errors.Is(err, servers.ErrMissing):
		tb.Skip(err)
	case err != nil:
		tb.Fatal(err)
	}
}

func (s redisServer) pid() int                           { return s.Pid() }
func (s redisServer) version(ctx context.Context) string { return s.Version(ctx, s.client) }

func (s redisServer) empty(ctx context.Context) error { return s.client.Do(ctx, "FLUSHALL").Ok() }

func (s redisServer) set(ctx context.Context, key string, value []byte) error {
	return s.client.Do(ctx, "SET", key, value).Ok()
}

func (s redisServer) get(ctx context.Context, key string) ([]byte, error) {
	return s.client.Do(ctx, "GET", key).Bytes()
}

// memcachedServer implements server.
type memcachedServer struct {
	*servers.MemcachedServer
	client *memcached.Client
}

// launchMemcached starts a server with room for the largest values, and for the many
// connections of the clients that keep few idle ones.
func launchMemcached(tb testing.TB, _ string) (server, string) {
	tb.Helper()
	one, err := servers.RunMemcached("-c", "20000", "-m", "1024", "-I", "32m")
	started(tb, err)
	tb.Cleanup(one.Close)
	client, err := one.Open()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close() })
	return memcachedServer{one, client}, one.Addr
}

func (s memcachedServer) pid() int                           { return s.Pid() }
func (s memcachedServer) version(ctx context.Context) string { return s.Version(ctx, s.client) }
func (s memcachedServer) empty(ctx context.Context) error    { return s.client.FlushAll(ctx) }

func (s memcachedServer) set(ctx context.Context, key string, value []byte) error {
	return s.client.Set(ctx, memcached.Item{Key: key, Value: value})
}

func (s memcachedServer) get(ctx context.Context, key string) ([]byte, error) {
	return s.client.AppendGet(ctx, nil, key)
}

// kindsOf counts subjects by their kinds.
func kindsOf(part []subject) map[kind]int {
	n := map[kind]int{}
	for _, s := range part {
		n[s.kind]++
	}
	return n
}
