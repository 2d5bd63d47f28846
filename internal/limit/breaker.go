package limit

import (
	"sync"
	"sync/atomic"
	"time"
)

// Breaker stops calls to a store that does not answer, and finds out when it
// does again.
//
//	        failures in a row            a call after the open time
//	closed ──────────────────► open ────────────────────────────────► half open
//	 ▲ ▲                       │  ▲                                     │   │
//	 │ └──── a late success ───┘  └────────── the probe fails ──────────┘   │
//	 └─────────────────────────────── any success ──────────────────────────┘
//
// While it is half open, one call is under way, the probe. If it does not
// report within the open time it is given up, and the next call is one. Other
// reports that arrive while the breaker is not closed are late: their calls
// began before it opened. A late success closes it, as it shows that the store
// answers, and it is the freshest that is known: what a probe would show later.
// A late failure counts for nothing: it is one of those for which the breaker
// opened, and many of them, which time out one after the other, must not keep
// it open. Nor does the failure of a probe that was given up, unless another is
// under way; then it counts as that one's, which opens the breaker no longer
// than a failure at this time does.
//
// The zero Breaker is disabled: always closed.
type Breaker struct {
	failures int32
	open     int64

	// state is the number of failures in a row while the breaker is closed,
	// else isOpen or isHalfOpen. It is written under mu.
	state atomic.Int32

	mu    sync.Mutex
	until int64 // guarded: when the next probe may begin, unless closed
}

const (
	isOpen     = -1
	isHalfOpen = -2
)

// State says what a [Breaker] does with calls.
type State uint8

// The states of a breaker.
const (
	// Closed: calls are let through.
	Closed State = iota
	// Open: calls are refused. It stays open until a call is made after its
	// time is over.
	Open
	// HalfOpen: a probe is under way, all other calls are refused.
	HalfOpen
)

// NewBreaker returns a closed breaker, which opens after this many failures
// in a row, for this time. With failures of zero or less it is disabled.
func NewBreaker(failures int, open time.Duration) *Breaker {
	return &Breaker{failures: int32(max(0, min(failures, 1<<30))), open: int64(open)}
}

// Allow reports whether a call may be made at now, and whether it is the probe.
// Whoever is allowed calls [Breaker.Report] when the call has ended, unless its
// end says nothing about the store, as when its caller gave up. While the
// breaker is closed it costs one load.
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
	b.until = now + b.open
	return true, true
}

// Report tells how a call ended at now; probe is what [Breaker.Allow] said of
// it. It reports whether the breaker was opened or closed by that: a probe that
// fails changes nothing, as calls are refused before and after it.
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
		b.until = now + b.open
		return state >= 0
	}
	return false
}

// Calm reports whether the breaker is closed and the last call that reported
// was a success: then neither Allow nor the report of a success has anything to
// do, and nobody need know the time. It costs one load.
func (b *Breaker) Calm() bool { return b.state.Load() == 0 }

// State returns what the breaker does with calls.
func (b *Breaker) State() State {
	switch b.state.Load() {
	case isOpen:
		return Open
	case isHalfOpen:
		return HalfOpen
	}
	return Closed
}
