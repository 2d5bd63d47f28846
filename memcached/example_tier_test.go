package memcached_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/memcached"
)

func loadName(context.Context, string) (string, error) { return "Ann", nil }

// The instances of a cache share a memcached. Without a bus, an instance notices a
// change by another one when its own entry ends, so Memory.TTL is short.
func ExampleNewTier() {
	ctx := context.Background()
	client, err := memcached.New(memcached.Options{Servers: []string{"localhost:11211"}}) // opens no connection yet
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	names, err := strata.New(strata.Options[string, string]{
		Name:   "names", // instances with this name share entries
		TTL:    5 * time.Minute,
		Memory: strata.Memory[string, string]{TTL: 2 * time.Second},
		Remote: strata.Remote[string, string]{Tier: memcached.NewTier(client)}, // L2
	})
	if err != nil {
		log.Fatal(err)
	}
	defer names.Close(ctx)

	name, err := names.GetOrLoad(ctx, "42", loadName)
	fmt.Println(name, err)
}
