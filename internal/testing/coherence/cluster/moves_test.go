package cluster_test

import (
	"context"
	"slices"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

// Schedules in which instances also take in entries of each other, at once or from a
// file of some time ago, and read keys from L2 to be warm.

// moves sets the options of such a schedule. Entries leave L1 soon, so that there is room
// for the entries of other instances.
func (o *simOptions) moves(d *dice) {
	o.moving = true
	o.steps += 2
	o.memory = []time.Duration{0, 20 * time.Microsecond, time.Millisecond, 100 * time.Millisecond}[d.intn(4)]
	o.tagged = d.chance(500)
}

// stepMoves makes one call that only such schedules have, or reports false.
func (m *member) stepMoves(ctx context.Context, d *dice) bool {
	if !m.s.o.moving {
		return false
	}
	switch n := d.intn(20); {
	case n < 5:
		m.pull(d)
	case n < 8:
		m.loadFile(d)
	case n == 8:
		_, _ = m.cache.Warm(ctx, slices.Values(m.s.o.keys), strata.WarmOptions{})
	default:
		return false
	}
	return true
}

// pull takes in the entries of another instance, which begins to give them away after
// this one has begun to take them in.
func (m *member) pull(d *dice) {
	from := m.s.members[d.intn(len(m.s.members))]
	in, err := transfer.Parts(m.cache.Inside()).Source().Restore(m.s.t.Context(), new(transfer.Taken))
	if err != nil {
		m.s.t.Errorf("seed %d: Restore: %v", m.s.seed, err)
		return
	}
	defer in.Close()
	d.sometimes()
	began := time.Now()
	m.takeIn(d, in, from.giveAway(d), began)
}

// loadFile takes in the entries of an instance from some time ago.
func (m *member) loadFile(d *dice) {
	from := m.s.members[d.intn(len(m.s.members))]
	began := time.Now()
	file := from.giveAway(d)
	d.sometimes()
	in, err := transfer.Parts(m.cache.Inside()).Source().Restore(m.s.t.Context(), new(transfer.Taken))
	if err != nil {
		m.s.t.Errorf("seed %d: Restore: %v", m.s.seed, err)
		return
	}
	defer in.Close()
	m.takeIn(d, in, file, began)
}

// sometimes, in the bubble, waits in half of all cases.
func (d *dice) sometimes() {
	if d.chance(500) {
		time.Sleep(d.delay())
	}
}

// given are the entries of an instance.
type given struct {
	format   uint64
	position []byte
	entries  []format.Entry
}

// giveAway collects the entries of the instance, in some time.
func (m *member) giveAway(d *dice) (g given) {
	_, g.format = transfer.Parts(m.cache.Inside()).Source().Format()
	out, err := transfer.Parts(m.cache.Inside()).Source().Dump(m.s.t.Context(), 0, 1)
	if err != nil {
		m.s.t.Errorf("seed %d: Dump: %v", m.s.seed, err)
		return given{}
	}
	defer out.Close()
	g.position = out.Position()
	for e, value := range out.Entries() {
		one := *e
		one.Key, one.Tags = slices.Clone(e.Key), slices.Clone(e.Tags)
		if one.Value, err = value(nil); err != nil {
			m.s.t.Errorf("seed %d: %v", m.s.seed, err)
		}
		g.entries = append(g.entries, one)
		d.sometimes()
	}
	return g
}

// takeIn takes in entries. Their collection began at the time began.
func (m *member) takeIn(d *dice, in transfer.Restore, g given, began time.Time) {
	if _, format := transfer.Parts(m.cache.Inside()).Source().Format(); format != g.format {
		return // another version of the program
	}
	suspect := in.Cover(m.s.t.Context(), g.position)
	for i := range g.entries {
		d.sometimes()
		o := in.Entry(&g.entries[i], time.Since(began), false)
		m.s.moved[o].Add(1)
		m.s.notef("instance %d takes in %s=%s, suspect %q: %v", m.id, g.entries[i].Key, g.entries[i].Value, suspect, o)
	}
}
