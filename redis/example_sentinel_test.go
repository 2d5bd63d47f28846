package redis_test

import (
	"log"

	"github.com/strata-cache/strata/redis"
)

// Three sentinels name the primary of a service. They have a password of their own.
func ExampleSentinel() {
	client, err := redis.New(redis.Options{
		Sentinel: redis.Sentinel{Primary: "mymaster", Password: "of the sentinels"},
		Addr:     "sentinel-1:26379",
		Addrs:    []string{"sentinel-2:26379", "sentinel-3:26379"},
		Password: "of the servers",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	tier, bus := redis.NewTier(client), redis.NewBus(client)
	_, _ = tier, bus // for strata.Options.Remote
}
