package strataotel_test

import (
	"fmt"
	"log"

	strataotel "github.com/strata-cache/strata/otel"
	"github.com/strata-cache/strata/redis"
)

// The commands of a client are spans below the spans of the caches that use it.
func ExampleNewTrace() {
	commands, err := strataotel.NewTrace(nil, nil) // the global providers
	if err != nil {
		log.Fatal(err)
	}
	client, err := redis.New(redis.Options{Addr: "localhost:6379", Trace: commands})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	stop, err := strataotel.RegisterPool(nil, "redis", client.Stats)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stop())
	// Output: <nil>
}
