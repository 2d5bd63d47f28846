package strata

import (
	"context"
	"errors"

	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/observe"
)

// Tracer is told of the work of a cache as spans of a trace. Package otel has one for OpenTelemetry. Reads that L1
// answers have no span, and never ask the Tracer. Its methods must be safe for concurrent use; a panic is contained,
// counted and logged. They run as [Hooks] do: if Start takes too long, the work goes on outside its span, which ends
// with the work.
type Tracer interface {
	// Start begins a span. It returns a context, made of ctx, for the work inside the span: of requests
	// to L2 and, in a load, of the Loader. The span ends when end is called, once.
	Start(ctx context.Context, s Span) (within context.Context, end func(SpanEnd))
}

// The names of spans.
const (
	// SpanGet is a read of Get, GetOrLoad or GetMany that L1 does not answer.
	SpanGet = "get"
	// SpanRefresh is a refresh, from the look into L2 until its value is stored.
	SpanRefresh = "refresh"
	// SpanLoad is a run of a Loader, within the span of the read or refresh that leads it.
	SpanLoad = "load"
	// SpanSet is a call of Set, SetMany, SetNotFound or Update with an L2 or a Bus, or of Add or Take with an L2.
	SpanSet = "set"
	// SpanInvalidate is a call of Invalidate, Expire and the like.
	SpanInvalidate = "invalidate"
)

// Span describes the begin of a span.
type Span struct {
	// Name is one of the names of spans above, Cache the cache's name.
	Name, Cache string
	// Key is the key, with Options.ShowKeys and if there is only one. Else nil.
	Key any
	// Keys is the number of keys, Tags the number of tags; both are zero if everything is
	// dropped.
	Keys, Tags int
	// Soft says that a SpanInvalidate makes entries stale, not absent.
	Soft bool
	// Reason is why a SpanLoad runs: "miss", "refresh" or "reload" (SkipRead).
	Reason string
	// Apart says that the span is the root of a trace, linked to its cause, the span in ctx.
	Apart bool
}

// SpanEnd describes the end of a span.
type SpanEnd struct {
	// Result is, of a SpanGet or SpanRefresh, "l1" (another caller has stored the value in between), "l2",
	// "loaded", "joined" (another caller's flight), "stale", "not_found", "absent" (a Get has found
	// nothing), "left" (the caller's context has ended) or "error"; "many" for more than one key. Of a SpanLoad it is the
	// Outcome as text. Else it is "ok" or "error".
	Result string
	// Loads are the contexts within the spans of the loads that the read has shared with the
	// callers that lead them; 16 at most.
	Loads []context.Context
	// Degraded says that the value may have been invalidated by another instance.
	Degraded bool
	// Waiters is the number of callers that waited for a SpanLoad when it ended.
	Waiters int
	// Confirmed says that L2 and the bus have confirmed a SpanSet or SpanInvalidate, Pending
	// is the number of drops that they have not confirmed yet.
	Confirmed bool
	Pending   int
	// Err is the error that the caller gets, or the error of the load. It is nil if the
	// caller's own context has ended, and for ErrNotFound and ErrNotModified.
	Err error
}

// span is a begun span; nil without a Tracer.
type span struct {
	c   *core
	ctx context.Context // of the caller
	end observe.Ending[SpanEnd]
}

// begin begins a span, if there is a Tracer.
func (c *core) begin(ctx context.Context, s Span) (within context.Context, _ *span) {
	if c.settings.Tracer == nil {
		return ctx, nil
	}
	return c.beginTraced(ctx, s)
}

// beginTraced begins a span of the Tracer. If the Tracer takes too long, or fails, the work is not within its span.
func (c *core) beginTraced(ctx context.Context, s Span) (within context.Context, begun *span) {
	s.Cache, begun = c.settings.Name, &span{c: c, ctx: ctx}
	var inner context.Context
	var end func(SpanEnd)
	ended := c.callbacks.Tracer.Run(ctx, func() {
		defer c.contain("Tracer")
		inner, end = c.settings.Tracer.Start(ctx, s)
		begun.end.Begins(end)
	})
	if !ended || inner == nil || end == nil {
		return ctx, begun
	}
	return inner, begun
}

