// Package telemetry sends the spans and metrics of the demo to a collector, by OTLP over HTTP.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/wire"
	strataotel "github.com/strata-cache/strata/otel"
	"github.com/strata-cache/strata/otel/producer"
)

const (
	// every is the time between two reports of metrics.
	every = 5 * time.Second
	// patience is the time for the last report.
	patience = 2 * time.Second
)

// Telemetry sends spans, and the metrics of caches once these are known.
type Telemetry struct {
	endpoint *url.URL
	resource *resource.Resource
	traces   *trace.TracerProvider
	metrics  *metric.MeterProvider // nil before Watch
	stop     func() error
}

// Check returns the error of an address that cannot be a collector's.
func Check(address string) error {
	_, err := endpointOf(address)
	return err
}

// endpointOf parses the address of a collector, such as http://127.0.0.1:4318.
func endpointOf(address string) (*url.URL, error) {
	u, err := wire.ParseHTTP(address)
	if err != nil || u.User != nil {
		return nil, errors.New("want the URL of a collector, such as http://127.0.0.1:4318, without credentials")
	}
	return u, nil
}

// New returns a Telemetry for a collector, which need not be there yet. Spans and metrics
// that it does not take are lost.
func New(ctx context.Context, address string) (*Telemetry, error) {
	u, err := endpointOf(address)
	if err != nil {
		return nil, err
	}
	// A collector may be away, or take spans and no metrics. Close reports the last error.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.JoinPath("v1/traces").String()))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	r := resource.NewSchemaless(semconv.ServiceName("strata-demo"))
	return &Telemetry{
		endpoint: u, resource: r,
		traces: trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(r)),
	}, nil
}

// Tracer is for the Options of caches.
func (t *Telemetry) Tracer() strata.Tracer { return strataotel.NewTracer(t.traces) }

// Source is a cache, for instance a *strata.Cache.
type Source interface{ Stats() strata.Stats }

// Watch sends the metrics of caches, which have different names, every 5 seconds.
func (t *Telemetry) Watch(ctx context.Context, caches ...Source) error {
	counted, measured := make([]strataotel.Source, len(caches)), make([]producer.Source, len(caches))
	for i, c := range caches {
		counted[i], measured[i] = c, c
	}
	exporter, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(t.endpoint.JoinPath("v1/metrics").String()))
	if err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	reader := metric.NewPeriodicReader(exporter, metric.WithInterval(every), metric.WithProducer(producer.New(measured...)))
	t.metrics = metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(t.resource))
	t.stop, err = strataotel.RegisterMetrics(t.metrics, counted...)
	return err
}

// Close sends the rest, for 2 seconds at most. The error comes from the collector.
func (t *Telemetry) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// Shutdown sends what is left. The callbacks on the caches are removed after it, since the last
	// report still calls them.
	err := t.traces.Shutdown(ctx)
	if t.metrics != nil {
		err = errors.Join(err, t.metrics.Shutdown(ctx))
	}
	if t.stop != nil {
		err = errors.Join(err, t.stop())
	}
	return err
}
