package strata

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/cache/ledger"
)

// negative is the value of a negative entry: L1 remembers of a key without a value
// that the origin does not have it, or that its load has failed.
type negative struct {
	err error
	// fresh is the time until which it holds.
	fresh int64
	// stamp and traits decide whether it is valid, as those of an entry with a value.
	stamp  uint64
	traits *traits
	// failures is how often the load has failed in a row.
	failures int32
	// notFound says that err is the origin's answer, taken that it came from a snapshot.
	notFound, taken bool
}

const (
	// negativeShare is the share of L1's bound that negatives may have beside it: keys
	// that do not exist push out no entries.
	negativeShare = 10
	// maxBackoff is how many times ErrorTTL a failure is remembered at most.
	maxBackoff = 10
)

// newNegatives makes the store of negatives.
func newNegatives[K comparable](entries, weight int64) *l1.Cache[K, negative] {
	return l1.New(l1.Config[K, negative]{MaxEntries: negativeBound(entries, weight)})
}

// negativeBound is the bound of the number of negatives for these bounds of L1.
func negativeBound(entries, weight int64) int64 {
	if entries == 0 {
		entries = min(weight, defaultMaxEntries)
	}
	return max(1, entries/negativeShare)
}

// recall returns the negative entry of key if it still holds, or nil. A failure
// is remembered for longer than it holds, so that the next one counts.
func (c *Cache[K, V]) recall(key K) *negative {
	if c.negatives.Len() == 0 { // as in most caches
		return nil
	}
	e, now := c.negatives.Peek(key)
	if e == nil || now >= e.Value.fresh {
		return nil
	}
	if e.Value.notFound && e.Value.stamp < c.generation.Watermark() {
		if v, _, _ := c.generation.Judge(e.Value.stamp, func() uint16 { return c.laneOf(key) }); v != ledger.Valid {
			return nil
		}
	}
	if v, _ := c.judgeTags(e.Value.traits); v != ledger.Valid {
		return nil
	}
	return &e.Value
}

// throttled returns the failure for which key is not to be loaded now, or nil.
func (c *Cache[K, V]) throttled(key K) error {
	if m := c.recall(key); m != nil && !m.notFound {
		return m.err
	}
	return nil
}

// failed remembers that a load of key has failed with err, and has said own. It may run
// without a right to store: a failure is nothing that could be old.
func (c *Cache[K, V]) failed(key K, err error, own *expiry.Own) {
	base := c.o.ErrorTTL
	if base == 0 {
		return
	}
	now := c.memory.Now()
	m := negative{err: err, failures: 1, traits: newTraits(nil, 0, own)}
	if e, _ := c.negatives.Peek(key); e != nil && !e.Value.notFound {
		m.failures = e.Value.failures + 1
	}
	holds := base * time.Duration(min(1<<min(m.failures-1, 10), maxBackoff))
	holds -= time.Duration(rand.Float64() * float64(holds) / 5)
	m.fresh = l1.After(now, holds)
	c.negatives.Set(l1.NewEntry(c.negatives, key, m, l1.After(now, holds+2*maxBackoff*base)), 1)
}

// failedWith returns the lives that the last load of key has said, if it has failed.
func (c *Cache[K, V]) failedWith(key K) *expiry.Own {
	if m := c.recall(key); m != nil && !m.notFound {
		return m.traits.lives()
	}
	return nil
}

// failures is how often the load of key has failed in a row.
func (c *Cache[K, V]) failures(key K) int {
	if e, _ := c.negatives.Peek(key); e != nil {
		return int(e.Value.failures)
	}
	return 0
}

// remembers reports whether a load's failure says something about the origin:
// not if the flight was cancelled, nor if the Loader has panicked.
func (r *read[K, V]) remembers(err error) bool {
	var p *LoadPanicError
	var late *timeoutError
	switch {
	case err == nil, errors.As(err, &p), errors.Is(err, ErrLoadExited), errors.Is(err, ErrClosed), errors.Is(err, ErrRecursiveLoad):
		return false
	case r.ctx.Err() != nil, errors.Is(err, context.Canceled):
		return false // a Loader may have used its caller's context
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &late):
		callers, _ := r.c.flights.Waiting(r.f)
		return callers > 0 // else it may be that of the caller that has left
	}
	return true
}

