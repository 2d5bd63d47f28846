package memcached_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/memcached"
)

// fake runs f in a bubble with a model server and a client for it. change, if
// not nil, alters both before the client is made.
func fake(t *testing.T, change func(*fakes.Memcached, *memcached.Options), f func(t *testing.T, s *fakes.Memcached, c *memcached.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := fakes.NewMemcached()
		defer s.Close()
		o := memcached.Options{DialContext: s.Dial}
		if change != nil {
			change(s, &o)
		}
		c, err := memcached.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f(t, s, c)
	})
}

var generations = map[string]fakes.Generation{ // read-only
	"1.6.18": fakes.V1618, "1.6.38": fakes.V1638, "1.6.40": fakes.V1640,
	"old": fakes.Old, "proxy": fakes.Proxy,
}

// everywhere runs f with servers of all generations.
func everywhere(t *testing.T, f func(t *testing.T, s *fakes.Memcached, c *memcached.Client)) {
	for name, g := range generations {
		t.Run(name, func(t *testing.T) {
			fake(t, func(s *fakes.Memcached, _ *memcached.Options) { s.Generation = g }, f)
		})
	}
}

func mustSet(t *testing.T, c *memcached.Client, key, value string) {
	t.Helper()
	if err := c.Set(t.Context(), memcached.Item{Key: key, Value: []byte(value)}); err != nil {
		t.Fatal(err)
	}
}

// get is AppendGet as text.
func get(ctx context.Context, c *memcached.Client, key string) (string, error) {
	b, err := c.AppendGet(ctx, nil, key)
	return string(b), err
}
