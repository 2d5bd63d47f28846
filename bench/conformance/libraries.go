package conformance

import (
	"context"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/viccon/sturdyc"
	"golang.org/x/sync/singleflight"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/stratatest"
)

const (
	capacity = 1000
	ttl      = time.Minute
)

// Own returns strata, set up with L1 alone, and as one of two instances that
// share an in-memory tier and bus.
func Own() []Library {
	return []Library{
		{Name: "strata", Open: openStrata},
		{Name: "strata, 2 instances", Open: openInstances},
	}
}

// Peers returns the libraries that strata is compared with. The last one is not
// a library: it is the code that programs commonly write by hand.
func Peers() []Library {
	return []Library{
		{Name: "otter", Open: openOtter},
		{Name: "sturdyc", Open: openSturdyc},
		{Name: "singleflight", Open: openSingleflight, Forgets: true},
		{Name: "map + singleflight", Open: openRecipe},
	}
}

// All returns Own and then Peers.
func All() []Library { return append(Own(), Peers()...) }

type strataCache struct{ c *strata.Cache[string, string] }

func openStrata() (Cache, error) {
	c, err := strata.New(strata.Options[string, string]{TTL: ttl})
	return strataCache{c}, err
}

func (s strataCache) Get(ctx context.Context, key string, load Load) (string, error) {
	return s.c.GetOrLoad(ctx, key, func(ctx context.Context, _ string) (string, error) { return load(ctx) })
}

func (s strataCache) Invalidate(ctx context.Context, key string) error {
	return s.c.Invalidate(ctx, key)
}

func (s strataCache) Close() { s.c.Close(context.Background()) }

// instances reads through one instance and invalidates through another.
type instances struct {
	strataCache
	other *strata.Cache[string, string]
}

func openInstances() (Cache, error) {
	bus, tier := stratatest.NewBus(), stratatest.NewTier()
	tier.Announce(bus)
	o := strata.Options[string, string]{Name: "conformance", TTL: ttl}
	o.Remote.Tier, o.Remote.Bus = tier, bus
	c, err := strata.New(o)
	if err != nil {
		return nil, err
	}
	o.Remote.Bus = bus.Connect()
	other, err := strata.New(o)
	return instances{strataCache{c}, other}, err
}

func (s instances) Invalidate(ctx context.Context, key string) error {
	return s.other.Invalidate(ctx, key)
}

func (s instances) Close() {
	s.other.Close(context.Background())
	s.strataCache.Close()
}

type otterCache struct{ c *otter.Cache[string, string] }

func openOtter() (Cache, error) {
	c, err := otter.New(&otter.Options[string, string]{
		MaximumSize:      capacity,
		ExpiryCalculator: otter.ExpiryWriting[string, string](ttl),
	})
	return otterCache{c}, err
}

func (o otterCache) Get(ctx context.Context, key string, load Load) (string, error) {
	return o.c.Get(ctx, key, otter.LoaderFunc[string, string](func(ctx context.Context, _ string) (string, error) { return load(ctx) }))
}

func (o otterCache) Invalidate(_ context.Context, key string) error {
	o.c.Invalidate(key)
	return nil
}

func (o otterCache) Close() { o.c.StopAllGoroutines() }

type sturdycCache struct{ c *sturdyc.Client[string] }

func openSturdyc() (Cache, error) {
	return sturdycCache{sturdyc.New[string](capacity, 10, ttl, 10)}, nil
}

func (s sturdycCache) Get(ctx context.Context, key string, load Load) (string, error) {
	return s.c.GetOrFetch(ctx, key, sturdyc.FetchFn[string](load))
}

func (s sturdycCache) Invalidate(_ context.Context, key string) error {
	s.c.Delete(key)
	return nil
}

// Close does nothing: the library has no such call.
func (s sturdycCache) Close() {}

// bareFlights is singleflight alone, which keeps no values.
type bareFlights struct{ g *singleflight.Group }

func openSingleflight() (Cache, error) { return bareFlights{new(singleflight.Group)}, nil }

func (b bareFlights) Get(ctx context.Context, key string, load Load) (string, error) {
	v, err, _ := b.g.Do(key, func() (any, error) { return load(ctx) })
	s, _ := v.(string)
	return s, err
}

func (b bareFlights) Invalidate(_ context.Context, key string) error {
	b.g.Forget(key)
	return nil
}

func (b bareFlights) Close() {}

// recipe is the usual cache over singleflight: look, load once, store; to
// invalidate, delete and forget.
type recipe struct {
	flights singleflight.Group
	values  sync.Map // of string
}

func openRecipe() (Cache, error) { return new(recipe), nil }

func (r *recipe) Get(ctx context.Context, key string, load Load) (string, error) {
	if v, ok := r.values.Load(key); ok {
		return v.(string), nil
	}
	v, err, _ := r.flights.Do(key, func() (any, error) {
		if v, ok := r.values.Load(key); ok {
			return v, nil
		}
		v, err := load(ctx)
		if err == nil {
			r.values.Store(key, v)
		}
		return v, err
	})
	s, _ := v.(string)
	return s, err
}

func (r *recipe) Invalidate(_ context.Context, key string) error {
	r.values.Delete(key)
	r.flights.Forget(key)
	return nil
}

func (r *recipe) Close() {}
