package guard

import (
	"fmt"
	"log/slog"
	"math"
	"time"
)

const (
	// share is the part of the ceiling that is free when what a look wants has been evicted.
	share = 0.1
	// interval is the least time between two looks.
	interval = 10 * time.Millisecond
	// quiet is how long the live heap is below the ceiling when an episode ends.
	quiet = time.Minute
	// shows is the number of collections after which what was evicted is gone: the first one may have
	// begun before.
	shows = 2
	// believed is the part of an unexpected heap that a look believes in until then.
	believed = 0.25
)

// looker is the state of looks.
type looker struct {
	last, over time.Time // the last look, and the last one that has expected too large a heap
	cycles     int64     // collections at the last look
	// expected is the live heap that a collection would find now, if all debts were paid.
	expected float64
	acted    int64 // collections at the last look that has let caches owe something
	// waits says that nothing more can be known before the next collection.
	waits bool
	// learned is the live heap when sizes were learned last, learnedAt are the collections then.
	learned, learnedAt int64
	limits             limits
}

// poked is called by stores.
func (s *state) poked() {
	if int64(time.Since(s.start)) >= s.next.Load() {
		s.look()
	}
}

// look lets caches evict if the heap is too large. It returns at once if another look is running, or
// the last one was a moment ago.
func (s *state) look() {
	if !s.looking.TryLock() {
		return
	}
	defer s.looking.Unlock()
	now := time.Now()
	if int64(now.Sub(s.start)) < s.next.Load() {
		return
	}
	r := s.read()
	s.act(now, s.expect(now, r), s.setLimit(now, r))
	s.next.Store(int64(now.Sub(s.start) + interval))
}

// expect updates what a collection would find, and returns the caches.
//
// Between two collections it grows with the units of the caches. A collection tells how large the live
// heap is, with entries evicted after it has begun. So a look after evictions believes a part of it
// only if that is more than was expected.
func (s *state) expect(now time.Time, r reading) []*member {
	all := s.living()
	s.mu.Lock()
	defer s.mu.Unlock()
	grown, unpaid := 0.0, 0.0
	for _, m := range all {
		grown += m.ask(now, now.Sub(s.last))
		unpaid += float64(m.unpaid()) * m.size
	}
	s.last = now
	s.expected += grown
	if r.cycles == s.cycles {
		return all
	}
	s.cycles, s.waits = r.cycles, false
	s.learn(all, r)
	// The collection may have ended long before this look, if other threads have kept it waiting.
	live := float64(r.live) + max(0, grown) - unpaid
	if live > s.expected && s.cycles < s.acted+shows {
		live = s.expected + believed*(live-s.expected)
	}
	s.expected = live
	return all
}

// learn corrects the sizes of units, if the live heap has not had evicted entries since the last time.
func (s *state) learn(all []*member, r reading) {
	switch {
	case s.cycles < s.acted+shows:
		s.learnedAt = 0
		return
	case s.learnedAt > 0 && !learn(all, r.live-s.learned):
		return
	}
	s.learned, s.learnedAt = r.live, s.cycles
	for _, m := range all {
		m.learned = m.middle
	}
	guess(all, r.live)
}

// act lets caches owe what is above the ceiling.
func (s *state) act(now time.Time, all []*member, ceiling float64) {
	if s.expected <= ceiling {
		s.calmDown(now)
		return
	}
	s.over = now
	if s.waits {
		return
	}
	s.begin(int64(s.expected))
	for _, m := range all {
		s.expected += float64(m.unpaid()) * m.size // they will owe that again
	}
	want := s.expected - (1-share)*ceiling
	bytes := owe(all, want)
	s.expected -= bytes
	s.acted, s.waits = s.cycles, bytes < want
	s.exhausted(bytes == 0)
	s.goes(s.settle)
}

// setLimit finds the limit, and returns the ceiling by it.
func (s *state) setLimit(now time.Time, r reading) float64 {
	f := s.limits.find(s.o.Limit, r, now)
	ceiling := f.ceiling(s.o.Share, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Limit, s.stats.Source, s.stats.Ceiling, s.stats.Heap = f.limit, f.source, ceiling, r.live
	if f.limit == 0 {
		return math.Inf(1)
	}
	return float64(ceiling)
}

// calmDown ends the episode, if the heap has been small for long enough.
func (s *state) calmDown(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Exhausted = false
	if s.stats.Active && now.Sub(s.over) >= quiet {
		s.stats.Active = false
	}
}

// begin begins an episode, unless one is on. The Logger is a function of the program, which no store waits for.
func (s *state) begin(expected int64) {
	s.mu.Lock()
	began, is := !s.stats.Active && !s.closed, s.stats
	if began {
		s.stats.Active = true
		s.stats.Episodes++
	}
	s.mu.Unlock()
	if began {
		s.goes(func() {
			s.o.Logger.Warn(fmt.Sprintf("memory: the live heap of %d MiB is above %d MiB: the guard evicts the coldest entries", expected>>20, is.Ceiling>>20),
				slog.Int64("limit", is.Limit), slog.String("source", is.Source))
		})
	}
}

// exhausted notes whether there was nothing to evict.
func (s *state) exhausted(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Exhausted = is && !s.closed
}
