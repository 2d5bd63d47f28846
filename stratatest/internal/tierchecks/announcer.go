package tierchecks

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest/internal/checks"
)

// AnnouncerFixture is a tier with the bus on which it announces its drops.
type AnnouncerFixture struct {
	Tier remote.Tier
	Bus  remote.Bus
}

// AnnouncerChecks returns the promises of a tier that announces.
func AnnouncerChecks() []checks.Check[AnnouncerFixture] {
	var all []checks.Check[AnnouncerFixture]
	for _, c := range announceChecks() {
		all = append(all, checks.Check[AnnouncerFixture]{Name: c.name, Run: func(t testing.TB, f AnnouncerFixture) {
			checks.Patiently(t, func(t testing.TB) { c.run(newAnnounceView(t, f.Tier, f.Bus)) })
		}})
	}
	return all
}

type announceCheck = check[*announceView]

func announceChecks() []announceCheck {
	return []announceCheck{
		{"EveryDropIsAnnounced", checkDropIsAnnounced},
		{"PutByTokenIsAnnounced", checkPutByTokenIsAnnounced},
		{"PutOfAQuietDropIsAnnounced", checkPutOfAQuietDropIsAnnounced},
		{"MessageMeansTheDropHasHappened", checkMessageMeansDropped},
		{"VersionsOfALaneChain", checkVersionsChain},
		{"PositionIsTheLastVersion", checkPositionIsTheLastVersion},
		{"HoldIsAnnounced", checkHoldIsAnnounced},
		{"EndIsAnnouncedToInstancesThatWait", checkEndIsAnnounced},
		{"DropAllIsAnnounced", checkDropAllIsAnnounced},
		{"TagDropsAreAnnounced", checkTagDropsAreAnnounced},
	}
}

type announceView struct {
	*view
	ear *checks.Ear
}

func newAnnounceView(t testing.TB, tier remote.Tier, bus remote.Bus) *announceView {
	v := newView(t, tier, nil)
	a, ok := remote.As[remote.Announcer](v.Tier)
	if !ok || !a.Announces() {
		t.Fatalf("the tier does not announce")
	}
	return &announceView{v, checks.Follow(t, bus, v.space.Name)}
}

// hears fails unless the next messages announce kind for keys. It returns them.
func (v *announceView) hears(kind remote.Kind, keys ...string) []remote.Message {
	v.Helper()
	got := v.ear.Messages(len(keys))
	for i, m := range got {
		if m.Name != v.space.Name || m.From != v.space.Instance || m.Kind != kind || i >= len(keys) || m.Key != keys[i] {
			v.Fatalf("message %d is %+v; want kind %d of %q from %d", i, m, kind, keys, v.space.Instance)
		}
	}
	return got
}

// checkDropIsAnnounced: other instances drop the key from their L1 by this message. Drops with
// another name, and stores, have none.
func checkDropIsAnnounced(v *announceView) {
	v.drop(remote.Drop{Key: "hard"})
	v.hears(remote.Dropped, "hard")
	v.drop(remote.Drop{Key: "soft", Soft: true})
	v.hears(remote.Expired, "soft")
	v.drop(remote.Drop{Key: "token", Token: long, Hold: long})
	v.hears(remote.Dropped, "token")
	for _, key := range checks.HostileKeys() {
		v.drop(remote.Drop{Key: key})
		v.hears(remote.Dropped, key)
	}
	_, err := v.Drop(v.ctx, []remote.Drop{{Key: "a"}, {Key: "b"}, {Key: "c"}})
	if err != nil {
		v.Fatalf("Drop: %v", err)
	}
	got := v.ear.Messages(3)
	keys := []string{got[0].Key, got[1].Key, got[2].Key}
	slices.Sort(keys)
	if !slices.Equal(keys, []string{"a", "b", "c"}) {
		v.Errorf("a batch of a, b, c announced %q", keys)
	}
	v.stranger().drop(remote.Drop{Key: "theirs"})
	v.fill("filled", "value")
	v.drop(remote.Drop{Key: "mine"})
	v.hears(remote.Dropped, "mine")
}

