package cluster_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// Schedules in which servers take the place of each other. The deposed primary lives
// on: it still answers the instances without news of the new one, and lacks the writes
// there. The new primary may lack the last writes of the old one. Primaries and
// instances are paused meanwhile.
//
// An instance without news of the new primary is cut off from the others, although it
// does not know it. A drop that it makes counts for itself at once. For the others it
// counts a bound after the instance has heard: it repeats the drop then.

// TestClusterKeepsItsPromisesOverChangesOfPrimary is
// TestClusterKeepsItsPromisesOnEverySchedule with servers that take the place of each
// other.
func TestClusterKeepsItsPromisesOverChangesOfPrimary(t *testing.T) { runSchedules(t, primaries) }

// simRepeat is the time in which an instance repeats its drops at a new primary, once it
// has heard of it. Failed operations are tried again later.
const (
	simRepeat       = time.Second
	simRepeatFaulty = 15 * time.Second
)

// errDeposed is the error of an operation when its connection is closed because another
// server is the primary.
var errDeposed = errors.New("another server is the primary")

// succeeds sets the options of a schedule in which another server becomes the primary.
func (o *simOptions) succeeds(d *dice) {
	o.cuts, o.accidents, o.garbled, o.spread, o.silent = 0, 0, false, false, false
	o.changes = 1 + d.intn(3)
	o.steps += 4
	o.holds, o.sweeping = false, false
	o.keys = o.keys[:min(2, len(o.keys))]
	o.ttl = max(o.ttl, time.Minute)
	switch n := d.intn(10); {
	case n < 3 && o.hard == 0:
		o.mixes(d)
	case n < 5:
		o.moves(d)
	case n == 5:
		o.fails()
	}
	o.tunes = d.chance(200)
}

// primary is a server: a tier and its bus.
type primary struct {
	tier *stratatest.Tier
	bus  *stratatest.Bus
	gate gate // shut while the server is paused
}

// reigns are the primaries of a schedule, one after the other.
type reigns struct {
	mu    sync.Mutex // guards below
	all   []*primary
	since []checker.Time   // when each took over
	heard [][]checker.Time // when each instance had heard of each; 0 if it has not
}

// begin makes the first primary.
func (r *reigns) begin(s *sim) {
	r.all = []*primary{{tier: stratatest.NewTierLanes(4), bus: s.bus}}
	r.all[0].tier.Announce(s.bus)
	r.since = []checker.Time{0}
	r.heard = [][]checker.Time{make([]checker.Time, s.o.instances)}
}

// now returns the primary and its number.
func (r *reigns) now() (*primary, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.all) - 1
	return r.all[n], n
}

func (r *reigns) number(n int) *primary {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[n]
}

// promote makes a primary of a copy of the last one.
func (r *reigns) promote(s *sim, from stratatest.Snapshot) {
	p := &primary{tier: stratatest.NewTierLanes(4), bus: stratatest.NewBus()}
	p.tier.Announce(p.bus)
	r.mu.Lock()
	defer r.mu.Unlock()
	for range len(r.all) + 1 { // its tag clock is ahead of all earlier clocks
		p.tier.Restore(from)
	}
	r.all = append(r.all, p)
	r.since = append(r.since, s.rec.Now())
	r.heard = append(r.heard, make([]checker.Time, s.o.instances))
}

// hears notes that an instance has heard of the last primary.
func (r *reigns) hears(instance int, at checker.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard[len(r.heard)-1][instance] = at
}

// settle sets the times from which others must know of the drops made by instances
// without news of a primary.
func (r *reigns) settle(h *checker.History, bound time.Duration) {
	for i := range h.Fences {
		f := &h.Fences[i]
		for n := 1; n < len(r.all); n++ {
			if heard := r.heard[n][f.Instance]; f.Return >= r.since[n] && f.Call <= heard {
				f.Known = heard + checker.Time(bound)
			}
		}
	}
}

// gate lets operations pass unless it is shut.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // nil: it is open
}

// close shuts the gate until the returned function is called. It is not shut twice.
func (g *gate) close() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		return func() {}
	}
	shut := make(chan struct{})
	g.shut = shut
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.shut = nil
		close(shut)
	}
}

