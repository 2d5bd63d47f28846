package strata

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/limit"
)

// Loader gets the value of a key from the origin.
//
// It runs once for all callers that miss the key at the same time, on a
// goroutine of its own. Its context carries the values of the caller that came
// first, but not that caller's cancellation: it is cancelled when
// Limits.HardTimeout is over, and when the cache is closed; with
// Limits.CancelAbandoned also when no caller waits any more and no other
// instance does either. A Loader that returns later has no callers left: they have got
// a stale value or an error already. Do not keep state of one request (a transaction, a
// user) in the value that it returns.
//
// A Loader that asks the same cache for another key hands its own context on:
// so loads that would wait for each other in a circle get ErrRecursiveLoad. With
// a context of its own, such as context.Background, a Loader that asks for its
// own key waits for itself until Limits.HardTimeout.
//
// It returns ErrNotFound if the origin has no such key, and may return
// ErrNotModified if the value of [Cache.Previous] is still current. Without an error
// any value counts, the zero value and nil pointers included. A value beside an
// error reaches no caller and no tier. The cache and all callers share the value,
// which must not be changed afterwards.
//
// A panic becomes a *LoadPanicError for all callers.
//
// A plain function costs nothing on a hit. A method value, or a closure that
// captures variables, costs its caller an allocation per call unless it is
// made once and kept.
type Loader[K comparable, V any] func(ctx context.Context, key K) (V, error)

// Load lets a Loader set the life and the tags of the value it is getting. It is
// safe for concurrent use until the Loader returns; later calls have no effect.
type Load struct {
	mu   sync.Mutex // guards below
	said call
	none bool // NoStore
	// keys are the Loads of single keys of a batch; see LoadingKey.
	keys map[any]*Load
}

// Loading returns the load that ctx belongs to, the innermost one if loads ask
// for other keys. In a [ManyLoader] its settings hold for all keys of the
// batch; see [LoadingKey]. The write of an [Cache.Update] counts as a load of
// its key. Outside of both it returns a Load that nothing listens to.
func Loading(ctx context.Context) *Load {
	if l, _ := ctx.Value(loadKey{}).(*Load); l != nil {
		return l
	}
	return &Load{}
}

// LoadingKey returns the Load of one key of the [ManyLoader] that ctx belongs to: of
// a key that it was asked for, or of an extra key. Its TTL replaces the TTL of [Loading],
// which is for all keys of the batch. Its tags are added to the tags of Loading, and
// NoStore of either counts. K must be the type of the cache's keys; the Load of a key of
// another type has no effect.
func LoadingKey[K comparable](ctx context.Context, key K) *Load {
	l := Loading(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys == nil {
		l.keys = map[any]*Load{}
	}
	own := l.keys[key]
	if own == nil {
		own = &Load{}
		l.keys[key] = own
	}
	return own
}

// SetTTL makes the value fresh for d instead of the TTL of the call or of
// Options.TTL, jitter included. If d is not positive the value is not stored, as
// with [Load.NoStore]. If the Loader answers ErrNotFound, the cache remembers this for d.
func (l *Load) SetTTL(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said.ttl = lifeOrNone(d)
}

// SetTags adds tags to the entry, as [WithTags] does. If they cannot be used
// the value is returned to the callers, and not stored. A negative entry has them too.
func (l *Load) SetTags(tags ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said.addTags(tags)
}

// SetStale gives the value stale windows of its own, as [WithStale] does. If the Loader
// returns an error they count for the value that L1 and L2 have.
func (l *Load) SetStale(s Stale) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said.own = l.said.own.With(ownStale(s))
}

// SetMemoryTTL bounds the life of the value in L1, as [WithMemoryTTL] does.
func (l *Load) SetMemoryTTL(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said.own = l.said.own.With(ownMemoryTTL(d))
}

// NoStore keeps the value from being stored in any tier, and ErrNotFound from
// being remembered. The earlier value of the key is dropped from L1, as by
// any other load.
func (l *Load) NoStore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.none = true
}

// applyLoad adds the settings of a Loader for key to the options of its call. A nil l
// has none.
func applyLoad[K comparable](l *Load, o *call, key K) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apply(o)
	applyLoad(l.keys[key], o, key) // and its own, if a Loader of one key has asked for that in a batch
	if l.none {
		o.ttl = noLife
	}
}

// apply adds the settings of the Loader, except NoStore, to the options of its
// call. mu is held.
func (l *Load) apply(o *call) {
	if l.said.ttl != 0 {
		o.ttl = l.said.ttl
	}
	if o.err == nil {
		o.err = l.said.err
	}
	o.own = o.own.With(l.said.own)
	if len(l.said.tags) > 0 {
		o.addTags(l.said.tags)
	}
}

// loadKey is the key of the Load in a load's context, previousKey the key of the value that
// the cache held: it names the cache, so that loads of other caches inside a load do not
// hide it.
type (
	loadKey     struct{}
	previousKey struct{ cache *core }
)

// loadValues are the values that the context of a load, or of the write of an Update,
// has for the functions of this package.
type loadValues struct {
	cache    *core
	previous any                  // a *V, which may be nil
	load     atomic.Pointer[Load] // nil until it is asked for
}

// value returns the load itself or the value before it, by their keys.
func (l *loadValues) value(key any) (v any, ok bool) {
	switch key {
	case loadKey{}:
		if l.load.Load() == nil {
			l.load.CompareAndSwap(nil, new(Load))
		}
		return l.load.Load(), true
	case previousKey{l.cache}:
		return l.previous, true
	}
	return nil, false
}

// loadContext is the context of a Loader.
type loadContext struct {
	limit.Bound
	loadValues
	flight limit.Scope // of a single read: the context of the flight
}

// Value returns a value of the load, or of the caller.
func (l *loadContext) Value(key any) any {
	if v, ok := l.value(key); ok {
		return v
	}
	return l.Bound.Value(key)
}

// writeContext is the context of the write of an Update.
type writeContext struct {
	context.Context
	loadValues
}

// Value returns a value of the write, or of the caller.
func (w *writeContext) Value(key any) any {
	if v, ok := w.value(key); ok {
		return v
	}
	return w.Context.Value(key)
}

// Previous returns the value that the cache had when the load of ctx began, and
// whether there was one. A Loader uses it to ask the origin whether the value has
// changed, and returns ErrNotModified if not.
func (c *Cache[K, V]) Previous(ctx context.Context) (V, bool) {
	if p, _ := ctx.Value(previousKey{&c.core}).(*V); p != nil {
		return c.near.Values.Copy(*p), true
	}
	return *new(V), false
}

// ManyLoader gets the values of several keys, at most 500, from the origin at once. A key
// absent from its result does not exist in the origin. Values of extra keys,
// which it was not asked for, are stored in L1 if L1 has no entry of them.
// [Loading] controls the stores of all keys, [LoadingKey] the store of one.
// It runs as a [Loader] does. An error beside values applies to the keys without a
// value. A panic is an error of all keys.
type ManyLoader[K comparable, V any] func(ctx context.Context, keys []K) (map[K]V, error)
