package strata

import (
	"context"
	"sync"
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
	ttl  time.Duration // 0: the cache's
	tags []string
	info *Info
	err  error // what is wrong with the options

	skipRead bool
	refresh  bool // in the background, of what is there still
	keep     bool // the load goes on when its callers have left
}

// WithTTL makes the entry that this call stores fresh for d instead of
// Options.TTL, jitter included. Zero means Options.TTL, a negative d that the
// value is not stored. Where several callers share a load, the first one's
// option counts.
func WithTTL(d time.Duration) CallOption {
	return func(c *call) { c.ttl = d }
}

// SkipRead makes GetOrLoad run the Loader whatever is cached, for this caller
// alone, and store what it brings everywhere. Leave it to callers who may: each
// such read costs the origin a load.
func SkipRead() CallOption {
	return func(c *call) { c.skipRead = true }
}

// skipReadKey is the key in a context under which SkipReadContext leaves its
// mark.
type skipReadKey struct{}

// SkipReadContext returns a context with which GetOrLoad and GetMany of every
// cache whose Options have ContextControls behave as with [SkipRead].
func SkipReadContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, skipReadKey{}, true)
}

func skipsRead(ctx context.Context) bool { return ctx.Value(skipReadKey{}) != nil }

// callOf is what opts amount to. Without any it stays off the heap.
func callOf(opts []CallOption) call {
	if len(opts) == 0 {
		return call{}
	}
	return applied(opts)
}

func applied(opts []CallOption) (c call) {
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	return c
}

// Load is what a Loader can say about the value it is getting. It is safe for
// concurrent use until the Loader returns; what is said later has no effect.
type Load struct {
	mu   sync.Mutex // guards below
	said call
	none bool // NoStore
}

// Loading returns the load that ctx belongs to, the innermost one if loads ask
// for other keys. Outside a Loader it returns a Load that nothing listens to.
func Loading(ctx context.Context) *Load {
	if l, _ := ctx.Value(loadKey{}).(*Load); l != nil {
		return l
	}
	return &Load{}
}

// SetTTL makes the value fresh for d instead of what the call or Options.TTL
// say, jitter included. Zero changes nothing, a negative d keeps the value from
// being stored.
func (l *Load) SetTTL(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said.ttl = d
}

// SetTags adds tags to the entry, as [WithTags] does. If they cannot be used
// the value is returned to the callers, and not stored.
func (l *Load) SetTags(tags ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said.addTags(tags)
}

// NoStore keeps the value from being stored in any tier. What was held for the
// key is dropped from L1, as by any other load.
func (l *Load) NoStore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.none = true
}

// apply adds what the Loader has said to the options of its call.
func (l *Load) apply(o *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said.ttl != 0 {
		o.ttl = l.said.ttl
	}
	if l.none {
		o.ttl = -1
	}
	if o.err == nil {
		o.err = l.said.err
	}
	if len(l.said.tags) > 0 {
		o.addTags(l.said.tags)
	}
}

// loadKey is the key in a load's context under which its Load is, previousKey
// that of the value which the cache held: it names the cache, so that loads of
// other caches inside a load do not hide it.
type (
	loadKey     struct{}
	previousKey struct{ cache any }
)

// loadContext is the context of a load.
type loadContext struct {
	context.Context
	cache    any
	previous any // a *V, which may be nil
	load     Load
}

// Value returns what belongs to the load.
func (l *loadContext) Value(key any) any {
	switch key {
	case loadKey{}:
		return &l.load
	case previousKey{l.cache}:
		return l.previous
	}
	return l.Context.Value(key)
}

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
