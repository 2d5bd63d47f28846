package tierchecks

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/remote"
)

// dropChecks are the promises about drops, their tokens and holds.
func dropChecks() []tierCheck {
	return []tierCheck{
		{"DropMakesAbsent", checkDropMakesAbsent},
		{"DropVoidsLease", checkDropVoidsLease},
		{"SoftDropKeepsValueStale", checkSoftDropKeepsValue},
		{"SoftDropShortensLives", checkSoftDropShortensLives},
		{"SoftDropVoidsLease", checkSoftDropVoidsLease},
		{"DropReachesAllSchemas", checkDropReachesAllSchemas},
		{"SoftDropReachesAllSchemas", checkSoftDropReachesAllSchemas},
		{"TokenWinsOverLease", checkTokenWins},
		{"TokenWinsOverOtherSchemas", checkTokenWinsOverSchemas},
		{"TokenIsUsedOnce", checkTokenIsUsedOnce},
		{"DropVoidsToken", checkDropVoidsToken},
		{"SoftDropVoidsToken", checkSoftDropVoidsToken},
		{"TokenExpires", checkTokenExpires},
		{"QuietDropIsDoneByItsPut", checkQuietDrop},
		{"RefusedPutOfAQuietDropLeavesNothingOlder", checkQuietDropOvertaken},
		{"PutThatDropsReachesAllSchemas", checkPutThatDrops},
		{"HoldRefusesLeases", checkHoldRefusesLeases},
		{"HoldIsNeverShortened", checkHoldIsNeverShortened},
		{"HoldLetsTokenIn", checkHoldLetsTokenIn},
		{"HoldEnds", checkHoldEnds},
		{"NoOlderValueSurvivesADrop", checkNoOlderValueSurvives},
	}
}

// checkDropMakesAbsent: a caller that has changed the origin drops the key, and must not read the
// value from before. Other keys stay.
func checkDropMakesAbsent(v *view) {
	v.fill("k", "value")
	v.fill("other", "value")
	v.drop(remote.Drop{Key: "k"})
	v.isAbsent("k")
	v.holdsFresh("other", "value")
	if held, lease := v.acquire("k", long); !held.Absent() || lease.Grant != remote.Granted {
		v.Fatalf("Acquire after a drop = %+v, grant %d; want absent, Granted", held, lease.Grant)
	}
	v.drop(remote.Drop{Key: "never held"})
	v.isAbsent("never held")
}

// checkDropVoidsLease: a load that began before a drop may have read the origin before the change,
// so its lease stores nothing any more.
func checkDropVoidsLease(v *view) {
	before := v.granted("k", long)
	v.drop(remote.Drop{Key: "k"})
	v.refuses("k", "before", before)
	v.isAbsent("k")
	after := v.granted("k", long)
	v.refuses("k", "before", before)
	v.stores("k", "after", after)
	v.holdsFresh("k", "after")
}

// checkSoftDropKeepsValue: the value stays for readers who take a stale one, and for loads that
// fail. A hard drop wins, before and after a soft one.
func checkSoftDropKeepsValue(v *view) {
	v.fill("k", "value")
	before := v.holdsFresh("k", "value")
	v.drop(remote.Drop{Key: "k", Soft: true})
	h := v.holdsStale("k", "value")
	if !h.Soft || h.All || h.ID != before.ID || h.Left <= before.Left-slack {
		v.Errorf("held %+v after a soft drop of %+v; want the same value, Soft by its key, with its Left", h, before)
	}
	v.fill("k", "new")
	v.lives(v.holdsFresh("k", "new"), long, 2*long)
	v.drop(remote.Drop{Key: "never held", Soft: true})
	v.isAbsent("never held")
	v.drop(remote.Drop{Key: "k", Soft: true})
	v.drop(remote.Drop{Key: "k"})
	v.isAbsent("k")
	v.drop(remote.Drop{Key: "k", Soft: true})
	v.isAbsent("k")
}

// checkSoftDropShortensLives: a soft drop can make a value end earlier, and never later than its
// writer wanted.
func checkSoftDropShortensLives(v *view) {
	v.fill("k", "value")
	v.drop(remote.Drop{Key: "k", Soft: true, Left: long / 2})
	v.lives(v.holdsStale("k", "value"), 0, long/2)
	for _, left := range []time.Duration{0, 3 * long} {
		v.drop(remote.Drop{Key: "k", Soft: true, Left: left})
		if h := v.holdsStale("k", "value"); h.Left > long/2 {
			v.Errorf("held %+v after a soft drop that lets it be kept for %v; want no longer than before", h, left)
		}
	}
	v.drop(remote.Drop{Key: "k", Soft: true, Left: short})
	v.sleep(past)
	v.isAbsent("k")
	v.fill("k", "new")
	v.lives(v.holdsFresh("k", "new"), long, 2*long)
}

