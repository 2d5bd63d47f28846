package redis_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/redis"
)

// layered wraps another connection and names it, as a TLS connection does.
type layered struct{ net.Conn }

func (l layered) NetConn() net.Conn { return l.Conn }

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

func above(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		return layered{nc}, err
	}
}

// hangs makes a command wait for an hour.
func hangs(s *fakes.Redis, name string) {
	s.Handle(name, func(ss *fakes.RedisSession, _ [][]byte) {
		time.Sleep(time.Hour) // in the bubble
		ss.Bulk("late")
	})
}

// TestHangEndsAtTheTimeoutAfterALookAtTheConnection: a look into a layer above the socket moves the deadline of
// reads.
func TestHangEndsAtTheTimeoutAfterALookAtTheConnection(t *testing.T) {
	late := func(t *testing.T, what string, begun time.Time, err error) {
		t.Helper()
		if took := time.Since(begun); took > 2*time.Second || !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v after %v", what, err, took)
		}
	}
	fake(t, func(s *fakes.Redis, o *redis.Options) { o.DialContext = above(s.Dial) }, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		hangs(s, "GET")
		begun := time.Now()
		_, err := c.Watch(context.Background(), []string{"k"}, func(tx *redis.Tx) error { return tx.Do("GET", "k").Err() })
		late(t, "Watch", begun, err)
	})
	cluster(t, 0, func(k *fakes.RedisCluster, o *redis.Options) { o.DialContext = above(k.Dial) }, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		key := keysOf(k)[0]
		mustSet(t, c, key, "v")
		k.Migrate(key, 1)
		k.Carry(key)
		hangs(k.Servers[1], "GET")
		begun := time.Now()
		_, err := get(context.Background(), c, key)
		late(t, "GET behind ASKING", begun, err)
		if k.Servers[1].Calls("ASKING") == 0 {
			t.Error("no ASKING was sent")
		}
	})
}
