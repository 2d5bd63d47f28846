package strata

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

// Inside is a cache for the packages admin and snapshot of this module. It has no fields
// and methods for programs.
type Inside transfer.Parts

// Inside returns the cache without its types of keys and values.
func (c *Cache[K, V]) Inside() Inside {
	return Inside(transfer.NewParts(view[K, V]{c}, transfer.New(c.exchanged())))
}

// view is a cache as the page of package admin sees it; see observe.Panel for its methods.
type view[K comparable, V any] struct{ c *Cache[K, V] }

func (p view[K, V]) Info() observe.Info {
	c := p.c
	return observe.Info{
		Name: c.o.Name, Service: c.parts.Service, Instance: c.parts.Instance, Version: c.parts.Version, Schema: c.parts.Schema,
		L2: c.parts.L2, L2Server: c.parts.L2Server, Bus: c.parts.Bus, Partition: c.parts.Partition,
		ShowKeys: c.o.ShowKeys, TextKeys: c.names.Parse != nil,
	}
}

func (p view[K, V]) Events(after uint64) []observe.Event { return p.c.journal.After(after) }
func (p view[K, V]) Watch()                              { p.c.hot.Watch(p.c.near.Values.Sample) }

func (p view[K, V]) Hot() observe.Hot {
	name := p.c.nameOf
	if !p.c.o.ShowKeys {
		name = nil // the page gets hashes of keys
	}
	return p.c.hot.Hot(p.c.near.Values.Sample, name)
}

func (p view[K, V]) Explain(ctx context.Context, key string) ([]observe.Explanation, error) {
	c := p.c
	if c.closed.Load() {
		return nil, ErrClosed
	}
	if _, err := c.keyOfText(key); err != nil {
		return nil, err
	}
	if !c.l2.HasBus() {
		here, err := c.explainHere(ctx, key)
		return []observe.Explanation{here}, err
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
		return key, observe.ErrNoText
	case c.tooLong(len(text)):
		return key, ErrKeyTooLong
	}
	if key, err = c.parseKey(text); err != nil {
		return key, fmt.Errorf("strata: %q is no key of this cache: %w", observe.OneLine(text, observe.MaxKey), err)
	}
	return key, nil
}

// explainHere returns the state of the key with that text on this instance.
func (c *Cache[K, V]) explainHere(ctx context.Context, text string) (observe.Explanation, error) {
	key, err := c.keyOfText(text)
	if err != nil {
		return observe.Explanation{Instance: c.parts.Instance, Here: true, Answered: true}, err
	}
	begun := time.Now()
	k := c.explain(ctx, key)
	took := time.Since(begun)
	e := k.Panel()
	e.Instance, e.Here, e.Answered, e.Took = c.parts.Instance, true, true, took
	return e, nil
}

// Settings returns the effective options.
func (p view[K, V]) Settings() []observe.Setting {
	c := p.c
	entries, weight := c.near.Values.Bounds()
	stale := c.tuned.stale()
	return observe.Settings(c.given, c.settings, map[string]any{
		"Off": c.tuned.off.Load(), "TTL": c.tuned.ttl(), "Stale.WhileRevalidate": stale.WhileRevalidate, "Stale.OnError": stale.OnError,
		"Memory.MaxEntries": entries, "Memory.MaxWeight": weight,
	}, c.encoding.Name())
}

// exchanged is the cache for package snapshot.
func (c *Cache[K, V]) exchanged() *transfer.Cache[K, V] {
	return &transfer.Cache[K, V]{Store: &c.near, Config: transfer.Config[K, V]{
		Title: c.o.Name, Logger: c.o.Logger, Flights: c.flights, Drops: c.drops, Encoding: c.encoding, L2: c.l2, Link: c.link, Dropping: &c.dropping,
		Name: c.nameOf, Parse: c.parseKey, Named: c.names.Of != nil && c.names.Parse != nil, TooLong: c.tooLong,
		Weigh: c.weigh, Weighs: c.o.Memory.Weigh != nil, Mark: c.mark, Kept: c.kept, Contain: c.contain, Panicked: errCodecPanicked, NotFound: ErrNotFound,
		Stored: func(key K, v V) { c.stored(context.Background(), key, v, "L1") },
		Closed: func() bool { return c.closed.Load() || c.passesMemory(&call{}) },
		Usable: c.warmable,
		Warm: func(ctx context.Context, keys iter.Seq[K], perSecond int, progress func(transfer.Warmed)) (transfer.Warmed, error) {
			return c.warm(ctx, keys, WarmOptions{PerSecond: perSecond}, progress)
		},
	}}
}
