package cluster_test

import (
	"context"
	"errors"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/checker"
)

// sinceKey is where a call's context says when the call began, so that a load
// knows when it was asked for.
type sinceKey struct{}

// fenceKey marks the contexts of calls that drop.
type fenceKey struct{}

// client makes calls, one after the other, in the schedule's bubble.
func (m *member) client(d *dice) {
	for range m.s.o.steps {
		time.Sleep(d.delay())
		_ = m.route.paused.pass(context.Background())
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if d.chance(150) { // a caller that does not wait for ever
			ctx, cancel = context.WithTimeout(ctx, d.delay())
		}
		m.step(ctx, d, m.s.o.keys[d.intn(len(m.s.o.keys))])
		cancel()
		if d.chance(10) {
			time.Sleep(25 * time.Second)
		}
	}
}

// step, in the bubble, makes one call, or a write at the origin and the call that tells of it.
func (m *member) step(ctx context.Context, d *dice, key string) {
	marked := context.WithValue(ctx, fenceKey{}, true)
	think := func() {
		if d.chance(300) {
			time.Sleep(d.delay())
		}
	}
	if m.stepMixed(ctx, d, key, think) || m.stepIdle(d) || m.stepMoves(ctx, d) || m.stepTune(d) || m.stepClaims(ctx, key, think) {
		return
	}
	n, writes := d.intn(105), 500
	if m.s.o.expiring && d.chance(900) { // so that an expired value is often still current
		n, writes = []int{0, 0, 0, 90, 90, 84}[d.intn(6)], 300
	}
	if n >= 96 && n < 100 && m.s.o.changes > 0 && !m.sweep() {
		n = 0
	}
	if m.s.o.sweeping && d.chance(200) && m.sweeps.Add(1) <= 4 { // more are a flood, and put off
		n = 96
	}
	if m.s.o.failing && d.chance(800) {
		n = m.stepFailing(d)
	}
	if m.s.o.silent && m.id == 0 && d.chance(m.s.o.reads) { // it is to serve its own entries
		n = 0
	}
	switch {
	case n >= 100:
		m.stepWide(marked, d, key, think)
	case n < 50:
		m.read(ctx, key, true, false)
	case n < 65:
		m.read(ctx, key, false, false)
	case n < 80:
		if d.chance(900) {
			m.s.write(key)
			think()
		}
		m.fence(ctx, checker.Fence{Key: key}, func(ctx context.Context) error { return m.cache.Invalidate(ctx, key) })
	case n < 84:
		m.update(marked, key, think)
	case n < 90:
		version := m.s.write(key)
		think()
		own := m.drawOwn()
		value := m.s.ownValue(key, version, own)
		m.fence(ctx, checker.Fence{Key: key, Stores: true, Version: version}, func(ctx context.Context) error {
			defer m.stores(value)
			return m.cache.Set(ctx, key, value, own.options(strata.WithTags(m.s.o.tags(key)...))...)
		})
	case n < 96:
		if d.chance(writes) {
			m.s.write(key)
			think()
		}
		m.fence(ctx, checker.Fence{Key: key, Soft: true}, func(ctx context.Context) error { return m.cache.Expire(ctx, key) })
	default:
		m.writeAll(think)
		m.fence(ctx, checker.Fence{}, func(ctx context.Context) error { return m.cache.InvalidateAll(ctx) })
	}
}

// stepWide, in the bubble, makes one call about tags, many keys or everything.
func (m *member) stepWide(ctx context.Context, d *dice, key string, think func()) {
	f := checker.Fence{Key: key, Soft: d.chance(400)}
	switch n := d.intn(4); {
	case n == 0 && (!m.s.o.failing && m.s.o.changes == 0 || m.sweep()):
		f = checker.Fence{Soft: true}
		m.writeAll(think)
		m.s.allExpired.Store(int64(m.s.rec.Now()))
		m.fence(ctx, f, func(ctx context.Context) error { return m.cache.ExpireAll(ctx) })
	case n == 1 && m.s.o.tagged:
		f.Key, f.Tags = "", true
		m.writeAll(think)
		m.fence(ctx, f, func(ctx context.Context) error { return m.dropTag(ctx, "all", f.Soft) })
	case n == 2 && m.s.o.tagged:
		f.Tags = true
		m.s.write(key)
		think()
		m.fence(ctx, f, func(ctx context.Context) error { return m.dropTag(ctx, "of "+key, f.Soft) })
	default:
		m.setMany(ctx, key, think)
	}
}

// writeAll writes all keys at the origin.
func (m *member) writeAll(think func()) {
	for _, key := range m.s.o.keys {
		m.s.write(key)
	}
	think()
}

// dropTag drops a tag.
func (m *member) dropTag(ctx context.Context, tag string, soft bool) error {
	if soft {
		return m.cache.ExpireTags(ctx, tag)
	}
	return m.cache.InvalidateTags(ctx, tag)
}

