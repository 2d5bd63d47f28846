package cache

import (
	"fmt"
	"math"
	"time"

	"github.com/strata-cache/strata/internal/cache/bytestore"
)

// Problems returns an error for every field that is wrong by itself.
func (o *Options) Problems() []error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("strata: options: %s: "+format, append([]any{field}, args...)...))
	}
	switch {
	case o.TTL == 0:
		bad("TTL", "required (NoExpiry for entries that do not expire)")
	case o.TTL < 0:
		bad("TTL", "%v is negative", o.TTL)
	case o.TTL < MinTTL:
		bad("TTL", "%v is less than %v: write a unit, as in %d*time.Second", o.TTL, MinTTL, int64(o.TTL))
	}
	if d := o.IdleTTL; d != 0 && d < MinTTL {
		bad("IdleTTL", "%v is less than %v", d, MinTTL)
	}
	if math.IsNaN(*o.Jitter) || *o.Jitter > 0.9 {
		bad("Jitter", "%v is not at most 0.9", *o.Jitter)
	}
	if math.IsNaN(*o.RefreshAt) || *o.RefreshAt >= 1 {
		bad("RefreshAt", "%v is not less than 1", *o.RefreshAt)
	}
	if s := o.RefreshSpread; math.IsNaN(s) || s < 0 || s > 100 {
		bad("RefreshSpread", "%v is not between 0 and 100", s)
	}
	for _, n := range [...][2]string{{"Name", o.BadName}, {"Service", o.BadService}} {
		if n[1] != "" {
			bad(n[0], "%s", n[1])
		}
	}
	if !o.Named && (o.HasTier || o.HasBus) {
		bad("Name", "required with a Tier or Bus")
	}
	notNegative := func(field string, d time.Duration) {
		if d < 0 {
			bad(field, "%v is negative", d)
		}
	}
	o.problemsOfMemory(bad)
	o.problemsOfBatches(bad)
	notNegative("Memory.TTL", o.MemoryTTL)
	if l := o.Limits.Lease; l < 0 || l > 0 && l < 100*time.Millisecond {
		bad("Limits.Lease", "%v is less than 100ms", l)
	}
	notNegative("Limits.SoftTimeout", o.Limits.SoftTimeout)
	if n := o.Limits.MaxLoads; n < 0 {
		bad("Limits.MaxLoads", "%d is negative", n)
	}
	if n := o.Limits.MaxRefreshes; n < 0 {
		bad("Limits.MaxRefreshes", "%d is negative (RefreshAt and Stale.WhileRevalidate turn refreshes off)", n)
	}
	if n := o.Limits.MaxWaiters; n < 0 {
		bad("Limits.MaxWaiters", "%d is negative", n)
	}
	notNegative("Remote.Timeout", *o.Timeout)
	notNegative("Remote.BreakFor", *o.BreakFor)
	switch {
	case !o.HasKey && o.HasParseKey:
		bad("Remote.Key", "required with ParseKey")
	case o.HasKey && !o.HasParseKey && o.HasBus:
		bad("Remote.ParseKey", "required with Key and a Bus, whose messages name keys (not with a Tier alone)")
	}
	if o.HasTier && o.HasTags && !o.Tagger {
		bad("Tags", "the Tier has none (remote.Tagger)")
	}
	return errs
}

// problemsOfBatches calls bad for every field that is wrong about the loaders.
func (o *Options) problemsOfBatches(bad func(field, format string, args ...any)) {
	if every := o.RefreshEvery; every < 0 || every > 0 && every < MinTTL {
		bad("RefreshEvery", "%v is less than %v", every, MinTTL)
	}
	if o.RefreshEvery > 0 && !o.HasLoader && !o.HasManyLoader {
		bad("RefreshEvery", "needs a Loader or ManyLoader")
	}
	if o.BatchWait < 0 || o.BatchWait > maxBatchWait {
		bad("BatchWait", "%v is not between 0 and %v", o.BatchWait, maxBatchWait)
	}
	if o.BatchWait != 0 && (!o.HasManyLoader || o.HasLoader) {
		bad("BatchWait", "needs a ManyLoader, and no Loader")
	}
	if *o.BatchSize < 0 || *o.BatchSize > MaxBatch {
		bad("BatchSize", "%d is not between 0 and %d", *o.BatchSize, MaxBatch)
	}
	if *o.BatchSize != 0 && o.BatchWait == 0 {
		bad("BatchSize", "needs BatchWait")
	}
}

