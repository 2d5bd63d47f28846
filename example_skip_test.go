package strata_test

import (
	"context"
	"fmt"
	"time"

	"github.com/strata-cache/strata"
)

// How does one call see the present value of the origin? It skips the cache, and its value
// is stored for all other callers.
func ExampleSkipRead() {
	ctx := context.Background()
	price := 10
	prices, err := strata.New(strata.Options[string, int]{
		TTL:    time.Minute,
		Loader: func(context.Context, string) (int, error) { return price, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer prices.Close(ctx)

	p, _ := prices.GetOrLoad(ctx, "tea", nil)
	fmt.Println(p)
	price = 12 // the origin changes, and the cache is not told
	p, _ = prices.GetOrLoad(ctx, "tea", nil)
	fmt.Println("cached", p)
	p, _ = prices.GetOrLoad(ctx, "tea", nil, strata.SkipRead())
	fmt.Println("asked", p)
	p, _ = prices.GetOrLoad(ctx, "tea", nil)
	fmt.Println("cached", p)
	// Output:
	// 10
	// cached 10
	// asked 12
	// cached 12
}

// How does a whole request see the present values of the origin, through functions without
// a parameter for it? Its context tells the caches with ContextControls.
func ExampleSkipReadContext() {
	ctx := context.Background()
	loads := 0
	prices, err := strata.New(strata.Options[string, int]{
		TTL:             time.Minute,
		ContextControls: true,
		Loader:          func(context.Context, string) (int, error) { loads++; return loads, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer prices.Close(ctx)
	handle := func(ctx context.Context) {
		p, err := prices.GetOrLoad(ctx, "tea", nil)
		fmt.Println(p, err)
	}

	handle(ctx)
	handle(ctx)
	handle(strata.SkipReadContext(ctx))
	handle(ctx)
	// Output:
	// 1 <nil>
	// 1 <nil>
	// 2 <nil>
	// 2 <nil>
}
