package strata

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/cache/keyname"
	"github.com/strata-cache/strata/internal/cache/l2"
	"github.com/strata-cache/strata/remote"
)

// settings are Options without the types of keys and values, so that the code which
// checks and reads them is compiled once, however many types a program caches. Functions
// in them tell only whether the Options have one.
type settings = Options[none, none]

// none stands for the types of keys and values.
type none struct{}

// settings returns what o has beside functions for its types.
func (o *Options[K, V]) settings() *settings {
	m, r := &o.Memory, &o.Remote
	s := &settings{
		Name: o.Name, Service: o.Service, TTL: o.TTL, IdleTTL: o.IdleTTL, Jitter: o.Jitter, RefreshAt: o.RefreshAt, RefreshSpread: o.RefreshSpread, RefreshEvery: o.RefreshEvery, Stale: o.Stale,
		NotFoundTTL: o.NotFoundTTL, IsNotFound: o.IsNotFound, ErrorTTL: o.ErrorTTL, Limits: o.Limits, ContextControls: o.ContextControls,
		ShowKeys: o.ShowKeys, Hooks: o.Hooks, Tracer: o.Tracer, Logger: o.Logger, BatchWait: o.BatchWait, BatchSize: o.BatchSize,
		Memory: Memory[none, none]{
			MaxEntries: m.MaxEntries, MaxWeight: m.MaxWeight, Policy: m.Policy, EvictShare: m.EvictShare,
			DetectMutation: m.DetectMutation, TTL: m.TTL, Off: m.Off,
		},
		Remote: Remote[none, none]{
			Tier: r.Tier, Bus: r.Bus, Partition: r.Partition, Timeout: r.Timeout, BreakAfter: r.BreakAfter, BreakFor: r.BreakFor,
		},
	}
	if m.Weigh != nil {
		s.Memory.Weigh = func(none, none) int64 { return 0 }
	}
	if m.Clone != nil {
		s.Memory.Clone = func(none) none { return none{} }
	}
	if o.Loader != nil {
		s.Loader = func(context.Context, none) (none, error) { return none{}, nil }
	}
	if o.ManyLoader != nil {
		s.ManyLoader = func(context.Context, []none) (map[none]none, error) { return nil, nil }
	}
	if o.Tags != nil {
		s.Tags = func(none, none) []string { return nil }
	}
	if r.Key != nil {
		s.Remote.Key = func(none) string { return "" }
	}
	if r.ParseKey != nil {
		s.Remote.ParseKey = func(string) (none, error) { return none{}, nil }
	}
	return s
}

// setDefaults replaces every zero value of o by its default, and returns its settings and
// all problems of o as one error.
func (o *Options[K, V]) setDefaults() (*settings, error) {
	s := o.settings()
	errs := problems(s)
	fill(s)
	o.Jitter, o.RefreshAt, o.Stale, o.NotFoundTTL, o.ErrorTTL = s.Jitter, s.RefreshAt, s.Stale, s.NotFoundTTL, s.ErrorTTL
	o.Limits, o.Logger, o.Hooks, o.Memory.MaxEntries, o.BatchSize = s.Limits, s.Logger, s.Hooks, s.Memory.MaxEntries, s.BatchSize
	o.Remote.Timeout, o.Remote.BreakFor, o.Remote.BreakAfter = s.Remote.Timeout, s.Remote.BreakFor, s.Remote.BreakAfter
	if o.Remote.used() {
		errs = append(errs, o.Remote.fill()...)
	}
	return s, errors.Join(errs...)
}

