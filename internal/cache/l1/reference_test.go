package l1

import (
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/testing/kit"
)

// reference is the obviously right cache: a mutex and a map. It does not choose
// entries to evict; it checks that the choices of the real cache are possible.
type reference struct {
	t  *testing.T
	mu sync.Mutex
	m  map[uint8]*Entry[uint8, int]
	// pinned has the keys of entries that must not be evicted.
	pinned map[uint8]bool
	// idle is Config.IdleTTL, and read has the times of the last reads, or the stores.
	idle time.Duration
	read map[*Entry[uint8, int]]int64
	// now is the exact time at which Notify may run.
	now func() int64
}

// lateness bounds how late the published time is.
const lateness = int64(time.Millisecond)

// ends returns the bounds of the time at which an entry ends. It needs the lock.
func (r *reference) ends(e *Entry[uint8, int]) (first, last int64) {
	if r.idle == 0 {
		return e.Dead, e.Dead
	}
	read := r.read[e]
	return min(e.Dead, After(read, r.idle/8*7)-lateness), min(e.Dead, After(read, r.idle))
}

// lives returns the same for an entry that may be nil.
func (r *reference) lives(e *Entry[uint8, int]) (first, last int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e == nil {
		return 0, 0
	}
	return r.ends(e)
}

// used notes a read of e.
func (r *reference) used(e *Entry[uint8, int]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read[e] = r.now()
}

// left is Config.Notify. It also receives the lists that methods return.
func (r *reference) left(e *Entry[uint8, int], why Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, _ := r.ends(e)
	switch {
	case why == Evicted && r.pinned[e.Key] && r.m[e.Key] == e:
		r.t.Errorf("key %d was evicted although it is pinned", e.Key)
	case why == Expired && r.now() < first:
		r.t.Errorf("key %d expired %d ns early", e.Key, first-r.now())
	case why == Replaced || why == Rejected:
		if r.m[e.Key] == e {
			r.t.Errorf("key %d is %v but was not set", e.Key, why)
		}
		return
	}
	if r.m[e.Key] == e {
		delete(r.m, e.Key)
		delete(r.pinned, e.Key)
	} else if why != Expired {
		r.t.Errorf("key %d was %v but did not hold that entry", e.Key, why)
	}
}

// set, get and forget take the lock because a store may wake the sweeper, which
// then removes dead entries while the store's step goes on.
func (r *reference) set(e *Entry[uint8, int]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.m[e.Key] = e
}

func (r *reference) get(key uint8) *Entry[uint8, int] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m[key]
}

func (r *reference) forget(key uint8) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.m, key)
	delete(r.pinned, key)
}

// fits reports whether an entry of a weight fits beside the pinned ones of other keys.
func (r *reference) fits(c *Cache[uint8, int], key uint8, weight int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	others := int64(len(r.pinned))
	if r.pinned[key] {
		others--
	}
	return evict.Counted(weight) <= c.maxWeight.Load()-others && others < c.maxEntries.Load()
}

// pin notes whether the entry of key is pinned.
func (r *reference) pin(key uint8, weight int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.pinned, key); weight == evict.Pinned {
		r.pinned[key] = true
	}
}

// unpin is for a cache with more pinned entries than its lowered bounds admit.
func (r *reference) unpin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.pinned)
}

// machine runs operations, each decoded from three bytes, on both caches.
type machine struct {
	t    *testing.T
	c    *Cache[uint8, int]
	ref  *reference
	next int
	// equal says that all entries weigh one, and undying that none has a deadline.
	equal, undying bool
	// pins says that some entries are pinned.
	pins bool
	// bound says which bounds Resize sets.
	bound kinds
}

// kinds says which bounds a cache has.
type kinds struct{ entries, weight bool }

func newMachine(t *testing.T, o Config[uint8, int]) *machine {
	m := &machine{t: t, ref: &reference{
		t: t, m: map[uint8]*Entry[uint8, int]{}, pinned: map[uint8]bool{}, idle: o.IdleTTL, read: map[*Entry[uint8, int]]int64{},
	}, bound: kinds{true, true}}
	o.Notify = m.ref.left
	m.c = New(o)
	m.ref.now = m.c.Now
	return m
}

