package tierchecks

import (
	"context"
	"sync"
	"time"

	"github.com/strata-cache/strata/remote"
)

// rightChecks are the promises about leases.
func rightChecks() []tierCheck {
	return []tierCheck{
		{"LeaseIsExclusive", checkLeaseIsExclusive},
		{"FreshValueNeedsNoLease", checkFreshNeedsNoLease},
		{"StaleStateIsReported", checkStaleStateIsReported},
		{"StaleValueComesWithTheLease", checkStaleValueComesWithLease},
		{"PutConsumesLease", checkPutConsumesLease},
		{"PutNeedsARight", checkPutNeedsARight},
		{"LeaseExpires", checkLeaseExpires},
		{"NoLeaseAfterTheDeadline", checkNoLeaseAfterTheDeadline},
		{"ReleaseLetsTheNextIn", checkRelease},
		{"RenewProlongsLease", checkRenew},
		{"RenewTellsOfALostLease", checkRenewLost},
	}
}

// checkLeaseIsExclusive: one of many callers gets the lease, so that a popular key costs one load
// and not one for each instance. The others are told for how long to wait.
func checkLeaseIsExclusive(v *view) {
	const callers = 100
	leases := make([]remote.Lease, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { _, leases[i], errs[i] = v.ask(v.ctx, "k", 0, long) })
	}
	wg.Wait()
	var granted []remote.Lease
	for i, lease := range leases {
		switch {
		case errs[i] != nil:
			v.Fatalf("Acquire: %v", errs[i])
		case lease.Grant == remote.Granted:
			granted = append(granted, lease)
		case lease.Grant != remote.Busy || lease.Token != 0 || lease.Wait <= 0 || lease.Wait > long+apart:
			v.Errorf("a caller without the lease got %+v; want Busy with a wait of at most %v", lease, long)
		}
	}
	if len(granted) != 1 {
		v.Fatalf("%d of %d concurrent callers were granted the lease; want 1", len(granted), callers)
	}
	// All may have asked before the first lease was lost.
	if _, late := v.acquire("k", long); late.Grant != remote.Busy {
		v.Errorf("a caller after the others got %+v; want Busy", late)
	}
	v.granted("another", long)
	v.stores("k", "value", granted[0])
}

// checkFreshNeedsNoLease: Acquire gives a fresh value itself, without a second call.
func checkFreshNeedsNoLease(v *view) {
	v.fill("k", "value")
	held, lease := v.acquire("k", long)
	if lease.Grant != remote.Free || string(held.Data) != "value" || held.Fresh <= 0 {
		v.Fatalf("Acquire of a fresh value = %+v, grant %d; want the value, Free", held, lease.Grant)
	}
	if got := v.holdsFresh("k", "value"); got.ID != held.ID {
		v.Errorf("Acquire gave ID %d, Get gives %d", held.ID, got.ID)
	}
	v.drop(remote.Drop{Key: "k", Soft: true})
	v.granted("k", long)
}

// checkStaleStateIsReported: a caller decides by the state whether the stale value will do, whether
// it has the lease or not.
func checkStaleStateIsReported(v *view) {
	v.fill("k", "value")
	v.drop(remote.Drop{Key: "k", Soft: true})
	want := v.holdsStale("k", "value")
	for _, grant := range []remote.Grant{remote.Granted, remote.Busy} {
		held, lease := v.acquire("k", long)
		if lease.Grant != grant {
			v.Fatalf("grant %d; want %d", lease.Grant, grant)
		}
		if held.ID != want.ID || held.Fresh > 0 || held.Left <= 0 || !held.Soft {
			v.Errorf("grant %d: held %+v; want the state of %+v", grant, held, want)
		}
		if held.Data != nil && string(held.Data) != "value" {
			v.Errorf("grant %d: Data %q; want none, or that of the value", grant, held.Data)
		}
	}
}

// checkStaleValueComesWithLease: the holder of a lease needs no Get for the
// stale value.
func checkStaleValueComesWithLease(v *view) {
	v.fill("soft", "value")
	v.drop(remote.Drop{Key: "soft", Soft: true})
	v.storesFor("aged", "value", short, long)
	v.fill("empty", "")
	v.drop(remote.Drop{Key: "empty", Soft: true})
	v.sleep(past)
	for key, want := range map[string]string{"soft": "value", "aged": "value", "empty": ""} {
		held, lease := v.acquire(key, long)
		if lease.Grant != remote.Granted || held.Absent() || held.Fresh > 0 || held.Data == nil || string(held.Data) != want {
			v.Errorf("Acquire(%q) = %+v, grant %d; want the stale value, Granted", key, held, lease.Grant)
		}
		if lease.Wait != 0 {
			v.Errorf("a lease that was given is to be waited for: %v", lease.Wait)
		}
	}
}

