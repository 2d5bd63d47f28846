package kit

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/strata-cache/strata/remote"
)

// AnnouncerFixture is a tier with the bus on which it announces its drops.
type AnnouncerFixture struct {
	Tier remote.Tier
	Bus  remote.Bus
}

// AnnouncerChecks returns the promises of a tier that announces.
func AnnouncerChecks() []Check[AnnouncerFixture] {
	return checks(announceChecks(), func(t testing.TB, f AnnouncerFixture) *announceView {
		return newAnnounceView(t, f.Tier, f.Bus)
	})
}

type announceCheck = check[*announceView]

func announceChecks() []announceCheck {
	return []announceCheck{
		{"EveryDropIsAnnounced", checkDropIsAnnounced},
		{"PutByTokenIsAnnounced", checkPutByTokenIsAnnounced},
		{"MessageMeansTheDropHasHappened", checkMessageMeansDropped},
		{"WordsOfALaneChain", checkWordsChain},
		{"DropAllIsAnnounced", checkDropAllIsAnnounced},
	}
}

type announceView struct {
	*view
	ear *ear
}

func newAnnounceView(t testing.TB, tier remote.Tier, bus remote.Bus) *announceView {
	v := newView(t, tier, nil)
	a, ok := v.Tier.(remote.Announcer)
	if !ok || !a.Announces() {
		t.Fatalf("the tier does not announce")
	}
	b := newBusView(t, BusFixture{Bus: bus})
	return &announceView{v, b.follow(bus, v.space.Name)}
}

// hears fails unless the next messages announce kind for keys. They are
// returned.
func (v *announceView) hears(kind remote.Kind, keys ...string) []remote.Message {
	v.Helper()
	got := v.ear.messages(len(keys))
	for i, m := range got {
		if m.Name != v.space.Name || m.From != v.space.Instance || m.Kind != kind || i >= len(keys) || m.Key != keys[i] {
			v.Fatalf("message %d is %+v; want kind %d of %q from %d", i, m, kind, keys, v.space.Instance)
		}
	}
	return got
}

func checkDropIsAnnounced(v *announceView) {
	v.drop(remote.Drop{Key: "hard"})
	v.hears(remote.Dropped, "hard")
	v.drop(remote.Drop{Key: "soft", Soft: true})
	v.hears(remote.Expired, "soft")
	v.drop(remote.Drop{Key: "token", Token: long, Hold: long})
	v.hears(remote.Dropped, "token")
	for _, key := range hostileKeys() {
		v.drop(remote.Drop{Key: key})
		v.hears(remote.Dropped, key)
	}
	_, err := v.Drop(v.ctx, []remote.Drop{{Key: "a"}, {Key: "b"}, {Key: "c"}})
	if err != nil {
		v.Fatalf("Drop: %v", err)
	}
	got := v.ear.messages(3)
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

// checkPutByTokenIsAnnounced: what others have loaded between the drop and the
// put must not stay in their L1.
func checkPutByTokenIsAnnounced(v *announceView) {
	lease := v.drop(remote.Drop{Key: "k", Token: long})
	v.hears(remote.Dropped, "k")
	v.fill("k", "loaded meanwhile")
	v.stores("k", "written", lease)
	v.hears(remote.Dropped, "k")
	v.holdsFresh("k", "written")
	v.fill("filled", "value") // under a lease: nobody has anything older
	v.drop(remote.Drop{Key: "mine"})
	v.hears(remote.Dropped, "mine")
}

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

func checkWordsChain(v *announceView) {
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
	last := map[uint16]remote.Word{}
	lane := map[string]uint16{}
	for _, m := range v.ear.messages(droppers * each) {
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

func checkDropAllIsAnnounced(v *announceView) {
	all := ability[remote.AllDropper](v.view)
	if err := all.DropAll(v.ctx, false); err != nil {
		v.Fatalf("DropAll: %v", err)
	}
	v.hears(remote.AllDropped, "")
}
