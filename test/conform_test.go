package test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
	"github.com/strata-cache/strata/test/internal/servers"
)

// pause lets time pass for a real server, which knows no bubble.
func pause(d time.Duration) { time.Sleep(d) }

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
	r := servers.StartRedis(t)
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		return redis.NewTier(r.Client(t)), pause
	})
}

func TestRedisTierConformsOnAUnixSocket(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	r := servers.StartRedis(t)
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		return redis.NewTier(client(t, redis.Options{Network: "unix", Addr: r.Socket})), pause
	})
}

// TestRedisTierConformsOnMiniredis runs the same on a server whose keys expire
// only when they are told to, beside its clock, which is the real one.
func TestRedisTierConformsOnMiniredis(t *testing.T) {
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		m := miniredis.RunT(t)
		return redis.NewTier(client(t, redis.Options{Addr: m.Addr()})), func(d time.Duration) {
			pause(d)
			m.FastForward(d)
		}
	})
}

func TestRedisBusConforms(t *testing.T) {
	r := servers.StartRedis(t)
	stratatest.TestBus(t, redisBus(r.Addr))
}

func TestRedisBusConformsOnMiniredis(t *testing.T) {
	stratatest.TestBus(t, func(t *testing.T) stratatest.BusFixture {
		return redisBus(miniredis.RunT(t).Addr())(t)
	})
}

func redisBus(addr string) stratatest.OpenBus {
	return func(t *testing.T) stratatest.BusFixture {
		line := &servers.Line{}
		return stratatest.BusFixture{
			Bus:  redis.NewBus(client(t, redis.Options{Addr: addr, DialContext: line.DialContext})),
			Peer: redis.NewBus(client(t, redis.Options{Addr: addr})),
			Cut:  func() func() { line.Cut(); return line.Join },
		}
	}
}

func TestRedisTierAnnounces(t *testing.T) {
	r := servers.StartRedis(t)
	stratatest.TestAnnouncer(t, func(t *testing.T) (remote.Tier, remote.Bus) {
		return redis.NewTier(r.Client(t)), redis.NewBus(r.Client(t))
	})
}

func TestRedisTierAnnouncesOnMiniredis(t *testing.T) {
	stratatest.TestAnnouncer(t, func(t *testing.T) (remote.Tier, remote.Bus) {
		c := client(t, redis.Options{Addr: miniredis.RunT(t).Addr()})
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

// TestDropAllElsewhereIsSeenOnceInDoubt has two processes, so to speak: their
// tiers share nothing but the server.
func TestDropAllElsewhereIsSeenOnceInDoubt(t *testing.T) {
	r := servers.StartRedis(t)
	space := remote.Space{Name: "n", Schema: 1, Instance: 1}
	a := redis.NewTier(r.Client(t)).Bind(space)
	b := redis.NewTier(r.Client(t)).Bind(space)
	_, lease, err := a.Acquire(t.Context(), "k", time.Hour)
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
	if err := a.(remote.AllDropper).DropAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.(remote.Doubter).Doubt()
	if !absent() {
		t.Error("still held after everything was dropped and doubted")
	}
}
