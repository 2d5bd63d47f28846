package strataotel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/strata-cache/strata"
	strataotel "github.com/strata-cache/strata/otel"
	"github.com/strata-cache/strata/stratatest"
)

// recording is a provider that keeps all spans.
type recording struct {
	*sdktrace.TracerProvider
	spans *tracetest.SpanRecorder
}

func record() recording {
	spans := tracetest.NewSpanRecorder()
	return recording{sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), spans}
}

// begin begins a span of a caller.
func (r recording) begin(ctx context.Context, name string) (context.Context, trace.Span) {
	return r.Tracer("test").Start(ctx, name)
}

// texts describes all ended spans, one in a line, in the order in which they began. A line
// begins with the number of its span, and names the parent and the linked spans by number.
func (r recording) texts() (lines []string) {
	number := map[trace.SpanID]string{}
	for i, s := range r.spans.Started() {
		number[s.SpanContext().SpanID()] = fmt.Sprint(i + 1)
	}
	for _, s := range r.spans.Started() {
		if s.EndTime().IsZero() {
			continue
		}
		line := number[s.SpanContext().SpanID()] + " " + s.Name() + ", " + s.SpanKind().String()
		if p := number[s.Parent().SpanID()]; p != "" {
			line += ", in " + p
		}
		for _, l := range s.Links() {
			line += ", linked to " + number[l.SpanContext.SpanID()]
		}
		if s.Status().Code != codes.Unset {
			line += ", status " + s.Status().Code.String()
		}
		var attributes []string
		for _, a := range s.Attributes() {
			attributes = append(attributes, string(a.Key)+"="+a.Value.String())
		}
		slices.Sort(attributes)
		lines = append(lines, line+": "+strings.Join(attributes, " "))
	}
	return lines
}

// expect compares all spans, and forgets them.
func (r recording) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := r.texts(); !slices.Equal(got, want) {
		t.Errorf("got spans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	r.spans.Reset()
}

// cache returns a cache of users over tier.
func cache(t testing.TB, tracer strata.Tracer, tier *stratatest.Tier, change ...func(*strata.Options[string, int])) *strata.Cache[string, int] {
	t.Helper()
	o := strata.Options[string, int]{
		Name: "users", TTL: time.Minute, RefreshAt: 0.8, Jitter: -1, Tracer: tracer,
		Remote: strata.Remote[string, int]{Tier: tier, Bus: stratatest.NewBus()},
	}
	for _, f := range change {
		f(&o)
	}
	c, err := strata.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// slow is a Loader.
func slow(context.Context, string) (int, error) {
	time.Sleep(time.Second)
	return 1, nil
}

func TestTraceOfAMissWithFiveWaitersARefreshAndAnInvalidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record()
		c := cache(t, strataotel.NewTracer(r), stratatest.NewTier())
		synctest.Wait() // the bus is connected
		var calls sync.WaitGroup
		get := func() {
			if _, err := c.GetOrLoad(t.Context(), "key-of-ann", slow); err != nil {
				t.Error(err)
			}
		}
		calls.Go(func() {
			ctx, span := r.begin(t.Context(), "GET /users")
			defer span.End()
			_, _ = c.GetOrLoad(ctx, "key-of-ann", func(ctx context.Context, key string) (int, error) {
				_, query := r.begin(ctx, "SELECT")
				defer query.End()
				return slow(ctx, key)
			})
		})
		synctest.Wait()
		for range 5 {
			calls.Go(get)
			synctest.Wait()
		}
		calls.Wait()
		const joined = " get users, internal, linked to 3: strata.cache.name=users strata.degraded=false strata.keys=1 strata.result=joined strata.shared=true"
		r.expect(t,
			"1 GET /users, internal: ",
			"2 get users, internal, in 1: cache.hit=false strata.cache.name=users strata.degraded=false strata.keys=1 strata.result=loaded strata.shared=false",
			"3 load users, internal, in 2: strata.cache.name=users strata.keys=1 strata.load.reason=miss strata.outcome=ok strata.waiters=6",
			"4 SELECT, internal, in 3: ",
			"5"+strings.Replace(joined, ": ", ": cache.hit=false ", 1), "6"+strings.Replace(joined, ": ", ": cache.hit=false ", 1),
			"7"+strings.Replace(joined, ": ", ": cache.hit=false ", 1), "8"+strings.Replace(joined, ": ", ": cache.hit=false ", 1),
			"9"+strings.Replace(joined, ": ", ": cache.hit=false ", 1))
		get()
		r.expect(t) // a hit has no span

		time.Sleep(55 * time.Second)
		ctx, reading := r.begin(t.Context(), "GET /users")
		if _, err := c.GetOrLoad(ctx, "key-of-ann", slow); err != nil {
			t.Error(err)
		}
		reading.End()
		time.Sleep(2 * time.Second)
		refresh := r.spans.Ended()[1]
		if refresh.SpanContext().TraceID() == reading.SpanContext().TraceID() {
			t.Error("the refresh is in the trace of the read")
		}
		r.expect(t, "1 GET /users, internal: ",
			"2 refresh users, internal, linked to 1: strata.cache.name=users strata.keys=1 strata.result=loaded strata.shared=false",
			"3 load users, internal, in 2: strata.cache.name=users strata.keys=1 strata.load.reason=refresh strata.outcome=ok strata.waiters=0")

		ctx, caller := r.begin(t.Context(), "DELETE /users")
		if err := c.Invalidate(ctx, "key-of-ann"); err != nil {
			t.Error(err)
		}
		caller.End()
		r.expect(t, "1 DELETE /users, internal: ",
			"2 invalidate users, internal, in 1: strata.cache.name=users strata.confirmed=true strata.keys=1 strata.pending=0 strata.result=ok strata.soft=false strata.tags=0")
	})
}

func TestSpansTellHowReadsAndWritesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record()
		tier := stratatest.NewTier()
		c, other := cache(t, strataotel.NewTracer(r), tier), cache(t, nil, tier)
		synctest.Wait()
		_ = other.Set(t.Context(), "a", 7)
		_, _ = c.Get(t.Context(), "a")
		_, _ = c.Get(t.Context(), "b")
		_, _ = c.GetOrLoad(t.Context(), "c", func(context.Context, string) (int, error) { return 0, strata.ErrNotFound })
		_ = c.Set(t.Context(), "d", 8)
		_ = c.ExpireTags(t.Context(), "t", "u")
		_, _ = c.GetMany(t.Context(), []string{"a", "e", "f"}, func(context.Context, []string) (map[string]int, error) { return map[string]int{"e": 1, "f": 2}, nil })
		r.expect(t,
			"1 get users, internal: cache.hit=true strata.cache.name=users strata.degraded=false strata.keys=1 strata.result=l2 strata.shared=false",
			"2 get users, internal: cache.hit=false strata.cache.name=users strata.degraded=false strata.keys=1 strata.result=absent strata.shared=false",
			"3 get users, internal: cache.hit=false strata.cache.name=users strata.degraded=false strata.keys=1 strata.result=not_found strata.shared=false",
			"4 load users, internal, in 3: strata.cache.name=users strata.keys=1 strata.load.reason=miss strata.outcome=not_found strata.waiters=1",
			"5 set users, internal: strata.cache.name=users strata.confirmed=true strata.keys=1 strata.pending=0 strata.result=ok",
			"6 invalidate users, internal: strata.cache.name=users strata.confirmed=true strata.keys=0 strata.pending=0 strata.result=ok strata.soft=true strata.tags=2",
			"7 get users, internal: strata.cache.name=users strata.degraded=false strata.keys=2 strata.result=many strata.shared=false",
			"8 load users, internal, in 7: strata.cache.name=users strata.keys=2 strata.load.reason=miss strata.outcome=ok strata.waiters=2",
		)
	})
}

