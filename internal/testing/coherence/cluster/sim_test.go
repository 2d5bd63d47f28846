package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
	"github.com/strata-cache/strata/internal/testing/checker"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

const (
	// simSlack bounds the difference of the recorder's clock from the bubble's, and
	// the time of work that takes an event or two in a bubble.
	simSlack = checker.Time(20 * time.Microsecond)
	// simQuiet is longer than the work after the end of all faults takes:
	// late operations, and retried drops.
	simQuiet = 20 * time.Second
	// simFound is longer than the time in which a lost message is found: a
	// heartbeat, and the time that messages get.
	simFound = 5 * time.Second
	// simLag is longer than it takes to be connected: to ask the tier, which
	// may fail some times.
	simLag = 3 * time.Second
)

// simOptions are the decisions of a seed before the start.
type simOptions struct {
	instances, clients, steps int
	keys                      []string
	units                     []time.Duration // of delays of operations on L2
	steady                    []time.Duration // of delays between a client's calls
	loading                   []time.Duration // of delays of loads
	delay                     time.Duration   // of messages, at most
	faults                    int             // operations in a thousand that go wrong
	cuts                      int             // changes to each connection to the bus
	accidents                 int             // of the tier; then nothing else is cut
	ttl, lease                time.Duration
	tagged                    bool // entries have tags
	mixed                     bool // the last instance has values of another schema
	breaker                   bool // instances leave L2 alone when it fails; else they go on trying
	strict                    bool
	expiring                  bool          // most calls read, or make things stale
	sweeping                  bool          // many drop everything
	garbled                   bool          // messages go astray, and no connection is cut
	spread                    bool          // the tier is in two places
	silent                    bool          // the first instance hears nothing for long, and L2 does not answer it
	reads                     int           // of a thousand calls of that instance
	failing                   bool          // many drops of tags and of everything fail
	hard                      time.Duration // Limits.HardTimeout; 0 for a timeout out of reach
	cancels                   bool          // Limits.CancelAbandoned
	mixing                    bool          // there are calls of all kinds
	holds                     bool          // keys are put on hold
	gathers                   time.Duration // BatchWait; 0 for a Loader of single keys
	memory                    time.Duration // Memory.TTL
	idle                      time.Duration // IdleTTL
	moving                    bool          // instances take in entries of each other
	changes                   int           // of the primary
	tunes                     bool          // instances turn themselves off and on
	large                     bool          // values are large
	lives                     bool          // values have windows, and lives in L1, of their own
	claims                    bool          // callers also add and take
}

// tags are the tags of the entry of key.
func (o *simOptions) tags(key string) []string {
	if !o.tagged {
		return nil
	}
	return []string{"all", "of " + key}
}

// half is how many of an entry's tags Options.Tags has: its load names all.
func (o *simOptions) half() int { return len(o.tags("")) / 2 }

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
	o := simOptions{
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
		tagged: d.chance(400), mixed: d.chance(200), breaker: d.chance(250),
	}
	if d.chance(300) {
		o.strict = true
	}
	if o.cuts == 0 {
		o.accidents = max(0, d.intn(7)-2)
	}
	if o.expiring = d.chance(200); o.expiring {
		o.keys, o.steps = o.keys[:1], 2*o.steps
		o.tagged = o.tagged && d.chance(300)
	}
	o.sweeping = d.chance(150)
	if o.garbled = o.cuts == 0 && o.accidents == 0 && d.chance(600); o.garbled {
		o.cuts = 1 + d.intn(2)
	}
	return o
}

// sim is one schedule.
type sim struct {
	t    *testing.T
	seed uint64
	o    simOptions
	// traced says that the trace will be read.
	traced bool
	rec    *checker.Recorder

	shares sharing
	// leftOut counts the values that L2 did not send because the instance had them.
	leftOut *atomic.Uint64
	tier    *stratatest.Tier // if shares is announced, else nil
	reigns  reigns           // if shares is primaries
	items   *lab.Model       // else
	bus     *stratatest.Bus
	faulty  atomic.Bool
	// settled says that faults have ended, and failed drops were tried again.
	settled atomic.Bool
	// allExpired is when everything was expired last; zero if it never was.
	allExpired atomic.Int64
	late       sync.WaitGroup

	mu      sync.Mutex // guards below
	origin  map[string]uint64
	held    map[string]time.Time    // until when keys are on hold
	lagging map[string]int          // loads of a key that run and have read a replica that lags behind
	lagged  map[string]checker.Time // when the last such load ended
	lags    map[string]checker.Time // when the last such load of a value began
	marks   marks
	leaked  map[string]bool // such values that L2 has held

	members []*member
	moved   [transfer.Outcomes]atomic.Uint64 // entries that instances took in, by their fate
}

