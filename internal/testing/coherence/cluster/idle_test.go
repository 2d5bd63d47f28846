package cluster_test

import (
	"slices"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/checker"
)

// Schedules in which entries leave L1 because they are not read, and in which callers
// also touch keys and iterate over L1.

// idles sets the options of such a schedule.
func (o *simOptions) idles(d *dice) {
	o.idle = []time.Duration{time.Millisecond, 10 * time.Millisecond, time.Second}[d.intn(3)]
	o.steps++
}

// stepIdle makes one call that only such schedules have, or reports false.
func (m *member) stepIdle(d *dice) bool {
	if m.s.o.idle == 0 {
		return false
	}
	switch n := d.intn(20); {
	case n < 2:
		if touched := m.cache.Touch(m.s.o.keys...); touched > len(m.s.o.keys) {
			m.s.t.Errorf("seed %d: %d keys were touched of %d", m.s.seed, touched, len(m.s.o.keys))
		}
	case n < 6:
		m.iterate(d)
	default:
		return false
	}
	return true
}

// iterate iterates over L1. Each pair is a read that begins when the loop goes on for
// it. The body of the loop takes its time.
func (m *member) iterate(d *dice) {
	all := m.cache.All()
	if d.chance(500) {
		all = m.cache.Hottest(1 + d.intn(len(m.s.o.keys)))
	}
	began, before := m.s.rec.Now(), m.cache.Stats()
	for key, value := range all {
		after := m.cache.Stats()
		m.gotten(checker.Read{
			Instance: m.id, Key: key, Call: began,
			Degraded: !before.Connected || !after.Connected,
		}, value, &strata.Info{Tier: "L1"})
		if d.chance(300) {
			time.Sleep(d.delay())
		}
		began, before = m.s.rec.Now(), m.cache.Stats()
	}
	for key := range m.cache.Keys() {
		if !slices.Contains(m.s.o.keys, key) {
			m.s.t.Errorf("seed %d: there is a key %q", m.s.seed, key)
		}
	}
}
