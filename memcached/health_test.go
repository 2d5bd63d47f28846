package memcached_test

import (
	"testing"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
)

func TestTiersOfAClientShareTheHealthOfItsServers(t *testing.T) {
	c, err := memcached.New(memcached.Options{Servers: []string{"a:1", "b:2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h := observe.ServerHealthOf(memcached.NewTier(c))
	if view := memcached.NewTier(c).Bind(remote.Space{Name: "users"}).(*memcached.Tier); observe.ServerHealthOf(view) != h || h.Name() != "a:1, b:2" {
		t.Errorf("two healths, of %q", h.Name())
	}
	if err := c.SetServers(t.Context(), []string{"b:2", "c:3"}); err != nil || h.Name() != "b:2, c:3" {
		t.Errorf("after a change: %q, %v", h.Name(), err)
	}
}
