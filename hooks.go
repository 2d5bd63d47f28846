package strata

import (
	"time"

	"github.com/strata-cache/strata/internal/l1"
)

// Hooks are functions that a Cache calls when something happens. Each may be
// nil, which costs nothing. They run on the goroutine in which it happens,
// never under a lock, and must be safe for concurrent use. A hook that panics
// is counted and logged, and changes nothing else.
type Hooks struct {
	// Load is called after each run of a Loader, before its callers return.
	Load func(LoadEvent)
	// Evict is called after an entry has left L1 for any reason but being
	// replaced by a newer one.
	Evict func(EvictEvent)
	// RemoteError is called after each operation on L2 that got no answer.
	RemoteError func(RemoteErrorEvent)
}

// LoadEvent is about one run of a Loader.
type LoadEvent struct {
	// Cache is the cache's name.
	Cache string
	// Outcome is how the load ended, Err the error that callers get, if any.
	Outcome Outcome
	Err     error
	// Took is how long the Loader ran.
	Took time.Duration
}

// EvictEvent is about an entry that has left L1.
type EvictEvent struct {
	// Cache is the cache's name.
	Cache string
	// Reason is "evicted" (for size), "expired" or "rejected" (too heavy).
	Reason string
}

// RemoteErrorEvent is about an operation on L2 that got no answer.
type RemoteErrorEvent struct {
	// Cache is the cache's name.
	Cache string
	// Op is the operation: "get", "acquire", "put", "drop" and so on.
	Op string
	// Err is what the tier returned.
	Err error
}

// evicted returns what L1 tells about entries that leave it; nil if nobody
// wants to know.
func (c *Cache[K, V]) evicted() func(*l1.Entry[K, V], l1.Reason) {
	hook := c.o.Hooks.Evict
	if hook == nil {
		return nil
	}
	return func(_ *l1.Entry[K, V], why l1.Reason) {
		if why != l1.Evicted && why != l1.Expired && why != l1.Rejected {
			return
		}
		defer c.contain("Hooks.Evict")
		hook(EvictEvent{Cache: c.o.Name, Reason: why.String()})
	}
}
