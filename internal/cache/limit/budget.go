package limit

import (
	"sync"
	"sync/atomic"
	"time"
)

// The constants of a [Budget]. Tokens are counted in fifths.
const (
	perRetry    = 5
	perSuccess  = 1
	mostTokens  = 100 * perRetry
	freeRetries = 10 // retries in a second
)

// Budget is a retry budget. While few operations fail, each failure can be
// tried again; in a long outage only a share of them can. So retries do not
// multiply the load on an overloaded store.
//
// A retry costs a token, and each success adds a fifth of a token. So retries
// are at most 20 % of successes, as in Finagle, and a store at its limit gets
// 1.2 times the load, not twice. At most 100 tokens are kept: that covers a
// burst of failures, such as all commands of a broken connection, but not an
// outage after a long healthy time. 10 retries per second need no token, so
// that a cache with few requests, or a new one, can retry too.
//
// The zero Budget has no tokens and is ready to use.
type Budget struct {
	fifths atomic.Int32 // tokens

	mu    sync.Mutex // guards below
	begun int64      // start of the current second of free retries
	used  int        // free retries used in that second
}

// Success adds a fifth of a token. While the budget is full, it costs one
// atomic load.
func (b *Budget) Success() {
	for {
		have := b.fifths.Load()
		if have >= mostTokens || b.fifths.CompareAndSwap(have, have+perSuccess) {
			return
		}
	}
}

// Retry reports whether an operation may be tried again at now. It takes a
// token or, if there is none, one of the free retries of the current second.
func (b *Budget) Retry(now int64) bool {
	// Tokens come first: the free retries are for a time without any.
	for have := b.fifths.Load(); have >= perRetry; have = b.fifths.Load() {
		if b.fifths.CompareAndSwap(have, have-perRetry) {
			return true
		}
	}
	return b.withoutToken(now)
}

// withoutToken takes a free retry. There are freeRetries of them per second; a
// second begins with its first free retry.
func (b *Budget) withoutToken(now int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now-b.begun >= int64(time.Second) {
		b.begun, b.used = now, 0
	}
	if b.used == freeRetries {
		return false
	}
	b.used++
	return true
}
