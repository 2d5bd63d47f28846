package strata_test

import (
	"context"
	"fmt"
	"time"

	"github.com/strata-cache/strata"
)

// How do I write to the origin so that the cache cannot end up behind it, and
// has the new value at once?
func ExampleCache_Update() {
	ctx := context.Background()
	origin := map[string]int{"tea": 7}
	stock, err := strata.New(strata.Options[string, int]{
		TTL:    time.Minute,
		Loader: func(_ context.Context, id string) (int, error) { return origin[id], nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stock.Close(ctx)
	n, _ := stock.GetOrLoad(ctx, "tea", nil)
	fmt.Println(n)

	err = stock.Update(ctx, "tea", func(context.Context) (int, error) {
		origin["tea"]-- // UPDATE … RETURNING
		return origin["tea"], nil
	})
	if err != nil {
		fmt.Println("written or not, the key is dropped:", err)
	}
	n, ok := stock.Get(ctx, "tea")
	fmt.Println(n, ok)
	// Output:
	// 7
	// 6 true
}

// How do I invalidate where Loaders read from a replica that lags behind?
func ExampleCache_InvalidateHold() {
	ctx := context.Background()
	replica := 1
	c, err := strata.New(strata.Options[string, int]{
		TTL:    time.Minute,
		Loader: func(context.Context, string) (int, error) { return replica, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	_, _ = c.GetOrLoad(ctx, "k", nil)

	_ = c.InvalidateHold(ctx, 5*time.Second, "k") // longer than the replica lags
	v, _ := c.GetOrLoad(ctx, "k", nil)
	_, kept := c.Get(ctx, "k")
	fmt.Println(v, kept)
	replica = 2 // the write arrives
	v, _ = c.GetOrLoad(ctx, "k", nil)
	fmt.Println(v)
	// Output:
	// 1 false
	// 2
}
