//go:build unix

package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/extra/redisotel/v9"
	goclient "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memcached"
	strataotel "github.com/strata-cache/strata/otel"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// spanned is a service of two instances with two caches each. It keeps all spans.
type spanned struct {
	provider *sdktrace.TracerProvider
	spans    *tracetest.SpanRecorder
	trace    remote.Trace
	down     atomic.Bool // L2 takes no drops of keys
	users    []*strata.Cache[string, int]
	products []*strata.Cache[string, int]
}

func newSpanned(t *testing.T) *spanned {
	t.Helper()
	s := &spanned{spans: tracetest.NewSpanRecorder()}
	s.provider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans))
	var err error
	if s.trace, err = strataotel.NewTrace(s.provider, noop.NewMeterProvider()); err != nil {
		t.Fatal(err)
	}
	return s
}

// start starts the two instances, each on a tier and a bus of its own.
func (s *spanned) start(t *testing.T, open func() (remote.Tier, remote.Bus)) {
	t.Helper()
	one := func(ctx context.Context, _ string) (int, error) {
		_, query := s.provider.Tracer("test").Start(ctx, "SELECT")
		defer query.End()
		<-time.After(time.Millisecond)
		return 1, nil
	}
	for range 2 {
		tier, bus := open()
		o := strata.Options[string, int]{
			Service: "shop", Name: "users", TTL: 200 * time.Millisecond, RefreshAt: 0.5, RefreshEvery: 100 * time.Millisecond,
			Stale: strata.Stale{WhileRevalidate: time.Second}, Loader: one,
			Tags: func(string, int) []string { return []string{"all"} }, Tracer: strataotel.NewTracer(s.provider),
			Remote: strata.Remote[string, int]{Tier: tier, Bus: bus},
		}
		s.users = append(s.users, cacheOf(t, o))
		o.Name, o.Loader, o.RefreshEvery, o.BatchWait = "products", nil, 0, 5*time.Millisecond
		o.ManyLoader = func(ctx context.Context, keys []string) (map[string]int, error) {
			found := map[string]int{}
			for _, k := range keys {
				found[k], _ = one(ctx, k)
			}
			return found, nil
		}
		o.Remote.Tier = stratatest.FaultyTier(tier, func(op, _ string) (time.Duration, error) {
			if op == "Drop" && s.down.Load() {
				return 0, errors.New("down")
			}
			return 0, nil
		})
		s.products = append(s.products, cacheOf(t, o))
	}
	for _, c := range s.all() {
		until(t, 10*time.Second, "connected", func() bool { return c.Stats().Connected })
	}
}

