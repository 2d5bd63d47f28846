// This file decides which server of a fleet is left alone because it does not
// answer, and when it is tried again.
//
// An [Outlier] is in service or out. It goes out when at least three calls in a row have
// failed, with a given time between the first and the last, and comes back with any
// answer. While it is out it is due for one trial after each of ever longer pauses.
// Invariant: a server out of service has not answered since its first failure, and the
// pause until it is due is at most LongestPause and an eighth of it.

package roster

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// failures is how many calls in a row fail at least before a server goes out.
	failures = 3
	// FirstPause is the time from when a server goes out to its first trial. Each
	// trial doubles it, up to LongestPause. A random part of up to an eighth is added, so
	// that clients do not try at the same time.
	FirstPause = time.Second
	// LongestPause is the longest pause.
	LongestPause = 4 * time.Second
)

// Outlier is the record of one server. [NewOutlier] makes one in service. Its methods
// are safe for concurrent use.
type Outlier struct {
	after time.Duration
	// failing says that the last call has failed.
	failing atomic.Bool

	mu    sync.Mutex // guards below
	since time.Time  // the first of the failures in a row
	count int        // failures in a row
	last  error      // of the last failure
	out   atomic.Bool
	pause time.Duration // the next pause
	due   time.Time     // the time of the next trial
}

// NewOutlier returns a server in service, which goes out when its calls have failed for the
// duration after.
func NewOutlier(after time.Duration) *Outlier { return &Outlier{after: after} }

// Answered notes that the server has answered. It costs one atomic load if the last
// call was answered, too.
func (s *Outlier) Answered() {
	if !s.failing.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count, s.last = 0, nil
	s.out.Store(false)
	s.failing.Store(false)
}

// Failed notes that a call has failed at now with err.
func (s *Outlier) Failed(now time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		s.since = now
	}
	s.count, s.last = s.count+1, err
	s.failing.Store(true)
	if s.count >= failures && now.Sub(s.since) >= s.after && !s.out.Load() {
		s.pause = FirstPause
		s.rest(now)
		s.out.Store(true)
	}
}

// rest sets the time of the next trial, and doubles the pause after it. mu is held.
func (s *Outlier) rest(now time.Time) {
	s.due = now.Add(s.pause + rand.N(s.pause/8))
	s.pause = min(2*s.pause, LongestPause)
}

// Out reports whether the server is out. It costs one atomic load.
func (s *Outlier) Out() bool { return s.out.Load() }

// Last returns the error of the last failure, or nil if an answer came after it.
func (s *Outlier) Last() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Due reports whether the caller should try the server now. It is true once in
// each pause, and only while the server is out.
func (s *Outlier) Due(now time.Time) bool {
	if !s.Out() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.out.Load() || now.Before(s.due) {
		return false
	}
	s.rest(now)
	return true
}