// secret is an error with a text that must not be told.
type secret struct{}

func (secret) Error() string { return "no user ann at postgres://strata:password@db/users" }

func TestErrorsOfCallersAreTheOnlyOnesAndHaveNoText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record()
		c := cache(t, strataotel.NewTracer(r), stratatest.NewTier())
		synctest.Wait() // the bus is connected
		_, _ = c.GetOrLoad(t.Context(), "a", func(context.Context, string) (int, error) { return 0, secret{} })
		_, _ = c.GetOrLoad(t.Context(), "b", func(context.Context, string) (int, error) { panic("no user ann") })
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, leave)
		_, _ = c.GetOrLoad(ctx, "c", slow)
		time.Sleep(time.Minute)
		for _, s := range r.spans.Ended() {
			if s.Status().Description != "" || len(s.Events()) > 0 {
				t.Errorf("%s has the status %q and events %v", s.Name(), s.Status().Description, s.Events())
			}
		}
		const failed = ": strata.cache.name=users strata.degraded=false strata.keys=1 strata.result=error strata.shared=false"
		r.expect(t,
			"1 get users, internal, status Error: error.type=strataotel_test.secret"+failed[1:],
			"2 load users, internal, in 1, status Error: error.type=strataotel_test.secret strata.cache.name=users strata.keys=1 strata.load.reason=miss strata.outcome=error strata.waiters=1",
			"3 get users, internal, status Error: error.type=panic"+failed[1:],
			"4 load users, internal, in 3, status Error: error.type=panic strata.cache.name=users strata.keys=1 strata.load.reason=miss strata.outcome=panic strata.waiters=1",
			"5 get users, internal: strata.cache.name=users strata.degraded=false strata.keys=1 strata.result=left strata.shared=false",
			"6 load users, internal, in 5: strata.cache.name=users strata.keys=1 strata.load.reason=miss strata.outcome=ok strata.waiters=0",
		)
	})
}

func TestErrorOfABatchHasTheTypeOfItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record()
		c := cache(t, strataotel.NewTracer(r), stratatest.NewTier())
		synctest.Wait() // the bus is connected
		fails := func(context.Context, []string) (map[string]int, error) { return nil, secret{} }
		if _, err := c.GetMany(t.Context(), []string{"a", "b"}, fails); err == nil {
			t.Error("no error")
		}
		synctest.Wait()
		for _, text := range r.texts() {
			if !strings.Contains(text, "error.type=strataotel_test.secret") {
				t.Errorf("got %s", text)
			}
		}
	})
}

func TestTextsOfErrorsAreInSpansOnRequest(t *testing.T) {
	r := record()
	c := cache(t, strataotel.NewTracer(r, strataotel.WithErrorText(func(error) string { return "a text" })), stratatest.NewTier())
	_, _ = c.GetOrLoad(t.Context(), "a", func(context.Context, string) (int, error) { return 0, secret{} })
	for _, s := range r.spans.Ended() {
		if s.Status().Description != "a text" || len(s.Events()) != 1 || s.Events()[0].Name != "exception" {
			t.Fatalf("%s has the status %+v and events %v", s.Name(), s.Status(), s.Events())
		}
		if got := attribute.NewSet(s.Events()[0].Attributes...); got.Len() != 2 || !got.HasValue("exception.type") {
			t.Errorf("the event of %s has %v", s.Name(), got.Encoded(attribute.DefaultEncoder()))
		}
	}
}

