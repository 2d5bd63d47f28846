package flight_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/limit"
)

type (
	group     = flight.Group[string, int]
	keyFlight = flight.Flight[string, int]
)

func newGroup(t *testing.T) *group {
	return closed(t, flight.NewGroup[string, int](func() uint64 { return 7 }))
}

// closed closes g at the end of the test: a group keeps goroutines until then.
func closed(t *testing.T, g *group) *group {
	t.Cleanup(func() { g.Close(context.Background()) })
	return g
}

// bring returns a function that lands with v after d, unless its context ends
// first. stored, if not nil, is set to whether the flight stored.
func bring(g *group, v int, d time.Duration, stored *atomic.Bool) func(*keyFlight) {
	return func(f *keyFlight) {
		r := flight.Result[int]{Value: v, Found: true}
		select {
		case <-time.After(max(d, 1)):
		case <-f.Context().Done():
			r = flight.Result[int]{Err: context.Cause(f.Context())}
		}
		ok, _ := g.Land(f, &r, func() {})
		if stored != nil {
			stored.Store(ok)
		}
	}
}

// lead is a leader of two functions. Without the first, First lands nothing.
type lead struct {
	first func(context.Context, *keyFlight) bool
	then  func(*keyFlight)
}

func (l lead) First(ctx context.Context, f *keyFlight) bool { return l.first != nil && l.first(ctx, f) }
func (l lead) Then(f *keyFlight)                            { l.then(f) }
func (l lead) Release()                                     {}
func (l lead) Flight() *keyFlight                           { return new(keyFlight) }
func (l lead) Scope() *limit.Scope                          { return new(limit.Scope) }

// do is Do of a caller that waits for its result, however long that takes.
func do[V any](ctx context.Context, g *flight.Group[string, V], key string, kind flight.Kind, l flight.Leader[string, V]) (r flight.Result[V], p flight.Part, err error) {
	p, err = g.Do(ctx, flight.Patience{}, key, kind, l, &r)
	return r, p, err
}

func get(ctx context.Context, g *group, key string, run func(*keyFlight)) (int, error) {
	r, _, err := do(ctx, g, key, flight.Load, lead{then: run})
	return r.Value, errors.Join(err, r.Err)
}

func TestFlightThatALoadWaitsForIsUrgent(t *testing.T) {
	isUrgent := func(g *group, f *keyFlight) bool {
		select {
		case <-g.Urgent(f):
			return true
		default:
			return false
		}
	}
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		var inner *keyFlight
		asked := make(chan struct{})
		go get(t.Context(), g, "inner", func(f *keyFlight) {
			inner = f
			if isUrgent(g, f) {
				t.Error("urgent before a load waits for it")
			}
			close(asked)
			time.Sleep(2 * time.Second)
			g.Land(f, &flight.Result[int]{Value: 1}, nil)
		})
		<-asked
		v, err := get(t.Context(), g, "outer", func(f *keyFlight) {
			go func() {
				time.Sleep(time.Second)
				if !isUrgent(g, inner) || isUrgent(g, f) {
					t.Errorf("inner urgent %v, outer %v; want true, false", isUrgent(g, inner), isUrgent(g, f))
				}
			}()
			v, _ := get(f.Context(), g, "inner", nil)
			first, err := get(f.Context(), g, "led by a load", func(f *keyFlight) {
				if !isUrgent(g, f) {
					t.Error("a flight that a load leads is not urgent")
				}
				g.Land(f, &flight.Result[int]{Value: 1}, nil)
			})
			g.Land(f, &flight.Result[int]{Value: v + first, Err: err}, nil)
		})
		if v != 2 || err != nil {
			t.Errorf("got %d, %v", v, err)
		}
	})
}

func TestCallersShareOneFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		runs := 0
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				v, err := get(t.Context(), g, "k", func(f *keyFlight) { runs++; bring(g, 1, time.Second, nil)(f) })
				if v != 1 || err != nil {
					t.Errorf("got %d, %v", v, err)
				}
			})
		}
		wg.Wait()
		if runs != 1 {
			t.Errorf("%d runs, want 1", runs)
		}
	})
}

func TestFlightCarriesStampOfItsRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		generation := uint64(1)
		g := closed(t, flight.NewGroup[string, int](func() uint64 { return generation }))
		get(t.Context(), g, "k", func(f *keyFlight) {
			generation = 2
			if f.Stamp != 1 {
				t.Errorf("stamp %d, want the generation at registration, 1", f.Stamp)
			}
			g.Land(f, &flight.Result[int]{}, nil)
		})
	})
}

func TestLeaderThatLeavesTakesNothingFromTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		leader, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		go func() {
			if _, err := get(leader, g, "k", bring(g, 1, time.Second, nil)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("leader got %v, want its own deadline", err)
			}
		}()
		synctest.Wait()
		if v, err := get(t.Context(), g, "k", nil); v != 1 || err != nil {
			t.Errorf("waiter got %d, %v; want 1, nil", v, err)
		}
	})
}

func TestWaiterReturnsAtItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		go get(t.Context(), g, "k", bring(g, 1, 800*time.Millisecond, nil))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := get(ctx, g, "k", nil)
		if took := time.Since(start); took != 50*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("returned after %v with %v, want 50ms and the deadline", took, err)
		}
		time.Sleep(time.Second)
	})
}

func TestAbandonedFlightIsCancelledAndNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		g.CancelAbandoned = true
		var stored atomic.Bool
		stored.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		slow := func(f *keyFlight) { // notices its cancellation late
			<-f.Context().Done()
			time.Sleep(time.Minute)
			ok, _ := g.Land(f, &flight.Result[int]{Value: 1}, func() {})
			stored.Store(ok)
		}
		go get(ctx, g, "k", slow)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if v, err := get(t.Context(), g, "k", bring(g, 2, 0, nil)); v != 2 || err != nil {
			t.Errorf("newcomer got %d, %v; want a flight of its own", v, err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if stored.Load() {
			t.Error("an abandoned flight stored its value")
		}
	})
}

func TestAbandonedFlightGoesOnAndIsJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		var stored atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		go get(ctx, g, "k", bring(g, 1, time.Second, &stored))
		synctest.Wait()
		cancel()
		synctest.Wait()
		if v, err := get(t.Context(), g, "k", bring(g, 2, 0, nil)); v != 1 || err != nil {
			t.Errorf("newcomer got %d, %v; want the value of the flight under way", v, err)
		}
		synctest.Wait()
		if !stored.Load() {
			t.Error("the flight did not store")
		}
	})
}

func TestFlightTellsWhetherACallerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		gone := make(chan (<-chan bool), 1)
		ctx, cancel := context.WithCancel(t.Context())
		go get(ctx, g, "k", func(f *keyFlight) {
			gone <- g.Gone(f, false)
			bring(g, 1, time.Minute, nil)(f)
		})
		changes := <-gone
		want := func(when string, want ...bool) {
			t.Helper()
			synctest.Wait()
			var got []bool
			for len(changes) > 0 {
				got = append(got, <-changes)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: received %v, want %v", when, got, want)
			}
		}
		want("at first", false)
		cancel()
		want("when the last has left", true)
		second, leave := context.WithCancel(t.Context())
		go get(second, g, "k", nil)
		want("when another has come", false)
		go get(t.Context(), g, "k", nil)
		want("when a third has come")
		leave()
		want("when one of two has left")
		time.Sleep(time.Minute)
	})
}

func TestKeptFlightGoesOnWithoutCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		g.CancelAbandoned = true
		var stored atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		go get(ctx, g, "k", func(f *keyFlight) {
			if !g.Keep(f) {
				t.Error("Keep refused while a caller waits")
			}
			bring(g, 1, time.Second, &stored)(f)
		})
		synctest.Wait()
		cancel()
		time.Sleep(2 * time.Second)
		if !stored.Load() {
			t.Error("kept flight did not store")
		}
	})
}

func TestFenceTakesTheRightToStoreAndToBeJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		var stored atomic.Bool
		stored.Store(true)
		var wg sync.WaitGroup
		wg.Go(func() {
			if v, _ := get(t.Context(), g, "k", bring(g, 1, time.Second, &stored)); v != 1 {
				t.Errorf("caller from before the fence got %d, want its flight's 1", v)
			}
		})
		synctest.Wait()
		dropped := false
		g.Fence("k", 0, func() { dropped = true })
		if v, _ := get(t.Context(), g, "k", bring(g, 2, 0, nil)); v != 2 {
			t.Errorf("caller from after the fence got %d, want 2", v)
		}
		wg.Wait()
		synctest.Wait()
		if stored.Load() || !dropped {
			t.Errorf("stored %v, dropped %v; want false, true", stored.Load(), dropped)
		}
	})
}

func TestLandingUnregistersOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		go get(t.Context(), g, "k", bring(g, 1, time.Second, nil))
		synctest.Wait()
		g.Fence("k", 0, func() {})
		var stored atomic.Bool
		go get(t.Context(), g, "k", bring(g, 2, 3*time.Second, &stored))
		time.Sleep(2 * time.Second) // the first has landed
		if v, _ := get(t.Context(), g, "k", bring(g, 3, 0, nil)); v != 2 {
			t.Errorf("got %d, want to have joined the second flight", v)
		}
		synctest.Wait()
		if !stored.Load() {
			t.Error("the second flight lost its right when the first landed")
		}
	})
}

func TestFenceAllReachesEveryKeyAndWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		var stored [3]atomic.Bool
		for i, k := range []string{"a", "b", "c"} {
			stored[i].Store(true)
			go get(t.Context(), g, k, bring(g, i, time.Second, &stored[i]))
		}
		w, _ := g.Begin("d")
		synctest.Wait()
		g.FenceAll()
		if g.End(w, func() {}, func() {}) {
			t.Error("the write stored")
		}
		time.Sleep(2 * time.Second)
		for i := range stored {
			if stored[i].Load() {
				t.Errorf("flight %d stored", i)
			}
		}
	})
}

func TestRecursiveLoadsAreRefused(t *testing.T) {
	tests := []struct {
		name  string
		chain map[string]string // from the key of a loader to the key that it asks for
		start []string
	}{
		{"a key asks for itself", map[string]string{"a": "a"}, []string{"a"}},
		{"a circle in one chain", map[string]string{"a": "b", "b": "a"}, []string{"a"}},
		{"a long circle", map[string]string{"a": "b", "b": "c", "c": "d", "d": "a"}, []string{"a"}},
		{"two chains that close a circle", map[string]string{"a": "b", "b": "a"}, []string{"a", "b"}},
		{"three chains that close a circle", map[string]string{"a": "b", "b": "c", "c": "a"}, []string{"a", "b", "c"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t)
				var run func(*keyFlight)
				run = func(f *keyFlight) {
					time.Sleep(time.Second) // let the other chains start
					v, err := get(f.Context(), g, tt.chain[f.Key], run)
					g.Land(f, &flight.Result[int]{Value: v, Err: err}, nil)
				}
				var wg sync.WaitGroup
				for _, k := range tt.start {
					wg.Go(func() {
						if _, err := get(t.Context(), g, k, run); !errors.Is(err, flight.ErrRecursive) {
							t.Errorf("%s: %v, want ErrRecursive", k, err)
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

func TestLoadThatHasLostItsRightsIsRecursiveAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, other := newGroup(t), newGroup(t)
		one := func(f *keyFlight) { g.Land(f, &flight.Result[int]{Value: 1}, nil) }
		v, err := get(t.Context(), g, "k", func(f *keyFlight) {
			g.Fence("k", 0, func() {})
			_, err := get(f.Context(), g, "inner", func(inner *keyFlight) {
				_, err := get(inner.Context(), g, "k", one)
				g.Land(inner, &flight.Result[int]{Err: err}, nil)
			})
			if !errors.Is(err, flight.ErrRecursive) {
				t.Errorf("from a load inside it: %v, want ErrRecursive", err)
			}
			if _, err := get(f.Context(), other, "k", func(f *keyFlight) { other.Land(f, &flight.Result[int]{}, nil) }); err != nil {
				t.Errorf("from another cache: %v", err)
			}
			v, err := get(f.Context(), g, "l", one)
			g.Land(f, &flight.Result[int]{Value: v, Err: err}, nil)
		})
		if v != 1 || err != nil {
			t.Errorf("got %d, %v", v, err)
		}
	})
}

func TestLoadsThatShareADependencyAreNotRecursive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		asks := func(f *keyFlight) {
			v, err := get(f.Context(), g, "shared", bring(g, 5, time.Second, nil))
			g.Land(f, &flight.Result[int]{Value: v, Err: err}, nil)
		}
		var wg sync.WaitGroup
		for _, k := range []string{"a", "b", "a", "c"} {
			wg.Go(func() {
				if v, err := get(t.Context(), g, k, asks); v != 5 || err != nil {
					t.Errorf("%s: %d, %v; want 5", k, v, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestWaiterThatGaveUpLeavesNoEdgeBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		var wg sync.WaitGroup
		// a asks for b, gives up, and goes on; then b asks for a.
		wg.Go(func() {
			time.Sleep(time.Millisecond) // b is under way
			get(t.Context(), g, "a", func(f *keyFlight) {
				ctx, cancel := context.WithTimeout(f.Context(), time.Second)
				defer cancel()
				get(ctx, g, "b", nil)
				time.Sleep(2 * time.Second)
				g.Land(f, &flight.Result[int]{Value: 1}, nil)
			})
		})
		wg.Go(func() {
			v, err := get(t.Context(), g, "b", func(f *keyFlight) {
				time.Sleep(2 * time.Second)
				v, err := get(f.Context(), g, "a", nil)
				g.Land(f, &flight.Result[int]{Value: v, Err: err}, nil)
			})
			if v != 1 || err != nil {
				t.Errorf("b: %d, %v; want 1, nil", v, err)
			}
		})
		wg.Wait()
	})
}

func TestWriteWinsOverFlightsBeforeAndDuringIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		var before, during atomic.Bool
		before.Store(true)
		during.Store(true)
		go get(t.Context(), g, "k", bring(g, 1, time.Second, &before))
		synctest.Wait()
		w, err := g.Begin("k")
		if err != nil {
			t.Fatal(err)
		}
		go get(t.Context(), g, "k", bring(g, 2, time.Second, &during))
		synctest.Wait()
		if !g.Writing("k") || g.Writing("other") {
			t.Error("Writing does not say so")
		}
		if !g.End(w, func() {}, func() { t.Error("dropped") }) {
			t.Error("the write did not store")
		}
		if g.Writing("k") {
			t.Error("still writing after End")
		}
		time.Sleep(2 * time.Second)
		if before.Load() || during.Load() {
			t.Errorf("flights stored: before %v, during %v", before.Load(), during.Load())
		}
	})
}

func TestLaterWriteTakesTheRightOfTheEarlier(t *testing.T) {
	g := newGroup(t)
	first, _ := g.Begin("k")
	second, _ := g.Begin("k")
	drops := 0
	drop := func() { drops++ }
	never := func() { t.Error("a write without its right stored") }
	if !g.End(second, func() {}, nil) || g.End(first, never, drop) || drops != 1 {
		t.Errorf("want the second write to store, and the first to drop: %d drops", drops)
	}
	third, _ := g.Begin("k")
	g.Fence("k", 0, func() {})
	if g.End(third, never, drop) || drops != 2 {
		t.Errorf("a fenced write left the old entry: %d drops", drops)
	}
	fourth, _ := g.Begin("k")
	if g.End(fourth, nil, drop); drops != 3 {
		t.Errorf("a write that failed left the old entry: %d drops", drops)
	}
}

func TestStoreFencesAndInsertsInOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		var stored atomic.Bool
		stored.Store(true)
		go get(t.Context(), g, "k", bring(g, 1, time.Second, &stored))
		w, _ := g.Begin("k")
		synctest.Wait()
		inserted := false
		if err := g.Store("k", 0, func() { inserted = true }); err != nil || !inserted {
			t.Errorf("Store: %v, inserted %v", err, inserted)
		}
		if g.End(w, func() { t.Error("the write under way stored") }, func() {}) {
			t.Error("the write under way kept its right")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if stored.Load() {
			t.Error("the flight under way kept its right")
		}
		g.Close(t.Context())
		if err := g.Store("k", 0, nil); !errors.Is(err, flight.ErrClosed) {
			t.Errorf("Store after Close: %v", err)
		}
	})
}

func TestFlightOfAKeyOnHoldDoesNotStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		defer g.Close(t.Context())
		stores := func() bool {
			var stored atomic.Bool
			get(t.Context(), g, "k", bring(g, 1, 0, &stored))
			synctest.Wait()
			return stored.Load()
		}
		g.Hold("k", time.Minute)
		g.Hold("k", time.Second) // never shortens
		time.Sleep(59 * time.Second)
		if stores() {
			t.Error("stored during the hold")
		}
		w, _ := g.Begin("k")
		if !g.End(w, func() {}, func() {}) {
			t.Error("a write did not store during the hold")
		}
		g.Hold("k", time.Minute)
		time.Sleep(2 * time.Second) // the first hold would be over
		if stores() {
			t.Error("stored during the longer hold")
		}
		time.Sleep(time.Minute)
		if !stores() {
			t.Error("did not store after the hold")
		}
	})
}

func TestCloseWakesCallersAndWaitsForFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		landed := false
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := get(t.Context(), g, "k", func(f *keyFlight) {
				<-f.Context().Done()
				time.Sleep(time.Second)
				landed = true
				g.Land(f, &flight.Result[int]{}, nil)
			})
			if !errors.Is(err, flight.ErrClosed) {
				t.Errorf("caller got %v, want ErrClosed", err)
			}
		})
		synctest.Wait()
		if err := g.Close(t.Context()); err != nil || !landed {
			t.Errorf("Close: %v, landed %v; want nil, true", err, landed)
		}
		wg.Wait()
		if _, err := get(t.Context(), g, "k", nil); !errors.Is(err, flight.ErrClosed) {
			t.Errorf("Do after Close: %v", err)
		}
		if _, err := g.Begin("k"); !errors.Is(err, flight.ErrClosed) {
			t.Errorf("Begin after Close: %v", err)
		}
	})
}

func TestCloseReturnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		go get(t.Context(), g, "k", func(f *keyFlight) {
			time.Sleep(time.Minute) // does not look at its context
			g.Land(f, &flight.Result[int]{}, nil)
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v, want its deadline", err)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Errorf("second Close: %v, want to have waited", err)
		}
	})
}

func TestFlightKeepsValuesOfItsCallerButNotItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		g := newGroup(t)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
		get(ctx, g, "k", func(f *keyFlight) {
			g.Keep(f)
			cancel()
			if f.Context().Value(key{}) != "v" || f.Context().Err() != nil {
				t.Errorf("value %v, err %v", f.Context().Value(key{}), f.Context().Err())
			}
			g.Land(f, &flight.Result[int]{}, nil)
		})
		synctest.Wait()
	})
}