// member is one instance.
type member struct {
	s     *sim
	id    int
	cache *strata.Cache[string, string]
	tier  *simTier
	bus   *stratatest.Bus
	route route
	// tuning is held while the instance is off.
	tuning sync.Mutex
	dice   *dice
	// own draws the lives of values.
	own *dice
	// sweeps counts the drops of everything beyond the usual number.
	sweeps atomic.Int64
	// failed is when loads of a key have failed, guarded by mu.
	mu     sync.Mutex
	failed map[string][]checker.Time
	// asked is when reads of a key were called that have not returned, guarded by mu.
	asked map[string][]checker.Time
	// expired are the calls on this instance that expired one key.
	expired map[string][]checker.Fence
}

// runSchedule runs the schedule of a seed in a bubble of its own, and returns
// the promises that it is judged by and its events.
func runSchedule(t *testing.T, shares sharing, seed uint64, left *atomic.Uint64) (p checker.Promise, h *checker.History) {
	synctest.Test(t, func(t *testing.T) {
		s := &sim{
			t: t, seed: seed, shares: shares, leftOut: left, traced: isFlagSet("seed"), o: drawOptions(newDice(seed, 0)), rec: checker.NewRecorder(),
			bus: stratatest.NewBus(), origin: map[string]uint64{},
			held: map[string]time.Time{}, lagging: map[string]int{}, lagged: map[string]checker.Time{},
			lags: map[string]checker.Time{}, leaked: map[string]bool{}, marks: newMarks(),
		}
		s.o.spread = seed%4 == 3
		s.o.large = newDice(seed, 11_000).chance(350)
		s.o.lives, s.o.claims = newDice(seed, 12_000).chance(300), newDice(seed, 13_000).chance(250)
		if seed%16 == 6 && shares != primaries {
			s.o.silences(newDice(seed, 6002))
		}
		if seed%16 == 10 {
			s.o.fails()
		}
		if seed%16 == 14 {
			s.o.hangs(newDice(seed, 6003))
		}
		if seed%16 == 2 || seed%16 == 12 {
			s.o.mixes(newDice(seed, 7000))
		}
		if seed%16 == 5 || seed%16 == 9 {
			s.o.idles(newDice(seed, 8000))
		}
		if seed%16 == 1 || seed%16 == 8 {
			s.o.moves(newDice(seed, 9000))
		}
		if shares == primaries {
			s.o.succeeds(newDice(seed, 10_000))
		}
		s.makeTier()
		s.makeTags()
		s.members = make([]*member, s.o.instances)
		for i := range s.o.instances {
			s.join(i)
		}
		time.Sleep(time.Second) // until all are connected
		s.faulty.Store(true)
		s.run()
		s.finish()
		p = checker.Promise{
			Delay: s.o.delay, Unconfirmed: strata.UnconfirmedTTL, Slow: 2 * time.Second, TTL: s.o.ttl, Slack: time.Duration(simSlack),
			Found: simFound, Lag: simLag,
		}
		if s.o.spread {
			p.Delay *= 2
		}
		s.bounds(&p)
		if s.o.strict && shares != primaries { // an instance does not see that its primary is deposed
			p.Unconfirmed = 3 * time.Second
		}
		h = s.rec.History()
		s.reigns.settle(h, s.repeats())
		if s.traced && t.Failed() {
			t.Log("\n" + strings.Join(h.Trace(), "\n"))
		}
	})
	return p, h
}

// memoryOf configures L1 of an instance: some keep encoded values.
func (s *sim) memoryOf(id int) strata.Memory[string, string] {
	if s.o.idle == 0 && newDice(s.seed, uint64(13_000+id)).chance(300) {
		return strata.Memory[string, string]{Encoded: true, MaxWeight: 1 << 20, TTL: s.o.memory}
	}
	return strata.Memory[string, string]{MaxEntries: 64, TTL: s.o.memory}
}

