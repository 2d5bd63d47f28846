package cluster_test

import (
	"slices"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/checker"
)

// Schedules in which keys are put on hold while servers take the place of each other. The
// next primary may not have heard of a hold, so that it takes loads of instances without news
// of the hold. An instance is told of the hold by L2, or is the one that asked for it. It
// keeps none of these loads, on any path, until the hold ends.

// toldHold is a hold until ends, of which an instance was told at the time at.
type toldHold struct{ at, ends checker.Time }

// tell notes that the instance was told of a hold of key. ends is the earliest end of the hold.
func (t *simTierView) tell(key string, ends checker.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.toldOf[key] = append(t.toldOf[key], toldHold{t.s.rec.Now(), ends})
}

// lagged fails the schedule if L1 has served a value loaded during a hold, and the instance
// was told of this hold at the time of the read, or by the end of the load. L1 may have a
// value from L2, or from another instance, since the end of the hold.
func (m *member) lagged(r *checker.Read, value string, info *strata.Info) {
	if info == nil || info.Tier != "L1" || info.Shared {
		return
	}
	m.s.mu.Lock()
	last, leaked := m.s.lags[value], m.s.leaked[value] || m.s.o.moving
	m.s.mu.Unlock()
	m.tier.mu.Lock()
	told := slices.Clone(m.tier.toldOf[r.Key])
	m.tier.mu.Unlock()
	for _, h := range told {
		if h.at+simSlack < r.Call && h.ends > last && (!leaked || r.Call < h.ends) {
			m.s.t.Errorf("seed %d: instance %d: read of %s called at %v got %s, loaded during a hold to %v of which it was told at %v",
				m.s.seed, m.id, r.Key, time.Duration(r.Call), value, time.Duration(h.ends), time.Duration(h.at))
			return
		}
	}
}

// leaks notes that L2 holds a value loaded during a hold, and reports whether it may: another
// server has taken over, perhaps without news of the hold.
func (t *simTier) leaks(value string) bool {
	if t.s.shares != primaries {
		return false
	}
	if _, changes := t.s.reigns.now(); changes == 0 {
		return false
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.s.leaked[value] = true
	return true
}
