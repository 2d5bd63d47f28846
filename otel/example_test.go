package strataotel_test

import (
	"context"
	"fmt"
	"log"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/strata-cache/strata"
	strataotel "github.com/strata-cache/strata/otel"
)

func ExampleNewTracer() {
	spans := tracetest.NewInMemoryExporter() // in a program the exporter of its traces
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	users, err := strata.New(strata.Options[string, int]{
		Name: "users", TTL: time.Minute, Tracer: strataotel.NewTracer(provider),
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		_, _ = users.GetOrLoad(context.Background(), "ann", func(context.Context, string) (int, error) { return 1, nil })
	}
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name)
	}
	// Output:
	// load users
	// get users
}
