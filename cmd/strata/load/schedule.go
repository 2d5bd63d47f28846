package load

import (
	"math"
	"time"
)

// maxPhases bounds the phases of a schedule with requests that wait.
const maxPhases = 1000

// schedule numbers the requests of a run and knows when each is to start. Its owner locks.
//
// A change of the rate begins a phase. Requests due before the change keep their intended
// start, also unsent ones; the requests after them follow at the new rate. The intended
// start of request n is the moment at which the sum of rate × time over all phases reaches
// n, so a change neither loses nor repeats a part of a request.
type schedule struct {
	group  int64
	next   int64   // number of the next request
	phases []phase // by their begin; the last has no end
}

// phase is a time with one rate.
type phase struct {
	at     time.Duration // begin, since the start of the run
	n      float64       // number of requests due before
	rate   float64       // requests per second, 0 for no limit
	paused bool
}

// mode is the way in which the start of a request is found.
type mode int

const (
	scheduled mode = iota // at the intended start
	unlimited             // at once
	paused                // not before the next change
)

func newSchedule(group int, s Settings) schedule {
	return schedule{group: int64(group), phases: []phase{{rate: s.Rate, paused: s.Paused}}}
}

// first returns the number of the first request in the group of n.
func (s *schedule) first(n int64) int64 { return n - n%s.group }

// start returns the intended start of request n, since the start of the run. It is the
// same for all requests of a group, and has no meaning unless the mode is scheduled.
func (s *schedule) start(n int64) (time.Duration, mode) {
	first := float64(s.first(n))
	i := len(s.phases) - 1
	// The phase of a request is the last one that began before it was due.
	for i > 0 && s.phases[i].n > first {
		i--
	}
	p := s.phases[i]
	switch {
	case p.paused:
		return 0, paused
	case p.rate == 0:
		return 0, unlimited
	}
	seconds := (first - p.n) / p.rate
	if seconds >= math.MaxInt64/float64(2*time.Second) {
		return math.MaxInt64 / 2, scheduled // never, and no overflow
	}
	return p.at + time.Duration(seconds*float64(time.Second)), scheduled
}

// take counts the next request as sent and returns its number.
func (s *schedule) take() int64 {
	n := s.next
	s.next++
	// Phases whose requests are all sent are not needed any more.
	for len(s.phases) > 1 && s.phases[1].n <= float64(s.first(s.next)) {
		s.phases = s.phases[1:]
	}
	return n
}

// change begins a phase. It reports false, and changes nothing, if requests of maxPhases
// phases wait.
func (s *schedule) change(at time.Duration, to Settings) bool {
	last := &s.phases[len(s.phases)-1]
	n := last.n
	switch {
	case last.paused:
	// Without a limit, the requests sent are those that were due.
	case last.rate == 0:
		n = max(n, float64(s.next))
	default:
		n += (at - last.at).Seconds() * last.rate
	}
	p := phase{at: at, n: n, rate: to.Rate, paused: to.Paused}
	if s.ceil(n) == s.ceil(last.n) {
		*last = p // no request was due in the last phase
		return true
	}
	if len(s.phases) >= maxPhases {
		return false
	}
	s.phases = append(s.phases, p)
	return true
}

// ceil returns the number of the first request of a group from n on.
func (s *schedule) ceil(n float64) int64 {
	g := float64(s.group)
	return int64(math.Ceil(n/g) * g)
}

// due returns the number of requests with an intended start before elapsed. elapsed is
// not before the last change. In a pause, or without a rate, it is the number of the
// requests of earlier phases.
func (s *schedule) due(elapsed time.Duration) int64 {
	last := s.phases[len(s.phases)-1]
	if last.paused || last.rate == 0 {
		return s.ceil(last.n)
	}
	n := int64(last.n+(elapsed-last.at).Seconds()*last.rate)/s.group*s.group + 2*s.group
	for n > 0 {
		if start, m := s.start(n - 1); m != scheduled || start < elapsed {
			break
		}
		n -= s.group
	}
	return n
}
