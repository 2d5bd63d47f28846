package cluster_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/checker"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
	"github.com/strata-cache/strata/stratatest"
)

// Schedules over servers that store single items, as memcached does, or as stores with two
// methods do, which have no clock and do not count. Such a tier
// announces nothing: instances announce their drops themselves, or have no bus.

// sharing is the kind of store and bus that the instances of a schedule share.
type sharing uint8

const (
	announced  sharing = iota // a tier that announces its drops on a bus
	itemsOnBus                // items, and a bus
	itemsAlone                // items without a bus
	primaries                 // servers that take the place of each other, as announced
)

// announces reports whether the tier announces its drops.
func (s sharing) announces() bool { return s == announced || s == primaries }

// TestClusterOverItemsKeepsItsPromisesOnEverySchedule is
// TestClusterKeepsItsPromisesOnEverySchedule with the tier of memcached. Its servers lose
// items, restart empty, and do not answer for a while.
func TestClusterOverItemsKeepsItsPromisesOnEverySchedule(t *testing.T) { runSchedules(t, itemsOnBus) }

// TestClusterWithoutABusKeepsItsPromisesOnEverySchedule is the same without a bus: an
// instance may serve a value dropped by another one until Memory.TTL is over, and a
// value dropped with everything a second longer.
func TestClusterWithoutABusKeepsItsPromisesOnEverySchedule(t *testing.T) {
	runSchedules(t, itemsAlone)
}

// simStore is a tier of a schedule, without its announcements.
type simStore interface {
	remote.Tier
	remote.Binder
	remote.Tagger
	Foreign() uint64
}

// makeTier makes the store that the instances share.
func (s *sim) makeTier() {
	switch s.shares {
	case primaries:
		s.reigns.begin(s)
		return
	case announced:
		s.tier = stratatest.NewTierLanes(4)
		s.tier.Announce(s.bus)
		return
	}
	d := newDice(s.seed, 8000)
	s.items = lab.NewModel(s.t, 1+d.intn(3))
	s.items.LargeFrom = apart
	s.o.overItems(d, s.shares == itemsAlone)
	s.items.Plain = d.chance(300) // a store of two methods
}

// overItems sets the options of a schedule over items. The lives of items end up to two seconds
// early.
func (o *simOptions) overItems(d *dice, alone bool) {
	o.spread, o.lease, o.ttl = false, 5*time.Second, max(o.ttl, 10*time.Second)
	if !alone {
		return
	}
	o.cuts, o.garbled, o.silent, o.delay, o.strict = 0, false, false, 0, false
	o.holds = false // other instances are not told of them
	o.memory = []time.Duration{time.Second, 5 * time.Second}[d.intn(2)]
	if d.chance(700) {
		o.steps += 6
		o.steady = []time.Duration{time.Millisecond, 5 * time.Millisecond}
	}
}

// apart is the size from which values have items of their own: less than the large ones have.
const apart = 4 << 10

// storeOf returns an instance's own way to the shared store.
func (s *sim) storeOf(v *simTierView) simStore {
	switch s.shares {
	case primaries:
		return simWay{v: v, reigns: &s.reigns}
	case announced:
		return s.tier
	}
	return castier.NewFleet(lab.Around(s.items, slowItems{v}.trip))
}

// witness returns a view of the tier that no instance uses, and that remembers nothing.
func (s *sim) witness(space remote.Space) simStore {
	switch s.shares {
	case primaries:
		return simWay{reigns: &s.reigns, space: space}
	case announced:
		return s.tier.Bind(space).(simStore)
	}
	return forgetful{castier.NewFleet(s.items).Bind(space).(*castier.Tier)}
}

// forgetful asks for everything again.
type forgetful struct{ *castier.Tier }

func (f forgetful) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	f.Recheck()
	return f.Tier.Get(ctx, keys, known...)
}

// shown is the Tier as a cache sees it.
func (t *simTier) shown() remote.Tier {
	if lanes, ok := t.tier.(laned); ok {
		return announcingTier{t, lanes}
	}
	return t
}

