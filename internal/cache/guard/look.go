package guard

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"
)

// look compares the live heap with the ceiling, evicts what is too much, and arranges the next look.
func (s *state) look() {
	defer s.arm() // also if a function of the program ends the goroutine
	now := time.Now()
	if s.wasCalm && now.Sub(s.last) < interval {
		return
	}
	r := s.read()
	ceiling := s.setLimit(now, r)
	all := s.living()
	measure(all, r.live-s.heap, r.live, now, now.Sub(s.last))
	s.last, s.heap, s.wasCalm = now, r.live, float64(r.live) < calm*float64(ceiling)
	if r.live <= ceiling {
		s.calmDown(now)
		return
	}
	s.over = now
	s.begin()
	want := float64(r.live) - (1-share)*float64(ceiling)
	entries, bytes := shed(all, want)
	s.note(entries, bytes)
}

// setLimit finds the limit, and returns the ceiling by it.
func (s *state) setLimit(now time.Time, r reading) (ceiling int64) {
	f := s.limits.find(s.o.Limit, r, now)
	ceiling = f.ceiling(s.o.Share, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Limit, s.stats.Source, s.stats.Ceiling, s.stats.Heap = f.limit, f.source, ceiling, r.live
	if f.limit == 0 {
		s.stats.Ceiling, ceiling = 0, math.MaxInt64
	}
	return ceiling
}

// living returns the members with a cache, and forgets the others.
func (s *state) living() (all []*member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = slices.DeleteFunc(s.members, func(m *member) bool { return m.cache() == nil })
	return slices.Clone(s.members)
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

// begin begins an episode, unless one is on.
func (s *state) begin() {
	s.mu.Lock()
	began := !s.stats.Active && !s.closed
	if began {
		s.stats.Active = true
		s.stats.Episodes++
	}
	is := s.stats
	s.mu.Unlock()
	if began {
		s.o.Logger.Warn(fmt.Sprintf("memory: the live heap of %d MiB is above %d MiB: the guard evicts the coldest entries", is.Heap>>20, is.Ceiling>>20),
			slog.Int64("limit", is.Limit), slog.String("source", is.Source))
	}
}

// note counts what a look has evicted.
func (s *state) note(entries int64, bytes float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Evicted += uint64(entries)
	s.stats.EvictedBytes += uint64(bytes)
	s.stats.Exhausted = entries == 0 && bytes == 0 && !s.closed
}
