package memcached

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/internal/testing/fakes"
)

// TestFleetIsAStore runs the checks of every Store of a Tier on three model servers, with and
// without CAS numbers of the client's own.
func TestFleetIsAStore(t *testing.T) {
	for name, generation := range map[string]fakes.Generation{"1.6.18": fakes.V1618, "1.6.38": fakes.V1638} {
		t.Run(name, func(t *testing.T) {
			lab.CheckFleet(t, func(t *testing.T, check func(*testing.T, lab.FleetFixture)) {
				synctest.Test(t, func(t *testing.T) { overFakes(t, generation, check) })
			})
		})
	}
}

func overFakes(t *testing.T, generation fakes.Generation, check func(*testing.T, lab.FleetFixture)) {
	models, addrs := map[string]*fakes.Memcached{}, []string{}
	for i := range 3 {
		addr := fmt.Sprintf("10.0.0.%d:11211", i+1)
		models[addr], addrs = fakes.NewMemcached(), append(addrs, addr)
		models[addr].Generation = generation
		defer models[addr].Close()
	}
	c, err := New(Options{Servers: addrs, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return models[addr].Dial(ctx, network, addr)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	check(t, lab.FleetFixture{Fleet: items{c}, Stop: func(server int) { models[addrs[server]].Stop() }})
}