// answered records the values of the tier from one of its answers, if the answer is of
// this moment.
func (t *simTier) answered(ctx context.Context, at checker.Time, keys []string, held []remote.Held) {
	for i := range held {
		if held[i].Same {
			t.look(ctx, keys[i])
			t.s.leftOut.Add(1)
		}
	}
	if t.s.shares == announced {
		t.held(at, keys, held)
		return
	}
	for _, key := range keys {
		t.look(ctx, key)
	}
}

// connect gives an instance its bus.
func (s *sim) connect(m *member, o *strata.Options[string, string]) {
	switch s.shares {
	case primaries:
		m.route.bus.m, m.route.bus.conn = m, m.bus
		o.Remote.Bus = &m.route.bus
	case itemsOnBus:
		o.Remote.Bus = tellingBus{m.bus, m.tier.simTierView}
		if s.o.cuts > 0 || s.o.silent {
			// A drop that the tier has confirmed is pending while it cannot be announced.
			s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, To: checker.Never})
		}
	case itemsAlone:
		o.Remote.Bus = nil
		s.rec.Link(m.id, checker.Down)
	}
}

// droppedItem is dropped for a tier over items. Without a message, an instance may not
// know of a drop of everything for a second: a value that it stores then is absent.
func (t *simTierView) droppedItem(key string, since checker.Time) {
	to := t.s.rec.Now()
	if key == "" {
		to += checker.Time(time.Second) + simSlack
	}
	t.s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, Key: key, From: since, To: to})
}

// tellingBus notes when drops are announced.
type tellingBus struct {
	*stratatest.Bus
	t *simTierView
}

func (b tellingBus) Publish(ctx context.Context, all []remote.Message) error {
	for _, m := range all {
		switch m.Kind {
		case remote.Beat, remote.Ended:
		case remote.Dropped, remote.Expired:
			b.t.told(m.Key)
		default:
			b.t.told("")
		}
	}
	return b.Bus.Publish(ctx, all)
}

// bounds alters the promises for the shared store, and for losses in a row.
func (s *sim) bounds(p *checker.Promise) {
	if s.o.silent { // three heartbeats may be lost, and L2 has two seconds to explain the next one
		p.Found = 9 * time.Second
	}
	if s.shares.announces() {
		return
	}
	p.TTL -= s.early()
	if s.shares == itemsAlone {
		p.Unconfirmed = s.o.memory + time.Second
		p.Slow += 1000 * slices.Max(s.o.steady) // an Update stores the version that its caller wrote before it thought
	}
}

// early is how much earlier than told lives and leases may end, and holds later.
func (s *sim) early() time.Duration {
	if s.shares.announces() {
		return 0
	}
	return 2 * time.Second
}

// silence is how long a connection must be deaf at least, so that its instance finds out.
func (s *sim) silence() time.Duration {
	if s.shares.announces() {
		return 0
	}
	return 4 * time.Second
}

// sufferItems, in the bubble, lets servers lose items, restart, and fail.
func (s *sim) sufferItems(d *dice) {
	_, servers := s.items.Servers()
	for range s.o.accidents {
		time.Sleep(d.delay())
		n, server := d.intn(4), d.intn(servers)
		s.notef("accident %d on server %d", n, server)
		began := s.rec.Now()
		switch n {
		case 0:
			s.items.Evict(2)
		case 1:
			s.items.Restart(server)
		default:
			s.items.Kill(server, true)
			time.Sleep(d.delay())
			if n == 2 {
				s.items.Restart(server)
			}
			s.items.Kill(server, false)
		}
		// Each value loaded before may be loaded again once.
		s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, From: began, To: s.rec.Now() + checker.Time(simFound)})
	}
}

// slowItems is an instance's way to the servers. Each call takes a while, except questions for the
// time. A call whose caller leaves may be carried out later.
type slowItems struct{ t *simTierView }

func (s slowItems) trip(ctx context.Context, _ int, c *lab.ModelCall, arrive func(context.Context) error) error {
	if s.t.s.faulty.Load() && !c.Clock {
		if err := pause(ctx, 1+s.t.dice.delay()/8); err != nil {
			if s.t.dice.chance(500) {
				s.t.late(ctx, func(ctx context.Context) error {
					if len(c.Adds) > 0 { // a drop of everything, later than its call has excused
						s.t.droppedItem("", s.t.s.rec.Now())
					}
					return arrive(ctx)
				})
			}
			return err
		}
	}
	return arrive(ctx)
}
