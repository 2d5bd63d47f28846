package strataotel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/strata-cache/strata/remote"
)

// The attributes of commands, from the semantic conventions of OpenTelemetry.
const (
	dbSystem        = attribute.Key("db.system.name")
	dbOperation     = attribute.Key("db.operation.name")
	dbBatchSize     = attribute.Key("db.operation.batch.size")
	dbNamespace     = attribute.Key("db.namespace")
	dbStatus        = attribute.Key("db.response.status_code")
	dbProcedure     = attribute.Key("db.stored_procedure.name")
	serverAddress   = attribute.Key("server.address")
	serverPort      = attribute.Key("server.port")
	durationName    = "db.client.operation.duration"
	durationMeaning = "Duration of database client operations."
)

// durationBounds returns the buckets that the conventions advise, in seconds.
func durationBounds() []float64 { return []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10} }

// NewTrace returns a Trace for Options.Trace of clients of redis and memcached. Each command is a
// span of kind client and a record of the histogram db.client.operation.duration. Nil stands for
// the global provider; a provider of package noop leaves one of the two out.
//
// A command that a cache sends has a span only within another one, and its span names the cache.
// Heartbeats, retried drops and upkeep of a client have durations only. A command that the
// program sends itself begins a trace if its context has no span.
//
// Neither has a key, a value, or the text of an error: error.type is the status of the server's
// reply, or the kind of the error. Three things do not count as errors: a missing key, a caller
// that leaves, and a reply after which the client goes on, because the server does not know a
// script or another node has the key.
func NewTrace(spans trace.TracerProvider, metrics metric.MeterProvider) (remote.Trace, error) {
	if spans == nil {
		spans = otel.GetTracerProvider()
	}
	if metrics == nil {
		metrics = otel.GetMeterProvider()
	}
	took, err := metrics.Meter(scope).Float64Histogram(durationName,
		metric.WithUnit("s"), metric.WithDescription(durationMeaning), metric.WithExplicitBucketBoundaries(durationBounds()...))
	if err != nil {
		return nil, fmt.Errorf("strataotel: %s: %w", durationName, err)
	}
	tracer := spans.Tracer(scope)
	return func(ctx context.Context, c remote.Command) func(remote.CommandEnd) {
		all := commandAttributes(c)
		within, span := start(ctx, tracer, &c, all)
		if span.IsRecording() {
			span.SetAttributes(spanOnly(c)...)
		}
		begun := time.Now()
		return func(e remote.CommandEnd) {
			// The time is taken first: the work of this function is not a part of the command.
			seconds := time.Since(begun).Seconds()
			failed := failureOf(ctx, e)
			if e.Status != "" {
				all = append(all, is(dbStatus, e.Status))
				span.SetAttributes(is(dbStatus, e.Status))
			}
			if failed != "" {
				all = append(all, is(errorType, failed))
				span.SetAttributes(is(errorType, failed))
				span.SetStatus(codes.Error, "")
			}
			took.Record(within, seconds, metric.WithAttributes(all...)) // an exemplar is of the span
			span.End()
		}
	}, nil
}

// start begins the span of a command. One that a cache or a client sends in the background has none.
func start(ctx context.Context, t trace.Tracer, c *remote.Command, all []attribute.KeyValue) (context.Context, trace.Span) {
	if (c.Cache != "" || c.Upkeep) && !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, noop.Span{}
	}
	return t.Start(ctx, valid(c.Name), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(all...))
}

// commandAttributes are the attributes of a command, for its span and for its duration.
func commandAttributes(c remote.Command) []attribute.KeyValue {
	all := append(make([]attribute.KeyValue, 0, 8), is(dbSystem, c.System), is(dbOperation, c.Name))
	if c.System == "redis" {
		all = append(all, is(dbNamespace, strconv.Itoa(c.DB)))
	}
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil { // a unix socket
		host = c.Addr
	}
	if host != "" {
		all = append(all, is(serverAddress, host))
	}
	// A unix socket has no port.
	if n, err := strconv.Atoi(port); err == nil {
		all = append(all, serverPort.Int(n))
	}
	return all
}

// spanOnly are the attributes of a command with too many values for a metric.
func spanOnly(c remote.Command) (all []attribute.KeyValue) {
	all = cacheOf(c.Service, c.Cache)
	if c.Script != "" {
		all = append(all, is(dbProcedure, c.Script))
	}
	if c.Batch > 1 {
		all = append(all, dbBatchSize.Int(c.Batch))
	}
	return all
}

// failureOf returns the error.type of a command under ctx, or nothing if it has not failed.
func failureOf(ctx context.Context, e remote.CommandEnd) string {
	switch e.Status {
	// These replies are how a client learns something. The call goes on and has its own end.
	case "NOSCRIPT", "MOVED", "ASK":
		return ""
	}
	if caller, _ := remote.Split(ctx); e.Err == nil || caller.Err() != nil && errors.Is(e.Err, context.Canceled) {
		return ""
	}
	if e.Status != "" {
		return e.Status
	}
	return typeOf(e.Err)
}