// checkSoftDropVoidsLease: a value loaded before a soft drop would be fresh after it.
func checkSoftDropVoidsLease(v *view) {
	first := v.granted("k", long)
	v.drop(remote.Drop{Key: "k", Soft: true})
	v.refuses("k", "first", first)
	v.isAbsent("k")
	v.fill("k", "value")
	v.drop(remote.Drop{Key: "k", Soft: true})
	refresh := v.granted("k", long)
	v.drop(remote.Drop{Key: "k", Soft: true})
	v.refuses("k", "refresh", refresh)
	v.holdsStale("k", "value")
	v.granted("k", long)
}

// checkDropReachesAllSchemas: two versions of a program, in the middle of an update, have values of
// different types for one key. A drop by one of them is about the values of both.
func checkDropReachesAllSchemas(v *view) {
	other := v.sibling()
	v.fill("k", "mine")
	other.fill("k", "theirs")
	other.drop(remote.Drop{Key: "k"})
	v.isAbsent("k")
	other.isAbsent("k")
	mine, theirs := v.granted("k", long), other.granted("k", long)
	v.drop(remote.Drop{Key: "k"})
	v.refuses("k", "mine", mine)
	other.refuses("k", "theirs", theirs)
	token := v.drop(remote.Drop{Key: "k", Token: long})
	other.drop(remote.Drop{Key: "k"})
	v.refuses("k", "mine", token)
	other.drop(remote.Drop{Key: "k", Hold: long})
	v.waits("k", remote.OnHold, long)
}

// checkSoftDropReachesAllSchemas: each schema has a mark of its own, so that a refresh of one does
// not make the value of another fresh.
func checkSoftDropReachesAllSchemas(v *view) {
	other := v.sibling()
	v.fill("k", "mine")
	other.fill("k", "theirs")
	v.drop(remote.Drop{Key: "k", Soft: true})
	v.holdsStale("k", "mine")
	theirs := other.granted("k", long)
	v.fill("k", "refreshed")
	if h := other.holdsStale("k", "theirs"); !h.Soft {
		v.Errorf("a refresh of one schema took the mark from another: %+v", h)
	}
	v.drop(remote.Drop{Key: "k", Soft: true})
	other.refuses("k", "late", theirs)
}

// checkTokenWins: the token of a drop is the right of the writer, whose value is newer than that of
// every load since the drop.
func checkTokenWins(v *view) {
	before := v.granted("k", long)
	token := v.drop(remote.Drop{Key: "k", Token: long})
	v.refuses("k", "before", before)
	after := v.granted("k", long)
	v.stores("k", "token", token)
	v.refuses("k", "after", after)
	v.holdsFresh("k", "token")

	v.fill("soft", "old")
	token = v.drop(remote.Drop{Key: "soft", Soft: true, Token: long})
	v.stores("soft", "token", token)
	v.holdsFresh("soft", "token")
}

// checkTokenWinsOverSchemas: values loaded since the drop by programs with
// other value types are older than the value of the Put.
func checkTokenWinsOverSchemas(v *view) {
	other := v.sibling()
	for _, soft := range []bool{false, true} {
		key := strconv.FormatBool(soft)
		other.fill(key, "older than the drop")
		token := v.drop(remote.Drop{Key: key, Soft: soft, Token: long})
		other.fill(key, "theirs")
		v.fill(key, "mine")
		v.drop(remote.Drop{Key: "another key"})
		v.stores(key, "written", token)
		other.isAbsent(key)
		v.holdsFresh(key, "written")

		token = v.drop(remote.Drop{Key: key, Soft: soft, Token: long})
		theirs := other.granted(key, long)
		v.stores(key, "written", token)
		other.refuses(key, "late", theirs)
		other.isAbsent(key)
		other.fill(key, "loaded after")
		v.holdsFresh(key, "written")
		other.holdsFresh(key, "loaded after")
	}
}

