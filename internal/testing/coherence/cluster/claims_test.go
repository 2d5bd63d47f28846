package cluster_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/testing/checker"
	"github.com/strata-cache/strata/internal/wire/overdue"
	"github.com/strata-cache/strata/remote"
)

// Schedules in which callers also add and take. Each value of such a schedule is stored
// once: a text has a number of its own.

func newMarks() marks {
	return marks{
		nonce: new(atomic.Uint64), mu: new(sync.Mutex),
		fresh: map[string]checker.Time{}, stored: map[string]checker.Time{}, got: map[gottenValue]checker.Time{},
		seen: map[string]bool{}, denied: map[string]bool{}, taken: map[string]int{},
		arrived: map[gottenValue]checker.Time{}, claims: map[string]uint64{}, running: map[string]int{}, late: map[string]checker.Time{},
	}
}

// claimKey is where the context of an Add or a Take has its claim.
type claimKey struct{}

// claim is an Add or a Take on its way.
type claim struct {
	adds bool
	// done says that L2 has stored, or removed, a value for it.
	done atomic.Bool
}

// stepClaims makes one call that only such schedules have, or reports false.
func (m *member) stepClaims(ctx context.Context, key string, think func()) bool {
	if !m.s.o.claims {
		return false
	}
	switch n := m.own.intn(100); {
	case n < 9:
		m.add(ctx, key, think)
	case n < 18:
		m.take(ctx, key)
	default:
		return false
	}
	return true
}

// add adds a value. A stored one counts like a Set.
func (m *member) add(ctx context.Context, key string, think func()) {
	version, own, c := m.s.write(key), m.drawOwn(), &claim{adds: true}
	value := m.s.ownValue(key, version, own)
	think()
	f := checker.Fence{Instance: m.id, Key: key, Call: m.s.rec.Now(), Stores: true, Version: version}
	added, err := m.cache.Add(m.claiming(ctx, c, key, f.Call), key, value, own.options(strata.WithTags(m.s.o.tags(key)...))...)
	m.stores(value)
	m.claimed(ctx, key, f.Call, err)
	m.s.notef("instance %d: Add of %.40s: %t, %v", m.id, value, added, err)
	f.Failed, f.Unsure = err != nil, err != nil || m.s.mayArrive(key, f.Call)
	switch {
	case err != nil:
	case !added:
		m.s.denies(value)
		return
	case !c.done.Load():
		m.s.t.Errorf("seed %d: instance %d: L2 has not stored %.40s, which was added at %v", m.s.seed, m.id, value, time.Duration(f.Call))
	}
	m.s.rec.Fence(f)
}

// take takes a value: a read that is also like an Invalidate.
func (m *member) take(ctx context.Context, key string) {
	c, began := &claim{}, m.s.rec.Now()
	value, ok, err := m.cache.Take(m.claiming(ctx, c, key, began), key)
	m.claimed(ctx, key, began, err)
	m.s.notef("instance %d: Take: %.40s, %t, %v", m.id, value, ok, err)
	if !ok {
		return
	}
	if !c.done.Load() {
		m.s.t.Errorf("seed %d: instance %d: L2 has not removed %.40s, which was taken at %v", m.s.seed, m.id, value, time.Duration(began))
	}
	m.gotten(checker.Read{Instance: m.id, Key: key, Call: began}, value, nil)
	m.s.rec.Fence(checker.Fence{Instance: m.id, Key: key, Call: began, Failed: err != nil, Unsure: m.s.mayArrive(key, began)})
	m.taken(value, err)
}

// claiming returns ctx for an Add or a Take. Drops on its way are not tried again.
func (m *member) claiming(ctx context.Context, c *claim, key string, began checker.Time) context.Context {
	m.s.marks.mu.Lock()
	defer m.s.marks.mu.Unlock()
	m.s.marks.claims[key]++
	m.s.marks.running[key]++
	return context.WithValue(context.WithValue(ctx, sinceKey{}, began), claimKey{}, c)
}

// claimed checks the error of an Add or a Take. After an error its drop may be pending. The
// call takes the right to store from running loads, so one more load is in order.
func (m *member) claimed(ctx context.Context, key string, began checker.Time, err error) {
	if _, remote := errors.AsType[*strata.RemoteError](err); remote {
		m.tier.pend(key, began)
	} else if err != nil && !errors.Is(err, overdue.Err(ctx)) {
		m.s.t.Errorf("seed %d: an Add or a Take returned %v", m.s.seed, err)
	}
	m.s.rec.Excuse(checker.Excuse{Instance: m.id, Key: key, From: began, To: m.s.rec.Now()})
	m.s.marks.mu.Lock()
	defer m.s.marks.mu.Unlock()
	m.s.marks.running[key]--
}

