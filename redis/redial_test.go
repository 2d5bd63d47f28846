package redis_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/redis"
)

// refusesOnce runs f with a client of which a slow download has the only connection. The next dial
// after a call of fail does not succeed; the one after it does.
func refusesOnce(t *testing.T, f func(t *testing.T, c *redis.Client, fail func())) {
	var fail atomic.Bool
	change := func(s *fakes.Redis, o *redis.Options) {
		o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if fail.CompareAndSwap(true, false) {
				return nil, errors.New("connection refused")
			}
			return s.Dial(ctx, network, addr)
		}
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		p := c.Pipeline()
		p.Set("large", []byte(strings.Repeat("x", 1<<20)), 0)
		if _, err := p.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, err := c.Stream(t.Context(), "GET", "large")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f(t, c, func() { fail.Store(true) })
	})
}

func TestCallIsDialledForAgainBesideADownload(t *testing.T) {
	refusesOnce(t, func(t *testing.T, c *redis.Client, fail func()) {
		fail()
		start := time.Now()
		if _, err := get(kit.Within(t, 30*time.Second), c, "k"); !errors.Is(err, redis.ErrNil) || time.Since(start) > 5*time.Second {
			t.Errorf("over the shared connection: %v after %v", err, time.Since(start))
		}
		time.Sleep(10 * time.Second) // of the bubble: the pool has forgotten the failure
		fail()
		start = time.Now()
		err := c.MGet(kit.Within(t, 30*time.Second), []string{"k"}, func(int, []byte, bool) error { return nil })
		if err != nil || time.Since(start) > 5*time.Second {
			t.Errorf("over a connection of its own: %v after %v", err, time.Since(start))
		}
	})
}

func TestOneFailedDialBesideADownloadIsNoOutage(t *testing.T) {
	refusesOnce(t, func(t *testing.T, c *redis.Client, fail func()) {
		fail()
		failed, start := 0, time.Now()
		for range 1000 {
			_, err := get(kit.Within(t, time.Second), c, "k")
			if errors.Is(err, redis.ErrNil) {
				break
			}
			failed++
		}
		if took := time.Since(start); failed > 1 || took > 2*time.Second {
			t.Errorf("%d reads failed, for %v", failed, took)
		}
	})
}
