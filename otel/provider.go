package strataotel

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/strata-cache/strata/internal/observe"
)

// ClientProvider returns a provider for the instrumentation of a foreign client, as redisotel is
// for go-redis. Nil stands for the global provider. A command of a cache has a span only within a
// span of its caller or of the cache, and its span names the cache. A command of the program has
// the span that the instrumentation begins. The Tier and the Bus come from package goredis.
func ClientProvider(spans trace.TracerProvider) trace.TracerProvider {
	if spans == nil {
		spans = otel.GetTracerProvider()
	}
	return clientProvider{inside: spans}
}

type clientProvider struct {
	embedded.TracerProvider
	inside trace.TracerProvider
}

func (p clientProvider) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return clientTracer{inside: p.inside.Tracer(name, options...)}
}

type clientTracer struct {
	embedded.Tracer
	inside trace.Tracer
}

func (t clientTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	// The cache has noted in the context that the command is one of its own.
	o := observe.OwnerIn(ctx)
	if o == nil {
		return t.inside.Start(ctx, name, options...)
	}
	// Heartbeats and other work in the background would each begin a trace of a single span.
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, noop.Span{}
	}
	ctx, span := t.inside.Start(ctx, name, options...)
	if span.IsRecording() {
		span.SetAttributes(cacheOf(o.Service, o.Cache)...)
	}
	return ctx, span
}

// cacheOf are the attributes that name a cache, if it has a name.
func cacheOf(service, name string) (all []attribute.KeyValue) {
	if name != "" {
		all = append(all, is(cacheName, name))
	}
	if service != "" {
		all = append(all, is(cacheService, service))
	}
	return all
}
