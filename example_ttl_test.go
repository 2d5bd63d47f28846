package strata_test

import (
	"context"
	"fmt"
	"time"

	"github.com/strata-cache/strata"
)

// pass is a value that says itself how long it is good for.
type pass struct {
	Text    string
	GoodFor time.Duration
}

func issue(_ context.Context, client string) (pass, error) {
	return pass{"pass of " + client, 90 * time.Second}, nil
}

// How does a value say for how long it is good? Its Loader does, when it has it.
func ExampleLoad_SetTTL() {
	ctx := context.Background()
	passes, err := strata.New(strata.Options[string, pass]{
		TTL:    time.Hour, // for those that do not say
		Jitter: -1,
		Loader: func(ctx context.Context, client string) (pass, error) {
			p, err := issue(ctx, client)
			if err != nil {
				return pass{}, err
			}
			strata.Loading(ctx).SetTTL(p.GoodFor - 10*time.Second)
			return p, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer passes.Close(ctx)

	_, _ = passes.GetOrLoad(ctx, "shop", nil)
	fmt.Println(passes.Explain(ctx, "shop").L1.Fresh.Round(time.Second))
	// Output: 1m20s
}

// How does a value say that it must not be served stale?
func ExampleLoad_SetStale() {
	ctx := context.Background()
	passes, err := strata.New(strata.Options[string, pass]{
		TTL:   time.Hour,
		Stale: strata.Stale{OnError: time.Hour}, // for those that do not say
		Loader: func(ctx context.Context, client string) (pass, error) {
			if client == "shop" {
				strata.Loading(ctx).SetStale(strata.Stale{WhileRevalidate: -1, OnError: -1})
				strata.Loading(ctx).SetMemoryTTL(time.Minute)
			}
			return issue(ctx, client)
		},
		Jitter: -1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer passes.Close(ctx)

	for _, client := range []string{"shop", "post"} {
		_, _ = passes.GetOrLoad(ctx, client, nil)
		p := passes.Explain(ctx, client).L1
		fmt.Println(client, "is fresh for", p.Fresh.Round(time.Second), "and then stale for", (p.Left - p.Fresh).Round(time.Second))
	}
	// Output:
	// shop is fresh for 1m0s and then stale for 0s
	// post is fresh for 1h0m0s and then stale for 1h0m0s
}

// How does a call give one entry another TTL?
func ExampleWithTTL() {
	ctx := context.Background()
	users, err := strata.New(strata.Options[string, user]{TTL: time.Minute, Jitter: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)

	_ = users.Set(ctx, "ann", user{Name: "Ann"}, strata.WithTTL(time.Hour))
	_, _ = users.GetOrLoad(ctx, "bob", func(context.Context, string) (user, error) {
		return user{Name: "Bob"}, nil
	}, strata.WithTTL(-1)) // not stored
	fmt.Println(users.Explain(ctx, "ann").L1.Fresh.Round(time.Second))
	fmt.Println(users.Explain(ctx, "bob").L1.Present)
	// Output:
	// 1h0m0s
	// false
}

// Which times does a TTL of ten minutes bring with it?
func ExampleOptions_choosingTTLs() {
	ctx := context.Background()
	users, err := strata.New(strata.Options[string, user]{
		Name: "users",
		TTL:  10 * time.Minute, // how long may a change go unseen without an Invalidate?

		// Each of these lines states the default of its field here.
		Jitter:      0.1,
		RefreshAt:   0.8,
		Stale:       strata.Stale{WhileRevalidate: time.Minute, OnError: 10 * time.Minute},
		NotFoundTTL: 30 * time.Second,
		ErrorTTL:    time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)

	_ = users.Set(ctx, "ann", user{Name: "Ann"})
	p := users.Explain(ctx, "ann").L1
	fmt.Println(p.Fresh > 8*time.Minute, p.Fresh <= 10*time.Minute)
	fmt.Println((p.Left - p.Fresh).Round(time.Second))
	// Output:
	// true true
	// 10m0s
}

// How are unused entries kept out of L1, and how are the others listed?
func ExampleCache_Hottest() {
	ctx := context.Background()
	sessions, err := strata.New(strata.Options[string, string]{
		TTL:     12 * time.Hour,
		IdleTTL: 30 * time.Minute,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sessions.Close(ctx)

	for _, id := range []string{"4711", "4712", "4714"} {
		_ = sessions.Set(ctx, id, "session "+id)
	}
	sessions.Get(ctx, "4712")
	sessions.Get(ctx, "4712")
	sessions.Get(ctx, "4714")

	for id, name := range sessions.Hottest(2) {
		fmt.Println("hot:", id, name)
	}
	fmt.Println(sessions.Touch("4711", "4712", "4713"), "of 3 are kept")
	// Output:
	// hot: 4712 session 4712
	// hot: 4714 session 4714
	// 2 of 3 are kept
}

// Which keys does L1 have?
func ExampleCache_All() {
	ctx := context.Background()
	users, err := strata.New(strata.Options[string, user]{TTL: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)

	_ = users.Set(ctx, "ann", user{Name: "Ann"})
	_ = users.Set(ctx, "bob", user{Name: "Bob"})
	_ = users.Expire(ctx, "bob") // stale
	for id, u := range users.All() {
		fmt.Println(id, u.Name)
	}
	for id := range users.Keys() {
		fmt.Println(id)
	}
	// Output:
	// ann Ann
	// ann
}
