// The breaker of calls to a store that does not answer.
//
// States: closed, open, half open; the comment of Breaker draws the ways between them.
//
// Invariant: while a Breaker is not closed, it lets through at most one call per open time, the
// probe.

package limit

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Breaker stops calls to a store that does not answer, and lets calls through
// again when the store answers.
//
//	        failures in a row            a call after the open time
//	closed ──────────────────► open ────────────────────────────────► half open
//	 ▲ ▲                       │  ▲                                     │   │
//	 │ └──── a late success ───┘  └────────── the probe fails ──────────┘   │
//	 └─────────────────────────────── any success ──────────────────────────┘
//
// The zero Breaker is disabled: always closed.
type Breaker struct {
	failures int32
	open     int64

	// state is the number of failures in a row while the breaker is closed,
	// else isOpen or isHalfOpen. It changes only under mu.
	state atomic.Int32

	mu    sync.Mutex
	until int64 // guarded by mu: when the next probe may begin, unless closed
}

const (
	isOpen     = -1
	isHalfOpen = -2
)

// State is the state of a [Breaker].
type State uint8

// The states of a breaker.
const (
	// Closed: calls are let through.
	Closed State = iota
	// Open: calls are refused. The first call after the open time makes the
	// breaker half open.
	Open
	// HalfOpen: a probe is under way; all other calls are refused.
	HalfOpen
)

// NewBreaker returns a closed breaker. It opens after the given number of
// failures in a row, and stays open for the duration open. If failures is zero or
// less, the breaker is disabled.
func NewBreaker(failures int, open time.Duration) *Breaker {
	return &Breaker{failures: int32(max(0, min(failures, 1<<30))), open: int64(open)}
}

// Allow reports whether a call may be made at now, and whether it is the probe.
// The caller passes the result of an allowed call to [Breaker.Report], unless
// the result says nothing about the store, such as a cancellation. While the
// breaker is closed, Allow costs one atomic load.
func (b *Breaker) Allow(now int64) (ok, probe bool) {
	if b.state.Load() >= 0 {
		return true, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state.Load() >= 0 {
		return true, false
	}
	if now < b.until {
		return false, false
	}
	b.state.Store(isHalfOpen)
	// If the probe never reports, the next call after this time is one.
	b.until = b.opened(now)
	return true, true
}

// Report records the result of a call that ended at now; probe is the second
// result of [Breaker.Allow]. It reports whether the breaker was closed and
// opens, or the reverse. The failure of a probe changes nothing: calls are
// refused before and after it.
//
// A probe that does not report within the open time is abandoned, and the next
// call becomes the probe. Other reports that arrive while the breaker is not
// closed are late: their calls began before it opened. A late success closes
// the breaker, because it is the newest evidence that the store answers. A late
// failure changes nothing: it belongs to the outage for which the breaker
// opened, and a row of calls that time out one after the other must not keep
// the breaker open. The failure of an abandoned probe changes nothing either,
// unless another probe is under way. Then it counts as the failure of that
// probe and opens the breaker for the same time.
func (b *Breaker) Report(now int64, probe, failed bool) (changed bool) {
	if b.failures == 0 || !failed && b.state.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.state.Load()
	switch {
	case !failed:
		b.state.Store(0)
		return state < 0
	case state >= 0 && state+1 < b.failures:
		b.state.Store(state + 1)
		return false
	case state >= 0, state == isHalfOpen && probe:
		b.state.Store(isOpen)
		b.until = b.opened(now)
		return state >= 0
	}
	return false
}

// opened returns the end of an open time that begins now.
func (b *Breaker) opened(now int64) (until int64) {
	if now > math.MaxInt64-b.open {
		return math.MaxInt64
	}
	return now + b.open
}

// Calm reports whether the breaker is closed and the last reported call was a
// success. Then neither Allow nor the report of a success changes anything, and
// the caller need not read the clock. It costs one atomic load.
func (b *Breaker) Calm() bool { return b.state.Load() == 0 }

// State returns the present state.
func (b *Breaker) State() State {
	switch b.state.Load() {
	case isOpen:
		return Open
	case isHalfOpen:
		return HalfOpen
	}
	return Closed
}
