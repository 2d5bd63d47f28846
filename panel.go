package strata

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/journal"
	"github.com/strata-cache/strata/internal/panel"
)

// Panel returns the cache without its types of keys and values, for package admin. Its methods
// are for the packages of strata.
func (c *Cache[K, V]) Panel() panel.Panel { return view[K, V]{c} }

type view[K comparable, V any] struct{ c *Cache[K, V] }

func (p view[K, V]) Info() panel.Info {
	c := p.c
	return panel.Info{
		Name: c.o.Name, Service: c.parts.Service, Instance: c.parts.Instance, Version: c.parts.Version, Schema: c.parts.Schema,
		L2: c.parts.L2, L2Server: c.parts.L2Server, Bus: c.parts.Bus, Partition: c.parts.Partition,
		ShowKeys: c.o.ShowKeys, TextKeys: c.names.Parse != nil,
	}
}

func (p view[K, V]) Events(after uint64) []panel.Event { return p.c.journal.After(after) }
func (p view[K, V]) Watch()                            { p.c.hot.Watch(p.c.memory.Sample) }
func (p view[K, V]) Hot() panel.Hot                    { return p.c.hot.Hot(p.c.memory.Sample, p.c.shownKey) }

func (p view[K, V]) Explain(ctx context.Context, key string) ([]panel.Explanation, error) {
	c := p.c
	if c.closed.Load() {
		return nil, ErrClosed
	}
	if _, err := c.keyOfText(key); err != nil {
		return nil, err
	}
	if !c.l2.HasBus() {
		here, err := c.explainHere(ctx, key)
		return []panel.Explanation{here}, err
	}
	return c.asker.Ask(ctx, key)
}

func (p view[K, V]) Invalidate(ctx context.Context, key string, soft bool) error {
	k, err := p.c.keyOfText(key)
	switch {
	case err != nil:
		return err
	case soft:
		return p.c.Expire(ctx, k)
	}
	return p.c.Invalidate(ctx, k)
}

func (p view[K, V]) InvalidateTags(ctx context.Context, tags []string, soft bool) error {
	if soft {
		return p.c.ExpireTags(ctx, tags...)
	}
	return p.c.InvalidateTags(ctx, tags...)
}

func (p view[K, V]) InvalidateAll(ctx context.Context, soft bool) error {
	if soft {
		return p.c.ExpireAll(ctx)
	}
	return p.c.InvalidateAll(ctx)
}

// keyOfText returns the key with that text.
func (c *Cache[K, V]) keyOfText(text string) (key K, err error) {
	switch {
	case c.names.Parse == nil:
		return key, panel.ErrNoText
	case c.tooLong(len(text)):
		return key, ErrKeyTooLong
	}
	if key, err = c.parseKey(text); err != nil {
		return key, fmt.Errorf("strata: %q is no key of this cache: %w", journal.Line(text, maxKeyText), err)
	}
	return key, nil
}

// explainHere returns the state of the key with that text on this instance.
func (c *Cache[K, V]) explainHere(ctx context.Context, text string) (panel.Explanation, error) {
	e := panel.Explanation{Instance: c.parts.Instance, Here: true, Answered: true}
	key, err := c.keyOfText(text)
	if err != nil {
		return e, err
	}
	begun := time.Now()
	r := c.Explain(ctx, key)
	e.Took, e.Verdict = time.Since(begun), journal.Line(r.Verdict, 500)
	e.L1, e.L1Fresh = stateOf(&r.L1)
	e.L2, e.L2Fresh = stateOf(&r.L2)
	e.L2Size, e.Loading, e.Waiters = r.L2.Size, r.Loading, r.Waiters
	tags := r.L1.Tags
	if len(tags) == 0 {
		tags = r.L2.Tags
	}
	for _, t := range tags[:min(len(tags), 10)] {
		e.Tags = append(e.Tags, journal.Line(t, maxKeyText))
	}
	if e.Failures, e.RetryIn = r.Failures, r.RetryIn; r.Err != nil {
		e.Err = journal.Line(r.Err.Error(), 500)
	}
	return e, nil
}

// stateOf returns the state of a tier as a panel.Explanation names it.
func stateOf(p *Place) (state string, fresh time.Duration) {
	switch {
	case !p.Used:
		return "none", 0
	case p.Err != nil:
		return "unknown", 0
	case p.NotFound:
		return "negative", p.Fresh
	case p.Suspect:
		return "suspect", p.Fresh
	case !p.Present:
		return "absent", 0
	case p.Fresh > 0:
		return "fresh", p.Fresh
	}
	return "stale", p.Fresh
}

// Settings returns the effective options.
func (p view[K, V]) Settings() []panel.Setting {
	l := settingList{given: p.c.given, now: p.c.settings}
	l.addLives(&p.c.core)
	l.addMemory(&p.c.core, p.c.o.Memory.Clone != nil)
	l.addLoads()
	l.addRemote(p.c.encoding.Name())
	return l.all
}

// settingList collects settings: given are the options of the program, now those in force.
type settingList struct {
	given, now *settings
	all        []panel.Setting
}

