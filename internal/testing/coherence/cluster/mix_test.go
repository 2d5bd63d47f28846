package cluster_test

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/checker"
)

// Schedules in which callers also ask past the cache or one of its tiers, for stale
// values, for many keys at once with a loader that returns all, make updates that fail,
// store "not found", and put keys on hold; in which
// entries have their tags from the load or from Options.Tags; and in which loads
// without callers continue or not, and loads of single keys wait for each other or not.

// mixes sets the options of such a schedule.
func (o *simOptions) mixes(d *dice) {
	o.mixing = true
	o.keys, o.steps = []string{"a", "b", "c"}, o.steps+2
	o.tagged, o.cancels = d.chance(600), d.chance(300)
	// An instance without news of a hold, or an L2 that lost the hold, may store loads
	// during it: see docs/decisions/agreement.md.
	o.holds = d.chance(600) && !o.silent
	if o.holds {
		o.cuts, o.accidents, o.garbled, o.breaker = 0, 0, false, false
	}
	if d.chance(400) {
		o.gathers = []time.Duration{time.Nanosecond, 10 * time.Microsecond, time.Millisecond}[d.intn(3)]
	}
}

// loader gives the cache of a member its Loader. In schedules that gather loads it is a
// ManyLoader, of two keys at most when they wait long enough for others.
func (m *member) loader(o *strata.Options[string, string]) {
	if m.s.o.gathers == 0 {
		o.Loader = m.load
		return
	}
	o.ManyLoader, o.BatchWait, o.BatchSize = m.loadMany, m.s.o.gathers, 2
}

// skipKey marks the contexts of calls that ask past the cache. manyKey marks the
// contexts of calls that ask for many keys at once.
type (
	skipKey struct{}
	manyKey struct{}
)

// stepMixed makes one call that only such schedules have, or reports false.
func (m *member) stepMixed(ctx context.Context, d *dice, key string, think func()) bool {
	if !m.s.o.mixing {
		return false
	}
	marked := context.WithValue(ctx, fenceKey{}, true)
	switch n := d.intn(20); {
	case n < 4:
		m.readPast(ctx, key)
	case n < 8:
		m.readMany(ctx, d)
	case n < 10:
		m.updateInVain(marked, key, think)
	case n < 12 && m.s.o.holds:
		m.hold(marked, key, d.delay(), think)
	case n == 12:
		m.readOnly(ctx, key, strata.AllowStale())
	case n == 13:
		m.readOnly(ctx, key, strata.AllowStale(), strata.NoRemote())
	case n == 14:
		m.passTier(ctx, key, strata.NoMemory())
	case n == 15:
		m.passTier(ctx, key, strata.NoRemote())
	case n == 16:
		m.setNotFound(ctx, d, key, think)
	case n == 17:
		m.refresh(ctx, d)
	default:
		return false
	}
	return true
}

// setNotFound stores for a short time that key has no value. It replaces a value loaded
// meanwhile, so that the key is loaded again at the end of that time.
func (m *member) setNotFound(ctx context.Context, d *dice, key string, think func()) {
	m.s.write(key)
	think()
	began := m.s.rec.Now()
	m.fence(ctx, checker.Fence{Key: key}, func(ctx context.Context) error {
		return m.cache.SetNotFound(ctx, key, strata.WithTTL(max(1, d.delay())), strata.WithTags(m.s.o.tags(key)...))
	})
	m.s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, Key: key, From: began, To: m.s.rec.Now()})
}

// readPast reads key past the cache. If L2 does not take the value, the entry of L2 is
// expired later, at a time unknown here, and is not used until then. L2 is not even
// asked while a drop of the key is pending.
func (m *member) readPast(ctx context.Context, key string) {
	r := checker.Read{Instance: m.id, Key: key, Call: m.s.rec.Now(), Past: true}
	defer m.asks(key, r.Call)()
	ctx = context.WithValue(context.WithValue(ctx, sinceKey{}, r.Call), skipKey{}, true)
	pending := m.cache.Stats().Pending
	value, err := m.cache.GetOrLoad(ctx, key, nil, strata.SkipRead())
	if pending+m.cache.Stats().Pending > 0 {
		m.s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, Key: key, From: r.Call, To: checker.Never})
	}
	if m.verify(ctx, key, err); err == nil {
		m.gotten(r, value, nil)
	}
}

