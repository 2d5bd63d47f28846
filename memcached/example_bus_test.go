package memcached_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/redis"
)

// newNames returns an instance with its entries in memcached, and its invalidations on
// a Redis.
func newNames(values *memcached.Client, messages *redis.Client) *strata.Cache[string, string] {
	names, err := strata.New(strata.Options[string, string]{
		Name: "names",
		TTL:  5 * time.Minute,
		Remote: strata.Remote[string, string]{
			Tier: memcached.NewTier(values), // entries and leases
			Bus:  redis.NewBus(messages),    // invalidations
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	return names
}

// Entries are in memcached, and a Redis carries the invalidations. So an instance drops
// an entry when another one invalidates it, and entries live in L1 for the whole TTL.
func ExampleNewTier_bus() {
	ctx := context.Background()
	values, messages := connect(), connectRedis()
	defer values.Close()
	defer messages.Close()
	one, other := newNames(values, messages), newNames(values, messages)
	defer one.Close(ctx)
	defer other.Close(ctx)

	fmt.Println(one.GetOrLoad(ctx, "42", loadName))
	_, found := other.Get(ctx, "42") // in memcached, now also in L1
	fmt.Println("the other instance has it:", found)
	fmt.Println(one.Invalidate(ctx, "42"))
	for found { // until the message arrives
		_, found = other.Get(ctx, "42")
	}
	fmt.Println("the other instance has it:", found)
	// Output:
	// Ann <nil>
	// the other instance has it: true
	// <nil>
	// the other instance has it: false
}

// connectRedis returns a client of a model of Redis in memory.
func connectRedis() *redis.Client {
	c, err := redis.New(redis.Options{DialContext: fakes.NewRedis().Dial})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// Without a bus an instance does not hear of the invalidations of others. It sees them
// when its own entry ends, so Memory.TTL is short.
func ExampleNewTier_alone() {
	ctx := context.Background()
	values := connect()
	defer values.Close()
	names, err := strata.New(strata.Options[string, string]{
		Name:   "names",
		TTL:    5 * time.Minute,
		Memory: strata.Memory[string, string]{TTL: 2 * time.Second}, // without it 30 s
		Remote: strata.Remote[string, string]{Tier: memcached.NewTier(values)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer names.Close(ctx)

	var info strata.Info
	name, err := names.GetOrLoad(ctx, "42", loadName, strata.ReadInfo(&info))
	fmt.Println(name, err, info.Tier)
	// Output: Ann <nil> origin
}

// A client finds the abilities of a server by trying. A client of an old server, or
// of a proxy, works in classic mode, and cannot serve a Tier.
func ExampleClient_Abilities() {
	server := fakes.NewMemcached()
	server.Generation = fakes.Old
	c, err := memcached.New(memcached.Options{DialContext: server.Dial})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()

	able, err := c.Abilities(ctx)
	fmt.Println("meta commands:", able.Meta, err)
	_, err = memcached.NewTier(c).Probe(ctx)
	fmt.Println(err)
	// Output:
	// meta commands: false <nil>
	// memcached: the server has no meta commands
}

// A call that failed before it was sent can be made again, also one that counts.
func ExampleSafeToRetry() {
	server := fakes.NewMemcached()
	server.Stop() // it refuses connections
	c, err := memcached.New(memcached.Options{DialContext: server.Dial})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	_, err = c.Increment(context.Background(), "n", 1)
	fmt.Println(memcached.SafeToRetry(err))
	fmt.Println(memcached.SafeToRetry(memcached.ErrMiss)) // the server has answered
	// Output:
	// true
	// false
}
