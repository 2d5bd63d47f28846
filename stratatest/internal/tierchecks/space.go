package tierchecks

import (
	"context"
	"time"

	"github.com/strata-cache/strata/remote"
)

// spaceChecks are the promises about drops of everything with one name.
func spaceChecks() []tierCheck {
	return []tierCheck{
		{"DropAllMakesAbsent", checkDropAll},
		{"DropAllIsNoticedWithinASecond", checkDropAllIsNoticed},
		{"DropAllFencesLeases", checkDropAllFencesLeases},
		{"SoftDropAllKeepsValuesStale", checkSoftDropAll},
		{"SoftDropAllFencesLeases", checkSoftDropAllFencesLeases},
		{"CancelledContextIsAnErrorOfEveryMethod", checkCancelledRest},
	}
}

func (v *view) dropAll(soft bool) {
	v.Helper()
	if err := v.DropAll(v.ctx, soft); err != nil {
		v.Fatalf("DropAll(soft: %t): %v", soft, err)
	}
}

// checkDropAll: one call reaches all keys and all programs with the name, and no other name.
func checkDropAll(v *view) {
	keys := []string{"a", "b", "c", ""}
	for _, key := range keys {
		v.fill(key, "old")
	}
	v.dropAll(false)
	for _, key := range keys {
		v.isAbsent(key)
		v.fill(key, "new")
		v.holdsFresh(key, "new")
	}
	stranger, sibling := v.stranger(), v.sibling()
	stranger.fill("a", "theirs")
	sibling.fill("a", "sibling's")
	v.dropAll(false)
	v.isAbsent("a")
	sibling.Recheck()
	sibling.isAbsent("a")
	stranger.Recheck()
	stranger.holdsFresh("a", "theirs")
}

// checkDropAllIsNoticed: an instance without a bus gets no message, and must not remember the state of the
// namespace for longer than a second.
func checkDropAllIsNoticed(v *view) {
	other := v.sibling()
	for _, soft := range []bool{false, true} {
		other.fill("k", "theirs")
		other.holdsFresh("k", "theirs") // with the state that is remembered
		v.dropAll(soft)
		v.sleep(1100 * time.Millisecond)
		if soft {
			other.holdsStale("k", "theirs")
		} else {
			other.isAbsent("k")
		}
	}
}

// checkDropAllFencesLeases: a load or a write that began before the drop may still store its value,
// but no reader may get it.
func checkDropAllFencesLeases(v *view) {
	lease := v.granted("k", long)
	token := v.drop(remote.Drop{Key: "by token", Token: long})
	v.dropAll(false)
	v.put("k", "old", lease)
	v.isAbsent("k")
	v.put("by token", "old", token)
	v.isAbsent("by token")
	v.drop(remote.Drop{Key: "k"})
	v.fill("k", "new")
	v.holdsFresh("k", "new")
}

// checkSoftDropAll: every value stays as a stale one, until it is stored anew. The drop is told
// apart from that of one key.
func checkSoftDropAll(v *view) {
	v.fill("k", "old")
	before := v.holdsFresh("k", "old")
	v.dropAll(true)
	if h := v.holdsStale("k", "old"); !h.Soft || !h.All || h.ID != before.ID || h.Left <= before.Left-slack {
		v.Errorf("held %+v after a soft drop of all of %+v; want the same value, Soft by a drop of All, with its Left", h, before)
	}
	held, lease := v.acquire("k", long)
	if lease.Grant != remote.Granted || held.Fresh > 0 || string(held.Data) != "old" {
		v.Fatalf("Acquire = %+v, grant %d; want the stale value, Granted", held, lease.Grant)
	}
	v.stores("k", "new", lease)
	v.lives(v.holdsFresh("k", "new"), long, 2*long)
	stranger, sibling := v.stranger(), v.sibling()
	stranger.fill("k", "theirs")
	sibling.fill("k", "sibling's")
	v.dropAll(true)
	sibling.Recheck()
	sibling.holdsStale("k", "sibling's")
	stranger.Recheck()
	stranger.holdsFresh("k", "theirs")
	v.holdsStale("k", "new")
	v.dropAll(false)
	v.isAbsent("k")
	v.dropAll(true)
	v.isAbsent("k")
}

// checkSoftDropAllFencesLeases: a value loaded before a soft drop of
// everything is not fresh, whichever way it is stored.
func checkSoftDropAllFencesLeases(v *view) {
	lease := v.granted("k", long)
	token := v.drop(remote.Drop{Key: "by token", Token: long})
	id, refresh := v.stale("refreshed", "old")
	v.dropAll(true)
	v.put("k", "old", lease)
	v.put("by token", "old", token)
	v.extend("refreshed", refresh, id)
	for _, key := range []string{"k", "by token", "refreshed"} {
		if h := v.held(key); h.Fresh > 0 {
			v.Errorf("%q: held %+v; its right is older than the soft drop of all", key, h)
		}
	}
}

// checkCancelledRest: as checkCancelled, for the other methods and for the abilities.
func checkCancelledRest(v *view) {
	ctx, cancel := context.WithCancel(v.ctx)
	cancel()
	expect := func(op string, err error) {
		v.Helper()
		if err == nil {
			v.Errorf("%s with a cancelled context returned no error", op)
		}
	}
	expect("DropAll", v.DropAll(ctx, false))
	expect("Release", v.Release(ctx, "k", remote.Lease{Token: 1}))
	_, err := v.Renew(ctx, "k", remote.Lease{Token: 1}, long)
	expect("Renew", err)
	_, _, err = v.ask(ctx, "k", 1, long)
	expect("Acquire to replace a value", err)
	_, err = v.askMany(ctx, []string{"k", "l"}, long)
	expect("Acquire of two", err)
	if a, ok := remote.As[remote.Tagger](v.Tier); ok {
		tags := []string{"t"}
		expect("DropTags", a.DropTags(ctx, tags, false))
		_, err := a.Tags(ctx, tags)
		expect("Tags", err)
	}
	if a, ok := remote.As[remote.Announcer](v.Tier); ok {
		_, err := a.Position(ctx)
		expect("Position", err)
	}
}
