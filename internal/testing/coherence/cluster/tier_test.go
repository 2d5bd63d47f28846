package cluster_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/testing/checker"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
)

var errInjected = errors.New("injected")

// dice draws for one instance or client. It is safe for concurrent use.
type dice struct {
	mu    sync.Mutex
	r     *rand.Rand
	units []time.Duration // of delays
}

func newDice(seed, stream uint64, units ...time.Duration) *dice {
	return &dice{r: rand.New(rand.NewPCG(seed, stream)), units: units}
}

func (d *dice) intn(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// chance is true in that many of a thousand cases.
func (d *dice) chance(permille int) bool { return d.intn(1000) < permille }

// delay is between 1 and 1000 of one of the units.
func (d *dice) delay() time.Duration {
	return time.Duration(1+d.intn(1000)) * d.units[d.intn(len(d.units))]
}

// simTier is an instance's way to the tier that all share. Operations are
// delayed before and after they are carried out; some fail, before or after;
// and some are carried out when their caller has long given up. It records
// the values and the drops of the tier, at the very moment.
type simTier struct {
	*simTierView
	tier   simStore
	schema uint64
	// truth shows the values of the tier, at the very moment.
	truth simStore
}

// simTierView is the part that all views of one instance's tier share.
type simTierView struct {
	s        *sim
	instance int
	dice     *dice
	dead     atomic.Int64 // it does not answer unless zero
	bound    *simTier     // as the instance uses it
	mu       sync.Mutex   // guards below
	pending  map[string]pendingDrop
	failed   map[string]checker.Time // when a Put of a call that drops has failed last
	leases   map[uint64]checker.Time // when they run out
	toldOf   map[string][]toldHold   // the holds of a key that L2 has told of
}

// pendingDrop is a drop that failed and was not tried again yet.
type pendingDrop struct{ since, last checker.Time }

func newSimTier(s *sim, instance int) *simTier {
	v := &simTierView{
		s: s, instance: instance, dice: newDice(s.seed, uint64(1000+instance), s.o.units...),
		pending: map[string]pendingDrop{}, failed: map[string]checker.Time{}, leases: map[uint64]checker.Time{}, toldOf: map[string][]toldHold{},
	}
	return &simTier{simTierView: v, tier: s.storeOf(v)}
}

// do carries out f with the faults of the schedule. The results of f must not be
// used before do has returned nil.
func (t *simTierView) do(ctx context.Context, op, key string, f func(ctx context.Context) error) error {
	start := t.s.rec.Now()
	err := t.suffer(ctx, t.s.o.faultsOf(op), func(ctx context.Context) error {
		err := f(ctx)
		t.s.notef("instance %d: %s of %q of %v carried out: %v", t.instance, op, key, time.Duration(start), err)
		return err
	})
	t.s.notef("instance %d: %s of %q of %v returned: %v", t.instance, op, key, time.Duration(start), err)
	if err != nil {
		to, about := t.s.rec.Now()+simSlack, key
		if ctx.Value(skipKey{}) != nil { // see readPast
			to = checker.Never
		}
		if ctx.Value(manyKey{}) != nil || t.s.o.gathers > 0 {
			about = "" // the batch does without L2, for all of its keys
		}
		t.s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, Key: about, From: start, To: to})
	}
	return err
}

func (t *simTierView) suffer(ctx context.Context, faults int, f func(ctx context.Context) error) error {
	d := t.dice
	if t.dead.Load() != 0 && t.s.faulty.Load() {
		return t.stall(ctx)
	}
	faulty := t.s.faulty.Load() && d.chance(faults)
	ctx, arrived := t.depart(ctx)
	before, after := d.delay(), d.delay()
	if !t.s.faulty.Load() {
		before, after = 1, 1
	}
	err := pause(ctx, before)
	if err == nil {
		err = t.arrive(ctx)
	}
	if err != nil {
		if d.chance(500) {
			t.late(ctx, f) // it was sent by then
		}
		return err
	}
	if !faulty {
		if err := f(ctx); err != nil {
			return err
		}
		if err := pause(ctx, after); err != nil {
			return err
		}
		return arrived()
	}
	switch d.intn(3) {
	case 0: // lost on its way
	case 1: // the answer is lost
		_ = f(ctx)
		_ = pause(ctx, after)
	default:
		t.late(ctx, f)
	}
	return errInjected
}

