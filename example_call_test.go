package strata_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/stratatest"
)

// How does one call get an old value rather than none? Get never waits for a load,
// and with AllowStale it returns the value that a tier still keeps.
func ExampleAllowStale() {
	ctx := context.Background()
	prices, err := strata.New(strata.Options[string, int]{
		TTL:    time.Minute,
		Loader: func(context.Context, string) (int, error) { return 10, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer prices.Close(ctx)

	_, _ = prices.GetOrLoad(ctx, "tea", nil)
	_ = prices.Expire(ctx, "tea")
	_, ok := prices.Get(ctx, "tea")
	fmt.Println(ok)
	var info strata.Info
	p, ok := prices.Get(ctx, "tea", strata.AllowStale(), strata.ReadInfo(&info))
	fmt.Println(p, ok, info.Stale)
	_ = prices.Invalidate(ctx, "tea")
	_, ok = prices.Get(ctx, "tea", strata.AllowStale())
	fmt.Println(ok)
	// Output:
	// false
	// 10 true true
	// false
}

// How old is a value, and why is it served? ReadInfo tells.
func ExampleReadInfo_age() {
	ctx := context.Background()
	prices, err := strata.New(strata.Options[string, int]{TTL: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer prices.Close(ctx)

	_ = prices.Set(ctx, "tea", 10)
	_ = prices.Expire(ctx, "tea")
	var info strata.Info
	p, err := prices.GetOrLoad(ctx, "tea", func(context.Context, string) (int, error) {
		return 0, errors.New("connection refused")
	}, strata.ReadInfo(&info))
	fmt.Println(p, err)
	fmt.Println(info.Tier, info.Stale, info.Err, info.Age < time.Second, info.TTL)
	// Output:
	// 10 <nil>
	// L1 true connection refused true 0s
}

// How does a call pass a tier by? NoMemory keeps its values out of this process, for a job
// that reads each key once. NoRemote keeps them out of L2.
func ExampleNoMemory() {
	ctx := context.Background()
	reports, err := strata.New(strata.Options[string, int]{
		Name:   "reports",
		TTL:    time.Minute,
		Remote: strata.Remote[string, int]{Tier: stratatest.NewTier(), Bus: stratatest.NewBus().Connect()},
		Loader: func(context.Context, string) (int, error) { return 7, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reports.Close(ctx)

	_, _ = reports.GetOrLoad(ctx, "may", nil, strata.NoMemory())
	fmt.Println(reports.Len())
	var info strata.Info
	_, _ = reports.GetOrLoad(ctx, "may", nil, strata.NoMemory(), strata.ReadInfo(&info))
	fmt.Println(info.Tier)
	_, ok := reports.Get(ctx, "may", strata.NoRemote())
	fmt.Println(ok)
	// Output:
	// 0
	// L2
	// false
}

// How does an instance without memory to spare use a cache? With Memory.Off each read
// asks L2, and one load serves all callers of a key as ever.
func ExampleMemory_off() {
	ctx := context.Background()
	reports, err := strata.New(strata.Options[string, int]{
		Name:   "reports",
		TTL:    time.Minute,
		Memory: strata.Memory[string, int]{Off: true},
		Remote: strata.Remote[string, int]{Tier: stratatest.NewTier(), Bus: stratatest.NewBus().Connect()},
		Loader: func(context.Context, string) (int, error) { return 7, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reports.Close(ctx)

	for range 3 {
		_, _ = reports.GetOrLoad(ctx, "may", nil)
	}
	fmt.Println(reports.Len(), reports.Stats().L2.Hits, reports.Stats().Loads.OK)
	// Output:
	// 0 2 1
}

// How do callers change the values that they get, or have set? Clone copies them.
func ExampleMemory_clone() {
	ctx := context.Background()
	lists, err := strata.New(strata.Options[string, []int]{
		TTL:    time.Minute,
		Memory: strata.Memory[string, []int]{Clone: slices.Clone[[]int]},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lists.Close(ctx)

	mine := []int{1, 2, 3}
	_ = lists.Set(ctx, "l", mine)
	mine[0] = 100
	got, _ := lists.Get(ctx, "l")
	got[1] = 200
	again, _ := lists.Get(ctx, "l")
	fmt.Println(again)
	// Output:
	// [1 2 3]
}
