package test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// pause lets time pass for a real server, which knows no bubble.
func pause(d time.Duration) { time.Sleep(d) }

// patience is the timeout of calls in tests that run beside others: no slow
// machine makes them fail.
const patience = 20 * time.Second

func patiently(o *redis.Options) { o.Timeout = patience }

func client(t testing.TB, o redis.Options) *redis.Client {
	t.Helper()
	c, err := redis.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestRedisTierConforms(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := servers.StartRedis(t)
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		return redis.NewTier(r.Client(t, patiently)), pause
	})
}

func TestRedisTierConformsOnAUnixSocket(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	t.Parallel() // it waits most of the time
	r := servers.StartRedis(t)
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		return redis.NewTier(client(t, redis.Options{Network: "unix", Addr: r.Socket, Timeout: patience})), pause
	})
}

// withoutScripts returns the options of a user who may do everything but run scripts.
func withoutScripts(t testing.TB, r *servers.Redis) redis.Options {
	t.Helper()
	err := r.Client(t, patiently).Do(t.Context(), "ACL", "SETUSER", "plain", "on", ">secret", "~*", "&*", "+@all", "-@scripting").Ok()
	if err != nil {
		t.Fatal(err)
	}
	return redis.Options{Addr: r.Addr, Username: "plain", Password: "secret"}
}

func TestRedisTierConformsWithoutScripts(t *testing.T) {
	t.Parallel() // it waits most of the time
	o := withoutScripts(t, servers.StartRedis(t))
	patiently(&o)
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		return redis.NewTier(client(t, o)), pause
	})
}

// TestRedisTierConformsWithAndWithoutScripts has one half of the operations
// made by a tier that may run scripts, and the rest by one that may not.
func TestRedisTierConformsWithAndWithoutScripts(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := servers.StartRedis(t)
	o := withoutScripts(t, r)
	patiently(&o)
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		return mixed{redis.NewTier(r.Client(t, patiently)), redis.NewTier(client(t, o))}, pause
	})
}

func TestRedisTierAnnouncesWithoutScripts(t *testing.T) {
	r := servers.StartRedis(t)
	o := withoutScripts(t, r)
	stratatest.TestAnnouncer(t, func(t *testing.T) (remote.Tier, remote.Bus) {
		return redis.NewTier(client(t, o)), redis.NewBus(r.Client(t, patiently))
	})
}

// mixed is one store used by two tiers: a grants single leases and drops keys
// and tags, b does the rest.
type mixed struct{ a, b *redis.Tier }

func (m mixed) Bind(s remote.Space) remote.Tier {
	return mixed{m.a.Bind(s).(*redis.Tier), m.b.Bind(s).(*redis.Tier)}
}

func (m mixed) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	m.b.Recheck()
	return m.b.Get(ctx, keys, known...)
}

func (m mixed) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	t := m.b
	if len(r) == 1 && r[0].Replace == 0 {
		t = m.a
	}
	t.Recheck()
	return t.Acquire(ctx, r, d)
}

func (m mixed) Recheck() { m.a.Recheck(); m.b.Recheck() }

func (m mixed) Put(ctx context.Context, p []remote.Put) ([]int, error) { return m.b.Put(ctx, p) }

func (m mixed) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	m.a.Recheck()
	return m.a.Drop(ctx, d)
}

func (m mixed) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
	return m.b.Extend(ctx, key, fresh, left, l, id)
}

func (m mixed) DropAll(ctx context.Context, soft bool) error { return m.b.DropAll(ctx, soft) }

func (m mixed) DropTags(ctx context.Context, tags []string, soft bool) error {
	return m.a.DropTags(ctx, tags, soft)
}

func (m mixed) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	return m.b.Tags(ctx, tags)
}

func (m mixed) Position(ctx context.Context) (remote.Position, error) { return m.b.Position(ctx) }

func (m mixed) Lane(key string) uint16 { return m.a.Lane(key) }