// stall is an operation without an answer: the server is gone, or silent.
func (t *simTierView) stall(ctx context.Context) error {
	if t.dice.chance(500) {
		return errInjected
	}
	<-ctx.Done()
	return ctx.Err()
}

// late carries f out when its caller has given up.
func (t *simTierView) late(ctx context.Context, f func(ctx context.Context) error) {
	wait := t.dice.delay()
	if t.dice.chance(100) {
		wait += time.Duration(t.dice.intn(5000)) * time.Millisecond
	}
	t.s.late.Go(func() {
		time.Sleep(wait) // in a bubble
		_ = t.arrive(context.WithoutCancel(ctx))
		_ = f(context.WithoutCancel(ctx))
	})
}

// pause waits for d, or returns ctx's error when ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *simTier) Bind(s remote.Space) remote.Tier {
	t.bound = &simTier{t.simTierView, t.tier.Bind(s).(simStore), s.Schema, t.s.witness(s)}
	return t.bound.shown()
}

func (t *simTier) Foreign() uint64 { return t.tier.Foreign() }

func (t *simTier) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	var held []remote.Held
	err := t.do(ctx, "Get", batchKey(len(keys), keys[0]), func(ctx context.Context) (err error) {
		at := t.s.rec.Now()
		held, err = t.tier.Get(ctx, keys, known...)
		t.answered(ctx, at, keys, held)
		return err
	})
	if err != nil {
		return nil, err
	}
	t.arrives(keys...)
	return held, nil
}

func (t *simTier) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	began := t.s.rec.Now()
	acquired, err := kit.EachRequest(r, func(r remote.Request) (remote.Held, remote.Lease, error) {
		return t.acquire(ctx, r, d)
	})
	for i := range acquired {
		if l := &acquired[i].Lease; acquired[i].Err == nil && l.Grant == remote.OnHold {
			t.tell(r[i].Key, began+checker.Time(l.Wait))
			t.holds(r[i].Key, l.Wait)
		}
	}
	return acquired, err
}

// acquire is one request, with a fault of its own.
func (t *simTier) acquire(ctx context.Context, r remote.Request, d time.Duration) (remote.Held, remote.Lease, error) {
	var held remote.Held
	var lease remote.Lease
	err := t.do(ctx, "Acquire", r.Key, func(ctx context.Context) (err error) {
		at := t.s.rec.Now()
		held, lease, err = kit.Ask(ctx, t.tier, r, d)
		t.leased(lease, at, d)
		t.answered(ctx, at, []string{r.Key}, []remote.Held{held})
		if r.Replace != 0 && lease.Grant == remote.Granted {
			t.excuse(r.Key) // one more load is in order
		}
		return err
	})
	if err != nil {
		return remote.Held{}, remote.Lease{}, err
	}
	t.arrives(r.Key)
	return held, lease, nil
}

func (t *simTier) Put(ctx context.Context, p []remote.Put) ([]int, error) {
	var refused []int
	err := t.do(ctx, "Put", batchKey(len(p), p[0].Key), func(ctx context.Context) (err error) {
		at := t.s.rec.Now()
		was := t.freshNow(ctx, p)
		refused, err = t.tier.Put(ctx, p)
		t.claims(ctx, was, refused, err)
		for i := range p {
			t.lost(p[i].Key, p[i].Lease)
			if p[i].Drops || t.token(p[i].Lease) {
				t.dropped(p[i].Key, at) // it voids the lease of a load, and is announced like a drop
			}
			t.look(ctx, p[i].Key)
		}
		return err
	})
	for i := range p {
		t.arrives(p[i].Key) // L1 takes the value now, however old it is
	}
	if err != nil {
		t.fails(ctx, p)
		return nil, err
	}
	return refused, nil
}

