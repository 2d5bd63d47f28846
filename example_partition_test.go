package strata_test

import (
	"context"
	"fmt"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/stratatest"
)

// How does a read know that messages of other instances do not arrive? ReadInfo
// tells it. A caller that cannot use such a value loads with SkipRead, or the cache
// is Strict.
func ExampleReadInfo() {
	ctx := context.Background()
	bus := stratatest.NewBus()
	bus.Cut() // this instance is cut off
	stock, err := strata.New(strata.Options[string, int]{
		Name:   "stock",
		TTL:    time.Minute,
		Remote: strata.Remote[string, int]{Bus: bus},
		Loader: func(context.Context, string) (int, error) { return 7, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stock.Close(ctx)

	for range 2 {
		var info strata.Info
		n, err := stock.GetOrLoad(ctx, "tea", nil, strata.ReadInfo(&info))
		fmt.Println(n, err, info.Tier, "degraded:", info.Degraded)
	}
	fmt.Println("connected:", stock.Stats().Connected)
	// Output:
	// 7 <nil> origin degraded: false
	// 7 <nil> L1 degraded: true
	// connected: false
}