func (m mixed) Announces() bool { return m.a.Announces() }

func (m mixed) Changes(ctx context.Context) (string, error) { return m.b.Changes(ctx) }

func (m mixed) Release(ctx context.Context, key string, l remote.Lease) error {
	return m.b.Release(ctx, key, l)
}

func (m mixed) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	return m.b.Renew(ctx, key, l, d)
}

// TestRedisTierConformsOnMiniredis runs the same on a server that expires keys
// only when it is told to. Its clock is apart from that, and is the real one.
func TestRedisTierConformsOnMiniredis(t *testing.T) {
	t.Parallel() // it waits most of the time
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		m := miniredis.RunT(t)
		return redis.NewTier(client(t, redis.Options{Addr: m.Addr(), Timeout: patience})), func(d time.Duration) {
			pause(d)
			m.FastForward(d)
		}
	})
}

func TestRedisBusConforms(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := servers.StartRedis(t)
	stratatest.TestBus(t, redisBus(r.Addr))
}

func TestRedisBusConformsOnMiniredis(t *testing.T) {
	t.Parallel() // it waits most of the time
	stratatest.TestBus(t, func(t *testing.T) stratatest.BusFixture {
		return redisBus(miniredis.RunT(t).Addr())(t)
	})
}

func redisBus(addr string) stratatest.OpenBus {
	return func(t *testing.T) stratatest.BusFixture {
		line := &servers.Line{}
		return stratatest.BusFixture{
			Bus:  redis.NewBus(client(t, redis.Options{Addr: addr, DialContext: line.DialContext, Timeout: patience})),
			Peer: redis.NewBus(client(t, redis.Options{Addr: addr, Timeout: patience})),
			Cut:  func() func() { line.Cut(); return line.Join },
		}
	}
}

func TestRedisTierAnnounces(t *testing.T) {
	r := servers.StartRedis(t)
	stratatest.TestAnnouncer(t, func(t *testing.T) (remote.Tier, remote.Bus) {
		return redis.NewTier(r.Client(t, patiently)), redis.NewBus(r.Client(t, patiently))
	})
}

func TestRedisTierAnnouncesOnMiniredis(t *testing.T) {
	stratatest.TestAnnouncer(t, func(t *testing.T) (remote.Tier, remote.Bus) {
		c := client(t, redis.Options{Addr: miniredis.RunT(t).Addr(), Timeout: patience})
		return redis.NewTier(c), redis.NewBus(c)
	})
}

type account struct {
	ID    int64
	Email string
	Roles []string
}

func TestJSONConforms(t *testing.T) {
	stratatest.TestCodec(t, codec.JSON[account](), account{}, account{1, "a@b", nil}, account{2, "\u2028", []string{"x", ""}})
}

// TestDropAllElsewhereIsSeenOnceKnowledgeIsStale has two Tiers that stand for two
// processes: they share nothing but the server.
func TestDropAllElsewhereIsSeenOnceKnowledgeIsStale(t *testing.T) {
	r := servers.StartRedis(t)
	space := remote.Space{Name: "n", Schema: 1, Instance: 1}
	a := redis.NewTier(r.Client(t, patiently)).Bind(space)
	b := redis.NewTier(r.Client(t, patiently)).Bind(space)
	_, lease, err := kit.Acquire(t.Context(), a, "k", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Put(t.Context(), []remote.Put{{Key: "k", Data: []byte("v"), Fresh: time.Hour, Left: time.Hour, Lease: lease}})
	if err != nil {
		t.Fatal(err)
	}
	absent := func() bool {
		t.Helper()
		held, err := b.Get(t.Context(), []string{"k"})
		if err != nil {
			t.Fatal(err)
		}
		return held[0].Absent()
	}
	if absent() {
		t.Fatal("absent before it was dropped")
	}
	if err := a.DropAll(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	b.Recheck()
	if !absent() {
		t.Error("still held after everything was dropped and became suspect")
	}
}
