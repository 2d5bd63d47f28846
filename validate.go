package strata

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/strata-cache/strata/codec"
	check "github.com/strata-cache/strata/internal/cache"
	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/cache/l2"
	"github.com/strata-cache/strata/remote"
)

// settings are Options without the types of keys and values, so that the code which
// checks and reads them is compiled once, however many types a program caches. Functions
// in them tell only whether the Options have one.
type settings = Options[none, none]

// none stands for the types of keys and values.
type none struct{}

// settings returns the fields of o other than functions for its types.
func (o *Options[K, V]) settings() *settings {
	m, r := &o.Memory, &o.Remote
	s := &settings{
		Name: o.Name, Service: o.Service, TTL: o.TTL, IdleTTL: o.IdleTTL, Jitter: o.Jitter, RefreshAt: o.RefreshAt, RefreshSpread: o.RefreshSpread, RefreshEvery: o.RefreshEvery, Stale: o.Stale,
		NotFoundTTL: o.NotFoundTTL, IsNotFound: o.IsNotFound, ErrorTTL: o.ErrorTTL, Limits: o.Limits, ContextControls: o.ContextControls,
		ShowKeys: o.ShowKeys, Hooks: o.Hooks, Tracer: o.Tracer, Logger: o.Logger, BatchWait: o.BatchWait, BatchSize: o.BatchSize,
		Memory: Memory[none, none]{
			MaxEntries: m.MaxEntries, MaxWeight: m.MaxWeight, Policy: m.Policy, EvictShare: m.EvictShare,
			DetectMutation: m.DetectMutation, Encoded: m.Encoded, TTL: m.TTL, Off: m.Off, Guard: m.Guard,
		},
		Remote: Remote[none, none]{
			Tier: r.Tier, Bus: r.Bus, Strict: r.Strict, Timeout: r.Timeout, BreakAfter: r.BreakAfter, BreakFor: r.BreakFor,
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

// The defaults of Options.Logger and Options.Hooks are read-only.
var noLogger, noHooks = slog.New(slog.DiscardHandler), &Hooks{}

// setDefaults replaces every zero value of o by its default, and returns its settings and
// all problems of o as one error.
func (o *Options[K, V]) setDefaults() (*settings, error) {
	s := o.settings()
	all := checked(s)
	errs := all.Problems()
	all.Fill()
	if s.IsNotFound = o.IsNotFound; s.IsNotFound == nil {
		s.IsNotFound = IsNotFound
	}
	s.Logger, s.Hooks = cmp.Or(s.Logger, noLogger), cmp.Or(s.Hooks, noHooks)
	o.Jitter, o.RefreshAt, o.Stale, o.NotFoundTTL, o.ErrorTTL = s.Jitter, s.RefreshAt, s.Stale, s.NotFoundTTL, s.ErrorTTL
	o.Limits, o.Logger, o.Hooks, o.Memory.MaxEntries, o.Memory.MaxWeight, o.BatchSize = s.Limits, s.Logger, s.Hooks, s.Memory.MaxEntries, s.Memory.MaxWeight, s.BatchSize
	o.Remote.Timeout, o.Remote.BreakFor, o.Remote.BreakAfter = s.Remote.Timeout, s.Remote.BreakFor, s.Remote.BreakAfter
	if o.Memory.Encoded && !envelope.IsBytes[K]() {
		errs = append(errs, fmt.Errorf("strata: options: Memory.Encoded: keys of type %v have pointers, floats or padding", reflect.TypeFor[K]()))
	}
	if used := o.Remote.Tier != nil || o.Remote.Bus != nil; used || o.Memory.Encoded {
		errs = append(errs, o.Remote.fill(used)...)
	}
	return s, errors.Join(errs...)
}

// checked is o for the package that checks and fills it. Changes reach o.
func checked(o *settings) *check.Options {
	m, r := &o.Memory, &o.Remote
	_, tagger := remote.As[remote.Tagger](r.Tier)
	return &check.Options{
		TTL: o.TTL, IdleTTL: o.IdleTTL, RefreshEvery: o.RefreshEvery, BatchWait: o.BatchWait, MemoryTTL: m.TTL, NotFoundTTL: &o.NotFoundTTL,
		ErrorTTL: &o.ErrorTTL, Timeout: &r.Timeout, BreakFor: &r.BreakFor, Jitter: &o.Jitter, RefreshAt: &o.RefreshAt, RefreshSpread: o.RefreshSpread,
		EvictShare: m.EvictShare, Encoded: m.Encoded, HasClone: m.Clone != nil, BatchSize: &o.BatchSize, BreakAfter: &r.BreakAfter, MaxEntries: &m.MaxEntries, MaxWeight: &m.MaxWeight,
		Policy: evict.Policy(m.Policy), Strict: r.Strict, Stale: (*check.Stale)(&o.Stale), Limits: (*check.Limits)(&o.Limits),
		Off: m.Off, DetectMutation: m.DetectMutation, HasTier: r.Tier != nil, HasBus: r.Bus != nil, HasKey: r.Key != nil, HasParseKey: r.ParseKey != nil,
		HasTags: o.Tags != nil, HasWeigh: m.Weigh != nil, HasLoader: o.Loader != nil, HasManyLoader: o.ManyLoader != nil, Tagger: tagger,
		Named: o.Name != "", BadName: l2.BadName(o.Name), BadService: l2.BadService(o.Service),
	}
}

// fill sets the defaults that depend on the types. With names keys need names.
func (r *Remote[K, V]) fill(names bool) (errs []error) {
	if names && r.Key == nil && r.ParseKey == nil && r.names().Of == nil {
		errs = append(errs, fmt.Errorf("strata: options: Remote.Key: required, with a Bus ParseKey too, for keys of type %v: "+
			"no string, no integer, and without MarshalText or UnmarshalText", reflect.TypeFor[K]()))
	}
	if r.Codec == nil {
		r.Codec = defaultCodec[V]()
	}
	if c, ok := r.Codec.(codec.Checker); ok {
		if err := c.Check(); err != nil {
			errs = append(errs, fmt.Errorf("strata: options: Remote.Codec: %w", err))
		}
	}
	return errs
}

// names returns the conversions between keys and names. They are zero if there are none.
func (r *Remote[K, V]) names() envelope.Names[K] {
	if r.Key != nil {
		return envelope.Given(r.Key, r.ParseKey)
	}
	n, _ := envelope.Default[K]()
	return n
}

// defaultCodec returns the codec for Options without one.
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
