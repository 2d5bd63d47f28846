// Package logthrottle decides which changes of health are logged. A dependency that
// fails and recovers ten times a second causes two lines in ten seconds. A
// suppressed change is told when its ten seconds are over and it still holds,
// so the last line becomes true soon. Such lines concern one cache; [Servers]
// decides which of them are in the log of the process, for all caches of a client.
package logthrottle

import (
	"sync"
	"sync/atomic"
	"time"
)

// Every is the shortest time between two logs of the same state of one
// dependency.
const Every = 10 * time.Second

// Record holds the health of one dependency and the state last logged. The zero
// Record is healthy. Times are nanoseconds of any monotonic clock.
type Record struct {
	// last is the time of the last failure, plus one; zero if there was none
	// since Well found the dependency healthy.
	last atomic.Int64

	mu                sync.Mutex // guards below
	bad               bool       // the last logged state is failing
	badFrom, wellFrom int64      // when failing, and recovered, may be logged again
}

// Quiet reports whether [Record.Well] has nothing to log. It costs one atomic
// load.
func (r *Record) Quiet() bool { return r.last.Load() == 0 }

// Failed records a failure at now, and reports whether to log it.
func (r *Record) Failed(now int64) bool {
	r.last.Store(now + 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bad || now < r.badFrom {
		return false
	}
	r.bad, r.badFrom = true, now+int64(Every)
	return true
}

// Bad reports whether the state last logged is failing.
func (r *Record) Bad() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad
}

// Well records a success at now, and reports whether to log a recovery, which is when
// nothing has failed for the duration after.
func (r *Record) Well(now int64, after time.Duration) bool {
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
		r.wellFrom = now + int64(Every)
	}
	return was
}

// Limit allows one log line in [Every]. The zero Limit is ready to use.
type Limit struct {
	mu      sync.Mutex // guards below
	from    int64
	skipped int
}

// Allow reports whether to log at now, and the number of calls not logged
// since the last logged one.
func (l *Limit) Allow(now int64) (ok bool, skipped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now < l.from {
		l.skipped++
		return false, 0
	}
	skipped, l.skipped, l.from = l.skipped, 0, now+int64(Every)
	return true, skipped
}
