package memcached

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"

	"github.com/strata-cache/strata/internal/testing/casmodel/fleettest"
	"github.com/strata-cache/strata/internal/testing/fakememcached"
)

// TestFleetIsAStore runs the checks of every Store of a Tier on three model servers, with and
// without CAS numbers of the client's own.
func TestFleetIsAStore(t *testing.T) {
	for name, generation := range map[string]fakememcached.Generation{"1.6.18": fakememcached.V1618, "1.6.38": fakememcached.V1638} {
		t.Run(name, func(t *testing.T) {
			fleettest.Run(t, func(t *testing.T, check func(*testing.T, fleettest.Fleet)) {
				synctest.Test(t, func(t *testing.T) { overFakes(t, generation, check) })
			})
		})
	}
}

func overFakes(t *testing.T, generation fakememcached.Generation, check func(*testing.T, fleettest.Fleet)) {
	fakes, addrs := map[string]*fakememcached.Server{}, []string{}
	for i := range 3 {
		addr := fmt.Sprintf("10.0.0.%d:11211", i+1)
		fakes[addr], addrs = fakememcached.New(), append(addrs, addr)
		fakes[addr].Generation = generation
		defer fakes[addr].Close()
	}
	c, err := New(Options{Servers: addrs, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return fakes[addr].Dial(ctx, network, addr)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	check(t, fleettest.Fleet{Fleet: items{c}, Stop: func(server int) { fakes[addrs[server]].Stop() }})
}