// problemsOfMemory calls bad for every field that is wrong in L1, but TTL.
func (o *Options) problemsOfMemory(bad func(field, format string, args ...any)) {
	if *o.MaxEntries < 0 {
		bad("Memory.MaxEntries", "%d is negative", *o.MaxEntries)
	}
	if *o.MaxWeight < 0 {
		bad("Memory.MaxWeight", "%d is negative", *o.MaxWeight)
	}
	if *o.MaxWeight > 0 && !o.HasWeigh && !o.Encoded {
		bad("Memory.Weigh", "required with MaxWeight")
	}
	if o.HasWeigh && *o.MaxWeight == 0 {
		bad("Memory.MaxWeight", "required with Weigh")
	}
	if !o.Policy.Known() {
		bad("Memory.Policy", "%d is unknown", o.Policy)
	}
	if s := o.EvictShare; math.IsNaN(s) || s < 0 || s > 0.5 {
		bad("Memory.EvictShare", "%v is not between 0 and 0.5", s)
	}
	if o.Encoded {
		o.problemsOfEncoded(bad)
	}
}

// ProblemsOfTuning returns an error for every wrong change of a cache in use: of its bounds and its
// TTL. Nil stands for no change. leastWeight is the least MaxWeight.
func ProblemsOfTuning(maxEntries, maxWeight *int64, ttl *time.Duration, hasWeigh, encoded bool, leastWeight int64) []error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("strata: tune: %s: "+format, append([]any{field}, args...)...))
	}
	if n := maxEntries; n != nil && *n < 1 {
		bad("MaxEntries", "%d is less than 1", *n)
	}
	if n := maxWeight; n != nil && *n < leastWeight {
		bad("MaxWeight", "%d is less than %d", *n, leastWeight)
	}
	if maxWeight != nil && !hasWeigh && !encoded {
		bad("MaxWeight", "needs Memory.Weigh")
	}
	if maxEntries != nil && encoded {
		bad("MaxEntries", "cannot be set with Memory.Encoded")
	}
	if ttl != nil && *ttl < MinTTL {
		bad("TTL", "%v is less than %v", *ttl, MinTTL)
	}
	return errs
}

// OrElse returns the value that p points to, or else v.
func OrElse[T any](p *T, v T) T {
	if p != nil {
		return *p
	}
	return v
}

// Change names a change of a cache in use; empty if value is nil.
func Change[T any](name string, value *T) []string {
	if value == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s=%v", name, *value)}
}

// problemsOfEncoded calls bad for every field that an encoded L1 cannot have.
func (o *Options) problemsOfEncoded(bad func(field, format string, args ...any)) {
	if n := *o.MaxWeight; n > 0 && n < bytestore.MinBudget {
		bad("Memory.MaxWeight", "%d bytes are less than %d, with Encoded", n, bytestore.MinBudget)
	}
	for _, f := range [...]struct {
		name string
		set  bool
	}{
		{"Memory.MaxEntries", *o.MaxEntries != 0},
		{"Memory.Weigh", o.HasWeigh},
		{"Memory.Policy", o.Policy != 0},
		{"Memory.EvictShare", o.EvictShare != 0},
		{"IdleTTL", o.IdleTTL != 0},
		{"Memory.Clone", o.HasClone},
		{"Memory.DetectMutation", o.DetectMutation},
	} {
		if f.set {
			bad(f.name, "cannot be set with Memory.Encoded")
		}
	}
}