// setMany sets all keys, or one key with its tags. After a failure it is unknown which
// of them were stored: then the call counts as a failed Set of each.
func (m *member) setMany(ctx context.Context, key string, think func()) {
	keys := m.s.o.keys
	if m.s.o.tagged {
		keys = []string{key}
	}
	values, versions, own := map[string]string{}, map[string]uint64{}, m.drawOwn()
	for _, key := range keys {
		versions[key] = m.s.write(key)
		values[key] = m.s.ownValue(key, versions[key], own)
	}
	think()
	began := m.s.rec.Now()
	err := m.cache.SetMany(ctx, values, own.options(strata.WithTags(m.s.o.tags(key)...))...)
	for key, v := range versions {
		m.stores(values[key])
		m.verifyDrop(err, key, began)
		m.s.writes(key, err, setArrives)
		m.s.rec.Fence(checker.Fence{Instance: m.id, Key: key, Call: began, Stores: true, Version: v, Failed: err != nil})
	}
}

// update makes an Update. When it returns, the cache promises the same as after an Invalidate that
// was called right after the write.
func (m *member) update(ctx context.Context, key string, think func()) {
	f := checker.Fence{Instance: m.id, Key: key}
	began := m.s.rec.Now()
	own, value, overlaps := m.drawOwn(), "", m.s.overlaps(key)
	err := m.cache.Update(ctx, key, func(ctx context.Context) (string, error) {
		f.Version = m.s.write(key)
		f.Call = m.s.rec.Now()
		think()
		own.say(strata.Loading(ctx))
		value = m.s.ownValue(key, f.Version, own)
		return value, nil
	}, strata.WithTags(m.s.o.tags(key)...))
	f.Failed, f.Stores = err != nil, overlaps()
	m.s.writes(key, err, updateArrives)
	m.stores(value)
	m.verifyDrop(err, key, began)
	// Joining ends with the drop that it begins with.
	m.s.rec.Excuse(checker.Excuse{Instance: m.id, Key: key, From: began, To: m.s.rec.Now()})
	m.s.rec.Fence(f)
}

// fence makes a call that makes old values go.
func (m *member) fence(ctx context.Context, f checker.Fence, call func(ctx context.Context) error) {
	f.Instance, f.Call = m.id, m.s.rec.Now()
	err := call(context.WithValue(ctx, fenceKey{}, true))
	f.Failed = err != nil
	if f.Stores {
		m.s.writes(f.Key, err, setArrives)
	}
	pending := f.Key
	switch {
	case f.Tags && f.Key == "":
		pending = tagged + "all"
	case f.Tags:
		pending = tagged + "of " + f.Key
	}
	m.verifyDrop(err, pending, f.Call)
	m.s.rec.Fence(f)
	if f.Soft && !f.Tags && f.Key != "" && !f.Failed {
		m.expires(f)
	}
}

// verifyDrop checks the error of a call that drops, and notes that its drop is
// pending from then on: the tier is not asked for a drop after its caller has left.
func (m *member) verifyDrop(err error, name string, began checker.Time) {
	if _, remote := errors.AsType[*strata.RemoteError](err); remote {
		m.tier.pend(name, began)
	} else if err != nil {
		m.s.t.Errorf("seed %d: a call that drops returned %v", m.s.seed, err)
	}
}

// read reads key, with a Loader or without.
func (m *member) read(ctx context.Context, key string, loads, final bool) {
	r := checker.Read{Instance: m.id, Key: key, Call: m.s.rec.Now(), Final: final}
	defer m.asks(key, r.Call)()
	var value string
	var ok bool
	var err error
	var info strata.Info
	before := m.cache.Stats()
	if loads {
		opts := []strata.CallOption{strata.ReadInfo(&info)}
		if !m.s.o.mixing { // else the load names them
			opts = append(opts, strata.WithTags(m.s.o.tags(key)...))
		}
		value, err = m.cache.GetOrLoad(context.WithValue(ctx, sinceKey{}, r.Call), key, nil, opts...)
		ok = err == nil
	} else {
		value, ok = m.cache.Get(ctx, key)
	}
	after := m.cache.Stats()
	r.Degraded = info.Degraded || !before.Connected || !after.Connected || !loads && before.Degraded != after.Degraded
	m.verify(ctx, key, err)
	if !ok {
		return
	}
	// A failure is remembered, for ten seconds at most.
	// A value expired with everything is served while it is refreshed.
	m.judgeOwn(&r, value, &info)
	r.Stale = loads && info.Stale && m.excuses(&r, value)
	m.gotten(r, value, &info)
}

// rebuilds reports whether everything was expired lately, as seen from anywhere.
func (m *member) rebuilds(now checker.Time) bool {
	at := checker.Time(m.s.allExpired.Load())
	return at != 0 && now < at+checker.Time(m.s.o.ttl/10+strata.UnconfirmedTTL)+simSlack
}

// verify checks the error of a read. In schedules in which a load ends with its last caller it
// notes the callers that left: such a load is not joined.
func (m *member) verify(ctx context.Context, key string, err error) {
	if m.s.o.cancels && ctx.Err() != nil {
		now := m.s.rec.Now()
		m.s.rec.Excuse(checker.Excuse{Instance: m.id, Key: key, From: now - simSlack, To: now})
	}
	_, panicked := errors.AsType[*strata.LoadPanicError](err)
	switch {
	case m.s.o.hard > 0 && errors.Is(err, context.DeadlineExceeded):
	case err == nil, panicked, errors.Is(err, errInjected), errors.Is(err, strata.ErrNotFound), ctx.Err() != nil && errors.Is(err, ctx.Err()):
	default:
		m.s.t.Errorf("seed %d: GetOrLoad: %v", m.s.seed, err)
	}
}
