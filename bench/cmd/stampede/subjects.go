package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/bench/internal/rig"
	"github.com/strata-cache/strata/redis"
)

const (
	key = "user:7"
	// ttl is the life of the value that expires before the stampede. The value
	// that the stampede loads must outlive the stampede, or it would be loaded again.
	ttl     = 50 * time.Millisecond
	longTTL = time.Minute
)

// origin is a database with a pool of connections.
type origin struct {
	latency time.Duration
	slots   chan struct{}
	calls   atomic.Int64
}

func newOrigin(cfg config) *origin {
	return &origin{latency: cfg.latency, slots: make(chan struct{}, cfg.atOnce)}
}

func (o *origin) load(ctx context.Context, _ string) (rig.Profile, error) {
	o.calls.Add(1)
	o.slots <- struct{}{}
	defer func() { <-o.slots }()
	t := time.NewTimer(o.latency)
	defer t.Stop()
	select {
	case <-t.C:
		return rig.ProfileOf(7), nil
	case <-ctx.Done():
		return rig.Profile{}, ctx.Err()
	}
}

// instance is one process that reads through a cache.
type instance struct {
	get func(ctx context.Context) (rig.Profile, error)
	// prime stores a value that expires after ttl.
	prime func(ctx context.Context) error
	close func()
}

// row is one way to protect the origin, or not to.
type row struct {
	name      string
	instances int
	open      func(o *origin) (instance, error)

	calls    []int64
	p50, p99 []time.Duration
}

func subjects(cfg config, client *redis.Client) []*row {
	tiered := func(o *origin) (instance, error) { return openStrata(o, client) }
	local := func(o *origin) (instance, error) { return openStrata(o, nil) }
	return []*row{
		{name: "map with TTL", instances: 1, open: openMap},
		{name: "map with TTL and singleflight", instances: 1, open: openSingleflight},
		{name: "strata", instances: 1, open: local},
		{name: fmt.Sprintf("map with TTL and singleflight, %d instances", instances), instances: instances, open: openSingleflight},
		{name: fmt.Sprintf("strata, %d instances on one Redis", instances), instances: instances, open: tiered},
	}
}

// stampede lets the key expire in fresh instances, and then starts all callers at once.
func (r *row) stampede(ctx context.Context, cfg config) error {
	o := newOrigin(cfg)
	all := make([]instance, r.instances)
	for i := range all {
		in, err := r.open(o)
		if err != nil {
			return err
		}
		defer in.close()
		if err := in.prime(ctx); err != nil {
			return err
		}
		all[i] = in
	}
	// Twice the TTL, so that the entry is gone for sure.
	gone := time.NewTimer(2 * ttl)
	defer gone.Stop()
	<-gone.C
	load := rig.Load{Goroutines: r.instances * cfg.callers, Calls: 1}
	run, err := load.Run(func(g, _ int) error {
		v, err := all[g%r.instances].get(ctx)
		if err == nil && v.ID != 7 {
			return errors.New("stampede: a caller got another value than the origin's")
		}
		return err
	})
	r.calls = append(r.calls, o.calls.Load())
	r.p50 = append(r.p50, run.Quantile(0.5))
	r.p99 = append(r.p99, run.Quantile(0.99))
	return err
}

// ttlMap is a map with entries that expire.
type ttlMap struct {
	mu      sync.RWMutex // guards below
	entries map[string]ttlEntry
}

type ttlEntry struct {
	value rig.Profile
	until time.Time
}

func (m *ttlMap) get() (rig.Profile, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, ok := m.entries[key]
	return e.value, ok && time.Now().Before(e.until)
}

func (m *ttlMap) set(v rig.Profile, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[key] = ttlEntry{v, time.Now().Add(d)}
}

func (m *ttlMap) prime(context.Context) error {
	m.set(rig.Profile{}, ttl)
	return nil
}

// through returns the value of the map, or else loads one and stores it.
func (m *ttlMap) through(ctx context.Context, o *origin) (rig.Profile, error) {
	if v, ok := m.get(); ok {
		return v, nil
	}
	v, err := o.load(ctx, key)
	if err == nil {
		m.set(v, longTTL)
	}
	return v, err
}

func openMap(o *origin) (instance, error) {
	m := &ttlMap{entries: map[string]ttlEntry{}}
	get := func(ctx context.Context) (rig.Profile, error) { return m.through(ctx, o) }
	return instance{get: get, prime: m.prime, close: func() {}}, nil
}

func openSingleflight(o *origin) (instance, error) {
	m := &ttlMap{entries: map[string]ttlEntry{}}
	var flights singleflight.Group
	get := func(ctx context.Context) (rig.Profile, error) {
		if v, ok := m.get(); ok {
			return v, nil
		}
		v, err, _ := flights.Do(key, func() (any, error) { return m.through(ctx, o) })
		p, _ := v.(rig.Profile)
		return p, err
	}
	return instance{get: get, prime: m.prime, close: func() {}}, nil
}

// openStrata returns an instance with L1, and with L2 and a bus if there is a
// client.
func openStrata(o *origin, client *redis.Client) (instance, error) {
	opt := strata.Options[string, rig.Profile]{Name: "stampede", TTL: longTTL, Loader: o.load}
	opt.Stale = strata.Stale{WhileRevalidate: -1, OnError: -1} // a stale value would answer the burst without a load
	if client != nil {
		opt.Remote.Tier, opt.Remote.Bus = redis.NewTier(client), redis.NewBus(client)
		opt.Remote.Timeout = time.Second // thousands of goroutines wake at once on few processors, and an answer may be late
	}
	c, err := strata.New(opt)
	if err != nil {
		return instance{}, err
	}
	return instance{
		get:   func(ctx context.Context) (rig.Profile, error) { return c.GetOrLoad(ctx, key, nil) },
		prime: func(ctx context.Context) error { return c.Set(ctx, key, rig.Profile{}, strata.WithTTL(ttl)) },
		close: func() { c.Close(context.Background()) },
	}, nil
}