// entry makes an entry with a new value and a life between a nanosecond and an
// hour, or forever.
func (m *machine) entry(key, life byte) *Entry[uint8, int] {
	m.next++
	lives := []time.Duration{1, time.Millisecond, 300 * time.Millisecond, time.Second, 5 * time.Second, 511 * time.Second, 513 * time.Second, time.Hour}
	dead := Forever
	if int(life) < 20*len(lives) && !m.undying {
		dead = After(m.c.Now(), lives[int(life)%len(lives)])
	}
	e := NewEntry(m.c, key, m.next, dead)
	m.ref.used(e)
	return e
}

// step does one operation and then checks everything.
func (m *machine) step(op, key, arg byte) {
	held := m.ref.get(key)
	switch op % 16 {
	case 0, 1, 2, 3:
		m.set(m.entry(key, arg), int64(arg%7))
	case 4:
		m.set(m.entry(key, arg), 1000)
	case 5, 6:
		for i := range 1 + int(arg) { // many make the clock coarse
			if i%16 == 0 {
				m.get(key)
			} else {
				m.c.Get(key) // at the same time
			}
		}
	case 7:
		m.touch(key)
	case 8:
		m.swap(held, m.entry(key, arg))
	case 9:
		m.setIf(held, m.entry(key, arg), arg%2 == 0)
	case 10:
		e, _ := m.c.Delete(key)
		if e != held {
			m.t.Fatalf("Delete(%d) = %v, want %v", key, e, held)
		}
		m.ref.forget(key)
	case 11:
		if held != nil {
			if !m.c.DeleteEntry(held) || m.c.DeleteEntry(held) {
				m.t.Fatal("DeleteEntry does not remove its entry exactly once")
			}
			m.ref.forget(key)
		}
	case 12:
		m.c.DeleteFunc(func(e *Entry[uint8, int]) bool { return e.Key%16 == key%16 })
	case 13:
		m.bulk(key, arg)
	default:
		sleeps := []time.Duration{1, 200 * time.Microsecond, 700 * time.Microsecond, 50 * time.Millisecond, time.Second, 3 * time.Second, 20 * time.Minute}
		time.Sleep(sleeps[int(arg)%len(sleeps)])
	}
	synctest.Wait() // wait for the sweeper
	validate(m.t, m.c)
	m.compare()
}

func (m *machine) set(e *Entry[uint8, int], weight int64) {
	if m.equal {
		weight = 1
	}
	if m.pins && m.next%(2+int(e.Key)%4) == 0 { // some keys more often than others
		weight = evict.Pinned
	}
	old, fits := m.ref.get(e.Key), m.ref.fits(m.c, e.Key, weight)
	held, before, store := m.c.find(m.c.hash(e.Key), e.Key), m.c.Stats(), m.c.Set
	if m.next%3 == 0 {
		store = func(e *Entry[uint8, int], weight int64) ([]Removed[uint8, int], bool) {
			return m.c.Offer(e, weight, int64(m.next%2)*m.c.Now())
		}
	}
	removed, ok := store(e, weight)
	if m.next%3 == 0 && !ok && fits && m.refused(held, removed, weight, before) {
		return
	}
	if ok != fits {
		m.t.Fatalf("Set of weight %d reports %v beside %d pinned entries", weight, ok, len(m.ref.pinned))
	}
	if ok {
		m.ref.pin(e.Key, weight)
	}
	m.stored(old, e, removed, ok)
}

// refused reports whether an entry was refused as one that the policy does without, and checks
// that nothing has changed: held is what its key had.
func (m *machine) refused(held *Entry[uint8, int], gone []Removed[uint8, int], weight int64, before Stats) bool {
	after := m.c.Stats()
	before.Rejected++
	if m.c.rest.guarded.Load() { // others may have left for the guard
		m.c.Notify(gone)
		gone, after = nil, before
	}
	return held == nil && len(gone) == 0 && weight > 2 && m.c.policy == evict.A3FIFO && m.c.weighted() && after == before
}

// stored applies a store to the reference: old must be among the removed
// entries.
func (m *machine) stored(old, e *Entry[uint8, int], gone []Removed[uint8, int], ok bool) {
	if old != nil && (!slices.ContainsFunc(gone, func(r Removed[uint8, int]) bool { return r.Entry == old })) {
		m.t.Fatalf("store over %v does not say that it left", old)
	}
	if ok {
		m.ref.set(e)
	} else {
		m.ref.forget(e.Key)
	}
	m.c.Notify(gone)
	if got := m.c.find(m.c.hash(e.Key), e.Key); ok && got != e {
		m.t.Fatalf("key %d holds %v right after the store of %v", e.Key, got, e)
	}
}