func TestTypesOfErrorsHaveFewValuesAndNoTexts(t *testing.T) {
	r := record()
	tracer := strataotel.NewTracer(r)
	for want, err := range map[string]error{
		"timeout":                  fmt.Errorf("ann: %w", context.DeadlineExceeded),
		"cancelled":                fmt.Errorf("ann: %w", context.Canceled),
		"closed":                   strata.ErrClosed,
		"overloaded":               strata.ErrOverloaded,
		"recursive_load":           strata.ErrRecursiveLoad,
		"load_exited":              strata.ErrLoadExited,
		"no_loader":                strata.ErrNoLoader,
		"key_too_long":             strata.ErrKeyTooLong,
		"panic":                    &strata.LoadPanicError{Value: secret{}},
		"strataotel_test.secret":   &strata.RemoteError{Err: fmt.Errorf("ann: %w", secret{})},
		"*errors.joinError":        errors.Join(secret{}, secret{}),
		"*strata.RemoteError":      &strata.RemoteError{},
		"strataotel_test.fallback": fallback{},
		"what it says":             typed{},
	} {
		_, end := tracer.Start(t.Context(), strata.Span{Name: strata.SpanSet, Cache: "users"})
		end(strata.SpanEnd{Result: "error", Err: err})
		got := r.texts()
		if !strings.Contains(got[len(got)-1], "error.type="+want+" ") {
			t.Errorf("%v: got %s, want the type %s", err, got[len(got)-1], want)
		}
	}
}

// typed is an error that names its type; fallback has none.
type (
	typed    struct{ error }
	fallback struct{}
)

func (typed) ErrorType() string  { return "what it says" }
func (fallback) Error() string   { return "" }
func (typed) Unwrap() error      { return nil }
func (typed) Error() string      { return "" }
func (fallback) ErrorType() bool { return false }

func TestKeysAreInSpansOnlyWithShowKeys(t *testing.T) {
	for _, show := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := record()
			c := cache(t, strataotel.NewTracer(r), stratatest.NewTier(), func(o *strata.Options[string, int]) { o.ShowKeys = show })
			_, _ = c.GetOrLoad(t.Context(), "key-of-ann", slow)
			_, _ = c.GetOrLoad(t.Context(), "key-of-ann-2", func(context.Context, string) (int, error) { return 0, errors.New("key-of-ann-2 is down") })
			_ = c.Invalidate(t.Context(), "key-of-ann")
			_ = c.Set(t.Context(), "key-of-ann", 2)
			got := r.texts()
			if len(got) != 6 {
				t.Errorf("got %d spans", len(got))
			}
			for _, line := range got {
				if strings.Contains(line, "strata.cache.key=key-of-ann") != show || strings.Count(line, "ann") > 1 {
					t.Errorf("ShowKeys %v: %s", show, line)
				}
			}
		})
	}
}

func TestSpansThatAreNotSampledLeadOn(t *testing.T) {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	within, end := strataotel.NewTracer(provider).Start(t.Context(), strata.Span{Name: strata.SpanGet, Cache: "users"})
	if s := trace.SpanContextFromContext(within); !s.IsValid() || s.IsSampled() {
		t.Errorf("the context has the span %v", s)
	}
	end(strata.SpanEnd{Result: "loaded", Loads: []context.Context{within}})
}

func TestTracerWithoutProviderIsTheGlobalOne(t *testing.T) {
	within, end := strataotel.NewTracer(nil).Start(t.Context(), strata.Span{Name: strata.SpanGet, Cache: "users"})
	end(strata.SpanEnd{Err: secret{}, Loads: []context.Context{within}}) // which is a noop here
}

// TestTenGoroutinesTraceOneCache is in a bubble, since on a busy machine a caller waits no longer for a
// Tracer than for a slow one.
func TestTenGoroutinesTraceOneCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record()
		c := cache(t, strataotel.NewTracer(r), stratatest.NewTier())
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				for i := range 100 {
					key := fmt.Sprint(i % 7)
					_, _ = c.GetOrLoad(t.Context(), key, func(context.Context, string) (int, error) { return i, nil })
					if i%5 == 0 {
						_ = c.Invalidate(t.Context(), key)
					}
				}
			})
		}
		calls.Wait()
		if n := len(r.spans.Ended()); n < 200 || n != len(r.spans.Started()) {
			t.Errorf("%d spans have ended of %d", n, len(r.spans.Started()))
		}
	})
}
