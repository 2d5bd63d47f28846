package remote_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// countedTier counts the round trips that a cache makes for its reads.
type countedTier struct {
	remote.Tier
	n *atomic.Int64
}

func (c countedTier) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	c.n.Add(1)
	return c.Tier.Get(ctx, keys, known...)
}

func (c countedTier) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	c.n.Add(1)
	return c.Tier.Acquire(ctx, r, d)
}

func (c countedTier) Unwrap() remote.Tier                { return c.Tier }
func (c countedTier) Wrap(inner remote.Tier) remote.Tier { return countedTier{inner, c.n} }

// Two methods, Unwrap and Wrap, let a wrapper keep all abilities of the tier
// inside: the caches below share the tier and use tags.
func ExampleWrapper() {
	ctx := context.Background()
	counted := countedTier{stratatest.NewTier(), new(atomic.Int64)}
	open := func(name string) *strata.Cache[string, string] {
		c, err := strata.New(strata.Options[string, string]{
			Name: name, TTL: time.Minute, Remote: strata.Remote[string, string]{Tier: counted},
		})
		if err != nil {
			panic(err)
		}
		return c
	}
	users, rates := open("users"), open("rates")
	defer users.Close(ctx)
	defer rates.Close(ctx)

	load := func(_ context.Context, key string) (string, error) { return "value of " + key, nil }
	for _, c := range []*strata.Cache[string, string]{users, rates} {
		v, err := c.GetOrLoad(ctx, "k", load, strata.WithTags("t"))
		fmt.Println(v, err)
	}
	fmt.Println(users.InvalidateTags(ctx, "t"))
	_, found := users.Get(ctx, "k")
	fmt.Println(found, counted.n.Load() > 0)
	// Output:
	// value of k <nil>
	// value of k <nil>
	// <nil>
	// false true
}
