package strata_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/history"
	"github.com/strata-cache/strata/stratatest"
)

const (
	// simSlack is what the recorder's clock may be ahead of the bubble's, and
	// what takes no time in a bubble but an event or two.
	simSlack = history.Time(20 * time.Microsecond)
	// simQuiet is longer than what is left to do when faults have ended takes:
	// operations that are late, drops that are tried again.
	simQuiet = 20 * time.Second
)

// simOptions are what a seed decides before anything runs.
type simOptions struct {
	instances, clients, steps int
	keys                      []string
	units                     []time.Duration // of delays of operations on L2
	steady                    []time.Duration // of delays between a client's calls
	loading                   []time.Duration // of delays of loads
	delay                     time.Duration   // of messages, at most
	faults                    int             // operations in a thousand that go wrong
	cuts                      int             // changes to each connection to the bus
	ttl, lease                time.Duration
}

// drawOptions draws from d. Many kinds of short schedules find more than a few
// kinds of long ones.
func drawOptions(d *dice) simOptions {
	units := [][]time.Duration{
		{time.Nanosecond},
		{time.Nanosecond, time.Microsecond},
		{time.Nanosecond, time.Microsecond, time.Microsecond, 50 * time.Microsecond},
		{time.Microsecond},
		{time.Nanosecond, time.Microsecond, time.Microsecond, time.Microsecond, time.Microsecond, time.Millisecond},
	}
	pick := func() []time.Duration { return units[d.intn(len(units))] }
	return simOptions{
		instances: 2 + d.intn(2),
		clients:   3 + d.intn(4),
		steps:     2 + d.intn(5),
		keys:      []string{"a", "b", "c"}[:1+d.intn(3)],
		units:     pick(), steady: pick(), loading: pick(),
		delay:  []time.Duration{time.Microsecond, 100 * time.Microsecond, 5 * time.Millisecond, 200 * time.Millisecond}[d.intn(4)],
		faults: []int{0, 0, 30, 150}[d.intn(4)],
		cuts:   max(0, d.intn(6)-2),
		ttl:    []time.Duration{time.Hour, time.Hour, time.Minute, 20 * time.Millisecond}[d.intn(4)],
		lease:  []time.Duration{100 * time.Millisecond, 5 * time.Second}[d.intn(2)],
	}
}

// sim is one schedule.
type sim struct {
	t    *testing.T
	seed uint64
	o    simOptions
	// traced says that somebody will read the trace.
	traced bool
	rec    *history.Recorder

	tier   *stratatest.Tier
	bus    *stratatest.Bus
	schema atomic.Uint64
	faulty atomic.Bool
	late   sync.WaitGroup

	mu     sync.Mutex // guards origin
	origin map[string]uint64

	members []*member
}

// member is one instance.
type member struct {
	s     *sim
	id    int
	cache *strata.Cache[string, string]
	tier  *simTier
	bus   *stratatest.Bus
	dice  *dice
	// failed is when loads of a key have failed, guarded by mu.
	mu     sync.Mutex
	failed map[string][]history.Time
}

// runSchedule runs the schedule of a seed in a bubble of its own, and returns
// what it is to be judged by and what happened.
func runSchedule(t *testing.T, seed uint64) (p history.Promise, h *history.History) {
	synctest.Test(t, func(t *testing.T) {
		s := &sim{
			t: t, seed: seed, traced: isFlagSet("seed"), o: drawOptions(newDice(seed, 0)), rec: history.NewRecorder(),
			tier: stratatest.NewTier(), bus: stratatest.NewBus(), origin: map[string]uint64{},
		}
		s.tier.Announce(s.bus)
		s.faulty.Store(true)
		for i := range s.o.instances {
			s.members = append(s.members, s.member(i))
		}
		synctest.Wait() // all are connected
		s.run()
		s.finish()
		p = history.Promise{
			Delay: s.o.delay, Unconfirmed: strata.UnconfirmedTTL, Slow: 2 * time.Second, TTL: s.o.ttl, Slack: time.Duration(simSlack),
		}
		h = s.rec.History()
	})
	return p, h
}