// add adds a setting. given is the value of the program, now the one in force.
func (l *settingList) add(name string, given, now any, tuned ...bool) {
	l.all = append(l.all, panel.Setting{
		Name: name, Value: settingText(now), Default: reflect.ValueOf(given).IsZero(), Tuned: slices.Contains(tuned, true),
	})
}

// settingText is a value as text.
func settingText(v any) string {
	switch v := v.(type) {
	case time.Duration:
		switch {
		case v == NoExpiry:
			return "no end"
		case v <= 0:
			return "none"
		}
		return v.String()
	case bool:
		if v {
			return "yes"
		}
		return "no"
	}
	return fmt.Sprint(v)
}

func (l *settingList) addLives(c *core) {
	g, s := l.given, l.now
	off := c.tuned.off.Load()
	l.add("Off", off, off, off)
	ttl, stale := c.tuned.ttl(), c.tuned.stale()
	l.add("TTL", g.TTL, ttl, ttl != s.TTL)
	l.add("IdleTTL", g.IdleTTL, s.IdleTTL)
	l.add("Jitter", g.Jitter, s.Jitter)
	l.add("RefreshAt", g.RefreshAt, s.RefreshAt)
	l.add("RefreshSpread", g.RefreshSpread, s.RefreshSpread)
	l.add("RefreshEvery", g.RefreshEvery, s.RefreshEvery)
	l.add("Stale.WhileRevalidate", g.Stale.WhileRevalidate, stale.WhileRevalidate, stale.WhileRevalidate != s.Stale.WhileRevalidate)
	l.add("Stale.OnError", g.Stale.OnError, stale.OnError, stale.OnError != s.Stale.OnError)
	l.add("NotFoundTTL", g.NotFoundTTL, s.NotFoundTTL)
	l.add("ErrorTTL", g.ErrorTTL, s.ErrorTTL)
}

func (l *settingList) addMemory(c *core, clones bool) {
	g, m := &l.given.Memory, &l.now.Memory
	entries, weight := c.bounds()
	l.add("Memory.MaxEntries", g.MaxEntries, entries, entries != m.MaxEntries)
	l.add("Memory.MaxWeight", g.MaxWeight, weight, weight != m.MaxWeight)
	l.add("Memory.Policy", g.Policy, m.Policy)
	l.add("Memory.EvictShare", g.EvictShare, m.EvictShare)
	l.add("Memory.TTL", g.TTL, m.TTL)
	l.add("Memory.Off", g.Off, m.Off)
	l.add("Memory.Weigh", g.Weigh != nil, m.Weigh != nil)
	l.add("Memory.Clone", clones, clones)
	l.add("Memory.DetectMutation", g.DetectMutation, m.DetectMutation)
}

func (l *settingList) addLoads() {
	g, s := l.given, l.now
	a, b := &g.Limits, &s.Limits
	l.add("Limits.SoftTimeout", a.SoftTimeout, b.SoftTimeout)
	l.add("Limits.HardTimeout", a.HardTimeout, b.HardTimeout)
	l.add("Limits.MaxLoads", a.MaxLoads, b.MaxLoads)
	l.add("Limits.MaxWaiters", a.MaxWaiters, b.MaxWaiters)
	l.add("Limits.MaxRefreshes", a.MaxRefreshes, b.MaxRefreshes)
	l.add("Limits.MaxKeyBytes", a.MaxKeyBytes, b.MaxKeyBytes)
	l.add("Limits.Lease", a.Lease, b.Lease)
	l.add("Limits.CancelAbandoned", a.CancelAbandoned, b.CancelAbandoned)
	l.add("Loader", s.Loader != nil, s.Loader != nil)
	l.add("ManyLoader", s.ManyLoader != nil, s.ManyLoader != nil)
	l.add("BatchWait", g.BatchWait, s.BatchWait)
	l.add("BatchSize", g.BatchSize, s.BatchSize)
	l.add("Tags", s.Tags != nil, s.Tags != nil)
	l.add("ContextControls", s.ContextControls, s.ContextControls)
	l.add("ShowKeys", s.ShowKeys, s.ShowKeys)
	l.add("Tracer", s.Tracer != nil, s.Tracer != nil)
	l.add("Logger", g.Logger != nil, g.Logger != nil)
}

func (l *settingList) addRemote(encoding string) {
	g, r := &l.given.Remote, &l.now.Remote
	typeOf := func(v any) string {
		if v == nil {
			return "none"
		}
		return reflect.TypeOf(v).String()
	}
	l.add("Remote.Tier", g.Tier != nil, typeOf(r.Tier))
	l.add("Remote.Bus", g.Bus != nil, typeOf(r.Bus))
	l.add("Remote.Codec", false, encoding)
	l.add("Remote.Partition", g.Partition, r.Partition)
	l.add("Remote.Timeout", g.Timeout, r.Timeout)
	l.add("Remote.BreakAfter", g.BreakAfter, r.BreakAfter)
	l.add("Remote.BreakFor", g.BreakFor, r.BreakFor)
}
