// Package health decides which changes in the health of something are worth a
// line in a log. A thing that fails and recovers ten times a second gets two lines in
// ten seconds, and the last of them is true soon: what was not told is told when
// there is room and it still holds.
package health

import (
	"sync"
	"sync/atomic"
	"time"
)

// Every is how often a state of one thing is told at most.
const Every = 10 * time.Second

// Record is what is known of one thing, and what was told of it. The zero Record
// is of something that is well. Times are nanoseconds of any clock that is never
// set back.
type Record struct {
	// last is when it failed last, plus one; zero if nothing has failed since it
	// was found well.
	last atomic.Int64

	mu                sync.Mutex // guards below
	bad               bool       // was told last
	badFrom, wellFrom int64      // when bad, and well, may be told again
}

// Quiet reports whether there is nothing that [Record.Well] could have to tell.
// It costs one load.
func (r *Record) Quiet() bool { return r.last.Load() == 0 }

// Failed notes a failure at now, and reports whether to tell that it fails.
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

// Well notes a success at now, and reports whether to tell that it is well again:
// nothing has failed for some time.
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
		return false // it has failed in between
	}
	was := r.bad
	if r.bad = false; was {
		r.wellFrom = now + int64(Every)
	}
	return was
}

// Limit lets something be told once in [Every]. The zero Limit is ready.
type Limit struct {
	mu      sync.Mutex // guards below
	from    int64
	skipped int
}

// Allow reports whether to tell something at now, and how often that was not told
// since the last time.
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