// checkPutConsumesLease: one lease stores one value. A second one could be older than what others
// have stored since.
func checkPutConsumesLease(v *view) {
	lease := v.granted("k", long)
	v.stores("k", "first", lease)
	v.refuses("k", "second", lease)
	v.holdsFresh("k", "first")
}

// checkPutNeedsARight: without a right, with a guessed one, or with that of another key, nothing is
// stored. The right one stays good.
func checkPutNeedsARight(v *view) {
	lease := v.granted("k", long)
	v.refuses("k", "x", remote.Lease{})
	v.refuses("k", "x", remote.Lease{State: lease.State})
	guess := lease
	guess.Token ^= 1
	v.refuses("k", "x", guess)
	v.refuses("other", "x", lease)
	v.isAbsent("k")
	v.isAbsent("other")
	v.stores("k", "value", lease)
}

// checkLeaseExpires: the holder may have died. After the time of its lease the next caller gets
// one, and a late Put of the holder is refused.
func checkLeaseExpires(v *view) {
	late := v.granted("k", short)
	v.waits("k", remote.Busy, short)
	v.sleep(past)
	next := v.granted("k", long)
	v.refuses("k", "late", late)
	v.isAbsent("k")
	v.stores("k", "next", next)
	v.refuses("k", "late", late)
	v.holdsFresh("k", "next")
}

// checkNoLeaseAfterTheDeadline: a caller that has left would not use the lease, and the others
// would wait for it.
func checkNoLeaseAfterTheDeadline(v *view) {
	for _, key := range []string{"cold", "stale"} {
		if key == "stale" {
			v.stale(key, "value")
			if _, err := v.Drop(v.ctx, []remote.Drop{{Key: key, Soft: true}}); err != nil { // and its lease
				v.Fatalf("Drop: %v", err)
			}
		}
		ctx, cancel := context.WithDeadline(v.ctx, time.Now().Add(-time.Millisecond))
		_, l, err := v.ask(ctx, key, 0, long)
		cancel()
		if err == nil {
			v.Errorf("Acquire of a %s key after the deadline = %+v; want an error", key, l)
		}
		v.granted(key, long)
	}
}

// checkRelease: a load without a result gives its lease back, so that the next caller need not wait
// for its end. It cannot give back the lease of another.
func checkRelease(v *view) {
	release := func(l remote.Lease) {
		v.Helper()
		if err := v.Release(v.ctx, "k", l); err != nil {
			v.Fatalf("Release: %v", err)
		}
	}
	first := v.granted("k", long)
	release(first)
	second := v.granted("k", long)
	release(first)
	v.waits("k", remote.Busy, long)
	v.refuses("k", "first", first)
	v.stores("k", "second", second)
	release(second)
	v.holdsFresh("k", "second")
}

// checkRenew: a load that takes longer than planned keeps its lease.
func checkRenew(v *view) {
	lease := v.granted("k", short)
	if held, err := v.Renew(v.ctx, "k", lease, long); err != nil || !held {
		v.Fatalf("Renew of a held lease = %t, %v", held, err)
	}
	v.sleep(past)
	v.waits("k", remote.Busy, long)
	v.stores("k", "value", lease)
}

// checkRenewLost: the holder of a lost lease learns that its value will be refused.
func checkRenewLost(v *view) {
	lost := func(state string, l remote.Lease) {
		v.Helper()
		if held, err := v.Renew(v.ctx, "k", l, long); err != nil || held {
			v.Errorf("Renew of a lease that was %s = %t, %v; want false", state, held, err)
		}
	}
	lost("never given", remote.Lease{Token: 1})
	lease := v.granted("k", long)
	v.drop(remote.Drop{Key: "k"})
	lost("voided by a drop", lease)
	v.refuses("k", "old", lease)
	lease = v.granted("k", long)
	v.drop(remote.Drop{Key: "k", Soft: true})
	lost("voided by a soft drop", lease)
	v.refuses("k", "old", lease)
	lease = v.granted("k", long)
	v.stores("k", "value", lease)
	lost("consumed", lease)
}

// extendChecks are the promises about the answer "not modified".
func extendChecks() []tierCheck {
	return []tierCheck{
		{"ExtendGivesNewLives", checkExtend},
		{"ExtendConsumesLease", checkExtendConsumesLease},
		{"ExtendNeedsLease", checkExtendNeedsLease},
		{"ExtendNeedsThatValue", checkExtendNeedsID},
		{"ExtendIsVoidedByDrop", checkExtendAfterDrop},
		{"ExtendTouchesOneSchema", checkExtendOneSchema},
		{"ExtendFollowsASoftDropOfAll", checkExtendAfterSoftDropAll},
	}
}

