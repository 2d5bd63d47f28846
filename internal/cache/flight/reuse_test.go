package flight_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/limit"
)

// reuser is a leader with one Flight. It notes whether the Flight can be used
// again.
type reuser struct {
	lead
	f        *keyFlight
	released bool
	reusable bool
}

func (r *reuser) Flight() *keyFlight  { return r.f }
func (r *reuser) Scope() *limit.Scope { return new(limit.Scope) }
func (r *reuser) Release()            { r.released, r.reusable = true, r.f.Reuse() }

func TestFlightIsUsedAgainUnlessOthersMayKeepIt(t *testing.T) {
	land := func(g *group, f *keyFlight) { g.Land(f, &flight.Result[int]{Value: 1}, nil) }
	for name, c := range map[string]struct {
		// during runs in the flight, and apart at the same time.
		during func(context.Context, *group)
		apart  func(context.Context, *group)
		again  bool
	}{
		"one caller":                     {again: true},
		"load that looks for a value":    {during: func(ctx context.Context, _ *group) { ctx.Value("other") }, again: true},
		"load that asks for another key": {during: func(ctx context.Context, g *group) { get(ctx, g, "other", func(f *keyFlight) { land(g, f) }) }},
		"load that gives its context to others": {during: func(ctx context.Context, _ *group) {
			ctx, cancel := context.WithCancel(context.WithValue(ctx, limit.Own{}, ctx.Value(limit.Own{})))
			defer cancel()
			ctx.Value("other")
		}},
		"another caller": {apart: func(ctx context.Context, g *group) { get(ctx, g, "key", nil) }},
		"another caller that leaves": {apart: func(ctx context.Context, g *group) {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			get(ctx, g, "key", nil)
		}},
		"reload behind it": {apart: func(ctx context.Context, g *group) {
			do(ctx, g, "key", flight.Reload, lead{then: func(f *keyFlight) { land(g, f) }})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t)
				r := &reuser{f: new(keyFlight)}
				r.then = func(f *keyFlight) {
					if c.apart != nil {
						go c.apart(t.Context(), g)
					}
					if c.during != nil {
						c.during(f.Context(), g)
					}
					time.Sleep(time.Second)
					land(g, f)
				}
				got, _, err := do(t.Context(), g, "key", flight.Load, r)
				if synctest.Wait(); got.Value != 1 || err != nil || !r.released || r.reusable != c.again {
					t.Errorf("%v, %v, released %v, reusable %v, want %v", got.Value, err, r.released, r.reusable, c.again)
				}
			})
		})
	}
}

// TestFlightThatIsUsedAgainDoesNotWakeForTheLastOne lets a caller leave its flight,
// which lands without it. The same memory is the next flight.
func TestFlightThatIsUsedAgainDoesNotWakeForTheLastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		f := new(keyFlight)
		for i := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			r := &reuser{f: f}
			r.then = func(f *keyFlight) {
				time.Sleep(time.Minute)
				g.Land(f, &flight.Result[int]{Value: i}, nil)
			}
			if i == 2 {
				ctx = t.Context()
			}
			got, _, err := do(ctx, g, "key", flight.Load, r)
			if left := err != nil; left != (i < 2) || !left && got.Value != 2 {
				t.Errorf("flight %d: %v, %v", i, got.Value, err)
			}
			time.Sleep(time.Hour)
			if synctest.Wait(); !r.reusable {
				t.Errorf("flight %d cannot be used again", i)
			}
		}
	})
}

// TestFlightsOfABatchAreUsedAgainUnlessOthersMayKeepThem looks at the flights of a batch of two keys
// when its leader has left, and when the load has ended: the memory is zero once it is for others.
func TestFlightsOfABatchAreUsedAgainUnlessOthersMayKeepThem(t *testing.T) {
	type load func(ctx context.Context, g *group, b *flight.Batch[string, int])
	ask := func(ctx context.Context, g *group) {
		get(ctx, g, "other", func(f *keyFlight) { g.Land(f, &flight.Result[int]{}, nil) })
	}
	for name, c := range map[string]struct {
		patience time.Duration // of the leader
		during   load
		again    bool
	}{
		"one caller":            {patience: time.Hour, again: true},
		"a leader that leaves":  {patience: time.Millisecond, again: true},
		"another caller":        {patience: time.Hour, during: func(ctx context.Context, g *group, _ *flight.Batch[string, int]) { go get(ctx, g, "b", nil) }},
		"a load of another key": {patience: time.Hour, during: func(_ context.Context, g *group, b *flight.Batch[string, int]) { ask(b.Context(), g) }},
		"a load of another key in the context of a flight": {patience: time.Hour, during: func(_ context.Context, g *group, b *flight.Batch[string, int]) {
			ask(b.Led[1].Context(), g)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t)
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				b := g.Batch(ctx, []string{"a", "b"}, flight.Load)
				fs := b.Led
				b.Launch(ctx, flight.Patience{}, fs, func() {
					if c.during != nil {
						c.during(t.Context(), g, b)
					}
					time.Sleep(time.Second)
					for _, f := range fs {
						g.Land(f, &flight.Result[int]{Value: 1}, nil)
					}
				})
				for _, f := range fs {
					if r, err := b.Wait(ctx, flight.Patience{}, f); (err != nil || r.Value != 1) != (c.patience < time.Second) {
						t.Errorf("%q: %d, %v", f.Key, r.Value, err)
					}
				}
				b.Leave()
				if c.patience < time.Second && (fs[0].Key != "a" || fs[1].Key != "b") {
					t.Error("the flights are others while their load runs")
				}
				time.Sleep(time.Minute)
				if again := fs[0].Key == "" && fs[1].Key == ""; again != c.again {
					t.Errorf("used again is %t, want %t", again, c.again)
				}
			})
		})
	}
}
