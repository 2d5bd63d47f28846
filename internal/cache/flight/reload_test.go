package flight_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/flight"
)

// reload asks for a reload that brings v. Its load begins after the time prepares, and lasts for
// the time takes.
func reload(g *group, v int, prepares, takes time.Duration, stored *atomic.Int64) (int, error) {
	r, _, err := do(context.Background(), g, "k", flight.Reload, lead{then: func(f *keyFlight) {
		time.Sleep(prepares)
		current := g.Start(f)
		time.Sleep(takes)
		if ok, _ := g.Land(f, &flight.Result[int]{Value: v, Found: current}, func() { stored.Store(int64(v)) }); !ok {
			stored.Store(-1)
		}
	}})
	return r.Value, errors.Join(err, r.Err)
}

func TestReloadIsJoinedUntilItsLoadBeginsAndThenTheNextOneIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		var stored atomic.Int64
		var wg sync.WaitGroup
		begin := time.Now()
		// Called at so many seconds, answered by the reload of the caller at so many, at that time.
		for at, want := range map[int]struct{ by, when int }{0: {0, 10}, 4: {0, 10}, 6: {6, 20}, 9: {6, 20}, 14: {6, 20}, 16: {16, 30}} {
			wg.Go(func() {
				time.Sleep(time.Duration(at) * time.Second)
				v, err := reload(g, at, 5*time.Second, 5*time.Second, &stored)
				if when := time.Since(begin); v != want.by || err != nil || when != time.Duration(want.when)*time.Second {
					t.Errorf("called at %ds: got %d, %v at %v; want %d at %ds", at, v, err, when, want.by, want.when)
				}
			})
		}
		wg.Wait()
		if stored.Load() != 16 {
			t.Errorf("%d is stored last, want 16", stored.Load())
		}
		must(t, g.Close(t.Context()))
	})
}

func TestReloadWaitsForTheLoadThatRunsAndTakesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		var older atomic.Bool
		var stored atomic.Int64
		go get(t.Context(), g, "k", bring(g, 1, time.Second, &older))
		synctest.Wait()
		go reload(g, 2, time.Second, time.Second, &stored)
		synctest.Wait()
		for want := range 2 { // callers that want a load join the older one, and then the reload
			if v, err := get(t.Context(), g, "k", nil); v != want+1 || err != nil {
				t.Errorf("got %d, %v; want %d", v, err, want+1)
			}
		}
		if !older.Load() || stored.Load() != 2 {
			t.Errorf("the older load stored: %v; the reload: %d, want 2", older.Load(), stored.Load())
		}
		must(t, g.Close(t.Context()))
	})
}

func TestFenceConcernsAReloadFromTheBeginOfItsLoad(t *testing.T) {
	for name, c := range map[string]struct {
		at      time.Duration
		stores  bool
		current bool // a value read before the load may be served
	}{
		"while it waits for its turn":          {500 * time.Millisecond, true, false},
		"while it prepares":                    {1500 * time.Millisecond, true, false},
		"while its load runs":                  {2500 * time.Millisecond, false, true},
		"when all is over, and so of no other": {4 * time.Second, true, true},
	} {
		for kind, fence := range map[string]func(g *group){
			"a key": func(g *group) { g.Fence("k", 0, func() {}) },
			"all":   func(g *group) { g.FenceAll() },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newGroup(t)
					go get(t.Context(), g, "k", bring(g, 1, time.Second, nil))
					synctest.Wait()
					begin := time.Now()
					var wg sync.WaitGroup
					wg.Go(func() {
						var current, stored bool
						_, _, err := do(t.Context(), g, "k", flight.Reload, lead{then: func(f *keyFlight) {
							time.Sleep(time.Until(begin.Add(2 * time.Second)))
							current = g.Start(f)
							time.Sleep(time.Second)
							stored, _ = g.Land(f, &flight.Result[int]{}, func() {})
						}})
						synctest.Wait() // Land has returned
						if err != nil || stored != c.stores {
							t.Errorf("stored: %v, %v; want %v", stored, err, c.stores)
						}
						if current != c.current && c.at > time.Second {
							t.Errorf("a value from before the load may be served: %v, want %v", current, c.current)
						}
					})
					time.Sleep(c.at)
					fence(g)
					wg.Wait()
					must(t, g.Close(t.Context()))
				})
			})
		}
	}
}

func TestReloadWithoutCallersLeavesTheQueueFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		g.CancelAbandoned = true
		go get(t.Context(), g, "k", bring(g, 1, 10*time.Second, nil))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := do(ctx, g, "k", flight.Reload, lead{then: func(f *keyFlight) {
			g.Land(f, &flight.Result[int]{Err: context.Cause(f.Context())}, nil)
		}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller that left got %v", err)
		}
		var stored atomic.Int64
		if v, err := reload(g, 2, 0, 0, &stored); v != 2 || err != nil {
			t.Errorf("the next one got %d, %v; want 2", v, err)
		}
		must(t, g.Close(t.Context()))
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