func (m *machine) get(key byte) {
	e, _ := m.c.Get(key)
	if want := m.ref.get(key); e != nil && e != want {
		m.t.Fatalf("Get(%d) = %v, want %v", key, e, want)
	}
	m.judge("Get", key, e != nil)
}

// touch reads a key without its value, and asks for its end.
func (m *machine) touch(key byte) {
	if e, _ := m.c.Peek(key); e != nil {
		first, last := m.ref.lives(e)
		if end := m.c.End(e); end < first || end > last {
			m.t.Fatalf("key %d ends at %d, want %d to %d", key, end, first, last)
		}
	}
	m.judge("Touch", key, m.c.Touch(key))
}

// judge checks whether a read of key has rightly found its entry.
func (m *machine) judge(op string, key byte, found bool) {
	want, now := m.ref.get(key), m.c.Now()
	first, last := m.ref.lives(want)
	switch {
	case !found && now < first:
		m.t.Fatalf("%s(%d) misses an entry with %d ns to live", op, key, first-now)
	case found && now-lateness > last:
		m.t.Fatalf("%s(%d) finds an entry %d ns dead", op, key, now-last)
	case found:
		m.ref.used(want)
	}
}

func (m *machine) swap(held, e *Entry[uint8, int]) {
	if held == nil {
		if m.c.Swap(e, m.entry(e.Key, 0)) {
			m.t.Fatal("Swap for an entry that never was in the cache")
		}
		return
	}
	if !m.c.Swap(held, e) || m.c.Swap(held, e) {
		m.t.Fatal("Swap does not take its entry exactly once")
	}
	m.ref.mu.Lock()
	m.ref.read[e] = m.ref.read[held]
	m.ref.mu.Unlock()
	m.ref.set(e)
}

func (m *machine) setIf(held, e *Entry[uint8, int], right bool) {
	expect, want := held, Stored
	if !m.ref.fits(m.c, e.Key, 1) {
		want = TooHeavy
	}
	if !right {
		expect = nil
		if first, _ := m.ref.lives(held); m.c.Now() < first {
			want = Lost
		}
	}
	_, last := m.ref.lives(held)
	removed, outcome := m.c.SetIf(expect, e, 1)
	if outcome != want && (outcome != Lost || right || m.c.Now() >= last) {
		m.t.Fatalf("SetIf = %d, want %d", outcome, want)
	}
	if outcome == Stored {
		m.ref.pin(e.Key, 1)
	}
	if outcome == Lost {
		m.c.Notify(removed) // entries that have left for the guard
		return
	}
	m.stored(held, e, removed, outcome == Stored)
}

func (m *machine) bulk(key, arg byte) {
	switch key % 6 {
	case 0:
		m.c.Clear()
	case 4:
		WardOf(m.c).Owe(int64(arg) % 64)
	case 5:
		WardOf(m.c).Settle()
		if d := m.c.owes(); d != (change{}) {
			m.t.Fatalf("%v is owed after Settle", d)
		}
	case 1:
		entries, weight := int64(arg), int64(arg)*3
		if !m.bound.entries {
			entries = 0
		}
		if !m.bound.weight {
			weight = 0
		}
		m.resize(entries, weight)
	case 2:
		if m.bound.entries {
			m.resize(int64(arg)+1, 0)
		}
	default:
		if n := len(m.c.Hottest(int(arg))); n > min(int(arg), len(m.ref.m)) {
			m.t.Fatalf("Hottest(%d) has %d of %d", arg, n, len(m.ref.m))
		}
	}
}

// resize changes the bounds. If the pinned entries do not fit any more, none is pinned.
func (m *machine) resize(entries, weight int64) {
	gone := m.c.Resize(entries, weight)
	if n := int64(len(m.ref.pinned)); n > m.c.maxEntries.Load() || n > m.c.maxWeight.Load() {
		m.ref.unpin()
	}
	m.c.Notify(gone)
}

// compare reads every key in both caches.
func (m *machine) compare() {
	m.ref.mu.Lock()
	defer m.ref.mu.Unlock()
	if m.c.Len() != len(m.ref.m) {
		m.t.Fatalf("%d entries, want %d", m.c.Len(), len(m.ref.m))
	}
	seen := 0
	now := m.c.Now()
	for e := range m.c.All() {
		if _, last := m.ref.ends(e); m.ref.m[e.Key] != e || now-lateness > last {
			m.t.Fatalf("All has %v, want %v", e, m.ref.m[e.Key])
		}
		seen++
	}
	for _, e := range m.ref.m {
		first, last := m.ref.ends(e)
		if now < first {
			seen--
		}
		if late := now - last; late > int64(2*time.Second) {
			m.t.Fatalf("key %d is held for %v after its end", e.Key, time.Duration(late))
		}
	}
	if seen < 0 {
		m.t.Fatalf("All lacks %d living entries", -seen)
	}
}

