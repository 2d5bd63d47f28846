package stratatest

import (
	"context"
	"testing"
	"time"

	"github.com/strata-cache/strata"
)

// Plain returns o without all that makes a result depend on chance, on earlier calls
// that failed, or on loads in the background: no jitter, no refreshes, no stale values,
// no remembered failures. So an entry is served until its TTL ends and not longer, the
// next read loads, and each failed load is one call of the Loader. Entries of both
// tiers and negative entries are kept as o says. Fields that a test is about are set in
// the result.
func Plain[K comparable, V any](o strata.Options[K, V]) strata.Options[K, V] {
	o.Jitter, o.RefreshAt, o.RefreshSpread, o.RefreshEvery = -1, -1, 0, 0
	o.Stale = strata.Stale{WhileRevalidate: -1, OnError: -1}
	o.ErrorTTL = -1
	return o
}

// Pair returns two instances of one cache, as two processes have them, and closes them
// when the test ends. Without a Tier and a Bus in o they get one of [NewTier] and one
// of [NewBus]; without a Name they get one. Both are connected when Pair returns, so
// that each hears at once of the drops of the other. If Remote.Bus is a [*Bus], it is
// the connection of a, and b has another one, so that cutting it isolates a. Pair
// works in a testing/synctest bubble. The test fails if the Options are refused.
func Pair[K comparable, V any](t testing.TB, o strata.Options[K, V]) (a, b *strata.Cache[K, V]) {
	t.Helper()
	if o.Name == "" {
		o.Name = "pair"
	}
	if o.Remote.Bus == nil {
		o.Remote.Bus = NewBus()
	}
	if o.Remote.Tier == nil {
		o.Remote.Tier = NewTier()
	}
	a = open(t, o)
	if bus, ok := o.Remote.Bus.(*Bus); ok {
		o.Remote.Bus = bus.Connect()
	}
	return a, open(t, o)
}

// connecting is for how long an instance may take to hear of its bus.
const connecting = 10 * time.Second

// open returns a connected instance. It is closed when the test ends.
func open[K comparable, V any](t testing.TB, o strata.Options[K, V]) *strata.Cache[K, V] {
	t.Helper()
	c, err := strata.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for waited := time.Duration(0); !c.Stats().Connected; waited += time.Millisecond {
		if waited > connecting {
			t.Fatalf("stratatest: Pair: the bus of an instance is not connected after %v", connecting)
		}
		time.Sleep(time.Millisecond) // nothing announces the connection
	}
	return c
}
