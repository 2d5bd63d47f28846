package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// blocking returns a function that does not return before the end of the test, and the number of its
// calls.
func blocking(t *testing.T) (f func(), calls *atomic.Int64) {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	calls = new(atomic.Int64)
	return func() { calls.Add(1); <-end }, calls
}

// exercise makes calls of all kinds on a cache, and checks that none of them goes on for longer than most
// after the begin, or after the end of its context.
func exercise(t *testing.T, c *strata.Cache[string, int64], most time.Duration) {
	t.Helper()
	load := func(context.Context, string) (int64, error) { return 1, nil }
	many := func(context.Context, []string) (map[string]int64, error) { return map[string]int64{"a": 1}, nil }
	failing := func(context.Context, string) (int64, error) { return 0, errors.New("no") }
	for i := range 40 {
		for _, c := range []struct {
			name string
			call func(ctx context.Context, key string)
		}{
			{"GetOrLoad", func(ctx context.Context, k string) { _, _ = c.GetOrLoad(ctx, k, load) }},
			{"Expire", func(ctx context.Context, k string) { _ = c.Expire(ctx, k) }},
			{"Get", func(ctx context.Context, k string) { c.Get(ctx, k, strata.AllowStale()) }}, // a stale value
			{"failing", func(ctx context.Context, k string) { _, _ = c.GetOrLoad(ctx, "failing"+k, failing) }},
			{"GetMany", func(ctx context.Context, k string) { _, _ = c.GetMany(ctx, []string{"a", k}, many) }},
			{"Set", func(ctx context.Context, k string) { _ = c.Set(ctx, k, 2) }},
			{"Invalidate", func(ctx context.Context, k string) { _ = c.Invalidate(ctx, k) }},
		} {
			limit, cancel := most, func() {}
			ctx := context.Background()
			if i%2 == 0 {
				limit = most / 2
				ctx, cancel = context.WithTimeout(ctx, most/4)
			}
			begun := time.Now()
			c.call(ctx, fmt.Sprint("k", i%5))
			if took := time.Since(begun); took > limit {
				t.Errorf("%s, call %d: took %v, want %v at most", c.name, i, took, limit)
			}
			cancel()
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// closesWithin closes the cache with a context that ends after the duration within.
func closesWithin(t *testing.T, c *strata.Cache[string, int64], within, most time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	begun := time.Now()
	_ = c.Close(ctx)
	if took := time.Since(begun); took > most {
		t.Errorf("Close took %v, want %v at most", took, most)
	}
}

func TestHookThatBlocksHoldsUpNoCallerAndNoClose(t *testing.T) {
	for name, choose := range map[string]func(*strata.Hooks, func(strata.Event)){
		"Hit":         func(h *strata.Hooks, f func(strata.Event)) { h.Hit = f },
		"Miss":        func(h *strata.Hooks, f func(strata.Event)) { h.Miss = f },
		"Load":        func(h *strata.Hooks, f func(strata.Event)) { h.Load = f },
		"Stale":       func(h *strata.Hooks, f func(strata.Event)) { h.Stale = f },
		"Evict":       func(h *strata.Hooks, f func(strata.Event)) { h.Evict = f },
		"Store":       func(h *strata.Hooks, f func(strata.Event)) { h.Store = f },
		"RemoteError": func(h *strata.Hooks, f func(strata.Event)) { h.RemoteError = f },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				block, calls := blocking(t)
				s := lab.NewShared()
				c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
					if name == "RemoteError" {
						var down atomic.Bool
						down.Store(true)
						o.Remote.Tier = lab.Failing(s.Tier, "Get", &down)
					}
					o.Memory.MaxEntries, o.TTL, o.Remote.BreakAfter = 3, time.Second, 10_000
					o.Hooks = new(strata.Hooks)
					choose(o.Hooks, func(strata.Event) { block() })
				})
				exercise(t, c, 250*time.Millisecond)
				closesWithin(t, c, 10*time.Second, 3*time.Second)
				if s := c.Stats(); calls.Load() == 0 || s.CallbacksLate == 0 {
					t.Errorf("%d calls of the hook, %d late", calls.Load(), s.CallbacksLate)
				}
			})
		})
	}
}

// TestHookThatBlocksIsDroppedAndCounted has more events than may wait.
func TestHookThatBlocksIsDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block, calls := blocking(t)
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Hooks = &strata.Hooks{Miss: func(strata.Event) { block() }}
		})
		begun := time.Now()
		for range 1000 {
			c.Get(t.Context(), "k")
		}
		s := c.Stats()
		if took := time.Since(begun); took > time.Second || s.CallbacksDropped == 0 || int64(s.CallbacksDropped) != 1000-calls.Load() {
			t.Errorf("1000 reads took %v; %d events told, %d dropped", took, calls.Load(), s.CallbacksDropped)
		}
	})
}

// blockingHandler is a handler of a log that blocks, at the question for levels or later.
type blockingHandler struct {
	block func()
	early bool
}

func (h blockingHandler) Enabled(context.Context, slog.Level) bool {
	if h.early {
		h.block()
	}
	return true
}

func (h blockingHandler) Handle(context.Context, slog.Record) error { h.block(); return nil }
func (h blockingHandler) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h blockingHandler) WithGroup(string) slog.Handler             { return h }

func TestLogThatBlocksHoldsUpNoCallerAndNoClose(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			block, calls := blocking(t)
			var down atomic.Bool
			s := lab.NewShared()
			c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
				o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(string, string) (time.Duration, error) {
					if down.Load() {
						return 0, errors.New("down")
					}
					return 0, nil
				})
				o.Memory.DetectMutation = true // advice
				o.Logger = slog.New(blockingHandler{block, early})
			})
			down.Store(true)
			exercise(t, c, 250*time.Millisecond)
			closesWithin(t, c, 2*time.Second, 3*time.Second)
			if s := c.Stats(); calls.Load() < 2 || s.CallbacksLate == 0 {
				t.Errorf("%d lines, %d late", calls.Load(), s.CallbacksLate)
			}
		})
	}
}

