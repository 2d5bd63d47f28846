// Package guard makes caches smaller while the heap of the process is too large.
//
// A look compares the live heap with a ceiling, and lets the coldest caches owe what is too much.
// Their next stores evict that, and a goroutine of the guard does. So the goroutines that fill a cache
// pay, however few processors there are.
//
// The live heap is known only after a garbage collection, and evicting frees nothing before the next one: a
// guard that acts by the clock evicts all before the first eviction shows. So there is at most one
// look in a cycle of the collector. An eviction shows in the collection that begins after it; the
// one that ends next may have begun before. Until then a look takes the bytes owed off the live heap.
//
// Two things begin a look: a store of a cache, of which one in 64 asks whether a collection has
// ended, and the collector, which finds an object that nothing refers to, the sentinel. The first one is
// prompt, the second one sees what grows without stores. No timer and no goroutine waits, and a process without
// collections has no looks.
package guard

import (
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// Cache is a cache that a guard can make smaller. Its units are what its bound counts.
type Cache interface {
	// Usage returns the units that may be evicted, and the hits since the cache was made.
	Usage() (units int64, hits uint64)
	// Shed returns how many entries and units debts have evicted since the cache was made.
	Shed() (entries, units int64)
	// Owe makes stores and Settle evict so many units, in place of what was owed before.
	Owe(units int64)
	// Settle evicts what is owed.
	Settle()
	// Guarded makes some stores call poke. With nil the cache has no guard any more.
	Guarded(poke func())
}

// Options of a guard.
type Options struct {
	// Limit is the limit of the memory of the process; 0 to find one.
	Limit int64
	// Share is the part of the limit that the live heap may have, if the collector keeps to the limit.
	Share float64
	// Logger gets a line for each episode.
	Logger *slog.Logger
}

// Stats are the numbers of a guard.
type Stats struct {
	// Limit is the limit of the memory of the process; 0 for none. Source says where it is from.
	Limit  int64
	Source string
	// Ceiling is the live heap from which the guard evicts. Heap is the live heap at the last look.
	Ceiling, Heap int64
	// Episodes counts times of too large a heap, Evicted the entries, EvictedBytes their bytes as far as
	// they are known.
	Episodes, Evicted, EvictedBytes uint64
	// Active is whether an episode is on. Exhausted is whether there was nothing left to evict at
	// the last look.
	Active, Exhausted bool
}

// Guard is a guard, with the floor of one cache. A nil Guard and the zero Guard guard nothing.
type Guard struct {
	state *state
	floor int64
}

// guards reports whether g guards anything.
func (g *Guard) guards() bool { return g != nil && g.state != nil }

// state is what the Guards of one New share.
type state struct {
	o    Options
	read func() reading // the memory
	// listens says that the collector begins looks, too. It is written once.
	listens bool

	mu      sync.Mutex // guards below
	members []*member
	stats   Stats
	closed  bool
	pending runtime.Cleanup
	work    sync.WaitGroup // goroutines

	settling sync.Mutex

	looking sync.Mutex   // guards below, but for next
	next    atomic.Int64 // before this time there is no look, in nanoseconds since start
	start   time.Time
	looker
}

// New returns a guard that looks from now on. It runs a collection: the last one may be long ago.
func New(o Options) *Guard {
	runtime.GC()
	s := newState(o, os.DirFS("/"), readRuntime)
	s.listens = true
	s.arm()
	return &Guard{state: s}
}

// newState returns the state of a guard that does not listen to the collector.
func newState(o Options, files fs.FS, read func() reading) *state {
	s := &state{o: o, read: read, start: time.Now()}
	s.limits.files = files
	r := read()
	s.last, s.cycles, s.expected = s.start, r.cycles, float64(r.live)
	s.acted = r.cycles - shows
	s.setLimit(s.start, r)
	switch s.stats.Source {
	case "":
		s.o.Logger.Warn("memory: the guard knows no limit, and evicts nothing: set GOMEMLIMIT, or Limit of its options")
	case fromGroup:
		s.o.Logger.Warn("memory: the collector does not know the limit of the cgroup, so caches get less of it: set GOMEMLIMIT to nine tenths of it",
			slog.Int64("limit", s.stats.Limit))
	}
	return s
}

// WithFloor returns the same guard for a cache that keeps at least so many units.
func (g *Guard) WithFloor(units int64) *Guard {
	if !g.guards() {
		return g
	}
	return &Guard{g.state, max(0, units)}
}

// Watch gives a cache to a guard, which keeps no cache alive, and returns a function that takes the cache
// from the guard again. exact says that its units are bytes.
func Watch[T any, C interface {
	*T
	Cache
}](g *Guard, c C, exact bool) (leave func()) {
	if !g.guards() {
		return func() {}
	}
	w := weak.Make((*T)(c))
	m := newMember(g.floor, exact, func() Cache {
		if c := w.Value(); c != nil {
			return C(c)
		}
		return nil
	})
	if g.state.add(m) {
		m.begin(c, g.state.poked)
	}
	return func() {
		g.state.remove(m)
		m.end()
	}
}

// add adds a member, unless the guard is closed.
func (s *state) add(m *member) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.members = append(s.members, m)
	}
	return !s.closed
}