// checkTokenIsUsedOnce: a second Put by a token could replace a value that is newer than its own.
func checkTokenIsUsedOnce(v *view) {
	token := v.drop(remote.Drop{Key: "k", Token: long})
	v.refuses("other", "x", token)
	v.stores("k", "first", token)
	v.refuses("k", "second", token)
	v.holdsFresh("k", "first")
}

// checkDropVoidsToken: of two writers the later one wins, in whichever order their values come.
func checkDropVoidsToken(v *view) {
	first := v.drop(remote.Drop{Key: "k", Token: long})
	second := v.drop(remote.Drop{Key: "k", Token: long})
	v.refuses("k", "first", first)
	v.stores("k", "second", second)
	v.refuses("k", "first", first)
	v.holdsFresh("k", "second")
	third := v.drop(remote.Drop{Key: "k", Token: long})
	v.drop(remote.Drop{Key: "k"})
	v.refuses("k", "third", third)
	v.isAbsent("k")
}

// checkSoftDropVoidsToken: a value written before a soft drop would be fresh after it.
func checkSoftDropVoidsToken(v *view) {
	token := v.drop(remote.Drop{Key: "k", Token: long})
	v.drop(remote.Drop{Key: "k", Soft: true})
	v.refuses("k", "late", token)
	v.isAbsent("k")
}

// checkTokenExpires: a writer that was held up for too long comes too late.
func checkTokenExpires(v *view) {
	late := v.drop(remote.Drop{Key: "k", Token: short})
	v.sleep(past)
	v.refuses("k", "late", late)
	v.isAbsent("k")
}

// checkPutThatDrops: a Put with Drops stores the result of a load, and makes the values of
// other instances old. A drop voids its lease, as for any load.
func checkPutThatDrops(v *view) {
	other := v.sibling()
	for key, left := range map[string]time.Duration{"value": long, "nothing": 0} {
		void := v.granted(key, long)
		v.drop(remote.Drop{Key: key})
		other.fill(key, "theirs")
		if v.putDrops(key, left, void) {
			v.Fatalf("Put(%q) that drops was accepted; its right was gone", key)
		}
		other.holdsFresh(key, "theirs")
		v.drop(remote.Drop{Key: key, Soft: true})
		theirs := other.granted(key, long)
		if !v.putDrops(key, left, v.granted(key, long)) {
			v.Fatalf("Put(%q) that drops was refused; its right was good", key)
		}
		other.isAbsent(key)
		other.refuses(key, "late", theirs)
		if left > 0 {
			v.holdsFresh(key, key)
		} else {
			v.isAbsent(key)
		}

		token := v.drop(remote.Drop{Key: key, Token: long})
		v.putDrops(key, left, v.granted(key, long))
		v.stores(key, "written", token)
	}
}

// checkHoldRefusesLeases: during a hold no load is stored, since the origin may still answer with
// the state before the drop.
func checkHoldRefusesLeases(v *view) {
	for _, soft := range []bool{false, true} {
		key := strconv.FormatBool(soft)
		before := v.granted(key, long)
		v.drop(remote.Drop{Key: key, Soft: soft, Hold: long})
		lease := v.waits(key, remote.OnHold, long)
		v.refuses(key, "before", before)
		v.refuses(key, "held", lease)
		v.isAbsent(key)
	}
}

// checkHoldIsNeverShortened: the drops of two callers overlap, and the longer hold is kept, also by
// drops without one.
func checkHoldIsNeverShortened(v *view) {
	v.drop(remote.Drop{Key: "k", Hold: long})
	for _, d := range []remote.Drop{
		{Key: "k"}, {Key: "k", Hold: short}, {Key: "k", Soft: true}, {Key: "k", Soft: true, Hold: short}, {Key: "k", Token: long},
	} {
		token := v.drop(d)
		if d.Token > 0 {
			v.stores("k", "value", token)
			v.drop(remote.Drop{Key: "k"})
		}
		if lease := v.waits("k", remote.OnHold, long); lease.Wait < long-slack {
			v.Errorf("%v of the hold is left after %+v", lease.Wait, d)
		}
	}
	v.drop(remote.Drop{Key: "k", Hold: 2 * long})
	if lease := v.waits("k", remote.OnHold, 2*long); lease.Wait < 2*long-slack {
		v.Errorf("%v is left after a longer hold", lease.Wait)
	}
}

