package stratatest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// accidentView is a view of a tier with helpers that fail the test.
type accidentView struct {
	*testing.T
	tier *stratatest.Tier
}

func newAccidentView(t *testing.T, lanes int) accidentView {
	tier := stratatest.NewTierLanes(lanes).Bind(remote.Space{Name: "n", Schema: 1})
	return accidentView{t, tier.(*stratatest.Tier)}
}

func (v accidentView) acquire(key string) (remote.Held, remote.Lease) {
	v.Helper()
	held, lease, err := kit.Acquire(v.Context(), v.tier, key, time.Hour)
	if err != nil {
		v.Fatalf("Acquire: %v", err)
	}
	return held, lease
}

func (v accidentView) fill(key, data string) {
	v.Helper()
	_, lease := v.acquire(key)
	if !v.put(key, data, lease) {
		v.Fatalf("Put of %q was refused after grant %d", key, lease.Grant)
	}
}

func (v accidentView) put(key, data string, l remote.Lease) (stored bool) {
	v.Helper()
	p := remote.Put{Key: key, Data: []byte(data), Fresh: time.Hour, Left: time.Hour, Lease: l}
	refused, err := v.tier.Put(v.Context(), []remote.Put{p})
	if err != nil {
		v.Fatalf("Put: %v", err)
	}
	return len(refused) == 0
}

func (v accidentView) drop(key string) {
	v.Helper()
	if _, err := v.tier.Drop(v.Context(), []remote.Drop{{Key: key}}); err != nil {
		v.Fatalf("Drop: %v", err)
	}
}

func (v accidentView) held(key string) string {
	v.Helper()
	held, err := v.tier.Get(v.Context(), []string{key})
	if err != nil {
		v.Fatalf("Get: %v", err)
	}
	return string(held[0].Data)
}

func (v accidentView) position() remote.Position {
	v.Helper()
	p, err := v.tier.Position(v.Context())
	if err != nil {
		v.Fatalf("Position: %v", err)
	}
	return p
}

func TestRestartEmptiesAllNamesAndChangesTheirEpochs(t *testing.T) {
	v := newAccidentView(t, 4)
	other := accidentView{t, v.tier.Bind(remote.Space{Name: "other"}).(*stratatest.Tier)}
	v.fill("k", "value")
	other.fill("k", "value")
	_, lease := v.acquire("late")
	before, theirs := v.position(), other.position()
	v.tier.Restart()
	if got := v.held("k") + other.held("k"); got != "" {
		t.Errorf("held %q after a restart", got)
	}
	if v.put("late", "late", lease) {
		t.Errorf("a lease from before a restart was good")
	}
	after := v.position()
	if after.Epoch == before.Epoch || other.position().Epoch == theirs.Epoch {
		t.Errorf("an epoch did not change")
	}
	for i := range after.Lanes {
		if after.Lanes[i] == before.Lanes[i] || after.Lanes[i] == (remote.LaneVersion{}) {
			t.Errorf("lane %d was %+v and is %+v", i, before.Lanes[i], after.Lanes[i])
		}
	}
	v.fill("k", "new")
	if got := v.held("k"); got != "new" {
		t.Errorf("held %q after a restart and a store", got)
	}
}

func TestRestoreForgetsLaterStoresAndReadsNothingFromBefore(t *testing.T) {
	v := newAccidentView(t, 4)
	v.fill("k", "old")
	if _, err := v.tier.Tags(t.Context(), []string{"t"}); err != nil {
		t.Fatal(err)
	}
	_, lease := v.acquire("loading")
	then := v.position()
	s := v.tier.Snapshot()
	for range 2 {
		v.drop("k")
		v.fill("k", "new")
		v.drop("loading")
		if err := v.tier.DropTags(t.Context(), []string{"t"}, false); err != nil {
			t.Fatal(err)
		}
		later := v.position()
		v.tier.Restore(s)
		p := v.position()
		lane := v.tier.Lane("k")
		if p.Lanes[lane] != then.Lanes[lane] || p.Lanes[lane] == later.Lanes[lane] || p.Clock <= later.Clock {
			t.Errorf("lane is %+v, clock %d; want that of the snapshot, %+v, and later than %d", p.Lanes[lane], p.Clock, then.Lanes[lane], later.Clock)
		}
		if p.Epoch == then.Epoch || p.Epoch == later.Epoch {
			t.Errorf("the epoch did not change")
		}
		if got := v.held("k"); got != "" {
			t.Errorf("held %q; the value is from before", got)
		}
		tags, err := v.tier.Tags(t.Context(), []string{"t"})
		// No earlier drop is known: every tag counts as dropped at the Restore.
		if err != nil || tags[0].Dropped != p.Clock || tags[0].Expired != 0 {
			t.Errorf("tag is %+v, %v; want a table of tags that begins at %d", tags[0], err, p.Clock)
		}
		// A value stored under a lease of the snapshot is of another epoch.
		if !v.put("loading", "x", lease) || v.held("loading") != "" {
			t.Errorf("a lease of the snapshot was refused, or its value is read")
		}
	}
}

// TestLateLeaseIsGoodUntilAnotherTakesItsPlace: so it is in Redis, and caches
// must bear it. No drop has come in between.
func TestLateLeaseIsGoodUntilAnotherTakesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newAccidentView(t, 1)
		token := func(key string) {
			t.Helper()
			if _, err := v.tier.Drop(t.Context(), []remote.Drop{{Key: key, Token: 3 * time.Hour}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range []string{"late", "taken", "dropped"} {
			token(key) // Redis remembers the key at least as long
		}
		leases := map[string]remote.Lease{}
		for _, key := range []string{"late", "taken", "dropped", "forgotten"} {
			_, leases[key] = v.acquire(key)
		}
		time.Sleep(time.Hour)
		v.acquire("taken")
		v.drop("dropped")
		for key, want := range map[string]bool{"late": true, "taken": false, "dropped": false, "forgotten": false} {
			if v.put(key, "value", leases[key]) != want {
				t.Errorf("%q: a late lease was good: %t; want %t", key, !want, want)
			}
		}
	})
}

func TestForgetLaneForgetsThatLaneOnly(t *testing.T) {
	v := newAccidentView(t, 2)
	before := v.position()
	v.tier.ForgetLane("k")
	after := v.position()
	lane := v.tier.Lane("k")
	if after.Lanes[lane] == before.Lanes[lane] || after.Lanes[1-lane] != before.Lanes[1-lane] || after.Epoch != before.Epoch {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestLanesAreAsManyAsWereAskedFor(t *testing.T) {
	for _, n := range []int{1, 3, stratatest.Lanes, 1 << 16} {
		v := newAccidentView(t, n)
		if got := len(v.position().Lanes); got != n {
			t.Errorf("%d lanes; want %d", got, n)
		}
		for _, key := range []string{"a", "b", "c"} {
			if lane := v.tier.Lane(key); int(lane) >= n {
				t.Errorf("key %q is in lane %d of %d", key, lane, n)
			}
		}
	}
	if got := len(accidentView{t, stratatest.NewTier()}.position().Lanes); got != stratatest.Lanes {
		t.Errorf("NewTier has %d lanes", got)
	}
	for _, n := range []int{-1, 0, 1<<16 + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("NewTierLanes(%d) did not panic", n)
				}
			}()
			stratatest.NewTierLanes(n)
		}()
	}
}