func cacheOf(t *testing.T, o strata.Options[string, int]) *strata.Cache[string, int] {
	t.Helper()
	c, err := strata.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func (s *spanned) all() []*strata.Cache[string, int] { return slices.Concat(s.users, s.products) }

// work uses all caches in all ways for some time, at least, with and without a span of the caller.
func (s *spanned) work(t *testing.T, d time.Duration) {
	t.Helper()
	var calls sync.WaitGroup
	defer calls.Wait()
	end := time.Now().Add(d)
	for _, c := range s.all() {
		for caller := range 4 {
			calls.Go(func() {
				for i := caller; time.Now().Before(end) || i < 200; i++ {
					s.call(t, c, i, caller%2 == 0)
					<-time.After(time.Millisecond)
				}
			})
		}
	}
	calls.Go(func() {
		for time.Now().Before(end) {
			<-time.After(d / 8)
			s.down.Store(!s.down.Load())
		}
		s.down.Store(false)
	})
}

// call makes one call of a cache, within a span of the caller if watched is set.
func (s *spanned) call(t *testing.T, c *strata.Cache[string, int], i int, watched bool) {
	ctx := t.Context()
	if watched {
		var caller trace.Span
		ctx, caller = s.provider.Tracer("test").Start(ctx, "GET /")
		defer caller.End()
	}
	key, other := fmt.Sprint(i%11), fmt.Sprint(i%13)
	switch i % 40 {
	case 3:
		_ = c.Invalidate(ctx, key)
	case 7:
		_ = c.Invalidate(ctx, key, other, "x")
	case 11:
		_ = c.InvalidateTags(ctx, "all")
	case 13:
		_ = c.Set(ctx, key, i)
	case 17:
		_ = c.Update(ctx, key, func(context.Context) (int, error) { return i, nil })
	case 19:
		_ = c.Expire(ctx, key)
	case 23:
		_ = c.SetNotFound(ctx, key)
	case 27:
		_ = c.Refresh(ctx, key, other)
	case 29:
		_, _ = c.GetOrLoad(ctx, key, nil, strata.SkipRead())
	case 31: // these calls have no spans of their own
		if watched {
			var caller trace.Span
			ctx, caller = s.provider.Tracer("test").Start(ctx, "look", trace.WithAttributes(attribute.String("strata.cache.name", c.Name())))
			defer caller.End()
		}
		_, _ = c.Warm(ctx, slices.Values([]string{"w1", "w2"}), strata.WarmOptions{})
		c.Explain(ctx, key)
	case 37:
		if i%400 == 37 {
			_ = c.InvalidateAll(ctx)
		}
	case 4, 14, 24, 34:
		_, _ = c.GetMany(ctx, []string{key, other, "m" + key, "n" + other}, nil)
	case 8, 18:
		c.Get(ctx, key)
	default:
		_, _ = c.GetOrLoad(ctx, key, nil)
	}
}

// judge looks at all spans so far: each span of a client is within one of its cache.
func (s *spanned) judge(t *testing.T) {
	t.Helper()
	labels := func(one sdktrace.ReadOnlySpan) (name, service string) {
		for _, a := range one.Attributes() {
			switch a.Key {
			case "strata.cache.name":
				name = a.Value.AsString()
			case "strata.cache.service":
				service = a.Value.AsString()
			}
		}
		return name, service
	}
	byID := map[trace.SpanID]sdktrace.ReadOnlySpan{}
	for _, one := range s.spans.Started() { // a refresh may be under way
		byID[one.SpanContext().SpanID()] = one
	}
	bad, of, late := map[string]int{}, map[string]int{}, map[string]int{}
	for _, one := range byID {
		of[one.SpanKind().String()]++
		if one.SpanKind() != trace.SpanKindClient {
			continue
		}
		name, service := labels(one)
		parent := byID[one.Parent().SpanID()]
		if parent == nil {
			bad[one.Name()+" is a root, or its parent is not there"]++
			continue
		}
		of["client in "+parent.Name()]++
		if parent.Name() == "GET /" && name != "" {
			late["client in "+parent.Name()]++ // outside the span of its cache, which began late
			continue
		}
		if within, _ := labels(parent); name == "" || service != "shop" || name != within {
			bad[fmt.Sprintf("%s of %q (%q) in %s", one.Name(), name, service, parent.Name())]++
		}
		// A batch goes on when the first of its reads has its value, and a write whose time is over
		// goes on without its caller.
		over, failed := parent.EndTime(), parent.Status().Code == codes.Error
		if name == "users" && !failed && !over.IsZero() && one.StartTime().After(over) {
			late["client in "+parent.Name()]++
		}
	}
	t.Log(of)
	// On a busy machine a Tracer or a Trace hears of some work later than its callers wait for it.
	for what, n := range late {
		if n > 5 {
			bad[what+" after its end, or outside a cache"] = n
		}
	}
	for what, n := range bad {
		t.Errorf("%d times: %s", n, what)
	}
	for _, in := range []string{"get", "refresh", "set", "invalidate"} {
		for _, cache := range []string{"users", "products"} {
			if of["client in "+in+" "+cache] == 0 {
				t.Errorf("no span of a client is within one of %s %s", in, cache)
			}
		}
	}
}

// idle waits until nothing is under way, and expects no span in some time from then on.
func (s *spanned) idle(t *testing.T, d time.Duration) {
	t.Helper()
	until(t, time.Minute, "idle", func() bool {
		s.spans.Reset()
		<-time.After(time.Second)
		return len(s.spans.Started()) == 0
	})
	<-time.After(d)
	for _, one := range s.spans.Started() {
		t.Errorf("idle, there was %s", one.Name())
	}
}

// runs starts the service, and looks at its spans under load and at rest.
func (s *spanned) runs(t *testing.T, load, rest time.Duration, open func() (remote.Tier, remote.Bus)) {
	t.Helper()
	s.start(t, open)
	if n := len(s.spans.Started()); n != 0 {
		t.Errorf("%d spans before the first call", n)
	}
	s.work(t, load)
	for _, c := range s.all() {
		until(t, 10*time.Second, "all drops are confirmed", func() bool { return c.Stats().Pending == 0 })
	}
	<-time.After(500 * time.Millisecond)
	s.judge(t)
	s.idle(t, rest)
}

// TestSpansOfClientsAreWithinThoseOfTheirCaches runs a service over each kind of L2.
func TestSpansOfClientsAreWithinThoseOfTheirCaches(t *testing.T) {
	const load, rest = 2 * time.Second, 6 * time.Second
	over := func(s *spanned, t *testing.T, client func(testing.TB, ...func(*redis.Options)) *redis.Client) {
		s.runs(t, load, rest, func() (remote.Tier, remote.Bus) {
			c := client(t, func(o *redis.Options) { o.Trace = s.trace })
			return redis.NewTier(c), redis.NewBus(c)
		})
	}
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		over(newSpanned(t), t, servers.StartRedis(t).Client)
	})
	if testing.Short() {
		return
	}
	t.Run("redis without scripts", func(t *testing.T) {
		t.Parallel()
		over(newSpanned(t), t, servers.StartRedis(t, "--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "").Client)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		over(newSpanned(t), t, servers.StartCluster(t, 3, 0).Client)
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		over(newSpanned(t), t, servers.StartWatched(t, 1).Client)
	})
	t.Run("memcached", func(t *testing.T) {
		t.Parallel()
		s, m, r := newSpanned(t), servers.StartMemcached(t), servers.StartRedis(t)
		s.runs(t, load, rest, func() (remote.Tier, remote.Bus) {
			values := m.Client(t, func(o *memcached.Options) { o.Trace = s.trace })
			return memcached.NewTier(values), redis.NewBus(r.Client(t, func(o *redis.Options) { o.Trace = s.trace }))
		})
	})
	t.Run("go-redis", func(t *testing.T) {
		t.Parallel()
		s, r := newSpanned(t), servers.StartRedis(t)
		s.runs(t, load, rest, func() (remote.Tier, remote.Bus) { return s.overGoRedis(t, r.Addr) })
	})
}

// overGoRedis returns a tier and a bus over a client of go-redis with a span for each command, as
// the README of otel has it.
func (s *spanned) overGoRedis(t *testing.T, addr string) (remote.Tier, remote.Bus) {
	t.Helper()
	c := goclient.NewClient(&goclient.Options{
		Addr: addr, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { c.Close() })
	if err := redisotel.InstrumentTracing(c, redisotel.WithTracerProvider(strataotel.ClientProvider(s.provider)),
		redisotel.WithDBStatement(false), redisotel.WithDialFilter(true)); err != nil {
		t.Fatal(err)
	}
	return goRedisTier(t, c), goRedisBus(t, c)
}

// TestIdleServiceHasNoSpanInTenMinutes has model servers, and the clock of a bubble.
func TestIdleServiceHasNoSpanInTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m, r := newSpanned(t), fakes.NewMemcached(), fakes.NewRedis()
		defer m.Close()
		defer r.Close()
		s.runs(t, time.Second, 10*time.Minute, func() (remote.Tier, remote.Bus) {
			values, err := memcached.New(memcached.Options{DialContext: m.Dial, Trace: s.trace})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { values.Close() })
			c, err := redis.New(redis.Options{Addr: "localhost:6379", DialContext: r.Dial, Trace: s.trace})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return memcached.NewTier(values), redis.NewBus(c)
		})
		for _, c := range s.all() {
			_ = c.Close(t.Context())
		}
	})
}

