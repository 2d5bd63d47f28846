package test

import (
	"fmt"

	"github.com/redis/go-redis/extra/redisotel/v9"
	goclient "github.com/redis/go-redis/v9"

	strataotel "github.com/strata-cache/strata/otel"
)

// The spans of a go-redis client keep to the rules of the other clients.
func Example_spansOfGoRedis() {
	rdb := goclient.NewClient(&goclient.Options{Addr: "localhost:6379"}) // opens no connection yet
	defer rdb.Close()

	err := redisotel.InstrumentTracing(rdb, redisotel.WithTracerProvider(strataotel.ClientProvider(nil)),
		redisotel.WithDBStatement(false), // it would have keys and values
		redisotel.WithDialFilter(true))   // each connection that go-redis opens would begin a trace
	fmt.Println(err)
	// Output: <nil>
}
