//go:build unix

package test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// pair is a primary and a server that is about to take its place, each with a
// client of its own for changes by hand.
type pair struct {
	t        *testing.T
	old, new *servers.Redis
	raw      [2]*redis.Client
	// addr is the address to which new connections of caches lead.
	addr atomic.Pointer[string]
}

func newPair(t *testing.T, args ...string) *pair {
	t.Helper()
	p := &pair{t: t, old: servers.StartRedis(t, args...), new: servers.StartRedis(t)}
	for i, r := range []*servers.Redis{p.old, p.new} {
		p.raw[i] = r.Client(t, func(o *redis.Options) { o.Network, o.Addr = "unix", r.Socket })
	}
	p.addr.Store(&p.old.Addr)
	p.do(1, "REPLICAOF", "127.0.0.1", port(p.old))
	p.await(1, "master_link_status:up")
	return p
}

func port(r *servers.Redis) string { return strings.TrimPrefix(r.Addr, "127.0.0.1:") }

func (p *pair) do(i int, args ...any) {
	p.t.Helper()
	if err := p.raw[i].Do(p.t.Context(), args...).Err(); err != nil {
		p.t.Fatalf("%v: %v", args, err)
	}
}

// await waits until a server says something of its replication.
func (p *pair) await(i int, want string) {
	p.t.Helper()
	until(p.t, 15*time.Second, want, func() bool {
		info, err := p.raw[i].Do(p.t.Context(), "INFO", "replication").String()
		return err == nil && strings.Contains(info, want)
	})
}

// until waits for something to become true.
func until(t *testing.T, most time.Duration, what string, is func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !is() {
		if time.Since(begun) > most {
			t.Fatalf("not within %v: %s", most, what)
		}
		<-time.After(5 * time.Millisecond)
	}
	return time.Since(begun)
}

// dial opens a connection to the server to which the caches are led.
func (p *pair) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, *p.addr.Load())
}

// depose demotes the old primary by hand, has it lose the new one, and leads new
// connections there.
func (p *pair) depose() {
	p.t.Helper()
	p.do(1, "REPLICAOF", "NO", "ONE")
	p.do(0, "CONFIG", "SET", "masteruser", "nobody", "masterauth", "wrong")
	p.do(0, "REPLICAOF", "127.0.0.1", port(p.new))
	p.await(0, "master_link_status:down")
	p.addr.Store(&p.new.Addr)
}

// bereave takes its last replica from the old primary, which takes no writes
// then, and leads new connections to the new one.
func (p *pair) bereave() {
	p.t.Helper()
	p.do(1, "REPLICAOF", "NO", "ONE")
	p.await(0, "min_slaves_good_slaves:0")
	p.addr.Store(&p.new.Addr)
}

