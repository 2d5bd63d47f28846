package tierchecks

import (
	"sync"

	"github.com/strata-cache/strata/remote"
)

// refreshChecks are the promises about leases for fresh values.
func refreshChecks() []tierCheck {
	return []tierCheck{
		{"RefreshGivesLeaseForAFreshValue", checkRefresh},
		{"RefreshIsExclusive", checkRefreshIsExclusive},
		{"RefreshOfAnotherValueIsAcquire", checkRefreshOfAnother},
		{"RefreshLeaseIsVoidedByDrop", checkRefreshAfterDrop},
		{"RefreshLeaseExtends", checkRefreshExtends},
		{"RefreshTouchesOneSchema", checkRefreshOneSchema},
	}
}

// refreshes acquires a lease to replace a held value.
func (v *view) refreshes(key, data string, id remote.ID) remote.Lease {
	v.Helper()
	held, lease := v.refresh(key, id, long)
	if lease.Grant != remote.Granted || lease.Wait != 0 {
		v.Fatalf("Refresh(%q) = grant %d, wait %v; want Granted", key, lease.Grant, lease.Wait)
	}
	if held.ID != id || string(held.Data) != data || held.Left <= 0 {
		v.Fatalf("Refresh(%q) = %+v; want value %d, %q, with the lease", key, held, id, data)
	}
	return lease
}

// isFree fails unless no lease is needed, because data is held and fresh.
func (v *view) isFree(event string, held remote.Held, lease remote.Lease, data string) {
	v.Helper()
	if lease.Grant != remote.Free || string(held.Data) != data || held.Fresh <= 0 {
		v.Fatalf("%s: held %+v, grant %d; want %q, Free", event, held, lease.Grant, data)
	}
}

// checkRefresh: while a fresh value is being replaced, all others get it;
// afterwards they get the new one.
func checkRefresh(v *view) {
	v.fill("k", "old")
	id := v.holdsFresh("k", "old").ID
	lease := v.refreshes("k", "old", id)
	if v.holdsFresh("k", "old").ID != id {
		v.Errorf("the value has another ID since its refresh began")
	}
	held, busy := v.refresh("k", id, short)
	if busy.Grant != remote.Busy || busy.Wait <= 0 || busy.Wait > long+apart {
		v.Errorf("a second Refresh = %+v; want Busy with a wait of at most %v", busy, long)
	}
	if held.ID != id || held.Left <= 0 || held.Data != nil && string(held.Data) != "old" {
		v.Errorf("a second Refresh reports %+v; want the state of value %d", held, id)
	}
	held, free := v.acquire("k", short)
	v.isFree("Acquire during a refresh", held, free, "old")
	v.stores("k", "new", lease)
	now := v.holdsFresh("k", "new")
	held, free = v.refresh("k", id, short)
	v.isFree("Refresh of a value that was replaced", held, free, "new")
	if now.ID == id || held.ID != now.ID {
		v.Errorf("ID %d was replaced by %d; Refresh reports %d", id, now.ID, held.ID)
	}
	v.refuses("k", "late", lease)
	v.refreshes("k", "new", now.ID)
}

// checkRefreshIsExclusive: instances that refresh a value early do so at about the same time, and
// one of them is enough.
func checkRefreshIsExclusive(v *view) {
	v.fill("k", "value")
	id := v.holdsFresh("k", "value").ID
	const callers = 50
	leases := make([]remote.Lease, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { _, leases[i], errs[i] = v.ask(v.ctx, "k", id, long) })
	}
	wg.Wait()
	granted := 0
	for i, lease := range leases {
		switch {
		case errs[i] != nil:
			v.Fatalf("Refresh: %v", errs[i])
		case lease.Grant == remote.Granted:
			granted++
		case lease.Grant != remote.Busy:
			v.Errorf("a caller without the lease got %+v; want Busy", lease)
		}
	}
	if granted != 1 {
		v.Errorf("%d of %d concurrent callers were granted the lease; want 1", granted, callers)
	}
	// All may have asked before the first lease was lost.
	if _, late := v.refresh("k", id, long); late.Grant != remote.Busy {
		v.Errorf("a caller after the others got %+v; want Busy", late)
	}
}