func (t *simTier) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	var leases []remote.Lease
	start := t.s.rec.Now()
	err := t.do(ctx, "Drop", batchKey(len(d), d[0].Key), func(ctx context.Context) (err error) {
		at := t.s.rec.Now()
		leases, err = t.tier.Drop(ctx, d)
		for i := range d {
			if quiet := err == nil && leases[i].Quiet && t.s.shares.announces(); !quiet { // else the Put drops
				t.dropped(d[i].Key, at)
			}
			t.onHold(d[i])
		}
		return err
	})
	for i := range d {
		t.settle(ctx, d[i].Key, start, err)
	}
	if err != nil {
		return nil, err
	}
	return leases, nil
}

// onHold excuses loads during the hold of a drop: it begins when the drop is
// carried out, which may be long after its caller has left, and elsewhere when the message
// about it arrives.
func (t *simTier) onHold(d remote.Drop) {
	if d.Hold > 0 {
		t.holds(d.Key, d.Hold+t.s.early()+t.s.o.delay)
	}
}

// holds excuses loads during a hold that lasts for another left. An instance that L2 has told
// of it counts from the answer on, which may come long after L2 has given it.
func (t *simTier) holds(key string, left time.Duration) {
	now := t.s.rec.Now()
	t.s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, Key: key, From: now, To: now + checker.Time(left) + simSlack})
}

func (t *simTier) DropAll(ctx context.Context, soft bool) error {
	start := t.s.rec.Now()
	err := t.do(ctx, "DropAll", "", func(ctx context.Context) error {
		defer t.dropped("", t.s.rec.Now())
		return t.tier.DropAll(ctx, soft)
	})
	t.settle(ctx, "", start, err)
	return err
}

func (t *simTier) DropTags(ctx context.Context, tags []string, soft bool) error {
	start := t.s.rec.Now()
	err := t.do(ctx, "DropTags", "", func(ctx context.Context) error {
		defer t.dropped("", t.s.rec.Now())
		return t.tier.DropTags(ctx, tags, soft)
	})
	for _, tag := range tags {
		t.settle(ctx, tagged+tag, start, err)
	}
	return err
}

func (t *simTier) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	var known []remote.Tag
	err := t.do(ctx, "Tags", "", func(ctx context.Context) (err error) {
		known, err = t.tier.Tags(ctx, tags)
		return err
	})
	t.arrives(t.s.o.keys...) // values with these tags go into L1 now
	if err != nil {
		return nil, err
	}
	return known, nil
}

// announcingTier is a simTier that announces its drops.
type announcingTier struct {
	*simTier
	lanes laned
}

// laned is a tier with lanes.
type laned interface {
	remote.Announcer
	simStore
}

func (t announcingTier) Announces() bool { return t.lanes.Announces() }

func (t announcingTier) Position(ctx context.Context) (remote.Position, error) {
	if t.s.o.silent && t.instance > 0 { // heartbeats without a position do not detect losses in time
		return t.lanes.Position(ctx)
	}
	var p remote.Position
	err := t.do(ctx, "Position", "-", func(ctx context.Context) (err error) {
		p, err = t.lanes.Position(ctx)
		if err != nil || !t.s.o.spread {
			return err
		}
		_ = pause(ctx, t.dice.delay())
		later, err := t.lanes.Position(ctx)
		p = spreadPosition(p, later)
		return err
	})
	if err != nil {
		return remote.Position{}, err
	}
	return p, nil
}

func (t announcingTier) Lane(key string) uint16 { return t.lanes.Lane(key) }
func (t *simTier) Recheck()                     { t.tier.Recheck() }

// Changes cannot tell, so that instances read positions often.
func (t announcingTier) Changes(context.Context) (string, error) { return "", nil }

// Probe knows of nothing to warn of.
func (t *simTier) Probe(context.Context) (warnings []string, err error) { return nil, nil }

func (t *simTier) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
	var refused bool
	err := t.do(ctx, "Extend", key, func(ctx context.Context) (err error) {
		refused, err = t.tier.Extend(ctx, key, fresh, left, l, id)
		t.look(ctx, key)
		return err
	})
	return err == nil && refused, err
}

