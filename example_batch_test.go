package strata_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata"
)

// How do I get many values with one query? Cached keys are not asked for, and keys
// that do not exist are absent from the result.
func ExampleCache_GetMany() {
	ctx := context.Background()
	origin := map[string]user{"ann": {Name: "Ann"}, "bob": {Name: "Bob"}}
	users, err := strata.New(strata.Options[string, user]{TTL: 5 * time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)
	_, _ = users.GetOrLoad(ctx, "ann", loadUser)

	loadUsers := func(_ context.Context, ids []string) (map[string]user, error) {
		fmt.Println("query for", slices.Sorted(slices.Values(ids)))
		found := make(map[string]user)
		for _, id := range ids { // SELECT … WHERE id IN (…)
			if u, ok := origin[id]; ok {
				found[id] = u
			}
		}
		return found, nil
	}
	for range 2 {
		all, err := users.GetMany(ctx, []string{"ann", "bob", "carol"}, loadUsers)
		fmt.Println(all["ann"].Name, all["bob"].Name, len(all), err)
	}
	// Output:
	// query for [bob carol]
	// Ann Bob 2 <nil>
	// Ann Bob 2 <nil>
}

// How does a batch answer if the query fails? It returns the cached values, and an error
// that names the other keys.
func ExamplePartialError() {
	ctx := context.Background()
	users, err := strata.New(strata.Options[string, user]{TTL: 5 * time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)
	_, _ = users.GetOrLoad(ctx, "ann", loadUser)

	down := func(context.Context, []string) (map[string]user, error) {
		return nil, errors.New("connection refused")
	}
	all, err := users.GetMany(ctx, []string{"ann", "bob"}, down)
	fmt.Println(all["ann"].Name, len(all))
	var partial *strata.PartialError[string]
	if errors.As(err, &partial) {
		fmt.Println(partial.Failed["bob"])
	}
	// Output:
	// Ann 1
	// strata: load: connection refused
}

// How do I make one query of reads of single keys that come at the same time? Each
// waits for a few milliseconds if no tier has its value.
func ExampleOptions_batchWait() {
	ctx := context.Background()
	loadUsers := func(_ context.Context, ids []string) (map[string]user, error) {
		fmt.Println("query for", slices.Sorted(slices.Values(ids)))
		found := make(map[string]user)
		for _, id := range ids { // SELECT … WHERE id IN (…)
			found[id] = user{Name: "user " + id}
		}
		return found, nil
	}
	users, err := strata.New(strata.Options[string, user]{
		TTL: 5 * time.Minute, ManyLoader: loadUsers, BatchWait: 50 * time.Millisecond, BatchSize: 3,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)
	var requests sync.WaitGroup
	for _, id := range []string{"7", "8", "9"} {
		requests.Go(func() { _, _ = users.GetOrLoad(ctx, id, nil) })
	}
	requests.Wait()
	u, err := users.GetOrLoad(ctx, "8", nil)
	fmt.Println(u.Name, err)
	// Output:
	// query for [7 8 9]
	// user 8 <nil>
}

// How do I load values again because they have changed, or because requests need them soon?
// Refresh returns at once, and reads are served meanwhile.
func ExampleCache_Refresh() {
	ctx := context.Background()
	queried := make(chan []string, 1)
	users, err := strata.New(strata.Options[string, user]{
		TTL: 5 * time.Minute,
		ManyLoader: func(_ context.Context, ids []string) (map[string]user, error) {
			found := make(map[string]user)
			for _, id := range ids {
				found[id] = user{Name: "user " + id}
			}
			queried <- ids
			return found, nil
		},
		// The hottest users are loaded again before they expire, without Refresh.
		RefreshEvery: time.Minute,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)
	_ = users.Set(ctx, "7", user{Name: "old"})
	fmt.Println(users.Refresh(ctx, "7", "8"))
	fmt.Println(len(<-queried), "keys in one query")
	// Output:
	// <nil>
	// 2 keys in one query
}
