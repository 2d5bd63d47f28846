// Checks of a Fleet of package castier: the model in memory and the servers of a client behave
// alike. Each server is checked as stratatest.TestStore does, too.

package lab

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/remote/castier"
	"github.com/strata-cache/strata/stratatest"
)

// FleetFixture is a Fleet of three servers, for tests.
type FleetFixture struct {
	castier.Fleet
	// Stop makes a server fail.
	Stop func(server int)
}

// CheckFleet checks the Fleets that open hands to check, each in a bubble of its own.
func CheckFleet(t *testing.T, open func(t *testing.T, check func(*testing.T, FleetFixture))) {
	for name, check := range map[string]func(*testing.T, FleetFixture){
		"EachServerHasItemsOfItsOwn":         eachServer,
		"ServerThatFailsIsAnErrorOfItsOwn":   oneFails,
		"OneThingIsDoneBesideCallsAtOneTime": beside,
	} {
		t.Run(name, func(t *testing.T) { open(t, check) })
	}
	for name, check := range stratatest.StoreChecks() {
		t.Run(name, func(t *testing.T) {
			open(t, func(t *testing.T, f FleetFixture) {
				check(t, func(*testing.T) (castier.Store, func(time.Duration)) { return on(t, f, 1), time.Sleep })
			})
		})
	}
}

// on returns the Store of a server.
func on(t *testing.T, f FleetFixture, server int) castier.Store {
	t.Helper()
	s, err := f.On(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// add adds to a counter that begins at first.
func add(t *testing.T, f FleetFixture, server int, key string, first uint64) uint64 {
	t.Helper()
	sums, err := on(t, f, server).(castier.Counter).AddMany(t.Context(), []castier.Add{{Key: key, First: first, Delta: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return sums[0]
}

// eachServer uses keys on all servers, wherever their homes are.
func eachServer(t *testing.T, f FleetFixture) {
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
func oneFails(t *testing.T, f FleetFixture) {
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

// beside has one thing done twice at a time, and another one.
func beside(t *testing.T, f FleetFixture) {
	var running, done atomic.Int64
	end := make(chan struct{})
	for _, what := range []int{1, 1, 2} {
		f.Beside(what, func(ctx context.Context) {
			running.Add(1)
			<-end
			if ctx.Err() == nil {
				done.Add(1)
			}
		})
	}
	synctest.Wait()
	if n := running.Load(); n != 2 {
		t.Errorf("%d run", n)
	}
	close(end)
	synctest.Wait()
	f.Beside(1, func(context.Context) { done.Add(1) })
	synctest.Wait()
	if n := done.Load(); n != 3 {
		t.Errorf("%d have ended", n)
	}
}
