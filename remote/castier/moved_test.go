package castier_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

// value stores a value of a key with a tag.
func value(t *testing.T, tier remote.Tier, key, data string) {
	t.Helper()
	a, err := tier.Acquire(t.Context(), []remote.Request{{Key: key}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	put := remote.Put{Key: key, Data: []byte(data), Fresh: time.Hour, Left: time.Hour, Lease: a[0].Lease, Tags: []string{"tag " + key}}
	if refused, err := tier.Put(t.Context(), []remote.Put{put}); err != nil || len(refused) > 0 {
		t.Fatalf("%s: %v, %v", key, refused, err)
	}
}

// TestServersOfANewListBeginWithADrop: of each namespace, also if no operation has used it since
// Moved, and each only once. A dead server is named, and begins later.
func TestServersOfANewListBeginWithADrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lab.NewModel(t, 3)
		one := castier.NewFleet(m)
		users, orders := one.Bind(remote.Space{Name: "users"}), one.Bind(remote.Space{Name: "orders"})
		keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		has := func(tier remote.Tier) (found int) {
			t.Helper()
			held, err := tier.Get(t.Context(), keys)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range held {
				if h.Left > 0 {
					found++
				}
			}
			return found
		}
		fill := func() {
			for _, key := range keys {
				value(t, users, key, "v")
				value(t, orders, key, "v")
			}
		}
		if err := castier.Moved(t.Context(), one); err != nil {
			t.Error(err)
		}
		fill()
		if n, k := has(users), has(orders); n != 8 || k != 8 {
			t.Fatalf("%d, %d values", n, k)
		}
		other := castier.NewFleet(m).Bind(remote.Space{Name: "users"}) // hears of nothing
		if n := has(other); n != 8 {
			t.Fatalf("%d values for another instance", n)
		}

		m.List(0, 1, 2) // the same servers: all values have the homes that they had
		if err := castier.Moved(t.Context(), one); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second) // in the bubble
		if n, k, l := has(users), has(orders), has(other); n+k+l != 0 {
			t.Errorf("%d, %d, %d values are left", n, k, l)
		}
		time.Sleep(time.Second) // in the bubble: the first instance knows of the drop by the other
		fill()
		if err := castier.Moved(t.Context(), one); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second) // in the bubble
		if n, k, l := has(users), has(orders), has(other); n != 8 || k != 8 || l != 8 {
			t.Errorf("%d, %d, %d values: dropped twice", n, k, l)
		}

		m.List(0, 1, 2)
		m.Kill(1, true)
		var untold *remote.NotToldError
		if err := castier.Moved(t.Context(), one); !errors.As(err, &untold) || !slices.Equal(untold.Servers, []string{"s1"}) {
			t.Errorf("%v", err)
		}
		m.Kill(1, false)
		if n, k := has(users), has(orders); n+k != 0 {
			t.Errorf("%d, %d values of a server that was not told", n, k)
		}
		if err := castier.Moved(t.Context(), one); err != nil {
			t.Error(err)
		}
	})
}

// TestDropOfAServerThatHasLeftIsDone: a name that never existed is an error while the list is
// the first.
func TestDropOfAServerThatHasLeftIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lab.NewModel(t, 3)
		tier := castier.NewFleet(m)
		if err := tier.DropAllOf(t.Context(), "s9", false); err == nil {
			t.Error("no error for a server that does not exist")
		}
		m.List(0, 2)
		m.Kill(1, true)
		if err := tier.DropAllOf(t.Context(), "s1", false); err != nil {
			t.Error(err)
		}
		if got := tier.Servers(); !slices.Equal(got, []string{"s0", "s2"}) {
			t.Errorf("%q", got)
		}
		m.Kill(2, true)
		if err := tier.DropAllOf(t.Context(), "s2", false); !errors.Is(err, lab.ErrDead) {
			t.Errorf("%v", err)
		}
	})
}
