package strataotel_test

import (
	"context"
	"fmt"
	"log"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/strata-cache/strata"
	strataotel "github.com/strata-cache/strata/otel"
	"github.com/strata-cache/strata/otel/producer"
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

func ExampleRegisterMetrics() {
	users, err := strata.New(strata.Options[string, int]{Name: "users", TTL: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	// A program has a reader that exports them.
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(producer.New(users))) // histograms
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))

	stop, err := strataotel.RegisterMetrics(provider, users) // counters and gauges
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	for range 3 {
		_, _ = users.GetOrLoad(context.Background(), "ann", func(context.Context, string) (int, error) { return 1, nil })
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		log.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Gauge[int64]:
				if m.Name == "strata.entries" {
					fmt.Println(m.Name, d.DataPoints[0].Value)
				}
			case metricdata.ExponentialHistogram[float64]:
				if m.Name == "strata.load.duration" {
					fmt.Println(m.Name, d.DataPoints[0].Count)
				}
			}
		}
	}
	// Output:
	// strata.entries 1
	// strata.load.duration 1
}
