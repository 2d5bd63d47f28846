package limit

import (
	"sync"
	"sync/atomic"
	"time"
)

// The numbers of a [Budget]. Tokens are counted in fifths.
const (
	perRetry   = 5
	perSuccess = 1
	mostTokens = 100 * perRetry
	floor      = 10 // retries in a second
)

// Budget is a retry budget: of operations that fail now and then all can be
// tried again, of those that fail for long only a share, so that retries do
// not multiply the load on what is overloaded already.
//
// A retry costs a token, and each success brings a fifth of one: retries are
// at most 20 % of what succeeds, as in Finagle, so a store that is at its
// limit gets 1.2 times the load and not twice. At most 100 tokens are kept: a
// burst of failures, such as a connection's that carried so many, is tried
// again whole, but a good hour does not pay for a bad one. 10 retries in a
// second are allowed without a token, so that a cache that asks rarely, or has
// only begun, can try again too.
//
// The zero Budget has no tokens, and is ready.
type Budget struct {
	fifths atomic.Int32 // tokens

	mu    sync.Mutex // guards below
	begun int64      // the second in which retries without a token are counted
	used  int        // in it
}

// Success adds a fifth of a token. While the budget is full it costs one load.
func (b *Budget) Success() {
	for {
		have := b.fifths.Load()
		if have >= mostTokens || b.fifths.CompareAndSwap(have, have+perSuccess) {
			return
		}
	}
}

// Retry reports whether an operation may be tried again at now. It takes a
// token; if there is none, it takes one of those of the current second.
func (b *Budget) Retry(now int64) bool {
	for {
		have := b.fifths.Load()
		if have < perRetry {
			return b.withoutToken(now)
		}
		if b.fifths.CompareAndSwap(have, have-perRetry) {
			return true
		}
	}
}

// withoutToken allows some retries in each second, which begins with the first
// of them.
func (b *Budget) withoutToken(now int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now-b.begun >= int64(time.Second) {
		b.begun, b.used = now, 0
	}
	if b.used == floor {
		return false
	}
	b.used++
	return true
}
