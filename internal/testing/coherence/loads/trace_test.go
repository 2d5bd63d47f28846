package loads_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
)

// recorder is a Tracer that keeps all spans.
type recorder struct {
	mu    sync.Mutex
	spans []*recorded
}

// recorded is one span. Its id is the place in which it began.
type recorded struct {
	strata.Span
	strata.SpanEnd
	id, parent int // from 1
	ended      bool
	links      []int
}

type spanKey struct{}

// idIn returns the id of the span that ctx is within; 0 for none.
func idIn(ctx context.Context) int {
	id, _ := ctx.Value(spanKey{}).(int)
	return id
}

func (r *recorder) Start(ctx context.Context, s strata.Span) (context.Context, func(strata.SpanEnd)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := &recorded{Span: s, id: len(r.spans) + 1, parent: idIn(ctx)}
	r.spans = append(r.spans, one)
	return context.WithValue(ctx, spanKey{}, one.id), func(e strata.SpanEnd) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if one.ended {
			panic("a span has ended twice")
		}
		one.SpanEnd, one.ended = e, true
		for _, l := range e.Loads {
			one.links = append(one.links, idIn(l))
		}
	}
}

// text describes all spans, one in a line.
func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, s := range r.spans {
		line := fmt.Sprintf("%d %s in %d", s.id, s.Name, s.parent)
		if s.Apart {
			line = fmt.Sprintf("%d %s apart from %d", s.id, s.Name, s.parent)
		}
		if s.Reason != "" {
			line += " because of a " + s.Reason
		}
		if !s.ended {
			lines = append(lines, line+": running")
			continue
		}
		line += ": " + s.Result
		if s.Waiters > 0 {
			line += fmt.Sprintf(", %d waiters", s.Waiters)
		}
		if len(s.links) > 0 {
			line += fmt.Sprint(", linked to ", s.links)
		}
		if s.Err != nil {
			line += ", error"
		}
		if s.Pending > 0 {
			line += fmt.Sprintf(", %d pending", s.Pending)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := r.text(); got != strings.Join(want, "\n") {
		t.Errorf("got spans\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func traced(r *recorder) func(*strata.Options[string, int64]) {
	return func(o *strata.Options[string, int64]) {
		o.Tracer, o.Jitter, o.RefreshAt, o.TTL = r, -1, 0.8, time.Minute
	}
}

func TestTraceOfAMissWithFiveWaitersARefreshAndAnInvalidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		c := lab.Instance(t, lab.NewShared(), traced(r))
		o := &lab.Origin{Takes: time.Second}
		var inLoad atomic.Int64
		load := func(ctx context.Context, key string) (int64, error) {
			inLoad.Store(int64(idIn(ctx)))
			return o.Load(ctx, key)
		}
		var calls sync.WaitGroup
		calls.Go(func() { lab.MustGet(t, c, "k", load) })
		synctest.Wait()
		for range 5 {
			calls.Go(func() { lab.MustGet(t, c, "k", load) })
		}
		calls.Wait()
		r.expect(t, "1 get in 0: loaded", "2 load in 1 because of a miss: ok, 6 waiters",
			"3 get in 0: joined, linked to [2]", "4 get in 0: joined, linked to [2]", "5 get in 0: joined, linked to [2]",
			"6 get in 0: joined, linked to [2]", "7 get in 0: joined, linked to [2]")
		if inLoad.Load() != 2 {
			t.Errorf("the Loader ran within span %d, want 2", inLoad.Load())
		}
		r.spans = nil
		lab.MustGet(t, c, "k", load)
		r.expect(t) // nothing: a hit asks no Tracer
		time.Sleep(55 * time.Second)
		lab.MustGet(t, c, "k", load)
		synctest.Wait()
		time.Sleep(2 * time.Second)
		r.expect(t, "1 refresh apart from 0: loaded", "2 load in 1 because of a refresh: ok")
		r.spans = nil
		if err := c.Invalidate(context.WithValue(t.Context(), spanKey{}, 99), "k"); err != nil {
			t.Fatal(err)
		}
		r.expect(t, "1 invalidate in 99: ok")
	})
}

func TestRefreshIsLinkedToTheReadThatCausedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		c := lab.NewCache(t, traced(r))
		o := &lab.Origin{}
		lab.MustGet(t, c, "k", o.Load)
		r.spans = nil
		time.Sleep(55 * time.Second)
		if _, err := c.GetOrLoad(context.WithValue(t.Context(), spanKey{}, 77), "k", o.Load); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.expect(t, "1 refresh apart from 77: loaded", "2 load in 1 because of a refresh: ok")
	})
}