func TestFirstLookNeedsNoGoroutine(t *testing.T) {
	g := newGroup(t)
	var goroutine bool
	r, part, err := do(t.Context(), g, "k", flight.Load, lead{
		first: func(ctx context.Context, f *keyFlight) bool {
			if ctx != t.Context() {
				t.Error("not the caller's context")
			}
			g.Land(f, &flight.Result[int]{Value: 1}, nil)
			return true
		},
		then: func(*keyFlight) { goroutine = true },
	})
	if r.Value != 1 || part != flight.Led || err != nil || goroutine {
		t.Errorf("got %d, part %v, %v, goroutine %v", r.Value, part, err, goroutine)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestLeaderThatLeavesDuringTheFirstLookHandsItOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _, err := do(ctx, g, "k", flight.Load, lead{
				first: func(ctx context.Context, _ *keyFlight) bool { <-ctx.Done(); return false },
				then:  bring(g, 1, time.Second, nil),
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("leader: %v, want its deadline", err)
			}
		})
		synctest.Wait()
		if v, err := get(t.Context(), g, "k", nil); v != 1 || err != nil {
			t.Errorf("the other caller got %d, %v; want 1", v, err)
		}
		wg.Wait()
	})
}

func TestCloseDuringTheFirstLookCancelsTheFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _, err := do(t.Context(), g, "k", flight.Load, lead{
				first: func(context.Context, *keyFlight) bool { time.Sleep(time.Second); return false },
				then: func(f *keyFlight) {
					<-f.Context().Done()
					g.Land(f, &flight.Result[int]{Err: context.Cause(f.Context())}, nil)
				},
			})
			if !errors.Is(err, flight.ErrClosed) {
				t.Errorf("caller: %v, want ErrClosed", err)
			}
		})
		synctest.Wait()
		if err := g.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		wg.Wait()
	})
}