// checkPutByTokenIsAnnounced: values that other instances have loaded between
// the drop and the put must not stay in their L1.
func checkPutByTokenIsAnnounced(v *announceView) {
	lease := v.drop(remote.Drop{Key: "k", Token: long})
	v.hears(remote.Dropped, "k")
	v.fill("k", "loaded meanwhile")
	v.stores("k", "written", lease)
	v.hears(remote.Dropped, "k")
	v.holdsFresh("k", "written")
	v.putDrops("gone", long, v.granted("gone", long))
	v.hears(remote.Dropped, "gone")
	v.fill("filled", "value") // under a lease: no instance has an older value
	v.drop(remote.Drop{Key: "mine"})
	v.hears(remote.Dropped, "mine")
}

// checkPutOfAQuietDropIsAnnounced: nothing is announced when the token is given, so the Put is, and
// a refused one, too: its caller has finished, and other instances have older values.
func checkPutOfAQuietDropIsAnnounced(v *announceView) {
	quiet := func() remote.Lease {
		l := v.drop(remote.Drop{Key: "k", Token: long, Quiet: true})
		if !l.Quiet {
			v.hears(remote.Dropped, "k")
		}
		return l
	}
	v.fill("k", "old")
	first, second := quiet(), quiet()
	v.refuses("k", "first", first)
	if first.Quiet {
		v.hears(remote.Dropped, "k")
	}
	v.stores("k", "second", second)
	v.hears(remote.Dropped, "k")
	v.refuses("k", "first", first)
	if first.Quiet {
		v.hears(remote.Dropped, "k")
	}
	v.drop(remote.Drop{Key: "mine"})
	v.hears(remote.Dropped, "mine")
}

// checkMessageMeansDropped: an instance that hears the message reads the key again at once. If the
// drop came later, it would take the old value back into its L1.
func checkMessageMeansDropped(v *announceView) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range 50 {
		key := fmt.Sprint("k", i)
		v.fill(key, "value")
		wg.Go(func() {
			if _, err := v.Drop(v.ctx, []remote.Drop{{Key: key}}); err != nil {
				v.Errorf("Drop: %v", err)
			}
		})
		v.hears(remote.Dropped, key)
		v.isAbsent(key)
	}
}

// checkVersionsChain: each message names the version before it, so that a lost message is noticed
// with the next one. This holds for drops at the same time, too.
func checkVersionsChain(v *announceView) {
	const droppers, each, keys = 4, 100, 7
	sibling := v.sibling()
	var wg sync.WaitGroup
	for g := range droppers {
		tier := []remote.Tier{v.Tier, sibling.Tier}[g%2]
		wg.Go(func() {
			for i := range each {
				if _, err := tier.Drop(v.ctx, []remote.Drop{{Key: fmt.Sprint("k", i%keys)}}); err != nil {
					v.Errorf("Drop: %v", err)
				}
			}
		})
	}
	wg.Wait()
	last := map[uint16]remote.LaneVersion{}
	lane := map[string]uint16{}
	for _, m := range v.ear.Messages(droppers * each) {
		if was, ok := last[m.Lane]; ok && m.Was != was {
			v.Fatalf("lane %d: %+v follows %+v", m.Lane, m, was)
		}
		if m.Is.Count != m.Was.Count+1 || m.Is.Nonce == m.Was.Nonce {
			v.Fatalf("lane %d: from %+v to %+v; want a count and another nonce", m.Lane, m.Was, m.Is)
		}
		if l, ok := lane[m.Key]; ok && l != m.Lane {
			v.Fatalf("key %q is in lanes %d and %d", m.Key, l, m.Lane)
		}
		last[m.Lane], lane[m.Key] = m.Is, m.Lane
	}
	if len(lane) != keys {
		v.Errorf("messages for %v; want %d keys", slices.Sorted(maps.Keys(lane)), keys)
	}
}

// checkPositionIsTheLastVersion: the next message begins at the lane version of
// the position, also in an unused lane.
func checkPositionIsTheLastVersion(v *announceView) {
	for round := range 3 {
		before := v.position()
		for i := range 20 {
			key := fmt.Sprint("k", i*round)
			v.drop(remote.Drop{Key: key})
			m := v.hears(remote.Dropped, key)[0]
			if m.Lane != v.lane(key) || int(m.Lane) >= len(before.Lanes) {
				v.Fatalf("%+v: its key is in lane %d of %d", m, v.lane(key), len(before.Lanes))
			}
			if m.Was != before.Lanes[m.Lane] {
				v.Fatalf("%+v: its lane was %+v", m, before.Lanes[m.Lane])
			}
			before.Lanes[m.Lane] = m.Is
		}
		if !same(v.position(), before) {
			v.Fatalf("a position differs from the one before with the messages since")
		}
	}
}

