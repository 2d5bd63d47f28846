package strata_test

import (
	"context"
	"fmt"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/stratatest"
)

// How is a code sent once and used once, on however many instances?
func ExampleCache_Take() {
	ctx := context.Background()
	codes, err := strata.New(strata.Options[string, string]{
		Name:   "codes",
		TTL:    time.Hour,
		Remote: strata.Remote[string, string]{Tier: stratatest.NewTier()}, // in a service: redis.NewTier(client)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer codes.Close(ctx)

	for _, code := range []string{"4711", "4712"} {
		added, err := codes.Add(ctx, "ann", code, strata.WithTTL(5*time.Minute))
		fmt.Println("send", code, added, err)
	}
	for range 2 {
		code, ok, err := codes.Take(ctx, "ann")
		fmt.Printf("use %q %v %v\n", code, ok, err)
	}
	// Output:
	// send 4711 true <nil>
	// send 4712 false <nil>
	// use "4711" true <nil>
	// use "" false <nil>
}
