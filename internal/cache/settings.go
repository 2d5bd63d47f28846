// The options of a cache are checked here, and get their defaults. Nothing here knows types of keys
// and values, and of functions and parts only whether there are any.

package cache

import (
	"cmp"
	"math"
	"time"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// NoExpiry is a life without an end.
const NoExpiry time.Duration = math.MaxInt64

// UnconfirmedTTL is the longest life of an entry in L1 without a healthy bus.
const UnconfirmedTTL = 30 * time.Second

// HardTimeout is the default of Limits.HardTimeout.
const HardTimeout = time.Minute

// MinTTL is the resolution of a busy clock. A TTL below it is most often a number
// without a unit: 60 is 60 ns.
const MinTTL = time.Millisecond

// MaxBatch is the number of keys in one operation on L2. It is bounded so that the
// timeout of the operation does not depend on the size of the call.
const MaxBatch = 500

// The other defaults, which the fields of strata.Options name.
const (
	defaultMaxEntries    = 10_000
	defaultBytes         = 64 << 20 // of an encoded L1
	defaultJitter        = 0.1
	defaultRemoteTimeout = 100 * time.Millisecond
	defaultLease         = 5 * time.Second
	defaultRefreshAt     = 0.8
	defaultBatchSize     = 100
	defaultMaxRefreshes  = 256
	defaultErrorTTL      = time.Second
	defaultMaxKeyBytes   = 8 << 10
	defaultBreakAfter    = 5
	defaultBreakFor      = 5 * time.Second
	// maxNotFoundTTL is the longest default of NotFoundTTL.
	maxNotFoundTTL = 30 * time.Second
	// maxBatchWait bounds the time by which BatchWait delays a load.
	maxBatchWait = time.Second
)

// Options are the options of a cache. Those that have defaults are pointers.
type Options struct {
	TTL, IdleTTL, RefreshEvery, BatchWait, MemoryTTL        time.Duration
	NotFoundTTL, ErrorTTL, Timeout, BreakFor                *time.Duration
	Jitter, RefreshAt                                       *float64
	RefreshSpread, EvictShare                               float64
	BatchSize, BreakAfter                                   *int
	MaxEntries, MaxWeight                                   *int64
	Policy                                                  evict.Policy
	Stale                                                   *Stale
	Limits                                                  *Limits
	Off, DetectMutation, Encoded, HasClone, Named, Strict   bool
	HasTier, HasBus, HasKey, HasParseKey, HasTags, HasWeigh bool
	HasLoader, HasManyLoader                                bool
	// Tagger says that the tier has tags. BadName and BadService say why the names cannot be used, or are
	// empty.
	Tagger              bool
	BadName, BadService string
}

type (
	// Stale has the fields of strata.Stale.
	Stale struct{ WhileRevalidate, OnError time.Duration }

	// Limits has the fields of strata.Limits.
	Limits struct {
		HardTimeout     time.Duration
		CancelAbandoned bool
		SoftTimeout     time.Duration
		MaxLoads        int
		MaxRefreshes    int
		MaxWaiters      int
		MaxKeyBytes     int
		Lease           time.Duration
	}
)

// Fill replaces every zero value by its default.
func (o *Options) Fill() {
	*o.Jitter = cmp.Or(*o.Jitter, defaultJitter)
	*o.Jitter = max(*o.Jitter, 0)
	if o.Encoded {
		*o.MaxWeight = cmp.Or(*o.MaxWeight, defaultBytes)
	}
	if *o.MaxEntries == 0 && *o.MaxWeight == 0 {
		*o.MaxEntries = defaultMaxEntries
	}
	o.Limits.HardTimeout = cmp.Or(o.Limits.HardTimeout, HardTimeout)
	o.Limits.MaxRefreshes = cmp.Or(o.Limits.MaxRefreshes, defaultMaxRefreshes)
	o.Limits.Lease = cmp.Or(o.Limits.Lease, defaultLease)
	*o.Timeout = cmp.Or(*o.Timeout, defaultRemoteTimeout)
	*o.BreakFor = cmp.Or(*o.BreakFor, defaultBreakFor)
	*o.BreakAfter = cmp.Or(*o.BreakAfter, defaultBreakAfter)
	o.fillLives()
	*o.BatchSize = cmp.Or(*o.BatchSize, defaultBatchSize)
	o.Limits.MaxKeyBytes = cmp.Or(o.Limits.MaxKeyBytes, defaultMaxKeyBytes)
}

// fillLives sets the defaults that depend on TTL.
func (o *Options) fillLives() {
	ttl := o.TTL
	if ttl == NoExpiry {
		ttl = time.Hour
		*o.RefreshAt = -1 // there is no share of for ever
	}
	*o.RefreshAt = cmp.Or(*o.RefreshAt, defaultRefreshAt)
	o.Stale.WhileRevalidate = max(0, cmp.Or(o.Stale.WhileRevalidate, ttl/10))
	o.Stale.OnError = max(0, cmp.Or(o.Stale.OnError, min(max(ttl, time.Minute), time.Hour)))
	*o.NotFoundTTL = max(0, cmp.Or(*o.NotFoundTTL, min(ttl/4, maxNotFoundTTL)))
	*o.ErrorTTL = max(0, cmp.Or(*o.ErrorTTL, defaultErrorTTL))
}

// Advice returns a sentence for each surprising effect of the options. The options
// have their defaults.
func (o *Options) Advice() (all []string) {
	say := func(when bool, sentence string) {
		if when {
			all = append(all, sentence)
		}
	}
	l, s := o.Limits, o.Stale
	say(o.HasTier && !o.HasBus && (o.MemoryTTL == 0 || o.MemoryTTL >= UnconfirmedTTL),
		"a Tier without a Bus, and without a short Memory.TTL: L1 serves an entry for up to 30s after another instance has invalidated it")
	say(o.Strict && !o.HasBus, "Remote.Strict has no effect without a Bus")
	say((o.HasTier || o.HasBus) && o.TTL == NoExpiry, "TTL: NoExpiry with a Tier or Bus: a lost invalidation is never corrected by expiry")
	say(*o.NotFoundTTL > o.TTL, "NotFoundTTL is longer than TTL: a key that appears is missed for longer than one that changes")
	say(o.IdleTTL > 0 && o.TTL != NoExpiry && o.IdleTTL-max(s.WhileRevalidate, s.OnError) >= o.TTL, "IdleTTL is not less than TTL and Stale together: it has no effect")
	say(s.WhileRevalidate > o.TTL, "Stale.WhileRevalidate is longer than TTL: most values that are served are stale")
	say(s.OnError > 0 && s.OnError < *o.ErrorTTL, "Stale.OnError is shorter than ErrorTTL: one failure uses it up")
	say(l.SoftTimeout > 0 && s.OnError == 0, "Limits.SoftTimeout without Stale.OnError: there is no stale value to serve instead")
	say(l.SoftTimeout > 0 && l.HardTimeout > 0 && l.SoftTimeout >= l.HardTimeout, "Limits.SoftTimeout is not less than HardTimeout")
	say(l.MaxWaiters > 0 && l.MaxLoads > l.MaxWaiters, "Limits.MaxLoads is more than MaxWaiters: it is never reached")
	say(o.HasTier && l.HardTimeout > 0 && *o.Timeout >= l.HardTimeout, "Remote.Timeout is not less than Limits.HardTimeout")
	say(o.MemoryTTL > 0 && *o.RefreshAt > 0 && float64(o.MemoryTTL) < *o.RefreshAt*float64(o.TTL),
		"Memory.TTL ends before RefreshAt: L1 never starts a refresh")
	say(o.Off && !o.HasTier, "Memory.Off without a Tier: nothing is kept but failures")
	say(o.RefreshEvery > 0 && o.TTL == NoExpiry, "RefreshEvery with NoExpiry: entries are never due")
	say(o.DetectMutation, "Memory.DetectMutation makes hits slower: leave it to tests and staging")
	return all
}