// join makes an instance.
func (s *sim) join(id int) {
	m := &member{s: s, id: id, bus: s.bus.Connect(), dice: newDice(s.seed, uint64(2000+id), s.o.loading...), failed: map[string][]checker.Time{}, asked: map[string][]checker.Time{}}
	m.own, m.expired = newDice(s.seed, uint64(12_100+id)), map[string][]checker.Fence{}
	s.members[id] = m
	m.tier = newSimTier(s, id)
	o := strata.Options[string, string]{
		Name: "sim", Logger: slog.New(slog.DiscardHandler), TTL: s.o.ttl, IdleTTL: s.o.idle, Jitter: -1,
		Memory: s.memoryOf(id),
		Limits: strata.Limits{Lease: s.o.lease, HardTimeout: s.o.hard, CancelAbandoned: s.o.cancels},
		Remote: strata.Remote[string, string]{Tier: m.tier.shown(), Bus: m.bus, Strict: s.o.strict},
	}
	m.loader(&o)
	s.connect(m, &o)
	if s.o.mixing {
		o.Tags = func(key, _ string) []string { return s.o.tags(key)[:s.o.half()] }
	}
	if s.o.mixed && id == s.o.instances-1 {
		o.Remote.Codec = codec.JSON[string]()
		s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, To: checker.Never})
	}
	if s.o.hard > 0 {
		// After such a wait for the load of another instance, an instance loads as well.
		s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, To: checker.Never})
	}
	if s.o.spread {
		o.Remote.Bus = twoWays{m.bus, newDice(s.seed, uint64(5000+id), time.Nanosecond), s.o.delay}
	}
	if o.Remote.BreakAfter = -1; s.o.breaker {
		// An instance that leaves L2 alone loads without it.
		o.Remote.BreakAfter, o.Remote.BreakFor = 3, 300*time.Millisecond
		s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, To: checker.Never})
		s.rec.Excuse(checker.Excuse{Instance: checker.Shared, To: checker.Never})
	}
	var err error
	m.cache, err = strata.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
}

// run lets clients and faults run to their ends.
func (s *sim) run() {
	var wg sync.WaitGroup
	wg.Go(s.suffer)
	if m := s.members[0]; s.o.silent {
		// It finds out at any time that it has missed something: joining ends then.
		s.rec.Excuse(checker.Excuse{Instance: m.id, To: checker.Never})
		wg.Go(func() { m.fallSilent(newDice(s.seed, 6000)) })
		wg.Go(func() { m.starve(newDice(s.seed, 6001)) })
	}
	for _, m := range s.members {
		if s.shares != itemsAlone {
			wg.Go(m.rewire)
		}
		for c := range s.o.clients {
			d := newDice(s.seed, uint64(100*m.id+c+1), s.o.steady...)
			wg.Go(func() { m.client(d) })
		}
	}
	wg.Wait()
}

// probe makes each instance with an open breaker ask L2 once, so that the breaker can close.
// Over a tier without positions nothing but a read asks L2.
func (s *sim) probe() {
	for _, m := range s.members {
		if m.cache.Stats().BreakerOpen {
			m.cache.Get(s.t.Context(), s.o.keys[0], strata.NoMemory())
			time.Sleep(simLag) // in a bubble
		}
	}
}

// finish ends all faults, waits until failed drops were tried again, and asks
// every instance for every key.
func (s *sim) finish() {
	s.faulty.Store(false)
	time.Sleep(simQuiet) // in a bubble
	synctest.Wait()      // no late operation begins after this
	s.late.Wait()
	s.settled.Store(true)
	for _, m := range s.members {
		for _, key := range s.o.keys {
			m.tier.bound.look(s.t.Context(), key)
		}
	}
	s.probe()
	for _, m := range s.members {
		if !m.cache.Stats().Connected && s.shares != itemsAlone {
			s.t.Errorf("seed %d: instance %d is not connected after %v without faults", s.seed, m.id, simQuiet)
		}
		for _, key := range s.o.keys {
			m.read(s.t.Context(), key, true, true)
		}
	}
	// Close gives up the refreshes that run. Another instance may load as soon as their leases are back.
	s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, From: s.rec.Now(), To: checker.Never})
	for _, m := range s.members {
		if err := m.cache.Close(s.t.Context()); err != nil {
			s.t.Errorf("seed %d: Close: %v", s.seed, err)
		}
		if n := m.cache.Stats().Pending; n > 0 {
			s.t.Errorf("seed %d: %d drops are pending after %v without faults", s.seed, n, simQuiet)
		}
		m.tier.unsettled()
	}
	s.late.Wait() // for the operations that Close has cut short
	s.endClaims()
}

