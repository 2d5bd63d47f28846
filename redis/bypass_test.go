package redis_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakeredis"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/redis"
)

// TestCallsOfTheirOwnGoOnAfterASharedConnectionWasStuck: one read finds the shared connection stuck, and
// no read follows it over a shared connection. Of two connections both are shared meanwhile.
func TestCallsOfTheirOwnGoOnAfterASharedConnectionWasStuck(t *testing.T) {
	var pause atomic.Bool
	change := func(s *fakeredis.Server, o *redis.Options) {
		o.MaxConns = 2
		s.Gate = func(_ *fakeredis.Session, name string, _ [][]byte) bool {
			if name == "GET" && pause.CompareAndSwap(true, false) {
				time.Sleep(400 * time.Millisecond)
			}
			return false
		}
	}
	fake(t, change, func(t *testing.T, _ *fakeredis.Server, c *redis.Client) {
		mustSet(t, c, "k", "v")
		synctest.Wait()
		pause.Store(true)
		if v, err := get(t.Context(), c, "k"); err != nil || v != "v" {
			t.Fatal(v, err)
		}
		time.Sleep(10 * time.Second) // the server is well again, all connections are without calls
		for range 5 {
			err := c.MGet(kit.Within(t, time.Minute), []string{"k"}, func(int, []byte, bool) error { return nil })
			if err != nil {
				t.Errorf("MGET: %v; %+v", err, c.Stats())
			}
			mustSet(t, c, "k", "v") // the shared connection works
		}
	})
}

// TestSecondSharedConnectionThatNoCallWaitsForIsGivenBack: the read for which it is opened has left before it is open.
func TestSecondSharedConnectionThatNoCallWaitsForIsGivenBack(t *testing.T) {
	var pause, slow atomic.Bool
	change := func(s *fakeredis.Server, o *redis.Options) {
		o.MaxConns, o.MaxLifetime = 2, time.Hour
		s.Gate = func(_ *fakeredis.Session, name string, _ [][]byte) bool {
			if name == "SET" && pause.CompareAndSwap(true, false) {
				time.Sleep(400 * time.Millisecond)
			}
			return false
		}
		o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if slow.Load() {
				time.Sleep(300 * time.Millisecond)
			}
			return s.Dial(ctx, network, addr)
		}
	}
	fake(t, change, func(t *testing.T, _ *fakeredis.Server, c *redis.Client) {
		mustSet(t, c, "k", "v")
		pause.Store(true)
		slow.Store(true)
		var wg sync.WaitGroup
		wg.Go(func() { mustSet(t, c, "k", "v") })
		synctest.Wait()
		if v, err := get(kit.Within(t, 300*time.Millisecond), c, "k"); err == nil {
			t.Fatalf("a read behind a pause has %q", v)
		}
		wg.Wait()
		time.Sleep(time.Second) // the second connection is open by now
		err := c.MGet(kit.Within(t, time.Minute), []string{"k"}, func(int, []byte, bool) error { return nil })
		if err != nil {
			t.Errorf("MGET: %v; %+v", err, c.Stats())
		}
	})
}

// TestSecondSharedConnectionIsGivenBackThoughItsDialTookLonger: the first connection answers while the
// second one is still being opened, and reads go on all the time.
func TestSecondSharedConnectionIsGivenBackThoughItsDialTookLonger(t *testing.T) {
	var pause, slow atomic.Bool
	change := func(s *fakeredis.Server, o *redis.Options) {
		o.MaxConns, o.MaxLifetime = 2, time.Hour
		s.Gate = func(_ *fakeredis.Session, name string, _ [][]byte) bool {
			if name == "SET" && pause.CompareAndSwap(true, false) {
				time.Sleep(400 * time.Millisecond)
			}
			return false
		}
		o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if slow.Load() {
				time.Sleep(300 * time.Millisecond)
			}
			return s.Dial(ctx, network, addr)
		}
	}
	fake(t, change, func(t *testing.T, _ *fakeredis.Server, c *redis.Client) {
		mustSet(t, c, "k", "v")
		pause.Store(true)
		slow.Store(true)
		var wg sync.WaitGroup
		wg.Go(func() { mustSet(t, c, "k", "v") })
		synctest.Wait()
		wg.Go(func() { // at 250 ms it is sent over another connection, which is open at 550 ms
			if v, err := get(t.Context(), c, "k"); err != nil || v != "v" {
				t.Error(v, err)
			}
		})
		time.Sleep(450 * time.Millisecond) // the first connection has answered
		for range 20 {
			if v, err := get(t.Context(), c, "k"); err != nil || v != "v" {
				t.Error(v, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		wg.Wait()
		for range 5 {
			err := c.MGet(kit.Within(t, time.Minute), []string{"k"}, func(int, []byte, bool) error { return nil })
			if err != nil {
				t.Errorf("MGET: %v; %+v", err, c.Stats())
			}
			if v, err := get(t.Context(), c, "k"); err != nil || v != "v" {
				t.Error(v, err)
			}
		}
	})
}