// TestAgreesWithReference runs random operations of all kinds.
func TestAgreesWithReference(t *testing.T) {
	for _, c := range []struct {
		name            string
		entries, weight int64
		idle            time.Duration
		operation       int
	}{
		{"one entry", 1, 0, 0, 1000},
		{"few entries", 20, 0, 0, 3000},
		{"by weight", 0, 100, 0, 3000},
		{"both bounds", 60, 150, 0, 3000},
		{"never full", 1000, 0, 0, 3000},
		{"shards", 2048, 90, 0, 3000},
		{"idle for a moment", 1000, 0, 60 * time.Millisecond, 5000},
		{"idle for seconds", 1000, 0, 7 * time.Second, 5000},
		{"idle for long", 1000, 0, time.Hour, 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t, Config[uint8, int]{MaxEntries: c.entries, MaxWeight: c.weight, IdleTTL: c.idle})
				defer m.c.Close()
				r := rand.New(rand.NewPCG(uint64(c.entries), uint64(c.weight)))
				for range c.operation {
					x := r.Uint32()
					m.step(byte(x), byte(x>>8), byte(x>>16))
				}
			})
		})
	}
}

// FuzzOps runs operations that the fuzzer chooses; three bytes each, after two for
// the bounds, one for the policy and the share that it evicts at once, and one for
// the idle life and the pinned entries.
func FuzzOps(f *testing.F) {
	f.Add([]byte{10, 0, 0, 0, 0, 1, 2, 5, 1, 255, 14, 0, 6, 5, 1, 0})
	f.Add([]byte{0, 50, 12, 3, 3, 1, 6, 3, 2, 6, 3, 3, 6, 8, 1, 4, 13, 1, 2, 14, 0, 4, 10, 3, 0})
	f.Add([]byte("0\x12118X200\"B0071B7!179"))
	f.Add([]byte{0, 4, 4, 128, 0, 3, 162, 0, 0, 161, 0, 0, 165}) // a pinned entry becomes heavy
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) < 4 || len(program) > 600 {
			return
		}
		kit.Watch(t, time.Minute)
		synctest.Test(t, func(t *testing.T) { play(t, program) })
	})
}

// play carries out a program of FuzzOps.
func play(t *testing.T, program []byte) {
	m := newMachine(t, Config[uint8, int]{
		MaxEntries: int64(program[0]), MaxWeight: int64(program[1]),
		Policy: evict.Policy(program[2] % 5), EvictShare: float64(program[2]/5) / 100,
		IdleTTL: []time.Duration{0, time.Millisecond, 100 * time.Millisecond, 5 * time.Second, 10 * time.Minute}[program[3]%5],
	})
	defer m.c.Close()
	m.pins = program[3] >= 128
	for p := program[4:]; len(p) >= 3; p = p[3:] {
		m.step(p[0], p[1], p[2])
	}
}

// programs and programSeed are for long runs of TestRandomProgramsAgreeWithReference.
var (
	programs    = flag.Int("programs", 2000, "number of random programs of operations that the cache is put through, a quarter with -short")
	programSeed = flag.Uint64("seed", 1, "the seed of these programs")
)

// TestRandomProgramsAgreeWithReference plays programs of FuzzOps at random, many times as fast as the fuzzer,
// which looks at the code that each of them reaches.
func TestRandomProgramsAgreeWithReference(t *testing.T) {
	const together = 500 // programs in one bubble
	all := kit.Rounds(*programs)
	for begun := 0; begun < all && !t.Failed(); begun += together {
		synctest.Test(t, func(t *testing.T) {
			for n := begun; n < min(all, begun+together) && !t.Failed(); n++ {
				r := rand.New(rand.NewPCG(*programSeed, uint64(n)))
				program := make([]byte, 4+3*r.IntN(1+r.IntN(150)))
				for i := range program {
					program[i] = byte(r.Uint32())
				}
				if r.IntN(2) == 0 { // small bounds, so that room is short
					program[0], program[1] = program[0]%8, program[1]%16
				}
				if play(t, program); t.Failed() {
					t.Logf("program %d of seed %d: %v", n, *programSeed, program)
				}
			}
		})
	}
}