func (s *sim) member(id int) *member {
	m := &member{s: s, id: id, bus: s.bus.Connect(), dice: newDice(s.seed, uint64(2000+id), s.o.loading...), failed: map[string][]history.Time{}}
	m.tier = newSimTier(s, id)
	var err error
	m.cache, err = strata.New(strata.Options[string, string]{
		Name: "sim", TTL: s.o.ttl, Jitter: -1, Loader: m.load,
		Memory: strata.Memory[string, string]{MaxEntries: 64},
		Limits: strata.Limits{Lease: s.o.lease},
		Remote: strata.Remote[string, string]{Tier: m.tier, Bus: m.bus},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// run lets clients and faults run to their ends.
func (s *sim) run() {
	var wg sync.WaitGroup
	for _, m := range s.members {
		wg.Go(m.rewire)
		for c := range s.o.clients {
			d := newDice(s.seed, uint64(100*m.id+c+1), s.o.steady...)
			wg.Go(func() { m.client(d) })
		}
	}
	wg.Wait()
}

// finish ends all faults, waits until what has failed was tried again, and asks
// every instance for every key.
func (s *sim) finish() {
	s.faulty.Store(false)
	time.Sleep(simQuiet) // in a bubble
	synctest.Wait()      // nobody begins anything that is late
	s.late.Wait()
	for _, m := range s.members {
		for _, key := range s.o.keys {
			m.read(s.t.Context(), key, true, true)
		}
	}
	for _, m := range s.members {
		if err := m.cache.Close(s.t.Context()); err != nil {
			s.t.Errorf("seed %d: Close: %v", s.seed, err)
		}
		if n := m.cache.Stats().Pending; n > 0 {
			s.t.Errorf("seed %d: %d drops are pending after %v without faults", s.seed, n, simQuiet)
		}
		m.tier.unsettled()
	}
}

// rewire, in the bubble, is what happens to the instance's connection to the bus: messages are
// late, it is cut, or they are lost and it is cut when that is found out.
func (m *member) rewire() {
	d := newDice(m.s.seed, uint64(3000+m.id), m.s.o.steady...)
	lag := func() { m.bus.Delay(time.Duration(d.intn(int(m.s.o.delay) + 1))) }
	lag()
	for range m.s.o.cuts {
		time.Sleep(d.delay())
		switch d.intn(3) {
		case 0:
			lag()
			continue
		case 1:
			m.s.rec.Link(m.id, history.Deaf)
			m.bus.Lose(1 + d.intn(3))
			time.Sleep(d.delay())
		}
		m.s.rec.Link(m.id, history.Down)
		m.bus.Cut()
		m.bus.Lose(0)
		time.Sleep(d.delay())
		if d.chance(50) {
			time.Sleep(time.Minute)
		}
		m.s.rec.Link(m.id, history.Connected)
		m.bus.Join()
	}
}

// load is the Loader of all calls. It reads the origin when it begins, as a
// query does, and takes its time to tell.
func (m *member) load(ctx context.Context, key string) (value string, err error) {
	since, _ := ctx.Value(sinceKey{}).(history.Time)
	l := history.Load{Instance: m.id, Key: key, Since: since, Call: m.s.rec.Now(), Version: m.s.current(key)}
	defer func() {
		l.OK = err == nil && value != "" || errors.Is(err, strata.ErrNotModified)
		if !l.OK {
			m.fail(key)
		}
		m.s.rec.Load(l)
	}()
	value = simValue(key, l.Version)
	wait := m.dice.delay()
	if m.dice.chance(20) {
		wait += 300 * time.Millisecond // longer than a short lease
	}
	if m.dice.chance(500) {
		if err := pause(ctx, wait); err != nil {
			return "", err
		}
	} else {
		time.Sleep(wait) // in a bubble
	}
	if old, ok := m.cache.Previous(ctx); ok && old == value && m.dice.chance(700) {
		return "", strata.ErrNotModified
	}
	if m.s.faulty.Load() {
		switch n := m.dice.intn(100); {
		case n < 6:
			return "", errInjected
		case n < 9:
			return "", strata.ErrNotFound
		case n < 10:
			value = ""
			panic(errInjected)
		}
	}
	return value, nil
}

// fail notes that a load of key has failed, or has ended after it had.
func (m *member) fail(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed[key] = append(m.failed[key], m.s.rec.Now())
}

// failedSince reports whether a load of key has failed since a time: what was
// expired may have been served.
func (m *member) failedSince(key string, since history.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.failed[key], func(at history.Time) bool { return at > since })
}

// notef notes what is not judged, for the trace of a schedule that is repeated.
func (s *sim) notef(format string, args ...any) {
	if s.traced {
		s.rec.Note(fmt.Sprintf(format, args...))
	}
}

// current is the version of key at the origin.
func (s *sim) current(key string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.origin[key]
}

// write writes the next version of key at the origin.
func (s *sim) write(key string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.origin[key]++
	s.rec.Write(key, s.origin[key])
	return s.origin[key]
}
