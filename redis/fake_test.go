package redis_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/redis"
)

// fake runs f in a bubble with a model server and a client for it. change, if
// not nil, alters both before the client is made.
func fake(t *testing.T, change func(*fakes.Redis, *redis.Options), f func(t *testing.T, s *fakes.Redis, c *redis.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := fakes.NewRedis()
		defer s.Close()
		o := redis.Options{DialContext: s.Dial}
		if change != nil {
			change(s, &o)
		}
		c, err := redis.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f(t, s, c)
	})
}

// answer makes every GET send these bytes as they are.
func answer(s *fakes.Redis, raw string) {
	s.Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, raw...) })
}

// get is AppendGet as text.
func get(ctx context.Context, c *redis.Client, key string) (string, error) {
	b, err := c.AppendGet(ctx, nil, key)
	return string(b), err
}

func mustSet(t *testing.T, c *redis.Client, key, value string) {
	t.Helper()
	if err := c.Do(t.Context(), "SET", key, value).Ok(); err != nil {
		t.Fatal(err)
	}
}
