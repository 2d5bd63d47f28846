package cluster_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/checker"
)

// Schedules in which values have stale windows, and longest lives in L1, of their own.
// The text of a value names its windows and its life, so that each read can be judged,
// from any tier.

// ownSlack is longer than it takes to store a value, or to read it, with all delays.
const ownSlack = checker.Time(10 * time.Second)

// refusal is the error of a load that allows no stale value, which began and ended at
// some time.
type refusal struct{ began, ended checker.Time }

func (r refusal) Error() string {
	return fmt.Sprintf("no stale value will do from %v on", time.Duration(r.began))
}
func (r refusal) Unwrap() error { return errInjected }

// simOwn has the windows and the life in L1 of one value. 0 stands for the Options, less for none.
type simOwn struct {
	revalidate, onError, memory time.Duration
	nonce                       uint64 // it makes the value unique; see claims_test.go
}

// drawOwn draws the windows and the life of the next value.
func (m *member) drawOwn() (w simOwn) {
	if m.s.o.claims {
		w.nonce = m.s.marks.nonce.Add(1)
	}
	if !m.s.o.lives || m.own.chance(500) {
		return w
	}
	w.revalidate = []time.Duration{0, -1, -1, time.Millisecond, min(m.s.o.ttl, simQuiet/2)}[m.own.intn(5)] // the last reads want the newest
	w.onError = []time.Duration{0, -1, -1, time.Millisecond, 3 * time.Hour}[m.own.intn(5)]
	w.memory = []time.Duration{0, 0, 0, -1, time.Millisecond}[m.own.intn(5)]
	return w
}

// plain reports whether a value has nothing of its own.
func (w simOwn) plain() bool { return w == simOwn{} }

func (w simOwn) windows() strata.Stale {
	return strata.Stale{WhileRevalidate: w.revalidate, OnError: w.onError}
}

// say tells the load of the value.
func (w simOwn) say(l *strata.Load) {
	if w.revalidate != 0 || w.onError != 0 {
		l.SetStale(w.windows())
	}
	if w.memory != 0 {
		l.SetMemoryTTL(w.memory)
	}
}

// options are the options of a call that stores the value.
func (w simOwn) options(more ...strata.CallOption) []strata.CallOption {
	if w.revalidate != 0 || w.onError != 0 {
		more = append(more, strata.WithStale(w.windows()))
	}
	if w.memory != 0 {
		more = append(more, strata.WithMemoryTTL(w.memory))
	}
	return more
}

// ownValue is value with w in its text.
func (s *sim) ownValue(key string, version uint64, w simOwn) string {
	v := s.value(key, version)
	if w.plain() {
		return v
	}
	of, rest, _ := strings.Cut(v, ":")
	number, rest, _ := strings.Cut(rest, ":")
	return fmt.Sprintf("%s:%s:w%d,%d,%d,%d:%s", of, number, w.revalidate, w.onError, w.memory, w.nonce, rest)
}

// ownOf reads the windows and the life from the text of a value.
func ownOf(value string) (w simOwn) {
	if parts := strings.SplitN(value, ":", 4); len(parts) == 4 {
		_, _ = fmt.Sscanf(parts[2], "w%d,%d,%d,%d", &w.revalidate, &w.onError, &w.memory, &w.nonce)
	}
	return w
}

// refuses returns the error of a load that fails. In some cases the load first forbids to serve the
// previous value.
func (m *member) refuses(l *strata.Load, began checker.Time) error {
	if !m.s.o.lives || m.own.chance(500) {
		return errInjected
	}
	l.SetStale(strata.Stale{WhileRevalidate: []time.Duration{0, -1}[m.own.intn(2)], OnError: -1})
	return refusal{began, m.s.rec.Now()}
}

// marks are the facts known of values, by their texts.
type marks struct {
	nonce *atomic.Uint64

	mu     *sync.Mutex                  // guards below
	fresh  map[string]checker.Time      // the latest end of its TTL
	stored map[string]checker.Time      // when it was stored last
	got    map[gottenValue]checker.Time // when an instance had it from elsewhere last
	seen   map[string]bool              // read values
	denied map[string]bool              // values refused by Add
	taken  map[string]int               // how often it was taken
	// arrived is when an instance has got the last answer of L2 about a key, after which L1 may take a value of it.
	arrived map[gottenValue]checker.Time
	// claims are the Adds and Takes of a key, running the ones before their return.
	claims  map[string]uint64
	running map[string]int
	// late is the time until which the value of a failed write of a key may arrive.
	late map[string]checker.Time
}

// gottenValue is a value on an instance.
type gottenValue struct {
	instance int
	value    string
}

