package strata

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/internal/cache/origin"
)

// Entries of L1, their parts, and removed entries; see package local.
type (
	entry[K comparable, V any]   = local.Entry[K, V]
	removal[K comparable, V any] = local.Removal[K, V]
	stamps                       = local.Stamps
	record                       = local.Record
)

// windows returns for how long a value with these lives may be served after its TTL.
func (c *core) windows(own *expiry.Own) (s Stale) {
	s = c.tuned.stale()
	s.WhileRevalidate, s.OnError = own.Windows(s.WhileRevalidate, s.OnError)
	return s
}

// laneOf returns the lane of key. If the user's Key panics, it returns a lane that
// does not exist, so that the entry is suspect.
func (c *Cache[K, V]) laneOf(key K) (lane uint16) {
	if !c.l2.HasPositions() {
		return 0
	}
	name, err := c.nameOf(key)
	if err != nil {
		return ^lane
	}
	return c.l2.Lane(name)
}

// life returns how long a value stored by o is to live. It is not positive if
// the value is not to be stored.
func (c *core) life(o *call) time.Duration {
	return c.births.Jittered(cmp.Or(o.ttl, c.tuned.ttl()))
}

// passesMemory reports whether a call keeps nothing in L1.
func (c *core) passesMemory(o *call) bool {
	return o.noMemory || c.settings.Memory.Off || c.tuned.off.Load() || o.own.Longest(1) == 0
}

// kept returns for how long a value with these lives is kept, if it is fresh for left.
func (c *core) kept(left time.Duration, own *expiry.Own) time.Duration {
	window := c.windows(own).window()
	if left > NoExpiry-window {
		return NoExpiry
	}
	return left + window
}

// memoryTTL is the longest life that a value with these lives may have in L1 now.
func (c *core) memoryTTL(own *expiry.Own) time.Duration {
	ttl := own.Longest(cmp.Or(c.settings.Memory.TTL, NoExpiry))
	switch {
	case c.link.Mute():
		return 0
	case c.l2.Used() && !c.link.Connected():
		ttl = min(ttl, UnconfirmedTTL)
	}
	return c.births.Jittered(ttl)
}

// weigh returns the weight of an entry, and false if the entry must not be
// kept in L1.
func (c *Cache[K, V]) weigh(key K, v V) (weight int64, ok bool) {
	if c.o.Memory.Weigh == nil {
		return 1, true
	}
	defer c.contain("Memory.Weigh")
	weight = c.o.Memory.Weigh(key, v)
	return weight, weight >= 1 || weight == evict.Pinned
}

// lasts reports whether a suspect entry may be served while L2 does not answer:
// UnconfirmedTTL after it was last confirmed at most, and never under Strict.
func (c *core) lasts(since int64) bool {
	return !c.settings.Remote.Strict && c.now() < l1.After(since, UnconfirmedTTL)
}

// outdated reports whether a caller that joined a flight must not get its result r: it is of L1,
// against NoMemory, or a tag of r was dropped after r was read and before the caller came. watermark
// is the generation of tags from before the caller joined.
func (c *Cache[K, V]) outdated(o *call, r *flight.Result[V], watermark uint64) bool {
	return o.noMemory && r.Note&noteTier == noteL1 || c.generation.DroppedBetween(r.Tags, r.TagWatermark, watermark)
}

// plain reports whether a hit on an entry that ends at dead needs no check but the time, the
// generation and tags. It is Lives.SoonAt and Lives.Stamp written out: in code that other packages
// instantiate, Go calls functions of internal/cache/expiry.
func plain[V any](h *local.Held[V], now, dead int64, generation uint64) bool {
	return now < dead-int64(h.Soon&expiry.SpanMask)*expiry.Units[h.Soon>>expiry.SpanBits] &&
		h.State>>expiry.StampShift >= generation && h.State&expiry.Closely == 0
}

// timesOf returns the times of e.
func (c *Cache[K, V]) timesOf(e *entry[K, V]) flight.Times {
	return flight.Times{Fresh: e.Value.FreshUntil(e.Dead), Born: c.near.Born(e)}
}

// remembers reports whether a load's failure says something about the origin:
// not if the flight was cancelled, nor if the Loader has panicked.
func (r *read[K, V]) remembers(err error) bool {
	var p *LoadPanicError
	var late *origin.TimeoutError
	switch {
	case err == nil, errors.As(err, &p), errors.Is(err, ErrLoadExited), errors.Is(err, ErrClosed), errors.Is(err, ErrRecursiveLoad):
		return false
	case r.ctx.Err() != nil, errors.Is(err, context.Canceled):
		return false // a Loader may have used its caller's context
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &late):
		callers, _ := r.c.flights.Waiting(r.f)
		return callers > 0 // else it may be the error of the caller, which has left
	}
	return true
}

// absent returns the negative entry of a key that the origin does not have. It lives for left; it is
// nil if left is not positive. tags are the tags of the answer.
func (r *read[K, V]) absent(err error, left time.Duration, tags []string) *l1.Entry[K, local.Negative] {
	return r.c.near.NewNegative(r.f.Key, err, left, r.stamps(tags, nil))
}

// lifeOfAbsent returns for how long the cache remembers that the origin does not have a
// key: for as long as the call or the load has said, or else for NotFoundTTL. It remembers
// nothing if the result is not positive.
func (c *core) lifeOfAbsent(o *call) time.Duration {
	if o.ttl != 0 {
		return c.births.Jittered(o.ttl)
	}
	return c.births.Jittered(c.settings.NotFoundTTL)
}

// IsNotFound reports whether err says that the origin has no such key: whether it is or
// wraps ErrNotFound, sql.ErrNoRows, or the error of go-redis for a missing key, or an
// error with a method NotFound() bool that returns true. It is the default of
// Options.IsNotFound.
func IsNotFound(err error) bool {
	return errors.Is(err, ErrNotFound) || origin.IsNotFound(err)
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
