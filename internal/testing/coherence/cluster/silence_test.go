package cluster_test

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
)

// Schedules in which the first instance gets no message for long, and in which L2
// does not answer it for long, at independent times. The minutes pass in a bubble:
// no test waits for them.

// silences sets the options of such a schedule.
func (o *simOptions) silences(d *dice) {
	o.silent, o.cuts, o.accidents = true, 0, 0
	o.sweeping, o.garbled, o.expiring = false, false, false
	o.ttl = max(o.ttl, time.Minute)
	o.steps, o.clients = 6+o.steps, min(o.clients, 4)
	o.reads = []int{600, 950}[d.intn(2)]
	if o.strict = false; d.chance(500) {
		o.strict = true
	}
	o.steady = []time.Duration{time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond}
}

// long is a delay, often longer than the time for which L1 is used with a silent bus.
func (d *dice) long() time.Duration {
	unit := 50 * time.Millisecond
	if d.chance(300) {
		unit = 5 * time.Millisecond
	}
	return time.Duration(1+d.intn(1000)) * unit
}

// fallSilent, in the bubble, keeps messages from the instance, which may or may not be told of
// that.
func (m *member) fallSilent(d *dice) {
	for range 1 + d.intn(4) {
		time.Sleep(d.long())
		switch n := d.intn(5); {
		case n == 0:
			m.s.rec.Link(m.id, checker.Deaf)
			m.bus.Hush(true)
			time.Sleep(d.long() + m.s.silence())
			m.bus.Hush(false)
			continue
		case n == 1 && m.s.shares == announced:
			m.s.rec.Link(m.id, checker.Deaf)
			m.bus.Lose(1 + d.intn(3))
			continue
		}
		m.s.rec.Link(m.id, checker.Down)
		m.bus.Cut()
		m.miss(d)
		m.s.rec.Link(m.id, checker.Connected)
		m.bus.Join()
		if d.chance(500) { // the losses are known, and none is left to find
			time.Sleep(time.Duration(1+d.intn(1000)) * time.Millisecond)
			m.starveFor(10*time.Second + d.long())
		}
	}
}

// miss, in the bubble, waits while the instance is cut off. Another instance may drop
// a key meanwhile.
func (m *member) miss(d *dice) {
	if d.chance(700) {
		key := m.s.o.keys[d.intn(len(m.s.o.keys))]
		m.s.write(key)
		other := m.s.members[1]
		other.fence(context.Background(), checker.Fence{Key: key}, func(ctx context.Context) error {
			return other.cache.Invalidate(ctx, key)
		})
	}
	if d.chance(500) {
		time.Sleep(time.Duration(1+d.intn(3000)) * time.Millisecond)
		return
	}
	time.Sleep(d.long())
}

// starve, in the bubble, keeps L2 from answering the instance. It may not answer
// again before all faults end.
func (m *member) starve(d *dice) {
	for range 1 + d.intn(2) {
		time.Sleep(d.long())
		m.starveFor(d.long())
	}
	if d.chance(300) {
		time.Sleep(d.long())
		m.tier.dead.Add(1)
	}
}

func (m *member) starveFor(t time.Duration) {
	m.s.notef("instance %d: L2 does not answer", m.id)
	m.tier.dead.Add(1)
	time.Sleep(t) // in a bubble
	m.tier.dead.Add(-1)
	m.s.notef("instance %d: L2 answers", m.id)
}