func (t *simTier) Release(ctx context.Context, key string, l remote.Lease) error {
	// A caller may join a failed load while its lease is given back. It gets the result
	// of the other callers.
	defer t.s.members[t.instance].fail(key)
	return t.do(ctx, "Release", key, func(ctx context.Context) error { return t.tier.Release(ctx, key, l) })
}

func (t *simTier) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	var kept bool
	err := t.do(ctx, "Renew", key, func(ctx context.Context) (err error) {
		at := t.s.rec.Now()
		t.lost(key, l)
		if kept, err = t.tier.Renew(ctx, key, l, d); kept {
			t.leased(l, at, d)
		}
		return err
	})
	return err == nil && kept, err
}

// batchKey is the key that an operation is about: none in particular if there
// are several.
func batchKey(n int, first string) string {
	if n > 1 {
		return ""
	}
	return first
}

// look records the value of the tier under key now.
func (t *simTier) look(ctx context.Context, key string) {
	at := t.s.rec.Now()
	held, _ := t.truth.Get(ctx, []string{key})
	t.held(at, []string{key}, held)
}

// held records values of the tier. The answer is dated before the question: values
// dropped by then must be gone.
func (t *simTier) held(at checker.Time, keys []string, held []remote.Held) {
	for i, h := range held {
		if h.Data == nil {
			continue
		}
		data, flags, err := envelope.Open(h.Data, keys[i], t.schema)
		if flags&envelope.NotFound != 0 {
			continue
		}
		if err != nil {
			t.s.t.Errorf("seed %d: L2 holds data of %q that cannot be opened: %v", t.s.seed, keys[i], err)
			continue
		}
		value, state := t.decode(data, flags)
		if state == dropped {
			continue
		}
		if strings.HasSuffix(value, lagMark) && t.leaks(strings.TrimSuffix(value, lagMark)) {
			continue
		} else if strings.HasSuffix(value, lagMark) {
			t.s.t.Errorf("seed %d: L2 holds of %q what was loaded during a hold", t.s.seed, keys[i])
		}
		of, version := parseSimValue(strings.TrimSuffix(value, lagMark))
		r := checker.Read{Instance: checker.Shared, Key: keys[i], Of: of, Version: version, Call: at, Stale: h.Fresh <= 0 || state == stale, Final: t.s.settled.Load()}
		t.s.sees(r, value)
		t.freshFor(value, h.Fresh)
		t.s.rec.Read(r)
	}
}

// tagState is the state of a value after the drops of its tags.
type tagState uint8

const (
	fresh tagState = iota
	stale
	dropped
)

// decode returns the value in data, of any codec, and its state after the drops of
// its tags.
func (t *simTier) decode(data []byte, flags envelope.Flags) (value string, state tagState) {
	if t.s.o.tagged {
		clock, tags, payload, ok := envelope.CutTags(data)
		drops, err := t.truth.Tags(context.Background(), tags)
		if errors.Is(err, lab.ErrDead) {
			return "", dropped // as no instance can be served it
		}
		if !ok || err != nil {
			t.s.t.Errorf("seed %d: L2 holds tags that cannot be read: %v", t.s.seed, err)
		}
		for _, d := range drops {
			switch {
			case d.Dropped > clock:
				state = dropped
			case d.Expired > clock:
				state = max(state, stale)
			}
		}
		data = payload
	}
	if flags&envelope.Lived != 0 {
		_, payload, ok := envelope.CutLives(data)
		if !ok {
			t.s.t.Errorf("seed %d: L2 holds lives that cannot be read", t.s.seed)
		}
		data = payload
	}
	return strings.Trim(string(data), `"`), state
}

// dropped records that a key, or everything, was dropped since a time: one more load is
// in order, and all instances will hear of it.
func (t *simTierView) dropped(key string, since checker.Time) {
	if !t.s.shares.announces() {
		t.droppedItem(key, since)
		return
	}
	t.excuse(key)
	t.told(key)
}

