package redis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/redis"
)

func loadName(context.Context, string) (string, error) { return "Ann", nil }

// The instances of a cache share a Redis server, which also carries their
// invalidations.
func ExampleNewTier() {
	ctx := context.Background()
	client, err := redis.New(redis.Options{Addr: "localhost:6379"}) // opens no connection yet
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	names, err := strata.New(strata.Options[string, string]{
		Name: "names", // instances with this name share entries
		TTL:  5 * time.Minute,
		Remote: strata.Remote[string, string]{
			Tier: redis.NewTier(client), // L2
			Bus:  redis.NewBus(client),  // invalidations
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer names.Close(ctx)

	name, err := names.GetOrLoad(ctx, "42", loadName)
	fmt.Println(name, err)
}
