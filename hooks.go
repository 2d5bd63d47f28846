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
	// Hit is called for each read that L1 answers with what is fresh, also
	// that there is no such key (LoadNotFound). It makes hits slower.
	Hit func(Event)
	// Miss is called for each GetOrLoad that L1 does not answer.
	Miss func(Event)
	// Load is called after each run of a Loader, before its callers return.
	Load func(Event)
	// Stale is called when a stale value is served: Err says why, or is nil
	// while the value is refreshed.
	Stale func(Event)
	// Refused is called when a value came too late to be stored in Tier: its
	// key was invalidated or set while it was on its way.
	Refused func(Event)
	// Evict is called after an entry has left L1 for any reason but being
	// replaced by a newer one.
	Evict func(Event)
	// RemoteError is called after each operation on L2 that got no answer.
	RemoteError func(Event)
}

// Event is about one thing that has happened. Which fields are set depends on
// the hook.
type Event struct {
	// Cache is the cache's name.
	Cache string
	// Key is the key; nil if it is about none, or many.
	Key any
	// Tier is "L1", "L2" or "origin".
	Tier string
	// Outcome is how a load ended.
	Outcome Outcome
	// Reason is why an entry has left L1: "evicted" (for size), "expired" or
	// "rejected" (too heavy).
	Reason string
	// Op is the operation on L2: "get", "acquire", "put", "drop" and so on.
	Op string
	// Err is the error of the load or operation.
	Err error
	// Took is how long the Loader ran.
	Took time.Duration
}

// tell calls hook, if there is one, with e about this cache.
func (c *Cache[K, V]) tell(hook func(Event), e Event) {
	if hook == nil {
		return
	}
	defer c.contain("Hooks")
	e.Cache = c.o.Name
	hook(e)
}

// evicted returns what L1 tells about entries that leave it; nil if nobody
// wants to know.
func (c *Cache[K, V]) evicted() func(*l1.Entry[K, V], l1.Reason) {
	hook := c.o.Hooks.Evict
	if hook == nil {
		return nil
	}
	return func(e *l1.Entry[K, V], why l1.Reason) {
		if why == l1.Evicted || why == l1.Expired || why == l1.Rejected {
			c.tell(hook, Event{Key: e.Key, Tier: "L1", Reason: why.String()})
		}
	}
}
