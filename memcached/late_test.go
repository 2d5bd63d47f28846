package memcached_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/memcached"
)

// TestErrorAfterTheDeadlineIsThatOfTheContext has all limits of a client end, and its
// connections fail, at the instant of the deadline of its caller.
func TestErrorAfterTheDeadlineIsThatOfTheContext(t *testing.T) {
	calls := map[string]func(context.Context, *memcached.Client) error{
		"AppendGet": func(ctx context.Context, c *memcached.Client) error { _, err := get(ctx, c, "key"); return err },
		"Set": func(ctx context.Context, c *memcached.Client) error {
			return c.Set(ctx, memcached.Item{Key: "key", Value: []byte("v")})
		},
		"large Set": func(ctx context.Context, c *memcached.Client) error {
			return c.Set(ctx, memcached.Item{Key: "key", Value: []byte(strings.Repeat("x", 100_000))})
		},
		"GetTo": func(ctx context.Context, c *memcached.Client) error {
			_, err := c.GetTo(ctx, "key", &bytes.Buffer{})
			return err
		},
		"GetMany": func(ctx context.Context, c *memcached.Client) error {
			_, err := c.GetMany(ctx, []string{"key", "other"})
			return err
		},
	}
	silent := func(s *fakes.Memcached) {
		s.Gate = func(_ *fakes.MemcachedSession, c *meta.Command) bool { return c.Name == "mg" || c.Name == "ms" }
	}
	for event, change := range map[string]func(*fakes.Memcached, *memcached.Options){
		"no reply": func(s *fakes.Memcached, _ *memcached.Options) { silent(s) },
		"no connection": func(_ *fakes.Memcached, o *memcached.Options) {
			o.DialContext = kit.NoRoute
		},
		"dead server": func(_ *fakes.Memcached, o *memcached.Options) {
			o.Fleet.Dead = memcached.DeadMisses
			o.DialContext = kit.NoRoute
		},
		"connection lost": func(s *fakes.Memcached, o *memcached.Options) {
			silent(s)
			o.DialContext = kit.LostAfter(time.Second, o.DialContext)
		},
	} {
		for name, call := range calls {
			t.Run(event+"/"+name, func(t *testing.T) {
				for range 20 { // the timer that runs first is chosen at random
					fake(t, func(s *fakes.Memcached, o *memcached.Options) {
						o.Timeout, o.DialTimeout = time.Second, time.Second
						change(s, o)
					}, func(t *testing.T, _ *fakes.Memcached, c *memcached.Client) {
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
