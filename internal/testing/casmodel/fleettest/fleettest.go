// Package fleettest checks a Fleet of package castier: the model in memory and the servers of a
// client behave alike. Each server is checked as stratatest.TestStore does, too.
package fleettest

import (
	"fmt"
	"testing"
	"time"

	"github.com/strata-cache/strata/remote/castier"
	"github.com/strata-cache/strata/stratatest"
)

// Fleet is a Fleet of three servers, for tests.
type Fleet struct {
	castier.Fleet
	// Stop makes a server fail.
	Stop func(server int)
}

// Run checks the Fleets that open hands to check, each in a bubble of its own.
func Run(t *testing.T, open func(t *testing.T, check func(*testing.T, Fleet))) {
	for name, check := range map[string]func(*testing.T, Fleet){
		"EachServerHasItemsOfItsOwn":         eachServer,
		"ServerThatFailsIsAnErrorOfItsOwn":   oneFails,
		"OneThingIsDoneBesideCallsAtOneTime": beside,
	} {
		t.Run(name, func(t *testing.T) { open(t, check) })
	}
	for name, check := range stratatest.StoreChecks() {
		t.Run(name, func(t *testing.T) {
			open(t, func(t *testing.T, f Fleet) {
				check(t, func(*testing.T) (castier.Store, func(time.Duration)) { return on(t, f, 1), time.Sleep })
			})
		})
	}
}

// on returns the Store of a server.
func on(t *testing.T, f Fleet, server int) castier.Store {
	t.Helper()
	s, err := f.On(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// add adds to a counter that begins at first.
func add(t *testing.T, f Fleet, server int, key string, first uint64) uint64 {
	t.Helper()
	sums, err := on(t, f, server).(castier.Counter).AddMany(t.Context(), []castier.Add{{Key: key, First: first, Delta: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return sums[0]
}

// eachServer uses keys on all servers, wherever their homes are.
func eachServer(t *testing.T, f Fleet) {
	names := map[string]bool{}
	first, n := f.Servers()
	for server := first; server < first+n; server++ {
		names[f.Name(server)] = true
	}
	if len(names) != 3 {
		t.Fatalf("names: %v", names)
	}
	for i := range 10 {
		key := fmt.Sprint("item", i)
		for server := range 3 {
			swapped, err := on(t, f, server).SwapMany(t.Context(), []castier.Swap{{Key: key, Value: []byte(fmt.Sprint(server))}})
			if err != nil || !swapped[0] {
				t.Fatalf("%s is on server %d already: %v", key, server, err)
			}
			add(t, f, server, key+"n", uint64(100*(server+1)))
		}
		for server := range 3 {
			items, err := on(t, f, server).GetMany(t.Context(), []string{key})
			if err != nil || string(items[0].Value) != fmt.Sprint(server) {
				t.Errorf("%s of server %d is %q, %v", key, server, items[0].Value, err)
			}
			if n, want := add(t, f, server, key+"n", 7), uint64(100*(server+1)+1); n != want {
				t.Errorf("the counter of server %d is %d, not %d", server, n, want)
			}
		}
	}
}

// oneFails stops one of three servers.
func oneFails(t *testing.T, f Fleet) {
	f.Stop(1)
	for server := range 3 {
		for i := range 20 {
			key := fmt.Sprint("item", i)
			s, err := f.On(t.Context(), server)
			if err == nil {
				_, err = s.GetMany(t.Context(), []string{key})
			}
			if (err != nil) != (server == 1) {
				t.Errorf("%s on server %d, home %d: %v", key, server, f.Home(key), err)
			}
		}
	}
}
