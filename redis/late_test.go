package redis_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/redis"
)

// overdue are calls over the shared connection, over one of their own and over a held one.
var overdue = map[string]func(context.Context, *redis.Client) error{ // read-only
	"AppendGet": func(ctx context.Context, c *redis.Client) error { _, err := get(ctx, c, "key"); return err },
	"Do":        func(ctx context.Context, c *redis.Client) error { return c.Do(ctx, "GET", "key").Err() },
	"SET":       func(ctx context.Context, c *redis.Client) error { return c.Set(ctx, "key", []byte("v"), 0) },
	"GetTo": func(ctx context.Context, c *redis.Client) error {
		_, err := c.GetTo(ctx, "key", &bytes.Buffer{})
		return err
	},
	"SetFrom": func(ctx context.Context, c *redis.Client) error {
		return c.SetFrom(ctx, "key", strings.NewReader(strings.Repeat("x", 100_000)), 100_000, 0)
	},
	"Pipeline": func(ctx context.Context, c *redis.Client) error {
		p := c.Pipeline()
		p.Get("key")
		_, err := p.Do(ctx)
		return err
	},
}

// TestErrorAfterTheDeadlineIsThatOfTheContext has all limits of a client end, and its
// connections fail, at the instant of the deadline of its caller.
func TestErrorAfterTheDeadlineIsThatOfTheContext(t *testing.T) {
	silent := func(s *fakes.Redis) {
		s.Handle("GET", func(*fakes.RedisSession, [][]byte) {})
		s.Handle("SET", func(*fakes.RedisSession, [][]byte) {})
	}
	for event, change := range map[string]func(*fakes.Redis, *redis.Options){
		"no reply": func(s *fakes.Redis, _ *redis.Options) { silent(s) },
		"no connection": func(_ *fakes.Redis, o *redis.Options) {
			o.DialContext = kit.NoRoute
		},
		"connection lost": func(s *fakes.Redis, o *redis.Options) {
			silent(s)
			o.DialContext = kit.LostAfter(time.Second, o.DialContext)
		},
	} {
		for name, call := range overdue {
			t.Run(event+"/"+name, func(t *testing.T) {
				for range 20 { // the timer that runs first is chosen at random
					fake(t, func(s *fakes.Redis, o *redis.Options) {
						o.Timeout, o.DialTimeout = time.Second, time.Second
						change(s, o)
					}, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
						ctx := kit.Within(t, time.Second)
						if event != "no reply" {
							ctx = kit.Hasty(t.Context(), time.Second)
						}
						if err := call(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
					})
				}
			})
		}
	}
}

func TestTimeoutBoundsACallOfAnUnknownScript(t *testing.T) {
	script := redis.NewScript("return 1")
	pipeline := func(c *redis.Client) *redis.Pipeline {
		p := c.Pipeline()
		p.Eval(script, []string{"k"})
		return p
	}
	for name, call := range map[string]func(ctx context.Context, c *redis.Client) error{
		"Eval": func(ctx context.Context, c *redis.Client) error { return c.Eval(ctx, script, []string{"k"}).Err() },
		"Do":   func(ctx context.Context, c *redis.Client) error { _, err := pipeline(c).Do(ctx); return err },
		"Each": func(ctx context.Context, c *redis.Client) error {
			return pipeline(c).Each(ctx, func(int, redis.Reply) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(s *fakes.Redis, o *redis.Options) {
				o.Timeout = time.Second
				s.Handle("EVALSHA", func(ss *fakes.RedisSession, _ [][]byte) {
					time.Sleep(900 * time.Millisecond)
					ss.Error("NOSCRIPT No matching script.")
				})
				s.Handle("EVAL", func(*fakes.RedisSession, [][]byte) { time.Sleep(time.Minute) })
			}, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
				start := time.Now()
				err := call(t.Context(), c)
				var timeout net.Error
				if took := time.Since(start); !errors.As(err, &timeout) || !timeout.Timeout() || took > 1125*time.Millisecond {
					t.Errorf("%v after %v", err, took)
				}
			})
		})
	}
}
