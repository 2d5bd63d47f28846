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

	"github.com/strata-cache/strata/internal/cache/limit"
)

// acquire takes a slot, and fails the test if none is free.
func acquire(t *testing.T, l *limit.Loads) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	release, err := l.Acquire(ctx, false, nil, nil)
	if err != nil {
		t.Fatalf("no slot is free: %v", err)
	}
	return release
}

// wantCounts checks the number of slots in use and of loads in the queues.
func wantCounts(t *testing.T, l *limit.Loads, taken, waiting int) {
	t.Helper()
	if n, w := l.Counts(); n != taken || w != waiting {
		t.Fatalf("%d slots are taken and %d loads wait, want %d and %d", n, w, taken, waiting)
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
		wantCounts(t, l, 1, 4)
		release()
		synctest.Wait()
		if want := []string{"f1", "f2", "b1", "b2"}; !slices.Equal(order, want) {
			t.Fatalf("served in the order %v, want %v", order, want)
		}
		wantCounts(t, l, 0, 0)
	})
}

func TestSlotsAreTakenUpToTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.NewLoads(2, 0)
		first, second := acquire(t, l), acquire(t, l)
		for _, background := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if _, err := l.Acquire(ctx, background, nil, nil); err == nil {
				t.Fatal("a third slot was given")
			}
			cancel()
		}
		first()
		again := acquire(t, l)
		wantCounts(t, l, 2, 0)
		second()
		again()
		wantCounts(t, l, 0, 0)
	})
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
		wantCounts(t, l, 1000, 0)
		for _, release := range all {
			release()
		}
		wantCounts(t, l, 0, 0)
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
				wantCounts(t, l, 1, 1)
				close(urgent)
				synctest.Wait()
			}
			wantCounts(t, l, 1, 0)
			if release == nil {
				t.Fatal("an urgent load does not run")
			}
			release() // gives no slot back: the load had none
			wantCounts(t, l, 1, 0)
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
	wantCounts(t, l, 1, 0)
	release()
	wantCounts(t, l, 0, 0)
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
		wantCounts(t, l, 1, 0)
		release()
		if _, err := l.Acquire(ctx, false, nil, nil); !errors.Is(err, cause) {
			t.Fatalf("error for a context that has ended is %v, want %v", err, cause)
		}
		wantCounts(t, l, 0, 0)
	})
}

// meeting is a context that calls happen when Acquire begins to wait: after it
// has entered the queue, before it selects on its channels.
type meeting struct {
	context.Context
	happen func()
}

func (m meeting) Done() <-chan struct{} {
	m.happen()
	return m.Context.Done()
}

// Both the slot and the reason to leave are ready when the waiter selects. The
// choice is random, so each is taken in some of the tries.
func TestSlotGivenToALeavingWaiterIsNotLost(t *testing.T) {
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
					wantCounts(t, l, 1, 0)
					release()
				} else {
					left++
				}
				wantCounts(t, l, 0, 0)
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
	var running, within, beyond, refused atomic.Int64
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
				cancel()
				if err != nil {
					refused.Add(1)
					continue
				}
				if running.Add(1) > bound {
					beyond.Add(1)
				}
				if urgent == nil {
					if n := within.Add(1); n > bound {
						t.Errorf("%d loads run at once, at most %d", n, bound)
					}
				}
				for range rand.N(10) {
					runtime.Gosched()
				}
				if urgent == nil {
					within.Add(-1)
				}
				running.Add(-1)
				release()
			}
		})
	}
	wg.Wait()
	wantCounts(t, l, 0, 0)
	if refused.Load() == 0 || beyond.Load() == 0 {
		t.Errorf("%d left and %d ran beyond the bound: the cases were not tried", refused.Load(), beyond.Load())
	}
	for range bound {
		acquire(t, l)
	}
}