// rewire, in the bubble, disturbs the instance's connection to the bus: messages are
// late, the connection is cut, or messages are lost and the connection is cut when the
// loss is noticed.
func (m *member) rewire() {
	d := newDice(m.s.seed, uint64(3000+m.id), m.s.o.steady...)
	lag := func() { m.bus.Delay(time.Duration(d.intn(int(m.s.o.delay) + 1))) }
	lag()
	for range m.s.o.cuts {
		time.Sleep(d.delay())
		if m.s.o.garbled {
			m.garble(d)
			continue
		}
		switch d.intn(7) {
		case 0, 1:
			lag()
			continue
		case 2:
			m.garble(d)
			continue
		case 3, 4:
			m.s.rec.Link(m.id, checker.Deaf)
			m.bus.Lose(1 + d.intn(3))
			time.Sleep(d.delay())
		}
		m.s.rec.Link(m.id, checker.Down)
		m.bus.Cut()
		time.Sleep(d.delay())
		if d.chance(50) {
			time.Sleep(time.Minute)
		}
		m.s.rec.Link(m.id, checker.Connected)
		m.bus.Join()
	}
}

// garble, in the bubble, loses messages without a Gap: only their lane versions, and
// the heartbeats of others, show it.
func (m *member) garble(d *dice) {
	m.s.rec.Link(m.id, checker.Deaf)
	n := d.intn(4)
	switch {
	case n == 0 && m.s.shares == announced: // else no instance would find out
		m.bus.Lose(1 + d.intn(2))
	case n == 1:
		m.bus.Duplicate(1 + d.intn(3))
	case n == 2:
		m.bus.Reorder()
	default:
		m.bus.Hush(true)
		time.Sleep(d.delay() + m.s.silence())
		if d.chance(100) {
			time.Sleep(10 * time.Second)
		}
		m.bus.Hush(false)
	}
}

// suffer, in the bubble, disturbs the tier itself. When it is restarted, or set back,
// every connection to it breaks.
func (s *sim) suffer() {
	d := newDice(s.seed, 4000, s.o.steady...)
	switch s.shares {
	case primaries:
		s.depose()
		return
	case itemsOnBus, itemsAlone:
		s.sufferItems(d)
		return
	}
	old := s.tier.Snapshot()
	for range s.o.accidents {
		time.Sleep(d.delay())
		n := d.intn(6)
		s.notef("accident %d", n)
		switch n {
		case 0:
			s.view().ForgetLane(s.o.keys[0])
			s.part()
			continue
		case 1:
			s.view().ForgetTags()
			s.lose()
			s.part()
			continue
		case 2:
			old = s.tier.Snapshot()
			continue
		}
		down := s.rec.Now()
		for _, m := range s.members {
			s.rec.Link(m.id, checker.Down)
			m.bus.Cut()
		}
		switch n {
		case 3:
			s.tier.Restart()
		case 4:
			s.tier.Restore(old)
		default: // one lane is lost while no instance is connected
			s.view().ForgetLane(s.o.keys[0])
		}
		s.makeTags()
		s.lose()
		time.Sleep(d.delay())
		// An instance that was asking the tier for a position may have seen the loss already.
		s.rec.Excuse(checker.Excuse{Instance: checker.Shared, From: down, To: s.rec.Now()})
		for _, m := range s.members {
			s.rec.Link(m.id, checker.Connected)
			m.bus.Join()
		}
	}
}

// view is a view of the tier that no instance uses.
func (s *sim) view() *stratatest.Tier {
	return s.tier.Bind(remote.Space{Name: "sim"}).(*stratatest.Tier)
}

