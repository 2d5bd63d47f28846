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
	"github.com/strata-cache/strata/redis"
)

func bad(t *testing.T, err error) {
	t.Helper()
	var ce *redis.ConnError
	if !errors.As(err, &ce) || !ce.Sent || redis.SafeToRetry(err) {
		t.Errorf("%v; safe: %v", err, redis.SafeToRetry(err))
	}
}

// TestCallOfWhichAPartWasExecutedIsNotSafeToRetry: a second attempt would count
// twice.
func TestCallOfWhichAPartWasExecutedIsNotSafeToRetry(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		mustGetNothing(t, c, keys[0])
		k.Servers[2].Stop()
		p := c.Pipeline()
		p.Add("INCR", keys[0])
		p.Add("INCR", keys[2])
		replies, err := p.Do(t.Context())
		bad(t, err)
		if len(replies) != 2 || replies[0].Err() != nil || !redis.SafeToRetry(replies[1].Err()) {
			t.Errorf("%v: %v", texts(replies), replies)
		}
		bad(t, c.Do(t.Context(), "DEL", keys[0], keys[2]).Err())
		p.Get(keys[0])
		p.Add("INCR", keys[2])
		if _, err := p.Do(t.Context()); !redis.SafeToRetry(err) {
			t.Errorf("nothing but a read was executed: %v", err)
		}
		k.Servers[1].Handle("DEL", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("BUSY running a script") })
		err = c.Do(t.Context(), "DEL", keys[0], keys[1]).Err()
		bad(t, err)
		if se := new(redis.Error); !errors.As(err, &se) || se.Code != "BUSY" {
			t.Error(err)
		}
	})
}

// TestPipelineWithScriptsThatWereNotSentAgainIsNotSafeToRetry: the rest of it was
// executed.
func TestPipelineWithScriptsThatWereNotSentAgainIsNotSafeToRetry(t *testing.T) {
	var down atomic.Bool
	change := func(s *fakes.Redis, o *redis.Options) {
		o.MaxLifetime = time.Millisecond
		o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if down.Load() {
				return nil, fakes.ErrRefused
			}
			return s.Dial(ctx, network, addr)
		}
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Handle("EVALSHA", func(ss *fakes.RedisSession, _ [][]byte) {
			down.Store(true)
			time.Sleep(10 * time.Millisecond) // it has served for long enough
			ss.Error("NOSCRIPT No matching script.")
		})
		p := c.Pipeline()
		fill := func() {
			down.Store(false)
			time.Sleep(time.Minute) // dials are not held back any more
			p.Add("INCR", "n")
			p.Eval(redis.NewScript("s"), []string{"k"})
		}
		fill()
		replies, err := p.Do(t.Context())
		bad(t, err)
		if len(replies) != 2 || replies[0].Err() != nil || replies[1].Err() == nil {
			t.Error(replies)
		}
		fill()
		bad(t, p.Each(t.Context(), func(int, redis.Reply) error { return nil }))
	})
}

// TestScriptWithTheCodeOfAnUnknownUserRunsOnce: it has had an effect, and then refuses by itself.
func TestScriptWithTheCodeOfAnUnknownUserRunsOnce(t *testing.T) {
	runs := 0
	change := func(s *fakes.Redis, _ *redis.Options) {
		s.Script("x", func(ss *fakes.RedisSession, _ [][]byte) {
			runs++
			ss.Error("NOAUTH you may not")
		})
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		for i, size := range []int{0, 20_000} { // over the shared connection, and over one of its own
			mustSet(t, c, "k", strings.Repeat("v", size))
			err := c.Do(t.Context(), "EVAL", "x", 0, strings.Repeat("a", size)).Err()
			if se := new(redis.Error); runs != i+1 || !errors.As(err, &se) || se.Code != "NOAUTH" {
				t.Errorf("run %d times after %d calls, %v", runs, i+1, err)
			}
		}
	})
}

func mustGetNothing(t *testing.T, c *redis.Client, key string) {
	t.Helper()
	if _, err := get(t.Context(), c, key); err != redis.ErrNil {
		t.Fatal(err)
	}
}