// overlaps reports whether an Add or a Take of key ran at some time since it was called first.
// An Add does not void the token of an Update. The value of the Update then replaces the value
// of the Add, as the value of an overlapping Set does.
func (s *sim) overlaps(key string) (since func() bool) {
	k := s.marks
	k.mu.Lock()
	defer k.mu.Unlock()
	claims, running := k.claims[key], k.running[key]
	return func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return running > 0 || k.claims[key] > claims
	}
}

// For how long the value of a Set, or of an Update, may still arrive after the call has failed: the
// token of its drop is good for so long.
const (
	setArrives    = checker.Time(10 * time.Second)
	updateArrives = setArrives + checker.Time(time.Minute)
)

// writes notes a Set or an Update of key. If it has failed its value may arrive for some time.
func (s *sim) writes(key string, err error, arrives checker.Time) {
	if err == nil {
		return
	}
	s.marks.mu.Lock()
	defer s.marks.mu.Unlock()
	s.marks.late[key] = max(s.marks.late[key], s.rec.Now()+arrives)
}

// mayArrive reports whether the value of a failed Set or Update may have replaced the value of an
// Add, or come after a Take: neither voids the token of the failed write.
func (s *sim) mayArrive(key string, began checker.Time) bool {
	s.marks.mu.Lock()
	defer s.marks.mu.Unlock()
	return s.marks.late[key] > began
}

// denies notes that a value was not added.
func (s *sim) denies(value string) {
	s.marks.mu.Lock()
	defer s.marks.mu.Unlock()
	s.marks.denied[value] = true
}

// taken notes that a value was taken: from now on it is old, like a value with a later version
// that was dropped.
func (m *member) taken(value string, err error) {
	if m.s.o.changes > 0 {
		return // each of two servers may give it away
	}
	k := m.s.marks
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.taken[value]++; k.taken[value] > 1 {
		m.s.t.Errorf("seed %d: instance %d has taken %.40s, which was taken before", m.s.seed, m.id, value)
		return
	}
	m.s.rec.Write(value, 1)
	m.s.rec.Fence(checker.Fence{Instance: m.id, Key: value, Call: m.s.rec.Now(), Failed: err != nil})
}

// sees notes a read of a value, by an instance or of the tier.
func (s *sim) sees(r checker.Read, value string) {
	if ownOf(value).nonce == 0 {
		return
	}
	s.marks.mu.Lock()
	defer s.marks.mu.Unlock()
	s.marks.seen[value] = true
	if s.marks.taken[value] > 0 {
		r.Key, r.Of, r.Version, r.Past = value, value, 0, false
		s.rec.Read(r)
	}
}

// endClaims fails the schedule if a read returned the value of a refused Add.
func (s *sim) endClaims() {
	for value := range s.marks.denied {
		if s.marks.seen[value] {
			s.t.Errorf("seed %d: %.40s was not added, and was read", s.seed, value)
		}
	}
}

// freshNow is the fresh value of the key of an Add in L2, or "". It is unknown here whether
// an instance takes a value with tags for fresh.
func (t *simTier) freshNow(ctx context.Context, p []remote.Put) string {
	if c, _ := ctx.Value(claimKey{}).(*claim); c == nil || !c.adds || t.s.shares != announced || t.s.o.tagged {
		return ""
	}
	held, err := t.truth.Get(ctx, []string{p[0].Key})
	if err != nil || held[0].Data == nil || held[0].Fresh <= 0 {
		return ""
	}
	data, flags, err := envelope.Open(held[0].Data, p[0].Key, t.schema)
	if err != nil || flags&envelope.NotFound != 0 {
		return ""
	}
	if value, state := t.decode(data, flags); state == fresh {
		return strings.Clone(value)
	}
	return ""
}

// claims notes that L2 has carried out the Put of an Add or a Take. An Add replaces no fresh
// value: another write would have voided its lease.
func (t *simTier) claims(ctx context.Context, was string, refused []int, err error) {
	c, _ := ctx.Value(claimKey{}).(*claim)
	if c == nil || err != nil || len(refused) > 0 {
		return
	}
	c.done.Store(true)
	if was != "" {
		t.s.t.Errorf("seed %d: instance %d: an Add has replaced %.40s, which was fresh", t.s.seed, t.instance, was)
	}
}
