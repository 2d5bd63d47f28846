// Health decides which changes of health are logged. A dependency that fails and recovers ten times
// a second causes two lines in ten seconds. A suppressed change is told when its ten seconds are
// over and it still holds, so the last line becomes true soon. Such lines concern one cache;
// ServerHealth decides which of them are in the log of the process, for all caches of a client.

package observe

import (
	"sync"
	"sync/atomic"
	"time"
)

// LogEvery is the shortest time between two logs of the same state of one
// dependency.
const LogEvery = 10 * time.Second

// Health holds the health of one dependency and the state last logged. The zero
// Health is healthy. Times are nanoseconds of any monotonic clock.
type Health struct {
	// last is the time of the last failure, plus one; zero if there was none
	// since Well found the dependency healthy.
	last atomic.Int64

	mu                sync.Mutex // guards below
	bad               bool       // the last logged state is failing
	badFrom, wellFrom int64      // when failing, and recovered, may be logged again
}

// Quiet reports whether [Health.Well] has nothing to log. It costs one atomic
// load.
func (r *Health) Quiet() bool { return r.last.Load() == 0 }

// Failed records a failure at now, and reports whether to log it.
func (r *Health) Failed(now int64) bool {
	r.last.Store(now + 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bad || now < r.badFrom {
		return false
	}
	r.bad, r.badFrom = true, now+int64(LogEvery)
	return true
}

// Bad reports whether the state last logged is failing.
func (r *Health) Bad() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad
}

// Well records a success at now, and reports whether to log a recovery, which is when
// nothing has failed for the duration after.
func (r *Health) Well(now int64, after time.Duration) bool {
	last := r.last.Load()
	if last == 0 || now < last-1+int64(after) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bad && now < r.wellFrom {
		return false
	}
	if !r.last.CompareAndSwap(last, 0) {
		return false // another failure came in between
	}
	was := r.bad
	if r.bad = false; was {
		r.wellFrom = now + int64(LogEvery)
	}
	return was
}

// LogLimit allows one log line in [LogEvery]. The zero Limit is ready to use.
type LogLimit struct {
	mu      sync.Mutex // guards below
	from    int64
	skipped int
}

// Allow reports whether to log at now, and the number of calls not logged
// since the last logged one.
func (l *LogLimit) Allow(now int64) (ok bool, skipped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now < l.from {
		l.skipped++
		return false, 0
	}
	skipped, l.skipped, l.from = l.skipped, 0, now+int64(LogEvery)
	return true, skipped
}

const (
	// LogRemind is the time between two lines that say that a state lasts.
	LogRemind = 5 * time.Minute
	// MostPause is the longest pause after the line about the end of a state. In the pause
	// no new begin of the state is logged.
	MostPause = 2 * time.Minute
	// firstPause is the first pause. Each further one is twice as long.
	firstPause = 30 * time.Second
)

// LogLine is a line of the log about a state, or none.
type LogLine uint8

// The lines about a state. While it comes and goes only some of its begins are logged.
const (
	Nothing LogLine = iota
	Begins
	Lasts
	Ends
)

// LogLines decides which lines about a state are logged: its begin, a reminder each [LogRemind],
// and its end. If it begins again soon after its end the log waits, and longer each time:
// half a minute at first, [MostPause] at most. Then the begin is logged if the state is there.
// The zero Lines has logged nothing.
type LogLines struct {
	told  bool
	at    int64 // of the last line
	pause int64 // after the last end
}

// Told reports whether the last line says that the state is there.
func (l *LogLines) Told() bool { return l.told }

// Next returns the line to log at now. there says whether the state is there at that time.
func (l *LogLines) Next(there bool, now int64) LogLine {
	switch {
	case there && !l.told:
		if now < l.at+l.pause {
			return Nothing
		}
		if now >= l.at+2*l.pause+int64(LogRemind) {
			l.pause = 0 // it had ended for long
		}
		l.told, l.at = true, now
		return Begins
	case there && now >= l.at+int64(LogRemind):
		l.at = now
		return Lasts
	case !there && l.told:
		l.told, l.at = false, now
		l.pause = min(max(2*l.pause, int64(firstPause)), int64(MostPause))
		return Ends
	}
	return Nothing
}