// absent is the negative entry of a key that the origin does not have, for left. tags are
// those of that answer.
func (r *read[K, V]) absent(err error, left time.Duration, tags []string) *l1.Entry[K, negative] {
	return r.c.negativeEntry(r.f.Key, err, left, r.stamps(tags, nil))
}

// negativeEntry is the negative entry of a key that the origin does not have, for left.
// s is from before the origin said so.
func (c *Cache[K, V]) negativeEntry(key K, err error, left time.Duration, s stamps) *l1.Entry[K, negative] {
	dead := l1.After(c.memory.Now(), min(left, c.memoryTTL(nil)))
	n := negative{err: err, notFound: true, fresh: dead, stamp: s.generation, traits: newTraits(s.tags, s.tagGeneration, nil)}
	return l1.NewEntry(c.negatives, key, n, dead)
}

// lifeOfAbsent returns for how long it is remembered that the origin does not have a
// key: for as long as the call or the load has said, or else for NotFoundTTL. If that is
// not positive it is not remembered.
func (c *core) lifeOfAbsent(o *call) time.Duration {
	if o.ttl != 0 {
		return c.jittered(o.ttl)
	}
	return c.jittered(c.settings.NotFoundTTL)
}

// IsNotFound reports whether err says that the origin has no such key: whether it is or
// wraps ErrNotFound, sql.ErrNoRows, or the error of go-redis for a missing key, or an
// error with a method NotFound() bool that returns true. It is the default of
// Options.IsNotFound.
func IsNotFound(err error) bool {
	if errors.Is(err, ErrNotFound) || errors.Is(err, sql.ErrNoRows) {
		return true
	}
	var reply interface {
		error
		RedisError()
	}
	if errors.As(err, &reply) && reply.Error() == "redis: nil" {
		return true
	}
	var missing interface {
		error
		NotFound() bool
	}
	return errors.As(err, &missing) && missing.NotFound()
}

// asNotFound returns err, an error of a Loader, so that it wraps ErrNotFound if
// Options.IsNotFound says that it stands for that.
func (c *core) asNotFound(err error) error {
	if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrLoadExited) || isPanic(err) || !c.saysNotFound(err) {
		return err
	}
	return &notFoundError{err}
}

// saysNotFound is Options.IsNotFound. A panic of it means no.
func (c *core) saysNotFound(err error) (is bool) {
	defer c.contain("IsNotFound")
	return c.settings.IsNotFound(err)
}

// notFoundError is an error of a Loader that stands for ErrNotFound.
type notFoundError struct{ err error }

func (e *notFoundError) Error() string { return e.err.Error() }

// Unwrap returns ErrNotFound and the error of the Loader.
func (e *notFoundError) Unwrap() []error { return []error{ErrNotFound, e.err} }

// forget removes key from L1, and returns the removed entries for memory.Notify,
// which is called once no lock is held. forget is called under the lock of the key's
// flights.
func (c *Cache[K, V]) forget(key K) []removal[K, V] {
	if c.negatives.Len() > 0 { // the lock of the key's flights is held: none of the key is coming
		c.negatives.Delete(key)
	}
	return c.forgetValue(key)
}

// forgetValue is forget, but the negative entry of the key stays.
func (c *Cache[K, V]) forgetValue(key K) []removal[K, V] {
	e, alive := c.memory.Delete(key)
	if e == nil || c.o.Hooks.Evict == nil {
		return nil
	}
	why := l1.Deleted
	if !alive {
		why = l1.Expired
	}
	return []removal[K, V]{{Entry: e, Reason: why}}
}

// unremember removes the negative entry of e's key when e is put into L1. A stale
// value says nothing about a failure that still holds.
func (c *Cache[K, V]) unremember(e *entry[K, V]) {
	if c.negatives.Len() == 0 {
		return
	}
	if m, now := c.negatives.Peek(e.Key); m != nil && (m.Value.notFound || now < e.Value.FreshUntil(e.Dead)) {
		c.negatives.Delete(e.Key)
	}
}