// beginRead begins the span of a read or refresh with the options o.
func (c *core) beginRead(ctx context.Context, o *call, key any, keys int) (within context.Context, _ *span) {
	s := Span{Name: SpanGet, Key: key, Keys: keys}
	if o.refresh {
		s.Name, s.Apart = SpanRefresh, true
	}
	return c.begin(ctx, s)
}

// keyOf is key, if it may be shown.
func keyOf[K comparable](c *core, key K) any {
	if c.settings.ShowKeys {
		return key
	}
	return nil
}

// finish ends the span.
func (s *span) finish(e SpanEnd) {
	if s == nil {
		return
	}
	if end := s.end.Ends(e); end != nil {
		s.c.callbacks.Tracer.Run(s.ctx, func() {
			defer s.c.contain("Tracer")
			end(e)
		})
	}
}

// wrote ends the span of a write or a drop under ctx.
func (s *span) wrote(ctx context.Context, err error) {
	if s == nil {
		return
	}
	e := SpanEnd{Result: "ok", Confirmed: err == nil, Err: failure(ctx, err)}
	if e.Err != nil {
		e.Result = "error"
	}
	var r *RemoteError
	if errors.As(err, &r) {
		e.Pending = r.Pending
	}
	s.finish(e)
}

// failure is err, or nil if err is not a failure of a call under ctx: the caller has left, or the
// origin has answered that it has no value, or no new one.
func failure(ctx context.Context, err error) error {
	if left := ctx.Err(); left != nil && errors.Is(err, left) || isAnswer(err, ErrNotFound) || isAnswer(err, ErrNotModified) {
		return nil
	}
	return err
}

// readEnd describes the end of a read under ctx: of its flight, or of its own error.
func readEnd[V any](ctx context.Context, r *flight.Result[V], shared bool, err error) SpanEnd {
	if err == nil {
		err = r.Err
	}
	e := SpanEnd{Err: failure(ctx, err), Degraded: r.Note&noteDegraded != 0}
	if (shared || r.Beside) && r.Load != nil {
		e.Loads = []context.Context{r.Load}
	}
	switch {
	case e.Err != nil:
		e.Result = "error"
	case isAnswer(err, ErrNotFound):
		e.Result = "not_found"
	case err != nil:
		e.Result = "left"
	case r.Offered, r.Note&noteStale != 0:
		e.Result = "stale"
	case shared:
		e.Result = "joined"
	case !r.Found:
		e.Result = "absent"
	default:
		e.Result = [...]string{"absent", "l1", "l2", "loaded"}[r.Note&noteTier]
	}
	return e
}

// maxLoadLinks is the most loads to which the span of a read is linked.
const maxLoadLinks = 16

// beginLoad begins the span of a run of the Loader for reads, and returns the context for it.
func (l *loaderRun[K, V]) beginLoad() (ctx context.Context) {
	c := l.g.c
	if c.settings.Tracer == nil {
		return l.within
	}
	s := Span{Name: SpanLoad, Keys: len(l.reads), Reason: "miss"}
	switch {
	case l.g.call.refresh:
		s.Reason = "refresh"
	case l.g.call.skipRead:
		s.Reason = "reload"
	}
	if len(l.reads) == 1 {
		s.Key = keyOf(&c.core, l.reads[0].f.Key)
	}
	ctx, l.span = c.begin(l.within, s)
	for _, r := range l.reads {
		r.outcome.load, r.outcome.beside = ctx, l.g.call.gathers && l.g.batch != nil && l.g.batch.Led[0] != r.f
	}
	return ctx
}

// endLoad ends the span of the Loader. inTime says that it has returned before its context
// has ended.
func (l *loaderRun[K, V]) endLoad(inTime bool) {
	if l.span == nil {
		return
	}
	out, err := LoadOK, l.err
	switch {
	case !inTime:
		out, err = LoadError, context.Cause(l.within)
	case len(l.reads) == 1:
		r := l.reads[0]
		out, err = outcomeOf(r.outcome.res.Err, r.candidate.value != nil), r.outcome.res.Err
	default:
		out = outcomeOf(err, false)
	}
	e := SpanEnd{Result: out.String(), Err: err}
	if out == LoadNotFound || out == LoadNotModified {
		e.Err = nil
	}
	for _, r := range l.reads {
		n, _ := l.g.c.flights.Running(r.f.Key)
		e.Waiters += n
	}
	if l.g.call.refresh { // it waits for itself
		e.Waiters = max(0, e.Waiters-len(l.reads))
	}
	l.span.finish(e)
}