// stale makes key hold a stale value, and returns its ID and a lease.
func (v *view) stale(key, data string) (remote.ID, remote.Lease) {
	v.Helper()
	v.fill(key, data)
	v.drop(remote.Drop{Key: key, Soft: true})
	return v.holdsStale(key, data).ID, v.granted(key, long)
}

func (v *view) extends(key string, l remote.Lease, id remote.ID) {
	v.Helper()
	if !v.extend(key, l, id) {
		v.Fatalf("Extend(%q) was refused; its lease and ID were good", key)
	}
}

// checkExtend: the value gets new lives without being sent again, and a new ID, so that a later
// Extend cannot be about the value before.
func checkExtend(v *view) {
	id, lease := v.stale("k", "value")
	v.extends("k", lease, id)
	h := v.holdsFresh("k", "value")
	v.lives(h, 3*long, 4*long)
	if h.ID != remote.ID(lease.Token) {
		v.Errorf("ID %d became %d; the lease's token is %d", id, h.ID, lease.Token)
	}
}

// checkExtendConsumesLease: Extend is the end of a load, as a Put is.
func checkExtendConsumesLease(v *view) {
	id, lease := v.stale("k", "value")
	v.extends("k", lease, id)
	if v.extend("k", lease, id) {
		v.Errorf("a lease was good for two calls of Extend")
	}
	v.refuses("k", "late", lease)
	v.holdsFresh("k", "value")
}

// checkExtendNeedsLease: the right is as necessary as for a Put.
func checkExtendNeedsLease(v *view) {
	id, lease := v.stale("k", "value")
	guess := lease
	guess.Token ^= 1
	for _, l := range []remote.Lease{{}, {State: lease.State}, guess} {
		if v.extend("k", l, id) {
			v.Errorf("Extend with lease %+v was accepted", l)
		}
	}
	v.holdsStale("k", "value")
	v.stores("k", "new", lease)
	if v.extend("k", lease, id) {
		v.Errorf("Extend with a consumed lease was accepted")
	}
}

// checkExtendNeedsID: "not modified" is about the value that the caller has sent to the origin.
// Another value may have come since.
func checkExtendNeedsID(v *view) {
	id, _ := v.stale("k", "old")
	v.drop(remote.Drop{Key: "k", Soft: true})
	v.fill("k", "new")
	v.drop(remote.Drop{Key: "k", Soft: true})
	lease := v.granted("k", long)
	if v.extend("k", lease, id) || v.extend("k", lease, 0) {
		v.Errorf("Extend with the ID of another value was accepted")
	}
	v.holdsStale("k", "new")

	lease = v.granted("absent", long)
	if v.extend("absent", lease, id) || v.extend("absent", lease, 0) {
		v.Errorf("Extend of nothing was accepted")
	}
	v.isAbsent("absent")
}

// checkExtendAfterDrop: the origin has answered "not modified" before the drop, so the answer may
// be out of date.
func checkExtendAfterDrop(v *view) {
	for _, soft := range []bool{false, true} {
		id, lease := v.stale("k", "value")
		v.drop(remote.Drop{Key: "k", Soft: soft})
		if v.extend("k", lease, id) {
			v.Errorf("Extend was accepted after a drop (soft: %t)", soft)
		}
		if soft {
			v.holdsStale("k", "value")
		} else {
			v.isAbsent("k")
		}
	}
}

// checkExtendOneSchema: the answer is about the value of one schema, and makes no other value
// fresh.
func checkExtendOneSchema(v *view) {
	other := v.sibling()
	other.fill("k", "theirs")
	id, lease := v.stale("k", "mine")
	v.extends("k", lease, id)
	v.holdsFresh("k", "mine")
	if h := other.holdsStale("k", "theirs"); !h.Soft {
		v.Errorf("Extend of one schema took the mark from another: %+v", h)
	}
}

// checkExtendAfterSoftDropAll: a soft drop of everything does not make an
// instance send a value again.
func checkExtendAfterSoftDropAll(v *view) {
	v.fill("k", "value")
	v.dropAll(true)
	id := v.holdsStale("k", "value").ID
	v.extends("k", v.granted("k", long), id)
	v.lives(v.holdsFresh("k", "value"), 3*long, 4*long)

	v.fill("gone", "value")
	id = v.holdsFresh("gone", "value").ID
	v.dropAll(false)
	if v.extend("gone", v.granted("gone", long), id) {
		v.Errorf("Extend of a value that a drop of everything made absent was accepted")
	}
	v.isAbsent("gone")
}
