package cluster_test

import (
	"context"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/checker"
)

// Schedules in which callers also turn an instance off for a while. Its L1 is empty
// until it is turned on again.

// stepTune, in the bubble, makes one call that only such schedules have, or reports false.
func (m *member) stepTune(d *dice) bool {
	if !m.s.o.tunes || !d.chance(60) || !m.tuning.TryLock() {
		return false
	}
	defer m.tuning.Unlock()
	// It loads for itself meanwhile, and no other instance gets the loaded values.
	began := m.s.rec.Now()
	m.tune(true)
	m.empty()
	time.Sleep(d.delay())
	m.empty()
	m.tune(false)
	now := m.s.rec.Now()
	m.s.rec.Excuse(checker.Excuse{Instance: m.id, From: began, To: now})
	m.s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, From: began, To: checker.Never})
	return true
}

func (m *member) tune(off bool) {
	if err := m.cache.Tune(strata.Tuning{Off: &off}); err != nil {
		m.s.t.Errorf("seed %d: Tune: %v", m.s.seed, err)
	}
	m.s.notef("instance %d: off is %t", m.id, off)
}

// empty fails the schedule if L1 has an entry.
func (m *member) empty() {
	for _, key := range m.s.o.keys {
		if value, ok := m.cache.Get(context.Background(), key, strata.NoRemote()); ok {
			m.s.t.Errorf("seed %d: instance %d is off, and serves %s", m.s.seed, m.id, value)
		}
	}
	if n := m.cache.Len(); n > 0 {
		m.s.t.Errorf("seed %d: instance %d is off, and has %d entries", m.s.seed, m.id, n)
	}
}
