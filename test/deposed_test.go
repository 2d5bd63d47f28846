//go:build unix

package test

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

// frozen dials connections on which nothing arrives while it is shut, as in a paused
// process, or over a slow network.
type frozen struct {
	only []string // addresses; nil: all

	mu   sync.Mutex // guards below
	shut chan struct{}
}

func (f *frozen) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shut = make(chan struct{})
}

func (f *frozen) thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut != nil {
		close(f.shut)
		f.shut = nil
	}
}

func (f *frozen) wait() {
	f.mu.Lock()
	shut := f.shut
	f.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

func (f *frozen) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	if f.only != nil && !slices.Contains(f.only, addr) {
		return d.DialContext(ctx, network, addr)
	}
	f.wait()
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return frozenConn{c, f}, nil
}

type frozenConn struct {
	net.Conn
	f *frozen
}

func (c frozenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.f.wait()
	return n, err
}

// TestDropIsKeptOverAFailoverOfWhichTheInstanceHearsLate: the old primary, which was
// paused, executes the drop of an instance that hears nothing of the sentinels. The new
// one has the old value.
func TestDropIsKeptOverAFailoverOfWhichTheInstanceHearsLate(t *testing.T) {
	t.Parallel() // it waits most of the time
	w := servers.StartWatched(t, 1)
	late := &frozen{only: w.Sentinels()}
	origin := &atomic.Int64{}
	load := func(context.Context, string) (int64, error) { return origin.Load(), nil }
	p := &sentinelPair{T: t, w: w, origin: origin}
	open := func(change func(*redis.Options)) sentinelInstance {
		c := w.Client(t, change)
		o := strata.Options[string, int64]{Name: "late", TTL: time.Hour, Loader: load}
		o.Remote.Tier, o.Remote.Bus, o.Remote.BreakFor = redis.NewTier(c), redis.NewBus(c), 500*time.Millisecond
		return sentinelInstance{openCache(t, o), load}
	}
	p.a, p.b = open(func(o *redis.Options) { o.DialContext = late.DialContext }), open(func(*redis.Options) {})
	p.direct = w.Client(t)
	p.connected()
	origin.Store(1)
	w.Servers[0].Stop()
	late.freeze()
	t.Cleanup(late.thaw) // or a failed test would not end: the clients wait for their reads
	p.writes("primary paused")
	// Past L1: an entry there, of a load that L2 was too late for, would keep the value out of L2.
	p.until("the new primary has the value", func() bool {
		if _, err := p.b.GetOrLoad(t.Context(), "k", load, strata.NoMemory()); err != nil {
			t.Error(err)
		}
		return mustText(t, p.direct, "DBSIZE") != "0" && p.b.Explain(t.Context(), "k").L2.Present
	})
	p.get(p.b, "k")
	w.Servers[0].Continue()
	origin.Store(2)
	err := p.a.Invalidate(t.Context(), "k")
	t.Logf("dropped: %v", err)
	if v := p.get(p.a, "k"); v != 2 {
		t.Errorf("the instance that has dropped gets %d", v)
	}
	late.thaw()
	p.until("the other instance has the new value", func() bool { return p.get(p.b, "k") == 2 })
	p.until("no drop is pending", func() bool { return p.a.Stats().Pending == 0 })
	c := open(func(*redis.Options) {})
	if v := p.get(c, "k"); v != 2 {
		t.Errorf("a new instance gets %d", v)
	}
	p.agree()
}

// openCache opens a cache for the time of the test.
func openCache(t *testing.T, o strata.Options[string, int64]) *strata.Cache[string, int64] {
	t.Helper()
	c, err := strata.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// repointed dials one of two servers in the name of one address.
type repointed struct {
	servers [2]*servers.Redis
	at      atomic.Int64
}

func (r *repointed) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, r.servers[r.at.Load()].Addr)
}

// open opens an instance at the address, and returns a read of its key k.
func (r *repointed) open(t *testing.T, origin *atomic.Int64) (*strata.Cache[string, int64], func() int64) {
	t.Helper()
	c, err := redis.New(redis.Options{DialContext: r.DialContext, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	o := strata.Options[string, int64]{Name: "moved", TTL: time.Hour}
	o.Loader = func(context.Context, string) (int64, error) { return origin.Load(), nil }
	o.Remote.Tier, o.Remote.Bus, o.Remote.Timeout = redis.NewTier(c), redis.NewBus(c), 5*time.Second // the machine may be busy
	cache := openCache(t, o)
	until(t, time.Minute, "connected", func() bool { return cache.Stats().Connected })
	return cache, func() int64 {
		v, err := cache.GetOrLoad(t.Context(), "k", nil)
		if err != nil {
			t.Error(err)
		}
		return v
	}
}

// TestDropIsKeptWhenAnAddressLeadsToAnotherServer: all connections of the instance that
// drops are kept, or all but the one of its bus. It hears that the server has changed.
func TestDropIsKeptWhenAnAddressLeadsToAnotherServer(t *testing.T) {
	for name, kill := range map[string]bool{"connections kept": false, "bus moved": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			all := [2]*servers.Redis{servers.StartRedis(t), servers.StartRedis(t)}
			old, moved := &repointed{servers: all}, &repointed{servers: all}
			origin := &atomic.Int64{}
			origin.Store(1)
			writer, write := old.open(t, origin)
			write()
			moved.at.Store(1)
			reader, read := moved.open(t, origin)
			until(t, time.Minute, "the new server has the value", func() bool {
				read()
				return reader.Explain(t.Context(), "k").L2.Present
			})
			old.at.Store(1)
			if kill {
				mustDo(t, all[0].Client(t), "CLIENT", "KILL", "TYPE", "pubsub")
			}
			origin.Store(2)
			if err := writer.Invalidate(t.Context(), "k"); err != nil {
				t.Logf("the drop is pending: %v", err)
			}
			if v := write(); v != 2 {
				t.Errorf("the writer gets %d", v)
			}
			took := until(t, 20*time.Second, "the reader has the new value", func() bool { return read() == 2 })
			t.Logf("the reader has the new value after %v", took)
			until(t, 20*time.Second, "the writer is connected again", func() bool { return writer.Stats().Connected })
			if v := write(); v != 2 {
				t.Errorf("the writer gets %d", v)
			}
		})
	}
}
