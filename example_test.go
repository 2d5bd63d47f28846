package strata_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/stratatest"
)

// The origin of the examples.
type user struct {
	Name  string
	Email string
}

func loadUser(_ context.Context, id string) (user, error) {
	if id != "ann" {
		return user{}, strata.ErrNotFound
	}
	return user{"Ann", "ann@example.org"}, nil
}

// How do I get a value, and load it if it is not cached?
func Example() {
	ctx := context.Background()
	users, err := strata.New(strata.Options[string, user]{TTL: 5 * time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)

	u, err := users.GetOrLoad(ctx, "ann", loadUser)
	fmt.Println(u.Name, err)
	_, err = users.GetOrLoad(ctx, "bob", loadUser)
	fmt.Println(errors.Is(err, strata.ErrNotFound))
	// Output:
	// Ann <nil>
	// true
}

// How do instances share loaded values? They get the same Tier; the
// Bus tells them of each other's invalidations. Here both live in memory, as
// in a test; a service uses redis.NewTier and redis.NewBus.
func ExampleRemote() {
	ctx := context.Background()
	tier, bus := stratatest.NewTier(), stratatest.NewBus()
	instance := func() *strata.Cache[string, user] {
		c, err := strata.New(strata.Options[string, user]{
			Name:   "users",
			TTL:    5 * time.Minute,
			Remote: strata.Remote[string, user]{Tier: tier, Bus: bus},
		})
		if err != nil {
			panic(err)
		}
		return c
	}
	a, b := instance(), instance()
	defer a.Close(ctx)
	defer b.Close(ctx)

	_, _ = a.GetOrLoad(ctx, "ann", loadUser)
	u, ok := b.Get(ctx, "ann") // never loads
	fmt.Println(u.Name, ok, b.Stats().L2.Hits)
	// Output: Ann true 1
}

// How do I change a value? Write to the origin, then invalidate.
func ExampleCache_Invalidate() {
	ctx := context.Background()
	version := 1
	c, err := strata.New(strata.Options[string, int]{
		TTL:    time.Minute,
		Loader: func(context.Context, string) (int, error) { return version, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)

	v, _ := c.GetOrLoad(ctx, "k", nil)
	fmt.Println(v)
	version = 2 // the write to the origin
	if err := c.Invalidate(ctx, "k"); err != nil {
		fmt.Println("other instances may not know yet:", err)
	}
	v, _ = c.GetOrLoad(ctx, "k", nil)
	fmt.Println(v)
	// Output:
	// 1
	// 2
}

// How do I ask the origin only whether a value has changed? Expire leaves the
// value at hand for the next load.
func ExampleCache_Previous() {
	ctx := context.Background()
	c, err := strata.New(strata.Options[string, user]{TTL: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	load := func(ctx context.Context, id string) (user, error) {
		if u, ok := c.Previous(ctx); ok && u.Email == "ann@example.org" {
			fmt.Println("not modified")
			return user{}, strata.ErrNotModified
		}
		fmt.Println("loaded")
		return loadUser(ctx, id)
	}

	_, _ = c.GetOrLoad(ctx, "ann", load)
	_ = c.Expire(ctx, "ann")
	u, err := c.GetOrLoad(ctx, "ann", load)
	fmt.Println(u.Name, err)
	// Output:
	// loaded
	// not modified
	// Ann <nil>
}

// How do I see where a value is?
func ExampleCache_Explain() {
	ctx := context.Background()
	c, err := strata.New(strata.Options[string, int]{TTL: time.Minute, Jitter: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	fmt.Println(c.Explain(ctx, "k").L1.Present)
	_ = c.Set(ctx, "k", 1)
	r := c.Explain(ctx, "k")
	fmt.Println(r.L1.Present, r.L1.Fresh.Round(time.Second), r.L2.Used)
	// Output:
	// false
	// true 1m0s false
}