// TestRequestsOfARefreshAreWithinItsSpan looks at the spans within which the Tier is asked, for
// one key and for a batch.
func TestRequestsOfARefreshAreWithinItsSpan(t *testing.T) {
	for _, many := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, r := lab.NewShared(), &recorder{}
			seen := spanTier{s.Tier, new(sync.Map)}
			o := &lab.Origin{}
			c := lab.Instance(t, s, traced(r), func(opts *strata.Options[string, int64]) { opts.Remote.Tier = seen })
			get := func(c *strata.Cache[string, int64]) {
				if many {
					_, _ = c.GetMany(t.Context(), []string{"k", "l"}, lab.EachOf(o.Load))
				} else {
					lab.MustGet(t, c, "k", o.Load)
				}
			}
			get(c)
			time.Sleep(55 * time.Second)
			seen.asked.Clear()
			r.spans = nil
			get(c)
			time.Sleep(time.Second)
			want := "1 refresh apart from 0: loaded"
			if many {
				want = "1 refresh apart from 0: many"
			}
			r.expect(t, want, "2 load in 1 because of a refresh: ok")
			asked := 0
			for op, id := range seen.asked.Range {
				if asked++; id != 1 {
					t.Errorf("%v is within span %v", op, id)
				}
			}
			if asked < 2 {
				t.Errorf("%d operations", asked)
			}
		})
	}
}

// spanTier notes within which span each operation is.
type spanTier struct {
	remote.Tier
	asked *sync.Map
}

func (s spanTier) Unwrap() remote.Tier                { return s.Tier }
func (s spanTier) Wrap(inner remote.Tier) remote.Tier { return spanTier{inner, s.asked} }

func (s spanTier) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	s.asked.Store("get", idIn(ctx))
	return s.Tier.Get(ctx, keys, known...)
}

func (s spanTier) Acquire(ctx context.Context, rs []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	s.asked.Store("acquire", idIn(ctx))
	return s.Tier.Acquire(ctx, rs, d)
}

func (s spanTier) Put(ctx context.Context, puts []remote.Put) ([]int, error) {
	s.asked.Store("put", idIn(ctx))
	return s.Tier.Put(ctx, puts)
}

func TestGatheredReadsAreLinkedToTheirLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		c := lab.NewCache(t, traced(r), gathers(abc()))
		var calls sync.WaitGroup
		for _, k := range []string{"a", "b", "c", "b"} {
			calls.Go(func() { _, _ = c.GetOrLoad(t.Context(), k, nil) })
			synctest.Wait()
		}
		calls.Wait()
		r.expect(t, "1 get in 0: loaded", "2 get in 0: loaded, linked to [5]", "3 get in 0: loaded, linked to [5]", "4 get in 0: joined, linked to [5]",
			"5 load in 1 because of a miss: ok, 4 waiters")
		r.spans = nil
		if _, err := c.GetOrLoad(t.Context(), "x", nil); err == nil {
			t.Error("x was found")
		}
		r.expect(t, "1 get in 0: not_found", "2 load in 1 because of a miss: not_found, 1 waiters")
	})
}

func TestSpansTellErrorsThatTheCallerGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		c := lab.NewCache(t, traced(r))
		fails := func(context.Context, string) (int64, error) { return 0, errors.New("down") }
		none := func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound }
		_, _ = c.GetOrLoad(t.Context(), "a", fails)
		_, _ = c.GetOrLoad(t.Context(), "b", none)
		_, _ = c.GetOrLoad(t.Context(), "c", func(context.Context, string) (int64, error) { panic("no") })
		r.expect(t, "1 get in 0: error, error", "2 load in 1 because of a miss: error, 1 waiters, error",
			"3 get in 0: not_found", "4 load in 3 because of a miss: not_found, 1 waiters",
			"5 get in 0: error, error", "6 load in 5 because of a miss: panic, 1 waiters, error")
		r.spans = nil
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Second)
			leave()
		}()
		_, _ = c.GetOrLoad(ctx, "d", (&lab.Origin{Takes: time.Minute / 2}).Load)
		time.Sleep(time.Minute)
		r.expect(t, "1 get in 0: left", "2 load in 1 because of a miss: ok")
	})
}

func TestSpansOfBatchesAndWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := lab.NewShared(), &recorder{}
		var down atomic.Bool
		c := lab.Instance(t, s, traced(r), func(o *strata.Options[string, int64]) { o.Remote.Tier = lab.Failing(s.Tier, "Drop", &down) })
		load := lab.EachOf((&lab.Origin{Takes: time.Second}).Load)
		var calls sync.WaitGroup
		calls.Go(func() { _, _ = c.GetMany(t.Context(), []string{"a", "b"}, load) })
		time.Sleep(time.Second / 2)
		calls.Go(func() { _, _ = c.GetMany(t.Context(), []string{"b", "x"}, load) })
		calls.Wait()
		r.expect(t, "1 get in 0: many", "2 load in 1 because of a miss: ok, 3 waiters",
			"3 get in 0: many, linked to [2]", "4 load in 3 because of a miss: ok, 1 waiters")
		if keys := []int{r.spans[0].Keys, r.spans[1].Keys, r.spans[2].Keys, r.spans[3].Keys}; !slices.Equal(keys, []int{2, 2, 2, 1}) {
			t.Errorf("spans of %v keys", keys)
		}
		r.spans = nil
		_ = c.Set(t.Context(), "a", 7)
		_ = c.InvalidateTags(t.Context(), "t", "u")
		_ = c.ExpireAll(t.Context())
		down.Store(true)
		_ = c.Invalidate(t.Context(), "a", "b")
		r.expect(t, "1 set in 0: ok", "2 invalidate in 0: ok", "3 invalidate in 0: ok", "4 invalidate in 0: error, error, 2 pending")
		if r.spans[1].Tags != 2 || !r.spans[2].Soft || r.spans[3].Keys != 2 || !r.spans[2].Confirmed || r.spans[3].Confirmed {
			t.Errorf("got %+v", r.spans)
		}
		down.Store(false)
		time.Sleep(time.Minute)
	})
}

func TestKeysAreInSpansOnlyWithShowKeys(t *testing.T) {
	for _, show := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{}
			c := lab.Instance(t, lab.NewShared(), traced(r), func(o *strata.Options[string, int64]) { o.ShowKeys = show })
			lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
			_ = c.Set(t.Context(), "k", 2)
			_ = c.Invalidate(t.Context(), "k")
			for _, s := range r.spans {
				if (s.Key == "k") != show || !show && s.Key != nil {
					t.Errorf("ShowKeys %v: the key of %s is %v", show, s.Name, s.Key)
				}
			}
		})
	}
}

// brokenTracer is a Tracer that panics when a span begins, or ends, or that returns nothing.
type brokenTracer string

func (b brokenTracer) Start(ctx context.Context, _ strata.Span) (context.Context, func(strata.SpanEnd)) {
	switch b {
	case "begin":
		panic("begin")
	case "nil":
		return nil, nil
	}
	return ctx, func(strata.SpanEnd) { panic("end") }
}

func TestTracerThatPanicsChangesNothingElse(t *testing.T) {
	for _, b := range []brokenTracer{"begin", "end", "nil"} {
		synctest.Test(t, func(t *testing.T) {
			c := lab.Instance(t, lab.NewShared(), func(o *strata.Options[string, int64]) { o.Tracer = b })
			if v := lab.MustGet(t, c, "k", lab.PlainLoad); v != 1 {
				t.Errorf("%s: got %d", b, v)
			}
			if err := errors.Join(c.Set(t.Context(), "k", 2), c.Invalidate(t.Context(), "k")); err != nil {
				t.Errorf("%s: %v", b, err)
			}
			if n := c.Stats().CallbackPanics; (n == 0) != (b == "nil") {
				t.Errorf("%s: %d panics are counted", b, n)
			}
		})
	}
}

// lateTracer begins each span after so long, in a bubble.
type lateTracer struct {
	*recorder
	after time.Duration
}

func (l lateTracer) Start(ctx context.Context, s strata.Span) (context.Context, func(strata.SpanEnd)) {
	time.Sleep(l.after) // in a bubble
	return l.recorder.Start(ctx, s)
}

// TestSpanThatBeginsLateEnds has spans that begin during their work, and spans that begin after it.
func TestSpanThatBeginsLateEnds(t *testing.T) {
	for _, after := range []time.Duration{time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			r := new(recorder)
			c := lab.Instance(t, lab.NewShared(), func(o *strata.Options[string, int64]) { o.Tracer = lateTracer{r, after} })
			v, err := c.GetOrLoad(t.Context(), "k", func(ctx context.Context, _ string) (int64, error) {
				if id := idIn(ctx); id != 0 {
					t.Errorf("the load is within the span %d", id)
				}
				time.Sleep(10 * time.Second)
				return 1, nil
			})
			if v != 1 || err != nil {
				t.Fatalf("%d, %v", v, err)
			}
			if err := c.Invalidate(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.spans) < 3 {
				t.Errorf("%d spans have begun", len(r.spans))
			}
			for _, s := range r.spans {
				if !s.ended || s.Result == "" {
					t.Errorf("the span %s begins after %v, and has not ended", s.Name, after)
				}
			}
		})
	}
}
