package strata

import (
	"context"
	"time"
)

// Loader gets the value of a key from the origin.
//
// It runs once for all callers that miss the key at the same time, on a
// goroutine of its own. Its context carries the values of the caller that came
// first, but not that caller's cancellation: it is cancelled when no caller
// waits any more and no other instance does either, when Limits.HardTimeout is
// over, and when the cache is closed. Do not keep state of one request (a
// transaction, a user) in what it returns.
//
// It returns ErrNotFound if the origin has no such key, and may return
// ErrNotModified if [Cache.Previous] has a value that still holds. Any other
// value is a value, the zero value and nil pointers included. The cache and
// all callers share the value: nobody may change it afterwards.
//
// A panic becomes a *LoadPanicError for all callers.
//
// A plain function costs nothing on a hit. A method value, or a closure that
// captures variables, costs its caller an allocation per call unless it is
// made once and kept.
type Loader[K comparable, V any] func(ctx context.Context, key K) (V, error)

// CallOption changes one call.
type CallOption func(*call)

// call is what the options of one call amount to.
type call struct {
	ttl time.Duration // 0: the cache's
}

// WithTTL makes the entry that this call stores fresh for d instead of
// Options.TTL, jitter included. Zero means Options.TTL, a negative d that the
// value is not stored. Where several callers share a load, the first one's
// option counts.
func WithTTL(d time.Duration) CallOption {
	return func(c *call) { c.ttl = d }
}

func callOf(opts []CallOption) (c call) {
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	return c
}

// previousKey is the key in a load's context under which the cache keeps the
// value it held. It names the cache, so that loads of other caches inside a
// load do not hide it.
type previousKey struct{ cache any }

// Previous returns the value that the cache held when the load that ctx
// belongs to began, and whether there was one. A Loader uses it to ask the
// origin whether the value has changed, and answers ErrNotModified if not.
func (c *Cache[K, V]) Previous(ctx context.Context) (V, bool) {
	if p, _ := ctx.Value(previousKey{c}).(*V); p != nil {
		return *p, true
	}
	var zero V
	return zero, false
}

func (c *Cache[K, V]) withPrevious(ctx context.Context, p *V) context.Context {
	return context.WithValue(ctx, previousKey{c}, p)
}