// fill replaces every zero value of o by its default.
func fill(o *settings) {
	if o.Jitter == 0 {
		o.Jitter = defaultJitter
	}
	o.Jitter = max(o.Jitter, 0)
	if o.Memory.MaxEntries == 0 && o.Memory.MaxWeight == 0 {
		o.Memory.MaxEntries = defaultMaxEntries
	}
	o.Limits.HardTimeout = orDefault(o.Limits.HardTimeout, defaultHardTimeout)
	if o.Limits.MaxRefreshes == 0 {
		o.Limits.MaxRefreshes = defaultMaxRefreshes
	}
	o.Limits.Lease = orDefault(o.Limits.Lease, defaultLease)
	o.Remote.Timeout = orDefault(o.Remote.Timeout, defaultRemoteTimeout)
	o.Remote.BreakFor = orDefault(o.Remote.BreakFor, defaultBreakFor)
	if o.Remote.BreakAfter == 0 {
		o.Remote.BreakAfter = defaultBreakAfter
	}
	fillLives(o)
	if o.BatchSize == 0 {
		o.BatchSize = defaultBatchSize
	}
	if o.Limits.MaxKeyBytes == 0 {
		o.Limits.MaxKeyBytes = defaultMaxKeyBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Hooks == nil {
		o.Hooks = &Hooks{}
	}
}

// fillLives sets the defaults that depend on TTL.
func fillLives(o *settings) {
	ttl := o.TTL
	if ttl == NoExpiry {
		ttl = time.Hour
		o.RefreshAt = -1 // there is no share of for ever
	}
	if o.RefreshAt == 0 {
		o.RefreshAt = defaultRefreshAt
	}
	o.Stale.WhileRevalidate = max(0, orDefault(o.Stale.WhileRevalidate, ttl/10))
	o.Stale.OnError = max(0, orDefault(o.Stale.OnError, min(max(ttl, time.Minute), time.Hour)))
	o.NotFoundTTL = max(0, orDefault(o.NotFoundTTL, min(ttl/4, maxNotFoundTTL)))
	o.ErrorTTL = max(0, orDefault(o.ErrorTTL, defaultErrorTTL))
	if o.IsNotFound == nil {
		o.IsNotFound = IsNotFound
	}
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// problems returns an error for every field that is wrong by itself.
func problems(o *settings) []error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("strata: options: %s: "+format, append([]any{field}, args...)...))
	}
	switch {
	case o.TTL == 0:
		bad("TTL", "required (NoExpiry for entries that do not expire)")
	case o.TTL < 0:
		bad("TTL", "%v is negative", o.TTL)
	case o.TTL < minTTL:
		bad("TTL", "%v is less than %v: write a unit, as in %d*time.Second", o.TTL, minTTL, int64(o.TTL))
	}
	if d := o.IdleTTL; d != 0 && d < minTTL {
		bad("IdleTTL", "%v is less than %v", d, minTTL)
	}
	if math.IsNaN(o.Jitter) || o.Jitter > 0.9 {
		bad("Jitter", "%v is not at most 0.9", o.Jitter)
	}
	if math.IsNaN(o.RefreshAt) || o.RefreshAt >= 1 {
		bad("RefreshAt", "%v is not less than 1", o.RefreshAt)
	}
	if s := o.RefreshSpread; math.IsNaN(s) || s < 0 || s > 100 {
		bad("RefreshSpread", "%v is not between 0 and 100", s)
	}
	for _, n := range [...][2]string{{"Name", l2.BadName(o.Name)}, {"Service", l2.BadService(o.Service)}} {
		if n[1] != "" {
			bad(n[0], "%s", n[1])
		}
	}
	if o.Name == "" && o.Remote.used() {
		bad("Name", "required with a Tier or Bus")
	}
	notNegative := func(field string, d time.Duration) {
		if d < 0 {
			bad(field, "%v is negative", d)
		}
	}
	problemsOfMemory(&o.Memory, bad)
	problemsOfBatches(o, bad)
	notNegative("Memory.TTL", o.Memory.TTL)
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
	notNegative("Remote.Timeout", o.Remote.Timeout)
	notNegative("Remote.BreakFor", o.Remote.BreakFor)
	if p := o.Remote.Partition; p > Strict {
		bad("Remote.Partition", "%d is unknown", p)
	}
	switch r := &o.Remote; {
	case r.Key == nil && r.ParseKey != nil:
		bad("Remote.Key", "required with ParseKey")
	case r.Key != nil && r.ParseKey == nil && r.Bus != nil:
		bad("Remote.ParseKey", "required with Key and a Bus, whose messages name keys (not with a Tier alone)")
	}
	if _, ok := remote.As[remote.Tagger](o.Remote.Tier); !ok && o.Remote.Tier != nil && o.Tags != nil {
		bad("Tags", "the Tier has none (remote.Tagger)")
	}
	return errs
}

// problemsOfBatches calls bad for every field that is wrong about the loaders of o.
func problemsOfBatches(o *settings, bad func(field, format string, args ...any)) {
	if every := o.RefreshEvery; every < 0 || every > 0 && every < minTTL {
		bad("RefreshEvery", "%v is less than %v", every, minTTL)
	}
	if o.RefreshEvery > 0 && o.Loader == nil && o.ManyLoader == nil {
		bad("RefreshEvery", "needs a Loader or ManyLoader")
	}
	if o.BatchWait < 0 || o.BatchWait > maxBatchWait {
		bad("BatchWait", "%v is not between 0 and %v", o.BatchWait, maxBatchWait)
	}
	if o.BatchWait != 0 && (o.ManyLoader == nil || o.Loader != nil) {
		bad("BatchWait", "needs a ManyLoader, and no Loader")
	}
	if o.BatchSize < 0 || o.BatchSize > maxBatch {
		bad("BatchSize", "%d is not between 0 and %d", o.BatchSize, maxBatch)
	}
	if o.BatchSize != 0 && o.BatchWait == 0 {
		bad("BatchSize", "needs BatchWait")
	}
}

