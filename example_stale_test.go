package strata_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strata-cache/strata"
)

// What do callers get while the origin is down? The last value, for as long as
// Stale.OnError allows.
func ExampleOptions_staleOnError() {
	ctx := context.Background()
	users, err := strata.New(strata.Options[string, user]{
		TTL:   5 * time.Minute,
		Stale: strata.Stale{OnError: 2 * time.Hour},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)

	_, _ = users.GetOrLoad(ctx, "ann", loadUser)
	_ = users.Expire(ctx, "ann") // stale from here on
	down := func(context.Context, string) (user, error) {
		return user{}, errors.New("connection refused")
	}

	var info strata.Info
	u, err := users.GetOrLoad(ctx, "ann", down, strata.ReadInfo(&info))
	fmt.Println(u.Name, err, info.Stale)

	_, err = users.GetOrLoad(ctx, "bob", down) // nothing is held for bob
	fmt.Println(err)
	fmt.Println(users.Stats().StaleOnError, users.Stats().Loads.Errors)
	// Output:
	// Ann <nil> true
	// strata: load: connection refused
	// 1 2
}
