package placement

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/grafana/dskit/cache"

	"github.com/strata-cache/strata/internal/memcached/roster"
)

// selector is a placement of another client.
type selector interface {
	SetServers(servers ...string) error
	PickServer(key string) (net.Addr, error)
}

// fleets are lists of servers, by IP address since the selectors resolve names.
var fleets = map[string][]string{ // read-only
	"one":     {"10.0.0.1:11211"},
	"two":     {"10.0.0.1:11211", "10.0.0.2:11211"},
	"three":   {"10.0.0.3:11211", "10.0.0.1:11211", "10.0.0.2:11211"},
	"ports":   {"127.0.0.1:9", "127.0.0.1:100", "127.0.0.1:11211", "127.0.0.1:20"},
	"sockets": {"/tmp/memcached-10.sock", "/tmp/memcached-9.sock", "/tmp/memcached-1.sock"},
	"twelve":  hosts(12),
	"hundred": hosts(100),
}

// hosts returns n servers in no order.
func hosts(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("10.%d.0.%d:11211", i%3, (i*7)%n))
	}
	return all
}

// TestKeysAreWhereOtherClientsPutThem compares 10 000 keys in fleets of several sizes
// with gomemcache and dskit.
func TestKeysAreWhereOtherClientsPutThem(t *testing.T) {
	for mode, other := range map[roster.Mode]selector{roster.Modula: new(memcache.ServerList), roster.Jump: new(cache.MemcachedJumpHashSelector)} {
		for name, servers := range fleets {
			t.Run(mode.String()+"/"+name, func(t *testing.T) { agree(t, mode, other, servers) })
		}
	}
}

func agree(t *testing.T, mode roster.Mode, other selector, servers []string) {
	if err := other.SetServers(servers...); err != nil {
		t.Fatal(err)
	}
	var places []roster.Server
	for _, s := range servers {
		places = append(places, roster.Server{Address: s})
	}
	r, err := roster.NewRing(mode, places)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		key := fmt.Sprint("user:", i)
		if i%10 == 0 { // up to 250 bytes
			key += strings.Repeat("x", i*7%240)
		}
		want, err := other.PickServer(key)
		if err != nil {
			t.Fatal(err)
		}
		if got := servers[r.Pick(key)]; got != want.String() {
			t.Fatalf("%q is on %s, not %s", key, got, want)
		}
	}
}
