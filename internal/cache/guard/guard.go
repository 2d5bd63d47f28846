// Package guard makes caches smaller while the heap of the process is too large.
//
// A look compares the live heap with a ceiling. The live heap is known only after a garbage
// collection, and what a look evicts is gone from it only after another one: a guard that looks at the
// clock instead evicts all, before the first eviction shows. So each look leaves a sentinel behind,
// an object that nothing refers to, and the next look begins when the collector has found it. The
// sentinel is made after the evictions: a collection that has begun before them keeps it. No timer
// and no goroutine waits meanwhile, and a process without collections has no looks.
//
//	collection ──► look: live heap > ceiling? ──yes──► evict the coldest ──┐
//	    ▲                     │ no                                         │
//	    └──── sentinel ◄──────┴────────────────────────────────────────────┘
package guard

import (
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"
)

const (
	// share is the part of a look's ceiling that the look wants to be free afterwards.
	share = 0.1
	// calm is the part of the ceiling below which a look comes no earlier than interval after
	// the last one.
	calm     = 0.5
	interval = 100 * time.Millisecond
	// quiet is how long the live heap is below the ceiling when an episode ends.
	quiet = time.Minute
)

// Cache is a cache that a guard can make smaller. Its units are what its bound counts.
type Cache interface {
	// Usage returns the entries, the units that Shed can free, and the hits since the cache was made.
	Usage() (entries, units int64, hits uint64)
	// Shed evicts the coldest entries until so many units are free, or none are left, and returns
	// how many entries and units have gone.
	Shed(units int64) (entries, shed int64)
}

// Options of a guard.
type Options struct {
	// Limit is the limit of the memory of the process; 0 to find one.
	Limit int64
	// Share is the part of the limit that the live heap may have, if the collector keeps to it.
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

// Guard is a guard, with the floor of one cache. A nil Guard guards nothing. The zero Guard is not usable.
type Guard struct {
	state *state
	floor int64
}

// state is what the Guards of one New share.
type state struct {
	o    Options
	read func() reading // the heap
	// listens says that looks follow collections. It is written once.
	listens bool

	mu      sync.Mutex // guards below
	members []*member
	stats   Stats
	closed  bool
	pending runtime.Cleanup
	looks   sync.WaitGroup // the one that runs, if any

	looker
}

// looker is the state of looks, which run one after the other.
type looker struct {
	last, over time.Time // the last look, and the last one that has found too large a heap
	wasCalm    bool
	heap       int64 // at the last look
	limits     limits
}

// New returns a guard that looks from now on.
func New(o Options) *Guard {
	s := newState(o, os.DirFS("/"), readRuntime)
	s.listens = true
	s.arm()
	return &Guard{state: s}
}

// newState returns the state of a guard that does not listen to the collector.
func newState(o Options, files fs.FS, read func() reading) *state {
	s := &state{o: o, read: read}
	s.limits.files = files
	r := read()
	s.last, s.heap = time.Now(), r.live
	if s.setLimit(s.last, r); s.stats.Limit == 0 {
		s.o.Logger.Warn("memory: the guard knows no limit, and evicts nothing: set GOMEMLIMIT, or Limit of its options")
	}
	return s
}

// WithFloor returns the same guard for a cache that keeps at least so many units.
func (g *Guard) WithFloor(units int64) *Guard {
	if g == nil {
		return nil
	}
	return &Guard{g.state, max(0, units)}
}

// Watch gives a cache to a guard, which keeps no cache alive, and returns a function that takes the cache
// from the guard again. exact says that its units are bytes.
func Watch[T any, C interface {
	*T
	Cache
}](g *Guard, c C, exact bool) (leave func()) {
	if g == nil {
		return func() {}
	}
	w := weak.Make((*T)(c))
	m := &member{floor: g.floor, exact: exact, born: time.Now(), cache: func() Cache {
		if c := w.Value(); c != nil {
			return C(c)
		}
		return nil
	}}
	g.state.add(m)
	return func() { g.state.remove(m) }
}

func (s *state) add(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.members = append(s.members, m)
	}
}

func (s *state) remove(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = slices.DeleteFunc(s.members, func(x *member) bool { return x == m })
}

// Stats returns the numbers of a guard; none for nil.
func (g *Guard) Stats() Stats {
	if g == nil {
		return Stats{}
	}
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	return g.state.stats
}

// Close ends the guard, and waits for its look. No function that a cache calls for an evicted entry may call it.
func (g *Guard) Close() {
	if g == nil {
		return
	}
	s := g.state
	s.mu.Lock()
	if !s.closed {
		s.closed, s.members = true, nil
		s.stats.Active, s.stats.Exhausted = false, false
		s.pending.Stop()
	}
	s.mu.Unlock()
	s.looks.Wait()
}

// sentinel is large enough to have memory of its own.
type sentinel [4]uint64

// arm makes a sentinel: the next collection that begins from now on ends with a look.
func (s *state) arm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listens && !s.closed {
		s.pending = runtime.AddCleanup(new(sentinel), (*state).collected, s)
	}
}

// collected is called by the runtime after a collection, and must not take long.
func (s *state) collected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.looks.Go(s.look)
	}
}