// stores notes that the instance stores the value, about now.
func (m *member) stores(value string) {
	k, now := m.s.marks, m.s.rec.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stored[value] = now
	k.fresh[value] = max(k.fresh[value], now+checker.Time(m.s.o.ttl))
	k.got[gottenValue{m.id, value}] = now
}

// freshFor notes for how long L2 has a value that the instance has stored or read.
func (t *simTierView) freshFor(value string, d time.Duration) {
	k, now := t.s.marks, t.s.rec.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fresh[value] = max(k.fresh[value], now+checker.Time(d))
	k.got[gottenValue{t.instance, value}] = now
}

// arrives notes that the instance has got an answer of L2 about keys.
func (t *simTierView) arrives(keys ...string) {
	k, now := t.s.marks, t.s.rec.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range keys {
		k.arrived[gottenValue{t.instance, key}] = now
	}
}

// expires notes that the instance has expired a key.
func (m *member) expires(f checker.Fence) {
	f.Return = m.s.rec.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expired[f.Key] = append(m.expired[f.Key], f)
}

// excuses reports whether the value of a read may be stale, as far as it has windows.
func (m *member) excuses(r *checker.Read, value string) bool {
	w := ownOf(value)
	return w.onError >= 0 && m.failedSince(r.Key, r.Call-checker.Time(11*time.Second)) || w.revalidate >= 0 && m.rebuilds(r.Call)
}

// judgeOwn fails the schedule if a stale value was served, to a call that may load, against
// its windows, or instead of a load that allows none.
func (m *member) judgeOwn(r *checker.Read, value string, info *strata.Info) {
	if !m.s.o.lives || !info.Stale {
		return
	}
	w, ttl := ownOf(value), m.s.o.ttl
	window, otherwise := w.revalidate, ttl/10
	if info.Err != nil {
		window, otherwise = w.onError, min(max(ttl, time.Minute), time.Hour)
	}
	if window == 0 {
		window = otherwise
	}
	switch late := m.lateBy(r, value, checker.Time(window)); {
	case window < 0, m.refused(r, value, info.Err):
		m.s.t.Errorf("seed %d: instance %d: read of %s called at %v got %.40s from %s, which may not be stale, instead of %v",
			m.s.seed, m.id, r.Key, time.Duration(r.Call), value, info.Tier, info.Err)
	case late > 0:
		m.s.t.Errorf("seed %d: instance %d: read of %s called at %v got %.40s from %s, %v after the end of its window, instead of %v",
			m.s.seed, m.id, r.Key, time.Duration(r.Call), value, info.Tier, time.Duration(late), info.Err)
	}
}

// refused reports whether err comes from a load that forbids the value, and the instance
// had the value when the load began.
func (m *member) refused(r *checker.Read, value string, err error) bool {
	load, ok := errors.AsType[refusal](err)
	if !ok || m.s.o.moving || r.Call < load.ended+simSlack { // it may have found the value before
		return false
	}
	k := m.s.marks
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(k.got[gottenValue{m.id, value}], k.arrived[gottenValue{m.id, r.Key}]) < load.began
}

// lateBy is the time by which the value has outlived its window at the read. The window
// begins at the end of the TTL, or when the instance has expired the key.
func (m *member) lateBy(r *checker.Read, value string, window checker.Time) (late checker.Time) {
	if m.s.o.changes > 0 { // the content of a deposed server is unknown
		return 0
	}
	k := m.s.marks
	k.mu.Lock()
	fresh, known := k.fresh[value]
	stored, ended := k.stored[value]
	k.mu.Unlock()
	if known {
		late = r.Call - fresh - window - ownSlack
	}
	if !ended { // the call that stores the value has not returned: each Expire that has is from before it
		return late
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.expired[r.Key] {
		if f.Call > stored {
			late = max(late, r.Call-f.Return-window-ownSlack)
		}
	}
	return late
}

// judgeMemory fails the schedule if L1 has served a fresh value for longer than it may have
// it.
func (m *member) judgeMemory(r *checker.Read, value string, info *strata.Info) {
	w := ownOf(value)
	if w.memory == 0 || info == nil || info.Tier != "L1" || info.Stale || info.Shared {
		return
	}
	k := m.s.marks
	k.mu.Lock()
	got := k.got[gottenValue{m.id, value}]
	k.mu.Unlock()
	if w.memory < 0 || !m.s.o.moving && m.s.o.changes == 0 && r.Call > got+checker.Time(w.memory)+ownSlack {
		m.s.t.Errorf("seed %d: instance %d: read of %s called at %v got %.40s from L1, where it came at %v",
			m.s.seed, m.id, r.Key, time.Duration(r.Call), value, time.Duration(got))
	}
}
