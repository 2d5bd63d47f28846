package limit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/limit"
)

// acquire takes a slot that is expected to be free.
func acquire(t *testing.T, l *limit.Loads) (release func()) {
	t.Helper()
	release, ok := l.TryAcquire(false)
	if !ok {
		t.Fatalf("no slot is free: %+v", l.Stats())
	}
	return release
}

func wantLoads(t *testing.T, l *limit.Loads, want limit.LoadStats) {
	t.Helper()
	if got := l.Stats(); got != want {
		t.Fatalf("stats are %+v, want %+v", got, want)
	}
}

func TestForegroundLoadsAreServedFirstAndInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.NewLoads(1, 0)
		release := acquire(t, l)
		var order []string
		wait := func(name string, background bool) {
			go func() {
				release, err := l.Acquire(t.Context(), background, nil, nil)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, name)
				release()
			}()
			synctest.Wait()
		}
		wait("b1", true)
		wait("f1", false)
		wait("b2", true)
		wait("f2", false)
		wantLoads(t, l, limit.LoadStats{Running: 1, Waiting: 4, Most: 1})
		release()
		synctest.Wait()
		if want := []string{"f1", "f2", "b1", "b2"}; !slices.Equal(order, want) {
			t.Fatalf("served in the order %v, want %v", order, want)
		}
		wantLoads(t, l, limit.LoadStats{Most: 1})
	})
}

func TestSlotsAreTakenUpToTheBound(t *testing.T) {
	l := limit.NewLoads(2, 0)
	first, second := acquire(t, l), acquire(t, l)
	for _, background := range []bool{false, true} {
		if _, ok := l.TryAcquire(background); ok {
			t.Fatal("a third slot was given")
		}
	}
	first()
	again, ok := l.TryAcquire(true)
	if !ok {
		t.Fatal("the slot that was given back is not free")
	}
	wantLoads(t, l, limit.LoadStats{Running: 2, Most: 2})
	second()
	again()
	wantLoads(t, l, limit.LoadStats{Most: 2})
}

func TestWithoutABoundLoadsAreCounted(t *testing.T) {
	for _, bound := range []int{0, -1} {
		l := limit.NewLoads(bound, 0)
		var all []func()
		for range 1000 {
			release, err := l.Acquire(t.Context(), true, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, release)
		}
		wantLoads(t, l, limit.LoadStats{Running: 1000, Most: 1000})
		for _, release := range all {
			release()
		}
		wantLoads(t, l, limit.LoadStats{Most: 1000})
	}
}

func TestUrgentLoadIsLetThroughBeyondTheBound(t *testing.T) {
	for _, closedBefore := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := limit.NewLoads(1, 0)
			held := acquire(t, l)
			urgent := make(chan struct{})
			if closedBefore {
				close(urgent)
			}
			var release func()
			go func() { release, _ = l.Acquire(t.Context(), false, urgent, nil) }()
			synctest.Wait()
			if !closedBefore {
				wantLoads(t, l, limit.LoadStats{Running: 1, Waiting: 1, Most: 1})
				close(urgent)
				synctest.Wait()
			}
			wantLoads(t, l, limit.LoadStats{Running: 2, Most: 1, Urgent: 1})

			// What it gives back is not a slot.
			release()
			wantLoads(t, l, limit.LoadStats{Running: 1, Most: 1, Urgent: 1})
			if _, ok := l.TryAcquire(false); ok {
				t.Fatal("an urgent load has given back a slot that it did not have")
			}
			held()
			acquire(t, l)
		})
	}
}

func TestUrgentLoadTakesAFreeSlot(t *testing.T) {
	l := limit.NewLoads(1, 0)
	urgent := make(chan struct{})
	close(urgent)
	release, err := l.Acquire(t.Context(), false, urgent, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantLoads(t, l, limit.LoadStats{Running: 1, Most: 1})
	release()
	wantLoads(t, l, limit.LoadStats{Most: 1})
}

func TestWaiterLeavesWithTheCauseOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.NewLoads(1, 0)
		release := acquire(t, l)
		cause := errors.New("no patience")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		begun := time.Now()
		if _, err := l.Acquire(ctx, false, nil, nil); !errors.Is(err, cause) {
			t.Fatalf("error is %v, want %v", err, cause)
		}
		if d := time.Since(begun); d != time.Second {
			t.Fatalf("returned after %v", d)
		}
		wantLoads(t, l, limit.LoadStats{Running: 1, Most: 1})
		release()
		if _, err := l.Acquire(ctx, false, nil, nil); !errors.Is(err, cause) {
			t.Fatalf("error for a context that has ended is %v, want %v", err, cause)
		}
		wantLoads(t, l, limit.LoadStats{Most: 1})
	})
}

// meeting is a context that lets something happen when its waiter begins to
// wait: after it has entered the queue, before it looks what it is to wait for.
type meeting struct {
	context.Context
	happen func()
}

func (m meeting) Done() <-chan struct{} {
	m.happen()
	return m.Context.Done()
}

// Both what a waiter waits for, and what makes it leave, are there when it
// looks. Which one it takes is drawn, so each is taken in some of the tries.
func TestSlotGivenToOneWhoLeavesIsNotLost(t *testing.T) {
	const tries = 100
	for name, ends := range map[string]bool{"context ends": true, "becomes urgent": false} {
		t.Run(name, func(t *testing.T) {
			left := 0
			for range tries {
				l := limit.NewLoads(1, 0)
				held := acquire(t, l)
				ctx, cancel := context.WithCancel(t.Context())
				urgent := make(chan struct{})
				release, err := l.Acquire(meeting{ctx, func() {
					held()
					if ends {
						cancel()
					} else {
						close(urgent)
					}
				}}, false, urgent, nil)
				cancel()
				if err == nil {
					wantLoads(t, l, limit.LoadStats{Running: 1, Most: 1})
					release()
				} else {
					left++
				}
				wantLoads(t, l, limit.LoadStats{Most: 1})
			}
			if !ends && left > 0 || ends && (left == 0 || left == tries) {
				t.Fatalf("%d of %d waiters left", left, tries)
			}
		})
	}
}

func TestManyLoadsKeepTheBoundAndLoseNoSlot(t *testing.T) {
	const bound, callers, rounds = 3, 16, 300
	l := limit.NewLoads(bound, 0)
	var within, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range rounds {
				ctx, cancel := context.WithCancel(t.Context())
				var urgent chan struct{}
				switch {
				case i%4 == 0: // beyond the bound if it has to wait
					urgent = make(chan struct{})
					wg.Go(func() { close(urgent) })
				case i%2 == 0:
					wg.Go(cancel)
				}
				release, err := l.Acquire(ctx, i%3 == 0, urgent, nil)
				switch {
				case err != nil:
					refused.Add(1)
				case urgent == nil:
					if n := within.Add(1); n > bound {
						t.Errorf("%d loads run at once, at most %d", n, bound)
					}
				}
				if err == nil {
					for range rand.N(10) {
						runtime.Gosched()
					}
					if urgent == nil {
						within.Add(-1)
					}
					release()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	s := l.Stats()
	if s.Running != 0 || s.Waiting != 0 || s.Most != bound {
		t.Errorf("stats at the end are %+v", s)
	}
	if refused.Load() == 0 || s.Urgent == 0 {
		t.Errorf("%d left and %d became urgent: the cases were not tried", refused.Load(), s.Urgent)
	}
	for range bound {
		acquire(t, l)
	}
}