// checkHoldIsAnnounced: instances that store nothing in L2 must know the hold
// too.
func checkHoldIsAnnounced(v *announceView) {
	for _, soft := range []bool{false, true} {
		kind := remote.Dropped
		if soft {
			kind = remote.Expired
		}
		key := fmt.Sprint("held ", soft)
		v.drop(remote.Drop{Key: key, Soft: soft, Hold: long})
		if m := v.hears(kind, key)[0]; m.Hold > long || m.Hold < long-slack {
			v.Errorf("%+v announces a hold of %v", m, long)
		}
		v.drop(remote.Drop{Key: "free", Soft: soft})
		if m := v.hears(kind, "free")[0]; m.Hold != 0 {
			v.Errorf("%+v announces a drop without hold", m)
		}
	}
}

// checkEndIsAnnounced: an instance gets a message when a lease ends if it was
// told before that the lease is taken. Without such an instance there is no
// message.
func checkEndIsAnnounced(v *announceView) {
	ended := func() {
		v.Helper()
		m := v.hears(remote.Ended, "k")[0]
		if m.Lane != 0 || m.Was != (remote.LaneVersion{}) || m.Is != (remote.LaneVersion{}) || m.Hold != 0 {
			v.Errorf("%+v announces the end of a lease; nothing was dropped", m)
		}
	}
	awaited := func() remote.Lease {
		v.Helper()
		lease := v.granted("k", long)
		v.waits("k", remote.Busy, long)
		v.waits("k", remote.Busy, long)
		return lease
	}
	quiet := func() {
		v.Helper()
		v.drop(remote.Drop{Key: "k"})
		v.hears(remote.Dropped, "k")
	}
	_, leases := v.acquireMany(long, "k", "another", "k")
	v.stores("k", "value", leases[0])
	ended()
	quiet()
	v.fill("k", "old")
	id := v.holdsFresh("k", "old").ID
	lease := v.refreshes("k", "old", id)
	v.refresh("k", id, short)
	v.stores("k", "new", lease)
	ended()
	quiet()
	v.stores("k", "value", awaited())
	ended()
	quiet()
	v.fill("k", "value")
	quiet()
	lost := awaited()
	quiet()
	v.fill("k", "without waiting instances")
	v.refuses("k", "late", lost)
	quiet()

	release := func(l remote.Lease) {
		v.Helper()
		if err := v.Release(v.ctx, "k", l); err != nil {
			v.Fatalf("Release: %v", err)
		}
	}
	release(awaited())
	ended()
	release(v.granted("k", long))
	release(lost)
	quiet()
}

// checkDropAllIsAnnounced: the message has the count of drops, by which instances tell whether they
// know the state.
func checkDropAllIsAnnounced(v *announceView) {
	for n := range uint64(2) {
		v.dropAll(false)
		drops := v.hears(remote.AllDropped, "")
		v.dropAll(true)
		expiries := v.hears(remote.AllExpired, "")
		if d, e := drops[0].Is.Count, expiries[0].Is.Count; d != n+1 || e != n+1 {
			v.Errorf("drops and expiries of everything were counted %d and %d; want %d", d, e, n+1)
		}
	}
}

// checkTagDropsAreAnnounced: the clocks of messages form a chain, also within one call: a gap in it
// is a lost message.
func checkTagDropsAreAnnounced(v *announceView) {
	clock := v.tags("a")[0].Dropped
	expect := func(kind remote.Kind, tags ...string) {
		v.Helper()
		for i, m := range v.hears(kind, tags...) {
			tag := v.tags(tags[i])[0]
			is := tag.Dropped
			if kind == remote.TagExpired {
				is = tag.Expired
			}
			if m.Lane != 0 || m.Was.Count != clock || m.Is.Count != clock+1 || m.Is.Count != is {
				v.Fatalf("%+v: the tag clock was %d, and the tag is %+v", m, clock, tag)
			}
			clock++
		}
	}
	v.dropTags(false, "a")
	expect(remote.TagDropped, "a")
	v.dropTags(true, "a", "b")
	expect(remote.TagExpired, "a", "b")
	for _, tag := range checks.HostileKeys() {
		v.dropTags(false, tag)
		expect(remote.TagDropped, tag)
	}
}
