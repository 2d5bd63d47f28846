package strata

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/strata-cache/strata/internal/cache/l1"
)

// Hooks are functions that a Cache calls for events. Each may be nil, which costs
// nothing. They run on goroutines of their own, never under a lock, and must be safe for
// concurrent use. The call in which an event happens goes on when the hook has returned,
// when its own context ends, or after 50 ms: a hook that takes longer goes on
// beside it. While many hooks do not return, further events are left out; see
// Stats.CallbacksDropped. A hook may use the cache: hooks are told of its calls, and not of the
// calls of hooks that were told so. A hook that panics is counted and logged, and changes nothing else.
type Hooks struct {
	// Hit is called for each read that L1 answers with a fresh value, or with a
	// negative entry (LoadNotFound). It makes hits slower.
	Hit func(Event)
	// Miss is called for each read of Get and GetOrLoad, and for each key of
	// GetMany, that L1 does not answer. A SkipRead does not count as a miss.
	Miss func(Event)
	// Load is called once for each run of a Loader, before its callers return if it
	// takes less than 50 ms: when the Loader has returned, or when
	// Limits.HardTimeout is over.
	Load func(Event)
	// Stale is called when a stale value is served. Err is the reason, or nil while
	// the value is refreshed, or if the caller allows stale values.
	Stale func(Event)
	// Refused is called when a value came too late to be stored in Tier: its
	// key was invalidated or set while it was on its way.
	Refused func(Event)
	// Store is called after a value was stored in Tier, L1 or L2: a loaded or written
	// value, a value that L1 takes from L2, or a value from a snapshot. It is not called
	// for negative entries, nor for new lives of present values.
	Store func(Event)
	// Evict is called after an entry has left L1, for the reason in Event.Reason,
	// unless a newer entry has replaced it. An entry that a drop of everything or of
	// a tag has made absent leaves some time after that drop, and is not served
	// meanwhile.
	Evict func(Event)
	// RemoteError is called after each operation that L2 has refused or not answered, unless its caller had left.
	RemoteError func(Event)
}

// Event describes one event. The hook determines which fields are set.
type Event struct {
	// Context is the context of the call or of the load. A load's context has the
	// values of the call that started it. It is context.Background for events
	// without a call, and for Evict. Never nil.
	Context context.Context
	// Cache is the cache's name.
	Cache string
	// Key is the key; nil if the event is about no key, or many.
	Key any
	// Value is the value served, loaded or stored, or the value that left L1; nil
	// otherwise. All callers share it, unless Memory.Encoded is set: a hook must not change it.
	Value any
	// Tier is "L1", "L2" or "origin".
	Tier string
	// Outcome is the outcome of a load.
	Outcome Outcome
	// Reason is the reason why an entry left L1: "evicted" (to make room), "expired",
	// "rejected" (a newer value of the key is too heavy), "invalidated" (or the
	// origin does not have the key any more) or "closed" (the cache).
	Reason string
	// Op is the operation on L2: "get", "acquire", "put", "drop" and so on.
	Op string
	// Err is the error of the load or operation.
	Err error
	// Took is how long the Loader ran.
	Took time.Duration
}

// stored tells Hooks.Store that the value of key is in a tier.
func (c *Cache[K, V]) stored(ctx context.Context, key K, v V, tier string) {
	if hook := c.o.Hooks.Store; hook != nil {
		c.tell(hook, Event{Context: ctx, Key: key, Value: c.near.Values.Copy(v), Tier: tier})
	}
}

// tell calls hook, if there is one, with e about this cache.
func (c *core) tell(hook func(Event), e Event) {
	if hook == nil {
		return
	}
	e.Cache, e.Context = c.settings.Name, cmp.Or(e.Context, context.Background())
	c.callbacks.Hooks.Run(e.Context, func() {
		defer c.contain("Hooks")
		hook(e)
	})
}

// tellL1 is tell for a value of L1, with the reason why a stale one is served.
func (c *core) tellL1(ctx context.Context, hook func(Event), key, value any, err error) {
	c.tell(hook, Event{Context: ctx, Key: key, Value: value, Tier: "L1", Err: err})
}

// evicted returns the function that L1 calls for entries that leave it; nil if
// there is no hook.
func (c *Cache[K, V]) evicted() func(*entry[K, V], l1.Reason) {
	hook := c.o.Hooks.Evict
	if hook == nil {
		return nil
	}
	return func(e *entry[K, V], why l1.Reason) {
		if why != l1.Replaced {
			c.tell(hook, Event{Key: e.Key, Value: e.Value.V, Tier: "L1", Reason: c.reason(why)})
		}
	}
}

// reason returns the reason why an entry left L1, as [Event] names it.
func (c *core) reason(why l1.Reason) string {
	switch {
	case why == l1.Deleted, why == l1.Cleared && !c.closed.Load():
		return "invalidated"
	case why == l1.Cleared:
		return "closed"
	}
	return why.String()
}

// Outcome is the end of a load.
type Outcome uint8

// The outcomes of a load.
const (
	LoadOK Outcome = iota
	LoadNotFound
	LoadNotModified
	LoadError
	LoadPanic
	outcomes
)

// String returns the outcome's name as metrics label it.
func (o Outcome) String() string {
	switch o {
	case LoadOK:
		return "ok"
	case LoadNotFound:
		return "not_found"
	case LoadNotModified:
		return "not_modified"
	case LoadPanic:
		return "panic"
	default:
		return "error"
	}
}

// outcomeOf returns the outcome of a load with the error err. held says that the load had an
// earlier value: without one, ErrNotModified is a mistake of the Loader.
func outcomeOf(err error, held bool) Outcome {
	if err == nil {
		return LoadOK
	}
	var p *LoadPanicError
	switch {
	case errors.Is(err, ErrLoadExited), errors.As(err, &p):
		return LoadPanic
	case errors.Is(err, ErrNotFound):
		return LoadNotFound
	case held && errors.Is(err, ErrNotModified):
		return LoadNotModified
	default:
		return LoadError
	}
}