// checkHoldLetsTokenIn: a hold is against loads. The writer has its value from no replica.
func checkHoldLetsTokenIn(v *view) {
	token := v.drop(remote.Drop{Key: "k", Hold: long, Token: long})
	v.waits("k", remote.OnHold, long)
	v.stores("k", "value", token)
	v.holdsFresh("k", "value")
}

// checkHoldEnds: after a hold the key is as before, and loads are stored again.
func checkHoldEnds(v *view) {
	v.drop(remote.Drop{Key: "k", Hold: short})
	v.waits("k", remote.OnHold, short)
	v.sleep(past)
	v.fill("k", "value")
	v.holdsFresh("k", "value")
}

// checkNoOlderValueSurvives lets callers fill a key from a growing origin while
// it is dropped over and over. After a drop no older value may be held.
func checkNoOlderValueSurvives(v *view) {
	const fillers, rounds = 8, 200
	var origin atomic.Int64
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range fillers {
		wg.Go(func() {
			for !isClosed(done, time.Duration(rand.IntN(100))*time.Microsecond) {
				if err := v.fillFrom("k", &origin); err != nil {
					v.Errorf("fill: %v", err)
					return
				}
			}
		})
	}
	defer wg.Wait()
	defer close(done)
	for i := range rounds {
		now := origin.Add(1)
		v.drop(remote.Drop{Key: "k", Soft: i%3 == 0})
		for range 2 {
			h := v.held("k")
			if got, _ := strconv.ParseInt(string(h.Data), 10, 64); h.Fresh > 0 && got < now {
				v.Fatalf("value %d is fresh after the drop that followed value %d", got, now)
			}
			isClosed(done, time.Duration(rand.IntN(300))*time.Microsecond)
		}
	}
}

// fillFrom stores the value of the origin, if it gets a lease.
func (v *view) fillFrom(key string, origin *atomic.Int64) error {
	_, lease, err := v.ask(v.ctx, key, 0, long)
	if err != nil || lease.Grant != remote.Granted {
		return err
	}
	data := strconv.AppendInt(nil, origin.Load(), 10)
	isClosed(nil, time.Duration(rand.IntN(300))*time.Microsecond)
	_, err = v.Put(v.ctx, []remote.Put{{Key: key, Data: data, Fresh: long, Left: long, Lease: lease}})
	return err
}

// isClosed waits for c to be closed, for at most d.
func isClosed(c <-chan struct{}, d time.Duration) bool {
	select {
	case <-c:
		return true
	case <-time.After(d):
		return false
	}
}

// checkQuietDrop: whether a quiet drop drops or leaves that to the Put, the Put is newer than all
// values and leases from before it.
func checkQuietDrop(v *view) {
	other := v.sibling()
	before := v.granted("k", long)
	v.fill("value", "old")
	other.fill("value", "theirs")
	for _, key := range []string{"k", "value", "unknown"} {
		v.stores(key, "written", v.drop(remote.Drop{Key: key, Token: long, Quiet: true}))
		v.holdsFresh(key, "written")
		other.isAbsent(key)
	}
	v.refuses("k", "before", before)

	token := v.drop(remote.Drop{Key: "value", Token: long, Quiet: true})
	v.refuses("value", "x", remote.Lease{Token: token.Token ^ 2, State: token.State})
	v.stores("value", "first", token)
	v.refuses("value", "second", token)
	v.holdsFresh("value", "first")
}

// checkQuietDropOvertaken: a refused Put under the token of a quiet drop has dropped what is older
// than the token, and leaves what a later writer has stored.
func checkQuietDropOvertaken(v *view) {
	quiet := func(life time.Duration) remote.Lease {
		return v.drop(remote.Drop{Key: "k", Token: life, Quiet: true})
	}
	v.fill("k", "old")
	first, second := quiet(long), quiet(long)
	v.refuses("k", "first", first)
	v.isAbsent("k")
	v.stores("k", "second", second)
	v.refuses("k", "first", first)
	v.holdsFresh("k", "second")

	token := quiet(long)
	v.drop(remote.Drop{Key: "k", Soft: true})
	v.refuses("k", "before the soft drop", token)
	v.isAbsent("k")

	v.fill("k", "old")
	token = quiet(short)
	v.sleep(past)
	v.refuses("k", "late", token)
	v.isAbsent("k")

	token = quiet(long)
	v.drop(remote.Drop{Key: "k"})
	v.fill("k", "loaded since")
	v.refuses("k", "before the drop", token)
	v.holdsFresh("k", "loaded since")
}
