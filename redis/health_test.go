package redis_test

import (
	"testing"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

func TestTiersAndBusesOfAClientShareTheHealthOfItsServer(t *testing.T) {
	for name, o := range map[string]redis.Options{
		"localhost:6379":      {},
		"10.0.0.1:7000":       {Addr: "10.0.0.1:7000", Username: "ann", Password: "secret"},
		"cluster of a:1, b:2": {Cluster: true, Addr: "a:1", Addrs: []string{"a:1", "b:2"}, Password: "secret"},
		"main by sentinels a:1, b:2": {
			Sentinel: redis.Sentinel{Primary: "main", Password: "secret"}, Addr: "a:1", Addrs: []string{"b:2"},
		},
	} {
		c, err := redis.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		h := observe.ServerHealthOf(redis.NewTier(c))
		view := redis.NewTier(c).Bind(remote.Space{Name: "users"}).(*redis.Tier)
		if observe.ServerHealthOf(view) != h || observe.ServerHealthOf(redis.NewBus(c)) != h {
			t.Errorf("%s: three healths of one server", name)
		}
		if h.Name() != name {
			t.Errorf("the server is named %q, want %q", h.Name(), name)
		}
	}
}