// blockingTracer is a Tracer that blocks when a span begins, or ends.
type blockingTracer struct{ begin, end func() }

func (b blockingTracer) Start(ctx context.Context, _ strata.Span) (context.Context, func(strata.SpanEnd)) {
	b.begin()
	return ctx, func(strata.SpanEnd) { b.end() }
}

func TestTracerThatBlocksHoldsUpNoCallerAndNoClose(t *testing.T) {
	for _, begins := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			block, calls := blocking(t)
			tracer := blockingTracer{block, func() {}}
			if !begins {
				tracer = blockingTracer{func() {}, block}
			}
			c := lab.Instance(t, lab.NewShared(), func(o *strata.Options[string, int64]) { o.Tracer = tracer })
			exercise(t, c, 400*time.Millisecond)
			closesWithin(t, c, 10*time.Second, 3*time.Second)
			if s := c.Stats(); calls.Load() == 0 || s.CallbacksLate == 0 {
				t.Errorf("%d calls, %d late", calls.Load(), s.CallbacksLate)
			}
		})
	}
}

// mostTold bounds the events of 15 calls with hooks that make up to three calls each: hooks are told of the calls of a hook,
// and not of the calls of hooks that were told so.
const mostTold = 1000

// farDown calls f from many frames down.
func farDown(n int, f func()) {
	if n > 0 {
		farDown(n-1, f)
		return
	}
	f()
}

// TestHookThatUsesTheCacheEnds has hooks that cause the event of which they are told.
func TestHookThatUsesTheCacheEnds(t *testing.T) {
	type kept = strata.Cache[string, int64]
	load := func(context.Context, string) (int64, error) { return 1, nil }
	var next atomic.Int64
	for name, use := range map[string]func(ctx context.Context, c *kept, key string){
		"Get":           func(ctx context.Context, c *kept, k string) { c.Get(ctx, k) },
		"Get of others": func(ctx context.Context, c *kept, _ string) { c.Get(ctx, fmt.Sprint("k", next.Add(1))) },
		"GetOrLoad":     func(ctx context.Context, c *kept, k string) { _, _ = c.GetOrLoad(ctx, k, load) },
		"load of others": func(ctx context.Context, c *kept, _ string) {
			_, _ = c.GetOrLoad(ctx, fmt.Sprint("k", next.Add(1)), load)
		},
		"GetMany": func(ctx context.Context, c *kept, k string) {
			_, _ = c.GetMany(ctx, []string{k}, func(context.Context, []string) (map[string]int64, error) { return map[string]int64{k: 1}, nil })
		},
		"GetMany of others": func(ctx context.Context, c *kept, _ string) {
			_, _ = c.GetMany(ctx, []string{fmt.Sprint("k", next.Add(1)), fmt.Sprint("k", next.Add(1))}, nil)
		},
		"two loads of others": func(ctx context.Context, c *kept, _ string) {
			_, _ = c.GetOrLoad(ctx, fmt.Sprint("k", next.Add(1)), load)
			_, _ = c.GetOrLoad(ctx, fmt.Sprint("k", next.Add(1)), load)
		},
		"two Gets from far down": func(ctx context.Context, c *kept, _ string) {
			farDown(200, func() { c.Get(ctx, fmt.Sprint("k", next.Add(1))); c.Get(ctx, fmt.Sprint("k", next.Add(1))) })
		},
		"SkipRead": func(ctx context.Context, c *kept, k string) { _, _ = c.GetOrLoad(ctx, k, load, strata.SkipRead()) },
		"Refresh": func(ctx context.Context, c *kept, k string) {
			_ = c.Refresh(ctx, k, fmt.Sprint("k", next.Add(1)), fmt.Sprint("k", next.Add(1)))
		},
		"Set":        func(ctx context.Context, c *kept, _ string) { _ = c.Set(ctx, fmt.Sprint("k", next.Add(1)), 1) },
		"Invalidate": func(ctx context.Context, c *kept, k string) { _ = c.Invalidate(ctx, k) },
	} {
		for _, own := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " own context ", own), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var c *kept
					var told atomic.Int64
					hook := func(e strata.Event) {
						if told.Add(1) > mostTold {
							return // or the test would not end
						}
						ctx := e.Context
						if own {
							ctx = context.Background()
						}
						if c != nil && e.Key != nil {
							use(ctx, c, e.Key.(string))
						}
					}
					c = lab.NewCache(t, func(o *strata.Options[string, int64]) {
						o.Memory.MaxEntries, o.Loader = 2, load
						o.Hooks = &strata.Hooks{Hit: hook, Miss: hook, Load: hook, Stale: hook, Evict: hook, Refused: hook, Store: hook}
					})
					for i := range 5 {
						begun := time.Now()
						if v, err := c.GetOrLoad(t.Context(), fmt.Sprint("k", i), load); v != 1 || err != nil {
							t.Errorf("got %d, %v", v, err)
						}
						c.Get(t.Context(), "k")
						lab.Must(t, c.Set(t.Context(), "set", 1))
						if took := time.Since(begun); took > time.Second {
							t.Errorf("calls took %v", took)
						}
					}
					synctest.Wait()
					if n := told.Load(); n == 0 || n > mostTold {
						t.Errorf("told %d times", n)
					}
					closesWithin(t, c, 10*time.Second, 3*time.Second)
				})
			})
		}
	}
}