// makeTags tells the tier that it has lost its record of tags.
func (s *sim) makeTags() {
	if _, err := s.witness(remote.Space{Name: "sim"}).Tags(s.t.Context(), []string{"all", "of a", "of b", "of c"}); err != nil {
		s.t.Error(err)
	}
}

// lose notes that the tier has lost values and leases: each instance may load in
// answer, and operations on their way do not count.
func (s *sim) lose() {
	now := s.rec.Now()
	s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, From: now, To: now + checker.Time(simFound)})
}

// part notes that the tier has lost a lane version, so that instances assume a lost
// message, and let no caller join running flights.
func (s *sim) part() {
	now := s.rec.Now()
	s.rec.Excuse(checker.Excuse{Instance: checker.Shared, From: now, To: now + checker.Time(simFound)})
}

// load is the Loader of all calls. It reads the origin when it begins, as a
// query does, and takes its time to tell.
func (m *member) load(ctx context.Context, key string) (value string, err error) {
	since, _ := ctx.Value(sinceKey{}).(checker.Time)
	l := checker.Load{Instance: m.id, Key: key, Since: since, Call: m.s.rec.Now()}
	version, lags, done := m.replica(key)
	defer done()
	l.Version = version
	if m.s.o.mixing {
		strata.Loading(ctx).SetTags(m.s.o.tags(key)...)
	}
	wait, late := time.Duration(0), false
	defer func() {
		l.OK = (err == nil && value != "" || errors.Is(err, strata.ErrNotModified)) && !late && !lags
		if late {
			m.hung(key, l.Call)
		} else if !l.OK {
			m.fail(key)
		}
		m.s.rec.Load(l)
	}()
	var own simOwn
	if value = m.s.value(key, l.Version); lags {
		value += lagMark
	} else if own = m.drawOwn(); !own.plain() {
		value = m.s.ownValue(key, l.Version, own)
	}
	wait = m.dice.delay()
	if m.dice.chance(20) {
		wait += 300 * time.Millisecond // longer than a short lease
	}
	wait = m.s.o.wait(wait)
	if late = m.s.o.late(wait); late {
		m.timesOut(key, l.Call)
	}
	if m.dice.chance(500) {
		if err := pause(ctx, wait); err != nil {
			return "", err
		}
	} else {
		time.Sleep(wait) // in a bubble
	}
	if old, ok := m.cache.Previous(ctx); ok && old == value && m.dice.chance(700) {
		m.stores(value)
		return "", strata.ErrNotModified
	}
	if m.s.faulty.Load() {
		switch n := m.dice.intn(100); {
		case n < 6:
			return "", m.refuses(strata.Loading(ctx), l.Call)
		case n < 9:
			return "", strata.ErrNotFound
		case n < 10:
			value = ""
			panic(errInjected)
		}
	}
	own.say(strata.Loading(ctx))
	m.stores(value)
	return value, nil
}

// fail notes that a load of key has failed, or has ended after it had.
func (m *member) fail(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed[key] = append(m.failed[key], m.s.rec.Now())
}

// asks notes that a read of key was called, until it returns.
func (m *member) asks(key string, at checker.Time) (returned func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[key] = append(m.asked[key], at)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		all := m.asked[key]
		i := slices.Index(all, at)
		m.asked[key] = slices.Delete(all, i, i+1)
	}
}

// askedFor is when a load of key was asked for, whose context says since. A load that is gathered with others
// has the context of one of them: then it is the time of the first read that waits.
func (m *member) askedFor(key string, since checker.Time) checker.Time {
	if m.s.o.gathers == 0 {
		return since
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Min(append(m.asked[key], since))
}

// failedSince reports whether a load of key has failed since a time: an expired
// value may have been served.
func (m *member) failedSince(key string, since checker.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.failed[key], func(at checker.Time) bool { return at > since })
}

// notef notes an event for the trace of a repeated schedule. No promise is judged by it.
func (s *sim) notef(format string, args ...any) {
	if s.traced {
		s.rec.Note(fmt.Sprintf(format, args...))
	}
}

// write writes the next version of key at the origin.
func (s *sim) write(key string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.origin[key]++
	s.rec.Write(key, s.origin[key])
	return s.origin[key]
}
