package strataotel

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/strata-cache/strata"
)

// scope is the name under which this package reports.
const scope = "github.com/strata-cache/strata/otel"

// The attributes of spans and metrics.
const (
	cacheName    = attribute.Key("strata.cache.name")
	serverName   = attribute.Key("strata.server")
	cacheService = attribute.Key("strata.cache.service")
	cacheKey     = attribute.Key("strata.cache.key")
	cacheHit     = attribute.Key("cache.hit")
	errorType    = attribute.Key("error.type")

	spanKeys      = attribute.Key("strata.keys")
	spanTags      = attribute.Key("strata.tags")
	spanSoft      = attribute.Key("strata.soft")
	spanReason    = attribute.Key("strata.load.reason")
	spanResult    = attribute.Key("strata.result")
	spanShared    = attribute.Key("strata.shared")
	spanDegraded  = attribute.Key("strata.degraded")
	spanOutcome   = attribute.Key("strata.outcome")
	spanWaiters   = attribute.Key("strata.waiters")
	spanConfirmed = attribute.Key("strata.confirmed")
	spanPending   = attribute.Key("strata.pending")
)

// valid is text with a replacement for invalid UTF-8. The protocol of OpenTelemetry cannot carry
// invalid UTF-8: one such text would lose the whole batch of spans of the program. Each text from
// outside this package goes through it.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// is is the attribute of a name with a text from outside.
func is(name attribute.Key, text string) attribute.KeyValue { return name.String(valid(text)) }

// Tracer is a [strata.Tracer] that makes spans of OpenTelemetry. One Tracer serves any
// number of caches.
type Tracer struct {
	tracer trace.Tracer
	text   func(error) string // nil for no text
}

// TracerOption changes a [Tracer].
type TracerOption func(*Tracer)

// WithErrorText has spans that end with an error describe it by the text that f returns, in
// their status and in an event of the name exception. Without it a span has only the type of
// the error. With [error.Error] as f, texts of origins and servers get into traces as they
// are, with the keys and credentials that they may hold.
func WithErrorText(f func(error) string) TracerOption {
	return func(t *Tracer) { t.text = f }
}

// NewTracer returns a Tracer for Options.Tracer of caches. Nil stands for the global provider.
func NewTracer(provider trace.TracerProvider, options ...TracerOption) *Tracer {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	t := &Tracer{tracer: provider.Tracer(scope)}
	for _, o := range options {
		o(t)
	}
	return t
}

// Start implements [strata.Tracer].
func (t *Tracer) Start(ctx context.Context, s strata.Span) (within context.Context, end func(strata.SpanEnd)) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(begun(s)...)}
	// Such work goes on without the read that has caused it. In the trace of the read it would look
	// like time of a caller, so it has a trace of its own, with a link.
	if s.Apart {
		options = append(options, trace.WithNewRoot())
		if cause := trace.LinkFromContext(ctx); cause.SpanContext.IsValid() {
			options = append(options, trace.WithLinks(cause))
		}
	}
	within, span := t.tracer.Start(ctx, valid(s.Name+" "+s.Cache), options...)
	return within, func(e strata.SpanEnd) {
		defer span.End()
		// Most programs sample few spans: the others cost no attributes.
		if !span.IsRecording() {
			return
		}
		for _, load := range e.Loads {
			if l := trace.LinkFromContext(load); l.SpanContext.IsValid() {
				span.AddLink(l)
			}
		}
		span.SetAttributes(ended(s.Name, e)...)
		if e.Err != nil {
			t.fail(span, e.Err)
		}
	}
}

// begun are the attributes with which a span begins, so that samplers know them.
func begun(s strata.Span) []attribute.KeyValue {
	all := append(make([]attribute.KeyValue, 0, 5), is(cacheName, s.Cache), spanKeys.Int(s.Keys))
	if s.Key != nil {
		all = append(all, is(cacheKey, fmt.Sprint(s.Key)))
	}
	switch s.Name {
	case strata.SpanLoad:
		all = append(all, is(spanReason, s.Reason))
	case strata.SpanInvalidate:
		all = append(all, spanTags.Int(s.Tags), spanSoft.Bool(s.Soft))
	}
	return all
}

// ended are the attributes of the end of a span with this name.
func ended(name string, e strata.SpanEnd) []attribute.KeyValue {
	switch name {
	case strata.SpanRefresh:
		return []attribute.KeyValue{is(spanResult, e.Result), shared(e)}
	case strata.SpanGet:
		all := append(make([]attribute.KeyValue, 0, 4), is(spanResult, e.Result), shared(e), spanDegraded.Bool(e.Degraded))
		switch e.Result {
		case "l1", "l2", "stale":
			all = append(all, cacheHit.Bool(true))
		case "loaded", "not_found", "absent":
			all = append(all, cacheHit.Bool(false))
		case "joined":
			// The flight that the read has joined ended without a load: where its answer came from
			// is not known here.
			if len(e.Loads) > 0 {
				all = append(all, cacheHit.Bool(false))
			}
		}
		return all
	case strata.SpanLoad:
		return []attribute.KeyValue{is(spanOutcome, e.Result), spanWaiters.Int(e.Waiters)}
	}
	return []attribute.KeyValue{is(spanResult, e.Result), spanConfirmed.Bool(e.Confirmed), spanPending.Int(e.Pending)}
}

// shared says whether a read or refresh has shared the load of another one.
func shared(e strata.SpanEnd) attribute.KeyValue {
	return spanShared.Bool(e.Result == "joined" || len(e.Loads) > 0)
}

// fail notes the error that the caller of a span gets.
func (t *Tracer) fail(span trace.Span, err error) {
	kind, text := typeOf(err), ""
	span.SetAttributes(is(errorType, kind))
	// The text may hold keys and credentials, so that only the program can decide to show it.
	if t.text != nil {
		text = valid(t.text(err))
		span.AddEvent("exception", trace.WithAttributes(is("exception.type", kind), is("exception.message", text)))
	}
	span.SetStatus(codes.Error, text)
}