// deafClients are the clients by which caches reach a pair.
var deafClients = map[string]func(*testing.T, *pair) (remote.Tier, remote.Bus){ // read-only
	"own client": func(t *testing.T, p *pair) (remote.Tier, remote.Bus) {
		c := p.old.Client(t, func(o *redis.Options) { o.DialContext = p.dial })
		return redis.NewTier(c), redis.NewBus(c)
	},
	"go-redis": func(t *testing.T, p *pair) (remote.Tier, remote.Bus) {
		c := goclient.NewClient(&goclient.Options{
			Addr: p.old.Addr, Dialer: p.dial, ContextTimeoutEnabled: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		t.Cleanup(func() { c.Close() })
		return goRedisTier(t, c), goRedisBus(t, c)
	},
}

// TestSubscriberOfADeafServerFindsOut has two instances on a primary that loses
// its place while their connections stay. One writes, and so reaches the new
// primary; the other only reads. It must find out that it hears nothing, and end
// up there as well.
func TestSubscriberOfADeafServerFindsOut(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	for client, open := range deafClients {
		for name, lose := range map[string]func(*pair){"demoted": (*pair).depose, "without replicas": (*pair).bereave} {
			t.Run(client+" "+name, func(t *testing.T) {
				t.Parallel()
				p := newPair(t, "--min-replicas-to-write", map[bool]string{true: "1", false: "0"}[name != "demoted"])
				testDeaf(t, p, open, lose)
			})
		}
	}
}

// deafBound is the time within which a bus finds out that it hears nothing:
// three seconds, and seven more for a busy machine.
const deafBound = 10 * time.Second

// deafCache makes an instance of the cache of these tests.
func deafCache(t *testing.T, tier remote.Tier, bus remote.Bus, strict bool, origin *atomic.Int64) *strata.Cache[string, int64] {
	t.Helper()
	o := strata.Options[string, int64]{Name: "deaf", TTL: time.Hour, Loader: func(context.Context, string) (int64, error) {
		return origin.Load(), nil
	}}
	o.Remote.Tier, o.Remote.Bus, o.Remote.Strict, o.Remote.Timeout = tier, bus, strict, 2*time.Second
	c, err := strata.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	until(t, deafBound, "connected", func() bool { return c.Stats().Connected })
	return c
}

func testDeaf(t *testing.T, p *pair, open func(*testing.T, *pair) (remote.Tier, remote.Bus), lose func(*pair)) {
	var origin atomic.Int64
	cache := func(strict bool) *strata.Cache[string, int64] {
		tier, bus := open(t, p)
		return deafCache(t, tier, bus, strict, &origin)
	}
	writer, reader, strict := cache(false), cache(false), cache(true)
	get := func(c *strata.Cache[string, int64]) int64 {
		t.Helper()
		v, err := c.GetOrLoad(t.Context(), "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	origin.Store(1)
	for _, c := range []*strata.Cache[string, int64]{writer, reader, strict} {
		if v := get(c); v != 1 {
			t.Fatalf("got %d at first", v)
		}
	}
	lose(p)
	deposed := time.Now()
	origin.Store(2)
	until(t, 10*time.Second, "the writer has reached the new primary", func() bool {
		return writer.Invalidate(t.Context(), "k") == nil
	})
	for name, c := range map[string]*strata.Cache[string, int64]{"reader": reader, "strict reader": strict} {
		until(t, deafBound-time.Since(deposed), name+" has found out", func() bool { return c.Stats().Gaps > 0 })
		found := time.Since(deposed)
		until(t, deafBound, name+" has the new value", func() bool { return get(c) == 2 })
		until(t, deafBound, name+" is connected", func() bool { return c.Stats().Connected })
		t.Logf("%s has found out after %v, has the new value after %v", name, found, time.Since(deposed))
	}
	origin.Store(3)
	if err := writer.Invalidate(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	until(t, deafBound, "the next drop is heard", func() bool { return get(reader) == 3 && get(strict) == 3 })
}

// TestReaderLeftAtADeafServerServesNothingInvalidated has an instance that cannot
// reach the new primary: its connections all lead to the old one, which answers
// reads. Its values are older than the drop, and not believed.
func TestReaderLeftAtADeafServerServesNothingInvalidated(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	for client, open := range deafClients {
		for name, lose := range map[string]func(*pair){"demoted": (*pair).depose, "without replicas": (*pair).bereave} {
			t.Run(client+" "+name, func(t *testing.T) {
				t.Parallel()
				p := newPair(t, "--min-replicas-to-write", map[bool]string{true: "1", false: "0"}[name != "demoted"])
				var origin atomic.Int64
				origin.Store(1)
				tier, bus := open(t, p)
				reader := deafCache(t, tier, bus, true, &origin)
				get := func() int64 {
					v, err := reader.GetOrLoad(t.Context(), "k", nil)
					if err != nil {
						t.Fatal(err)
					}
					return v
				}
				if v := get(); v != 1 {
					t.Fatalf("got %d at first", v)
				}
				p.await(1, "master_link_status:up")
				lose(p)
				p.addr.Store(&p.old.Addr)
				c := p.new.Client(t)
				writer := deafCache(t, redis.NewTier(c), redis.NewBus(c), false, &origin)
				origin.Store(2)
				if err := writer.Invalidate(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				took := until(t, deafBound, "the invalidated value is not served", func() bool { return get() == 2 })
				t.Logf("served for %v", took)
				for begun := time.Now(); time.Since(begun) < deafBound; <-time.After(50 * time.Millisecond) {
					if v := get(); v != 2 || reader.Stats().Connected {
						t.Fatalf("got %d, connected %v, %v later", v, reader.Stats().Connected, time.Since(begun))
					}
				}
			})
		}
	}
}

// TestServerThatTakesNoWritesIsNotBelieved asks a demoted server, and one
// without the replicas that it needs, by scripts and without.
func TestServerThatTakesNoWritesIsNotBelieved(t *testing.T) {
	for name, deafen := range map[string][]any{
		"demoted":          {"REPLICAOF", "127.0.0.1", "1"},
		"without replicas": {"CONFIG", "SET", "min-replicas-to-write", "1"},
	} {
		for _, scripts := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, scripts: %v", name, scripts), func(t *testing.T) {
				r := servers.StartRedis(t)
				c := r.Client(t)
				if !scripts {
					c = client(t, withoutScripts(t, r))
				}
				tier := redis.NewTier(c).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
				fill(t, tier, "k", "v", time.Hour)
				mustDo(t, r.Client(t), deafen...)
				tier.Recheck()
				if h, err := tier.Get(t.Context(), []string{"k"}); err == nil {
					t.Errorf("Get: it holds %q", h[0].Data)
				}
				if p, err := tier.Position(t.Context()); err == nil {
					t.Errorf("Position: %+v", p)
				}
				if h, l, err := kit.Acquire(t.Context(), tier, "k", time.Minute); err == nil {
					t.Errorf("Acquire: %+v, %+v", h, l)
				}
			})
		}
	}
}
