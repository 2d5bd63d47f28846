package strataotel_test

import (
	"context"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/strata-cache/strata"
	strataotel "github.com/strata-cache/strata/otel"
	"github.com/strata-cache/strata/otel/producer"
)

// hitCache returns a cache with one entry, traced and measured if watched is set: its metrics
// are collected ten times a second until the end of the test.
func hitCache(tb testing.TB, watched bool) *strata.Cache[string, int] {
	tb.Helper()
	o := strata.Options[string, int]{
		Name: "hits", TTL: strata.NoExpiry,
		Loader: func(context.Context, string) (int, error) { return 1, nil },
	}
	if watched {
		o.Tracer = strataotel.NewTracer(sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewInMemoryExporter())))
	}
	c, err := strata.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close(context.Background()) })
	if watched {
		collectOften(tb, c)
	}
	if _, err := c.GetOrLoad(tb.Context(), "k", nil); err != nil {
		tb.Fatal(err)
	}
	return c
}

// collectOften reads the metrics of c ten times a second.
func collectOften(tb testing.TB, c *strata.Cache[string, int]) {
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(producer.New(c)))
	stop, err := strataotel.RegisterMetrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), c)
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan struct{})
	ended := make(chan error)
	go func() {
		t := time.NewTicker(100 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-done:
				ended <- stop()
				return
			case <-t.C:
				var all metricdata.ResourceMetrics
				_ = reader.Collect(context.Background(), &all)
			}
		}
	}()
	tb.Cleanup(func() {
		close(done)
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
}

// BenchmarkHit compares a hit of a traced and measured cache with a hit of a plain one. Run it
// with -count, and compare medians: rounds of both take turns.
func BenchmarkHit(b *testing.B) {
	plain, watched := hitCache(b, false), hitCache(b, true)
	hit := func(c *strata.Cache[string, int]) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			ctx := b.Context()
			for b.Loop() {
				if _, err := c.GetOrLoad(ctx, "k", nil); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("plain", hit(plain))
	b.Run("watched", hit(watched))
}

func TestHitOfATracedCacheAllocatesNothing(t *testing.T) {
	o := strata.Options[string, int]{
		Name: "hits", TTL: strata.NoExpiry, Tracer: strataotel.NewTracer(sdktrace.NewTracerProvider()),
		Loader: func(context.Context, string) (int, error) { return 1, nil },
	}
	c, err := strata.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := c.GetOrLoad(ctx, "k", nil); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a hit", n)
	}
}