// told says that all instances will hear of a drop of key.
func (t *simTierView) told(key string) {
	now, heard := t.s.rec.Now(), t.s.o.delay
	if t.s.o.spread {
		heard *= 2 // by the longer way
	}
	t.s.rec.Excuse(checker.Excuse{Instance: checker.Shared, Key: key, From: now, To: now + checker.Time(heard) + simSlack})
}

// excuse says that one more load of key is in order from now on.
func (t *simTierView) excuse(key string) (now checker.Time) {
	now = t.s.rec.Now()
	t.s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, Key: key, From: now, To: now})
	return now
}

// leased notes when a lease runs out.
func (t *simTierView) leased(l remote.Lease, at checker.Time, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leases[l.Token] = at + checker.Time(d-t.s.early())
}

// token reports whether l is the token of a drop: of a Set, an Update, or a load
// that found nothing where a value was held.
func (t *simTierView) token(l remote.Lease) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, lease := t.leases[l.Token]
	return !lease
}

// lost excuses a load because a lease has run out before it was used: the store
// arrived too late.
func (t *simTierView) lost(key string, l remote.Lease) {
	t.mu.Lock()
	end, ok := t.leases[l.Token]
	t.mu.Unlock()
	if now := t.s.rec.Now(); ok && now > end {
		t.s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, Key: key, From: end, To: now})
	}
}

// fails notes that a Put has failed. If it belongs to a call that drops, its drop is pending from
// then on, and a retry of an earlier drop that runs by then does not settle it.
func (t *simTierView) fails(ctx context.Context, p []remote.Put) {
	if ctx.Value(sinceKey{}) != nil && ctx.Value(claimKey{}) == nil {
		return // of a load
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range p {
		t.failed[p[i].Key] = t.s.rec.Now()
	}
}

// pend notes a pending drop of a call that began at the time began.
func (t *simTierView) pend(name string, began checker.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, was := t.pending[name]
	if !was {
		p = pendingDrop{began, began}
	}
	t.pending[name] = pendingDrop{min(p.since, began), max(p.last, began, t.failed[name])}
}

// settle notes that a drop is pending, or has been tried again with success:
// meanwhile this instance does without L2. Drops that a load makes for itself
// are not tried again.
func (t *simTierView) settle(ctx context.Context, key string, start checker.Time, err error) {
	if ctx.Value(sinceKey{}) != nil {
		return
	}
	called := ctx.Value(fenceKey{}) != nil // else it is a retry of a pending drop
	now := t.s.rec.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	p, was := t.pending[key]
	switch {
	case called && err != nil:
		if !was {
			p.since = now
		}
		t.pending[key] = pendingDrop{p.since, now}
		if all, ok := t.pending[""]; ok {
			t.pending[""] = pendingDrop{all.since, now}
		}
	case !called && err == nil:
		since := start // a retried drop is pending, with or without a noted beginning
		if was && p.last < start {
			delete(t.pending, key)
			since = p.since
		}
		t.s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, Key: keyOf(key), From: since, To: now + simSlack})
	}
}

// unsettled excuses loads because of drops still pending at the end.
func (t *simTierView) unsettled() {
	for key, p := range t.pending {
		t.s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, Key: keyOf(key), From: p.since, To: checker.Never})
	}
}

// tagged marks pending drops of tags. They may concern any key.
const tagged = "tag "

func keyOf(pending string) string {
	if strings.HasPrefix(pending, tagged) {
		return ""
	}
	return pending
}

// value is the value of a version of key. In schedules with large values it is so large
// that L2 need not send it to an instance that has it.
func (s *sim) value(key string, version uint64) string {
	v := key + ":" + strconv.FormatUint(version, 10)
	if s.o.large {
		v += ":" + strings.Repeat(".", 5000)
	}
	return v
}

func parseSimValue(s string) (of string, version uint64) {
	of, number, _ := strings.Cut(s, ":")
	number, _, _ = strings.Cut(number, ":")
	version, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return s, 0
	}
	return of, version
}
