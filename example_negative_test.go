package strata_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strata-cache/strata"
)

// How do I keep requests for what does not exist away from the origin? The
// Loader returns ErrNotFound, and the cache keeps a negative entry.
func ExampleOptions_negativeCaching() {
	ctx := context.Background()
	origin := map[string]user{"ann": {"Ann", "ann@example.org"}}
	queries := 0
	users, err := strata.New(strata.Options[string, user]{
		TTL:         5 * time.Minute,
		NotFoundTTL: 10 * time.Second,
		Loader: func(_ context.Context, id string) (user, error) {
			queries++
			u, ok := origin[id]
			if !ok {
				return user{}, fmt.Errorf("user %q: %w", id, strata.ErrNotFound)
			}
			return u, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)

	for range 3 {
		_, err = users.GetOrLoad(ctx, "bob", nil)
	}
	fmt.Println(errors.Is(err, strata.ErrNotFound), queries)

	origin["bob"] = user{"Bob", "bob@example.org"} // write to the origin
	_ = users.Invalidate(ctx, "bob")               // then invalidate
	u, err := users.GetOrLoad(ctx, "bob", nil)
	fmt.Println(u.Name, err, queries)
	// Output:
	// true 1
	// Bob <nil> 2
}