// pass waits until the gate is open.
func (g *gate) pass(ctx context.Context) error {
	for {
		g.mu.Lock()
		shut := g.shut
		g.mu.Unlock()
		if shut == nil {
			return nil
		}
		select {
		case <-shut:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// route is where an instance finds the primary.
type route struct {
	paused gate
	tier   atomic.Int64 // the number of the primary that gets its commands
	bus    wayBus
}

// placeKey is where the context of an operation says to which primary it was sent.
type placeKey struct{}

// depart returns ctx with the primary to which an operation is sent now, and a function
// that reports whether the connection is still open.
func (t *simTierView) depart(ctx context.Context) (context.Context, func() error) {
	if t.s.shares != primaries {
		return ctx, func() error { return nil }
	}
	r := &t.s.members[t.instance].route
	at := r.tier.Load()
	return context.WithValue(ctx, placeKey{}, int(at)), func() error {
		_ = r.paused.pass(context.Background())
		if r.tier.Load() != at {
			return errDeposed
		}
		return nil
	}
}

// arrive waits until the server, and the instance, carry operations out.
func (t *simTierView) arrive(ctx context.Context) error {
	at, ok := ctx.Value(placeKey{}).(int)
	if !ok {
		return nil
	}
	if err := t.s.members[t.instance].route.paused.pass(ctx); err != nil {
		return err
	}
	return t.s.reigns.number(at).gate.pass(ctx)
}

// simWay is an instance's way to the primary that it knows.
type simWay struct {
	v      *simTierView // nil: of no instance, to the last primary
	reigns *reigns
	space  remote.Space
}

// at is the view of the server to which the operation was sent.
func (w simWay) at(ctx context.Context) *stratatest.Tier {
	if w.v == nil {
		p, _ := w.reigns.now()
		return p.tier.Bind(w.space).(*stratatest.Tier)
	}
	n, ok := ctx.Value(placeKey{}).(int)
	if !ok {
		n = int(w.v.s.members[w.v.instance].route.tier.Load())
	}
	return w.reigns.number(n).tier.Bind(w.space).(*stratatest.Tier)
}

func (w simWay) Bind(s remote.Space) remote.Tier { return simWay{w.v, w.reigns, s} }
func (w simWay) Announces() bool                 { return true }
func (w simWay) Lane(key string) uint16          { return w.reigns.number(0).tier.Lane(key) }
func (w simWay) Foreign() uint64                 { return 0 }
func (w simWay) Recheck()                        {}

func (w simWay) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	return w.at(ctx).Get(ctx, keys, known...)
}

func (w simWay) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	return w.at(ctx).Acquire(ctx, r, d)
}

func (w simWay) Put(ctx context.Context, p []remote.Put) ([]int, error) { return w.at(ctx).Put(ctx, p) }

func (w simWay) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	return w.at(ctx).Drop(ctx, d)
}

func (w simWay) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
	return w.at(ctx).Extend(ctx, key, fresh, left, l, id)
}

func (w simWay) Release(ctx context.Context, key string, l remote.Lease) error {
	return w.at(ctx).Release(ctx, key, l)
}

func (w simWay) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	return w.at(ctx).Renew(ctx, key, l, d)
}

func (w simWay) DropAll(ctx context.Context, soft bool) error { return w.at(ctx).DropAll(ctx, soft) }

func (w simWay) DropTags(ctx context.Context, tags []string, soft bool) error {
	return w.at(ctx).DropTags(ctx, tags, soft)
}

func (w simWay) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	return w.at(ctx).Tags(ctx, tags)
}

func (w simWay) Position(ctx context.Context) (remote.Position, error) {
	return w.at(ctx).Position(ctx)
}
func (w simWay) Changes(context.Context) (string, error) { return "", nil }

// wayBus is an instance's connection to the bus of a primary, one after the other.
type wayBus struct {
	m *member

	mu   sync.Mutex // guards below
	at   int
	conn *stratatest.Bus
	name string
	f    func(remote.Event)
	stop func()
}

