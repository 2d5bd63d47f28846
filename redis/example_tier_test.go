package redis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/redis"
)

type User struct{ Name string }

func loadUser(context.Context, string) (User, error) { return User{Name: "Ann"}, nil }

// A cache whose instances share a Redis server, and tell each other about
// invalidations there.
func ExampleNewTier() {
	ctx := context.Background()
	client, err := redis.New(redis.Options{Addr: "localhost:6379"}) // opens no connection yet
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	users, err := strata.New(strata.Options[string, User]{
		Name: "users", // instances with this name share entries
		TTL:  5 * time.Minute,
		Remote: strata.Remote[string, User]{
			Tier: redis.NewTier(client), // L2
			Bus:  redis.NewBus(client),  // invalidations
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer users.Close(ctx)

	u, err := users.GetOrLoad(ctx, "42", loadUser)
	fmt.Println(u.Name, err)
}