// readOnly reads key without a load. It takes stale values, too.
func (m *member) readOnly(ctx context.Context, key string, opts ...strata.CallOption) {
	r := checker.Read{Instance: m.id, Key: key, Call: m.s.rec.Now()}
	defer m.asks(key, r.Call)()
	var info strata.Info
	before := m.cache.Stats()
	value, ok := m.cache.Get(ctx, key, append(opts, strata.ReadInfo(&info))...)
	after := m.cache.Stats()
	if !ok {
		return
	}
	r.Degraded = info.Degraded || !before.Connected || !after.Connected || before.Degraded != after.Degraded
	r.Stale = info.Stale
	m.gotten(r, value, &info)
}

// passTier gets key from one tier or the origin. The load may be needless, because the
// other tier may have the value. The other tier may not get the loaded value.
func (m *member) passTier(ctx context.Context, key string, past strata.CallOption) {
	r := checker.Read{Instance: m.id, Key: key, Call: m.s.rec.Now()}
	defer m.asks(key, r.Call)()
	var info strata.Info
	before := m.cache.Stats()
	value, err := m.cache.GetOrLoad(context.WithValue(ctx, sinceKey{}, r.Call), key, nil, past, strata.ReadInfo(&info))
	after := m.cache.Stats()
	m.s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, Key: key, From: r.Call, To: m.s.rec.Now()})
	if m.verify(ctx, key, err); err != nil {
		return
	}
	r.Degraded = info.Degraded || !before.Connected || !after.Connected
	m.judgeOwn(&r, value, &info)
	r.Stale = info.Stale && m.excuses(&r, value)
	m.gotten(r, value, &info)
}

// readMany reads some keys at once, with a loader that brings all.
func (m *member) readMany(ctx context.Context, d *dice) {
	r := checker.Read{Instance: m.id, Call: m.s.rec.Now()}
	keys := m.s.o.keys[:1+d.intn(len(m.s.o.keys))]
	for _, key := range keys {
		defer m.asks(key, r.Call)()
	}
	before := m.cache.Stats()
	ctx = context.WithValue(context.WithValue(ctx, sinceKey{}, r.Call), manyKey{}, true)
	values, err := m.cache.GetMany(ctx, keys, m.loadMany)
	after := m.cache.Stats()
	r.Degraded = !before.Connected || !after.Connected || before.Degraded != after.Degraded
	if partial, ok := errors.AsType[*strata.PartialError[string]](err); ok {
		for key, err := range partial.Failed {
			m.verify(ctx, key, err)
		}
	} else if err != nil {
		m.s.t.Errorf("seed %d: GetMany: %v", m.s.seed, err)
	}
	if ctx.Err() != nil {
		for _, key := range keys {
			m.verify(ctx, key, nil)
		}
	}
	for key, value := range values {
		r.Key = key
		r.Stale = m.excuses(&r, value)
		m.gotten(r, value, nil)
	}
}

// gotten records the value of a read, unless it was loaded during a hold: then it is
// only for the callers of that load. A refused store takes its time.
func (m *member) gotten(r checker.Read, value string, info *strata.Info) {
	value, lagged := strings.CutSuffix(value, lagMark)
	r.Of, r.Version = parseSimValue(value)
	m.judgeMemory(&r, value, info)
	m.s.sees(r, value)
	if !lagged {
		m.s.rec.Read(r)
		return
	}
	if m.lagged(&r, value, info); m.s.shares == primaries {
		return
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if last := m.s.lagged[r.Key] + checker.Time(3*time.Second); r.Call > last && m.s.lagging[r.Key] == 0 {
		m.s.t.Errorf("seed %d: instance %d: read of %s called at %v got what was loaded during a hold", m.s.seed, m.id, r.Key, time.Duration(r.Call))
	}
}

// refresh starts refreshes of some keys. The loads go on after its return. They are not
// needless, though the values are fresh.
func (m *member) refresh(ctx context.Context, d *dice) {
	began := m.s.rec.Now()
	ctx = context.WithValue(context.WithValue(ctx, sinceKey{}, began), manyKey{}, true)
	keys := m.s.o.keys[:1+d.intn(len(m.s.o.keys))]
	if err := m.cache.Refresh(ctx, keys...); err != nil && ctx.Err() == nil {
		m.s.t.Errorf("seed %d: Refresh: %v", m.s.seed, err)
	}
	for _, key := range keys {
		m.s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, Key: key, From: began, To: m.s.rec.Now()})
	}
}

