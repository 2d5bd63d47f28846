package strata_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/strata-cache/strata"
)

// How do I keep requests for what does not exist away from the origin? The Loader
// returns ErrNotFound, and the cache keeps a negative entry.
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

var errNoUser = errors.New("no such user")

// How does the cache know the errors of my database for "not found"? It knows the error of
// database/sql. A function names others.
func ExampleIsNotFound() {
	ctx := context.Background()
	queries := 0
	users, err := strata.New(strata.Options[string, user]{
		TTL: 5 * time.Minute,
		IsNotFound: func(err error) bool {
			return errors.Is(err, errNoUser) || strata.IsNotFound(err)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)

	for _, answer := range []error{sql.ErrNoRows, errNoUser} {
		for range 3 {
			_, err = users.GetOrLoad(ctx, answer.Error(), func(context.Context, string) (user, error) {
				queries++
				return user{}, answer
			})
		}
		fmt.Println(errors.Is(err, strata.ErrNotFound), errors.Is(err, answer), queries)
	}
	// Output:
	// true true 1
	// true true 2
}

// How does code that deletes a row tell the cache that it is gone? SetNotFound saves the
// load that an Invalidate would cost.
func ExampleCache_SetNotFound() {
	ctx := context.Background()
	users, err := strata.New(strata.Options[string, user]{TTL: 5 * time.Minute, Loader: loadUser})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)

	_, _ = users.GetOrLoad(ctx, "ann", nil)
	_ = users.SetNotFound(ctx, "ann") // after the origin has deleted it
	_, err = users.GetOrLoad(ctx, "ann", nil)
	fmt.Println(errors.Is(err, strata.ErrNotFound), users.Stats().Loads.Total())
	// Output:
	// true 1
}