// TestNumberOfSpansOfEachCall counts the spans of caches and of the client, as the README of otel
// has them.
func TestNumberOfSpansOfEachCall(t *testing.T) {
	s, r := newSpanned(t), servers.StartRedis(t)
	client := r.Client(t, func(o *redis.Options) { o.Trace = s.trace })
	c := cacheOf(t, strata.Options[string, int]{
		Name: "users", TTL: time.Hour, Loader: func(context.Context, string) (int, error) { return 1, nil },
		Tracer: strataotel.NewTracer(s.provider),
		Remote: strata.Remote[string, int]{Tier: redis.NewTier(client), Bus: redis.NewBus(client), Timeout: patience},
	})
	until(t, 10*time.Second, "connected", func() bool { return c.Stats().Connected })
	get := func(key string, opts ...strata.CallOption) { _, _ = c.GetOrLoad(t.Context(), key, nil, opts...) }
	get("warm")
	// From now on the server knows the scripts.
	if err := errors.Join(c.Invalidate(t.Context(), "warm"), c.Set(t.Context(), "warm", 1)); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../otel/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for row, does := range map[string]func(key string){
		"a read that L1 answers | 0 | 0":              func(string) { get("warm") },
		"a read that L2 answers | 1 | 1":              func(string) { get("warm", strata.NoMemory()) },
		"a read that L2 cannot answer either | 2 | 3": func(key string) { get(key) },
		"a `GetMany` of absent keys, up to 500 | 2 | 3": func(key string) {
			_, _ = c.GetMany(t.Context(), []string{key, key + "2", key + "3"}, nil)
		},
		"a refresh | 2 | 3": func(string) {
			n := c.Stats().Refreshes
			_ = c.Refresh(t.Context(), "warm")
			until(t, 10*time.Second, "refreshed", func() bool { return c.Stats().Refreshes > n && len(s.spans.Ended()) == len(s.spans.Started()) })
		},
		"`Set` | 1 | 2": func(key string) { _ = c.Set(t.Context(), key, 2) },
		"`Invalidate` of any number of keys | 1 | 1": func(key string) { _ = c.Invalidate(t.Context(), key, key+"2") },
	} {
		if !strings.Contains(string(readme), "\n| "+row+" |\n") {
			t.Errorf("the README of otel has no row %q", row)
		}
		what, _, _ := strings.Cut(row, " | ")
		var got []string
		for try := 0; try < 20 && !slices.Contains(got, row); try++ { // once a second the namespace state is read, too
			for range 10 { // while most look-ups find something, there are look-ups
				get("warm", strata.NoMemory())
			}
			s.spans.Reset()
			does(row + fmt.Sprint(try))
			of := map[trace.SpanKind]int{}
			for _, one := range s.spans.Ended() {
				of[one.SpanKind()]++
			}
			got = append(got, fmt.Sprintf("%s | %d | %d", what, of[trace.SpanKindInternal], of[trace.SpanKindClient]))
		}
		if !slices.Contains(got, row) {
			t.Errorf("got %q, want %q", got, row)
		}
	}
}