// problemsOfMemory calls bad for every field that is wrong by itself, but TTL.
func problemsOfMemory(m *Memory[none, none], bad func(field, format string, args ...any)) {
	if m.MaxEntries < 0 {
		bad("Memory.MaxEntries", "%d is negative", m.MaxEntries)
	}
	if m.MaxWeight < 0 {
		bad("Memory.MaxWeight", "%d is negative", m.MaxWeight)
	}
	if m.MaxWeight > 0 && m.Weigh == nil {
		bad("Memory.Weigh", "required with MaxWeight")
	}
	if m.Weigh != nil && m.MaxWeight == 0 {
		bad("Memory.MaxWeight", "required with Weigh")
	}
	if !m.Policy.Known() {
		bad("Memory.Policy", "%d is unknown", m.Policy)
	}
	if s := m.EvictShare; math.IsNaN(s) || s < 0 || s > 0.5 {
		bad("Memory.EvictShare", "%v is not between 0 and 0.5", s)
	}
}

// fill sets the defaults that depend on the types.
func (r *Remote[K, V]) fill() (errs []error) {
	if r.Key == nil && r.ParseKey == nil && r.names().Of == nil {
		errs = append(errs, fmt.Errorf("strata: options: Remote.Key: required, with a Bus ParseKey too, for keys of type %v: "+
			"no string, no integer, and without MarshalText or UnmarshalText", reflect.TypeFor[K]()))
	}
	if r.Codec == nil {
		r.Codec = defaultCodec[V]()
	}
	if err := checkCodec(r.Codec); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// names returns the conversions between keys and names. They are zero if there are none.
func (r *Remote[K, V]) names() keyname.Names[K] {
	if r.Key != nil {
		return keyname.Given(r.Key, r.ParseKey)
	}
	n, _ := keyname.Default[K]()
	return n
}

// checkCodec returns the error of a Codec that can be asked whether it is usable.
func checkCodec(c any) error {
	if c, ok := c.(codec.Checker); ok {
		if err := c.Check(); err != nil {
			return fmt.Errorf("strata: options: Remote.Codec: %w", err)
		}
	}
	return nil
}

// advice returns a sentence for each surprising effect of the options. The options
// have their defaults.
func advice(o *settings) (all []string) {
	say := func(when bool, sentence string) {
		if when {
			all = append(all, sentence)
		}
	}
	l, s, r := &o.Limits, &o.Stale, &o.Remote
	say(r.Tier != nil && r.Bus == nil && (o.Memory.TTL == 0 || o.Memory.TTL >= UnconfirmedTTL),
		"a Tier without a Bus, and without a short Memory.TTL: L1 serves an entry for up to 30s after another instance has invalidated it")
	say(r.Partition == Strict && r.Bus == nil, "Remote.Partition: Strict has no effect without a Bus")
	say(r.used() && o.TTL == NoExpiry, "TTL: NoExpiry with a Tier or Bus: a lost invalidation is never corrected by expiry")
	say(o.NotFoundTTL > o.TTL, "NotFoundTTL is longer than TTL: a key that appears is missed for longer than one that changes")
	say(o.IdleTTL > 0 && o.TTL != NoExpiry && o.IdleTTL-s.window() >= o.TTL, "IdleTTL is not less than TTL and Stale together: it has no effect")
	say(s.WhileRevalidate > o.TTL, "Stale.WhileRevalidate is longer than TTL: most values that are served are stale")
	say(s.OnError > 0 && s.OnError < o.ErrorTTL, "Stale.OnError is shorter than ErrorTTL: one failure uses it up")
	say(l.SoftTimeout > 0 && s.OnError == 0, "Limits.SoftTimeout without Stale.OnError: there is no stale value to serve instead")
	say(l.SoftTimeout > 0 && l.HardTimeout > 0 && l.SoftTimeout >= l.HardTimeout, "Limits.SoftTimeout is not less than HardTimeout")
	say(l.MaxWaiters > 0 && l.MaxLoads > l.MaxWaiters, "Limits.MaxLoads is more than MaxWaiters: it is never reached")
	say(r.Tier != nil && l.HardTimeout > 0 && r.Timeout >= l.HardTimeout, "Remote.Timeout is not less than Limits.HardTimeout")
	say(o.Memory.TTL > 0 && o.RefreshAt > 0 && float64(o.Memory.TTL) < o.RefreshAt*float64(o.TTL),
		"Memory.TTL ends before RefreshAt: L1 never starts a refresh")
	say(o.Memory.Off && r.Tier == nil, "Memory.Off without a Tier: nothing is kept but failures")
	say(o.RefreshEvery > 0 && o.TTL == NoExpiry, "RefreshEvery with NoExpiry: entries are never due")
	say(o.Memory.DetectMutation, "Memory.DetectMutation makes hits slower: leave it to tests and staging")
	return all
}

// defaultCodec returns the codec that is used if the Options name none.
func defaultCodec[V any]() codec.Codec[V] {
	var c any = codec.JSON[V]()
	switch any(*new(V)).(type) {
	case []byte:
		c = codec.Bytes()
	case string:
		c = codec.String()
	}
	return c.(codec.Codec[V])
}