// updateInVain makes an Update with a write that takes effect and returns an error. The
// caller is not told whether the drop after it was confirmed: the drop binds its own
// instance.
func (m *member) updateInVain(ctx context.Context, key string, think func()) {
	f := checker.Fence{Instance: m.id, Key: key, Failed: true}
	began := m.s.rec.Now()
	err := m.cache.Update(ctx, key, func(context.Context) (string, error) {
		f.Version = m.s.write(key)
		f.Call = m.s.rec.Now()
		think()
		return "", errInjected
	})
	if !errors.Is(err, errInjected) {
		m.s.t.Errorf("seed %d: an Update in vain returned %v", m.s.seed, err)
	}
	if ctx.Err() != nil {
		m.tier.pend(key, began)
	}
	m.s.rec.Excuse(checker.Excuse{Instance: m.id, Key: key, From: began, To: m.s.rec.Now()})
	m.s.rec.Fence(f)
}

// hold puts key on hold. While that lasts the origin's replicas lag behind.
func (m *member) hold(ctx context.Context, key string, d time.Duration, think func()) {
	m.s.write(key)
	think()
	var end time.Time
	m.fence(ctx, checker.Fence{Key: key}, func(ctx context.Context) error {
		end = time.Now().Add(d)
		ends := m.s.rec.Now() + checker.Time(d)
		err := m.cache.InvalidateHold(ctx, d, key)
		if err == nil {
			m.tier.tell(key, ends)
		}
		m.s.mu.Lock()
		defer m.s.mu.Unlock()
		if err == nil && end.After(m.s.held[key]) {
			m.s.held[key] = end
		}
		return err
	})
	// No instance gets a lease or stores a load.
	now := m.s.rec.Now()
	m.s.rec.Excuse(checker.Excuse{Cluster: true, Instance: checker.Shared, Key: key, From: now - checker.Time(d), To: now + checker.Time(d+m.s.early()+2*m.s.o.delay) + simSlack})
}

// lagMark ends a value of a replica that lags behind.
const lagMark = "~"

// replica reads the origin as loads do: a value that lags behind is marked.
func (m *member) replica(key string) (version uint64, lags bool, done func()) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	version = m.s.origin[key]
	if lags = version > 0 && time.Now().Before(m.s.held[key]); !lags {
		return version, false, func() {}
	}
	m.s.lagging[key]++
	m.s.lags[m.s.value(key, version-1)] = m.s.rec.Now()
	return version - 1, true, func() {
		at := m.s.rec.Now()
		m.s.mu.Lock()
		defer m.s.mu.Unlock()
		m.s.lagging[key]--
		m.s.lagged[key] = max(m.s.lagged[key], at)
	}
}

// loadMany is the ManyLoader of readMany, and of schedules that gather loads: it brings
// all keys.
func (m *member) loadMany(ctx context.Context, keys []string) (map[string]string, error) {
	since, _ := ctx.Value(sinceKey{}).(checker.Time)
	found := map[string]string{}
	loads, owns := map[string]checker.Load{}, map[string]simOwn{}
	for _, key := range m.s.o.keys {
		l := checker.Load{Instance: m.id, Key: key, Since: m.askedFor(key, since), Call: m.s.rec.Now()}
		version, lags, done := m.replica(key)
		defer done()
		l.Version, l.OK = version, !lags
		loads[key], found[key] = l, m.s.value(key, version)
		if own := m.drawOwn(); !own.plain() && !lags {
			found[key], owns[key] = m.s.ownValue(key, version, own), own
		}
		strata.LoadingKey(ctx, key).SetTags(m.s.o.tags(key)...)
		if lags {
			found[key] += lagMark
		}
	}
	err := pause(ctx, m.dice.delay())
	if err == nil && m.s.faulty.Load() && m.dice.chance(60) {
		err = m.refuses(strata.Loading(ctx), loads[keys[0]].Call)
	}
	for key, own := range owns {
		if err == nil {
			own.say(strata.LoadingKey(ctx, key))
		}
	}
	for _, value := range found {
		m.stores(value)
	}
	for _, key := range keys {
		l := loads[key]
		if l.OK = l.OK && err == nil; err != nil {
			m.fail(key)
		}
		m.s.rec.Load(l)
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}