// Publish implements remote.Bus.
func (b *wayBus) Publish(ctx context.Context, m []remote.Message) error {
	if err := b.m.route.paused.pass(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	conn, at := b.conn, b.at
	b.mu.Unlock()
	if err := b.m.s.reigns.number(at).gate.pass(ctx); err != nil {
		return err
	}
	return conn.Publish(ctx, m)
}

// Follow implements remote.Bus, for one follower. A paused instance gets its events
// later.
func (b *wayBus) Follow(name string, f func(remote.Event)) (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.name, b.f = name, func(e remote.Event) {
		_ = b.m.route.paused.pass(context.Background())
		f(e)
	}
	b.stop = b.conn.Follow(name, b.f)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.stop()
		b.f = nil
	}
}

// leave ends the connection, and join opens one to the last primary.
func (b *wayBus) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop()
	b.f(remote.Event{State: remote.Gap})
}

func (b *wayBus) join() {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, n := b.m.s.reigns.now()
	b.at, b.conn = n, p.bus.Connect()
	b.stop = b.conn.Follow(b.name, b.f)
}

// depose, in the bubble, lets one server after the other take over.
func (s *sim) depose() {
	d := newDice(s.seed, 4100, s.o.steady...)
	for range s.o.changes {
		time.Sleep(d.delay())
		old, _ := s.reigns.now()
		copied := old.tier.Snapshot()
		began := s.rec.Now()
		resume := s.pauseSome(d)
		time.Sleep(d.delay())
		if d.chance(500) { // else the new one lacks the writes since the pause began
			copied = old.tier.Snapshot()
		}
		for _, m := range s.members {
			s.rec.Link(m.id, checker.Down)
		}
		s.reigns.promote(s, copied)
		s.notef("another primary")
		var wg sync.WaitGroup
		for _, m := range s.members {
			wg.Go(func() { m.follow(newDice(s.seed, uint64(4200+10*m.id), s.o.steady...)) })
		}
		time.Sleep(d.delay())
		resume()
		wg.Wait()
		// Values from before are gone, and instances load beside each other until all have heard.
		to := s.rec.Now() + checker.Time(simFound)
		s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, From: began, To: to})
		s.rec.Excuse(checker.Excuse{Instance: checker.Shared, From: began, To: to})
	}
}

// pauseSome pauses some of the instances and the primary, and returns a function that
// lets them go on, in any order.
func (s *sim) pauseSome(d *dice) (resume func()) {
	var open []func()
	old, _ := s.reigns.now()
	if d.chance(500) {
		open = append(open, old.gate.close())
	}
	for _, m := range s.members {
		if d.chance(400) {
			s.rec.Link(m.id, checker.Down)
			open = append(open, m.route.paused.close())
		}
	}
	return func() {
		d.mu.Lock()
		d.r.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
		d.mu.Unlock()
		for _, f := range open {
			f()
			d.sometimes()
		}
	}
}

// follow lets the instance hear of the last primary, some time after it goes on. Its
// commands and its bus take their ways at different times.
func (m *member) follow(d *dice) {
	_ = m.route.paused.pass(context.Background())
	d.sometimes()
	if d.chance(100) {
		time.Sleep(time.Duration(d.intn(10_000)) * time.Millisecond) // in a bubble
	}
	_, n := m.s.reigns.now()
	first := d.chance(500)
	if first {
		m.route.tier.Store(int64(n))
	}
	m.route.bus.leave()
	d.sometimes()
	if !first {
		m.route.tier.Store(int64(n))
	}
	at := m.s.rec.Now()
	m.s.reigns.hears(m.id, at)
	m.s.notef("instance %d has heard", m.id)
	m.s.rec.Link(m.id, checker.Connected)
	m.route.bus.join()
}

// Moves implements remote.Mover.
func (t announcingTier) Moves() uint64 {
	if t.s.shares != primaries {
		return 0
	}
	return uint64(t.s.members[t.instance].route.tier.Load())
}

// repeats is the time in which an instance repeats its drops at a new primary.
func (s *sim) repeats() time.Duration {
	if s.o.faults > 0 || s.o.failing {
		return simRepeatFaulty
	}
	return simRepeat + s.o.delay
}