// remove takes a member from the guard. A look that is running ends first, or it could let the cache owe
// something afterwards.
func (s *state) remove(m *member) {
	s.looking.Lock()
	defer s.looking.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally(m)
	s.members = slices.DeleteFunc(s.members, func(x *member) bool { return x == m })
}

// living returns the members with a cache, and forgets the others.
func (s *state) living() (all []*member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = slices.DeleteFunc(s.members, func(m *member) bool { return m.cache() == nil })
	return slices.Clone(s.members)
}

// Stats returns the numbers of a guard; zeros if it guards nothing.
func (g *Guard) Stats() Stats {
	if !g.guards() {
		return Stats{}
	}
	s := g.state
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		s.tally(m)
	}
	return s.stats
}

// tally counts what a cache has evicted since the last tally. It needs mu.
func (s *state) tally(m *member) {
	if c := m.cache(); c != nil {
		entries, units := c.Shed()
		s.stats.Evicted += uint64(entries - m.shedEntries)
		s.stats.EvictedBytes += uint64(float64(units-m.shedUnits) * m.size)
		m.shedEntries, m.shedUnits = entries, units
	}
}

// Close ends the guard, and waits for its goroutine. No function that a cache calls for an evicted entry
// may call it.
func (g *Guard) Close() {
	if !g.guards() {
		return
	}
	s := g.state
	s.looking.Lock() // a look of a store ends
	s.mu.Lock()
	all := s.members
	s.closed, s.members = true, nil
	s.stats.Active, s.stats.Exhausted = false, false
	s.pending.Stop()
	s.mu.Unlock()
	s.looking.Unlock()
	all = slices.DeleteFunc(all, func(m *member) bool { return !m.end() })
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range all {
		s.tally(m)
	}
}

// sentinel is large enough to have memory of its own.
type sentinel [4]uint64

// arm makes a sentinel: the runtime calls collected when a collection that begins from now on has ended.
func (s *state) arm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listens && !s.closed {
		s.pending = runtime.AddCleanup(new(sentinel), (*state).collected, s)
	}
}

// collected is called by the runtime, and must not take long.
func (s *state) collected() {
	s.arm()
	s.goes(func() {
		s.look()
		s.settle()
	})
}

// goes runs f in a goroutine for which Close waits, unless the guard is closed.
func (s *state) goes(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Go(f)
	}
}

// settle evicts what caches owe, for the caches that store nothing. One goroutine does so at a time.
func (s *state) settle() {
	if !s.settling.TryLock() {
		return
	}
	defer s.settling.Unlock()
	for _, m := range s.living() {
		if c := m.cache(); c != nil {
			c.Settle()
		}
	}
}
