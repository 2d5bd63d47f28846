package stratatest

import (
	"iter"
	"testing"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
	"github.com/strata-cache/strata/stratatest/internal/checks"
	"github.com/strata-cache/strata/stratatest/internal/tierchecks"
)

// Open starts a tier for one sub-test and cleans up with t.Cleanup. sleep lets
// time pass for the tier: time.Sleep for a real server or in a testing/synctest
// bubble, or a function that moves a fake server's clock.
type Open func(t *testing.T) (tier remote.Tier, sleep func(time.Duration))

// TestTier checks that a tier keeps the promises of [remote.Tier] and of the
// abilities that it has; sub-tests of other abilities are skipped. Each sub-test
// opens a tier of its own and runs in parallel with the others. Lives may be as
// coarse as whole seconds.
//
// Some sub-tests let the store lose lanes or tags, as a server short of memory
// does. They need a tier with a method ForgetLane(key string) or ForgetTags(),
// which removes these from the store behind the tier's back.
//
// Keys have random names, so that tiers may share a server.
func TestTier(t *testing.T, open Open) {
	for name, check := range TierChecks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open)
		})
	}
}

// TierChecks yields the sub-tests of [TestTier] with their names, to run each
// in a testing/synctest bubble or to leave some out.
func TierChecks() iter.Seq2[string, func(*testing.T, Open)] {
	return func(yield func(string, func(*testing.T, Open)) bool) {
		for _, c := range tierchecks.TierChecks() {
			run := func(t *testing.T, open Open) {
				tier, sleep := open(t)
				c.Run(t, tierchecks.TierFixture{Tier: tier, Sleep: sleep})
			}
			if !yield(c.Name, run) {
				return
			}
		}
	}
}

// OpenStore starts a Store for one sub-test and cleans up with t.Cleanup. sleep is as in [Open].
type OpenStore func(t *testing.T) (store castier.Store, sleep func(time.Duration))

// TestStore checks that a Store keeps the promises of [castier.Store] and of the abilities that it
// has; sub-tests of other abilities are skipped. It finds stores that report a lost swap as done,
// or a done swap as lost; that use a version again; that lose the other swaps of a batch with one;
// and clocks that jump. Each sub-test runs in parallel with the others.
//
// A Tier over a Store that passes should pass [TestTier]. Keys have random names, so that stores
// may share a server.
func TestStore(t *testing.T, open OpenStore) {
	for name, check := range StoreChecks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open)
		})
	}
}

// StoreChecks yields the sub-tests of [TestStore] with their names, to run each in a
// testing/synctest bubble or to leave some out.
func StoreChecks() iter.Seq2[string, func(*testing.T, OpenStore)] {
	return func(yield func(string, func(*testing.T, OpenStore)) bool) {
		for _, c := range checks.StoreChecks() {
			run := func(t *testing.T, open OpenStore) {
				store, sleep := open(t)
				c.Run(t, checks.StoreFixture{Store: store, Sleep: sleep})
			}
			if !yield(c.Name, run) {
				return
			}
		}
	}
}

// OpenAnnouncer starts a tier and the bus on which it announces its drops.
type OpenAnnouncer func(t *testing.T) (remote.Tier, remote.Bus)

// TestAnnouncer checks that a tier keeps the promises of [remote.Announcer] and
// fills in its messages as [remote.Message] requires.
func TestAnnouncer(t *testing.T, open OpenAnnouncer) {
	for _, c := range tierchecks.AnnouncerChecks() {
		t.Run(c.Name, func(t *testing.T) {
			tier, bus := open(t)
			c.Run(t, tierchecks.AnnouncerFixture{Tier: tier, Bus: bus})
		})
	}
}

// BusFixture is a bus under test.
type BusFixture struct {
	// Bus is the bus under test.
	Bus remote.Bus
	// Peer is another connection to the same bus, as another process has it.
	// Nil means that Bus is used.
	Peer remote.Bus
	// Cut breaks the connection of Bus, but not of Peer, until join is called.
	// Nil skips the sub-tests that need it.
	Cut func() (join func())
}

// OpenBus starts a bus for one sub-test and cleans up with t.Cleanup.
type OpenBus func(t *testing.T) BusFixture

// TestBus checks that a bus keeps the promises of [remote.Bus]. Each sub-test
// opens a bus of its own. Names are random, so that buses may share a server.
func TestBus(t *testing.T, open OpenBus) {
	for _, c := range checks.BusChecks() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, checks.BusFixture(open(t))) })
	}
}

// TestCodec checks that a codec keeps the promises of [codec.Codec] for the
// given values, which should differ from each other. Two values are the same
// if the type's method Equal(V) bool says so, or reflect.DeepEqual; a nil slice
// or map is the same as an empty one.
func TestCodec[V any](t *testing.T, c codec.Codec[V], values ...V) {
	for _, check := range checks.CodecChecks(c, values) {
		t.Run(check.Name, func(t *testing.T) { check.Run(t) })
	}
}