// checkRefreshOfAnother: a value with another ID, or none, is not replaced
// early.
func checkRefreshOfAnother(v *view) {
	v.fill("k", "value")
	id := v.holdsFresh("k", "value").ID
	for _, other := range []remote.ID{0, id ^ 1, id + 1<<32} {
		held, lease := v.refresh("k", other, long)
		v.isFree("Refresh of another value", held, lease, "value")
	}
	v.refreshes("k", "value", id)

	if held, lease := v.refresh("absent", id, long); lease.Grant != remote.Granted || !held.Absent() {
		v.Errorf("Refresh of an absent value = %+v, grant %d; want nothing, Granted", held, lease.Grant)
	}
	v.waits("absent", remote.Busy, long)

	v.fill("stale", "value")
	v.drop(remote.Drop{Key: "stale", Soft: true})
	held, lease := v.refresh("stale", id, long)
	if lease.Grant != remote.Granted || !held.Soft || string(held.Data) != "value" {
		v.Errorf("Refresh of a stale value = %+v, grant %d; want it, Granted", held, lease.Grant)
	}
	v.stores("stale", "new", lease)

	v.drop(remote.Drop{Key: "k", Hold: long})
	if _, lease := v.refresh("k", id, short); lease.Grant != remote.OnHold || lease.Wait <= 0 || lease.Wait > long {
		v.Errorf("Refresh of a key on hold = %+v; want OnHold", lease)
	}
	v.fill("soft", "value")
	id = v.holdsFresh("soft", "value").ID
	v.drop(remote.Drop{Key: "soft", Soft: true, Hold: long})
	if _, lease := v.refresh("soft", id, short); lease.Grant != remote.OnHold {
		v.Errorf("Refresh of the value of a key on hold = %+v; want OnHold", lease)
	}
}

// checkRefreshAfterDrop: the lease for a refresh is lost by drops and by time, as any other.
func checkRefreshAfterDrop(v *view) {
	for _, soft := range []bool{false, true} {
		v.fill("k", "old")
		lease := v.refreshes("k", "old", v.holdsFresh("k", "old").ID)
		v.drop(remote.Drop{Key: "k", Soft: soft})
		v.refuses("k", "late", lease)
		if soft {
			v.holdsStale("k", "old")
		} else {
			v.isAbsent("k")
		}
	}
	v.fill("late", "old")
	id := v.holdsFresh("late", "old").ID
	_, lease := v.refresh("late", id, short)
	v.sleep(past)
	next := v.refreshes("late", "old", id)
	v.refuses("late", "late", lease)
	v.stores("late", "new", next)
}

// checkRefreshExtends: the origin may answer "not modified" for a fresh value.
func checkRefreshExtends(v *view) {
	v.fill("k", "value")
	id := v.holdsFresh("k", "value").ID
	v.extends("k", v.refreshes("k", "value", id), id)
	h := v.holdsFresh("k", "value")
	v.lives(h, 3*long, 4*long)
	if h, l := v.refresh("k", id, long); l.Grant == remote.Granted || h.Data == nil {
		v.Errorf("a lease to refresh a value that was extended meanwhile: %+v, %+v", h, l)
	}
	v.refreshes("k", "value", h.ID)
}

// checkRefreshOneSchema: each schema refreshes its own value, side by side.
func checkRefreshOneSchema(v *view) {
	other := v.sibling()
	other.fill("k", "theirs")
	v.fill("k", "mine")
	mine := v.refreshes("k", "mine", v.holdsFresh("k", "mine").ID)
	theirs := other.refreshes("k", "theirs", other.holdsFresh("k", "theirs").ID)
	v.stores("k", "my new", mine)
	other.stores("k", "their new", theirs)
	v.holdsFresh("k", "my new")
	other.holdsFresh("k", "their new")
}
