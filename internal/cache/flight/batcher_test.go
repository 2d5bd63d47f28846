package flight_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/flight"
)

// hands records the groups handed over, and the times.
type hands struct {
	mu     sync.Mutex
	begun  time.Time
	groups [][]int
	at     []time.Duration
	takes  time.Duration
}

func (h *hands) take(items []int) {
	h.mu.Lock()
	h.groups = append(h.groups, slices.Sorted(slices.Values(items)))
	h.at = append(h.at, time.Since(h.begun))
	h.mu.Unlock()
	time.Sleep(h.takes) // in a bubble
}

// join lets items join g, one a millisecond, and returns the times that they took.
func join(g *flight.Gatherer[int], items int) []time.Duration {
	took := make([]time.Duration, items)
	var all sync.WaitGroup
	for i := range items {
		all.Go(func() {
			begun := time.Now()
			g.Join(i)
			took[i] = time.Since(begun)
		})
		time.Sleep(time.Millisecond) // in a bubble
	}
	all.Wait()
	return took
}

const ms = time.Millisecond

func TestGroupIsHandedOverWhenItIsFullOrItsTimeIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		size, items int
		wait        time.Duration
		groups      [][]int
		at          []time.Duration
	}{
		"its time is over":      {100, 3, 10 * ms, [][]int{{0, 1, 2}}, []time.Duration{10 * ms}},
		"it is full":            {2, 4, 10 * ms, [][]int{{0, 1}, {2, 3}}, []time.Duration{ms, 3 * ms}},
		"one is left over":      {2, 3, 10 * ms, [][]int{{0, 1}, {2}}, []time.Duration{ms, 12 * ms}},
		"they come slowly":      {3, 4, 2*ms - 1, [][]int{{0, 1}, {2, 3}}, []time.Duration{2*ms - 1, 4*ms - 1}},
		"groups of one":         {1, 2, 10 * ms, [][]int{{0}, {1}}, []time.Duration{0, ms}},
		"no time to wait":       {10, 2, 0, [][]int{{0}, {1}}, []time.Duration{0, ms}},
		"the time is not a one": {10, 2, -1, [][]int{{0}, {1}}, []time.Duration{0, ms}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hands{begun: time.Now()}
				join(flight.NewGatherer(c.size, c.wait, nil, h.take), c.items)
				if !slices.EqualFunc(h.groups, c.groups, slices.Equal) || !slices.Equal(h.at, c.at) {
					t.Errorf("groups %v at %v, want %v at %v", h.groups, h.at, c.groups, c.at)
				}
			})
		})
	}
}

func TestItemsWaitForTheEndOfTheHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hands{begun: time.Now(), takes: time.Second}
		took := join(flight.NewGatherer(3, time.Minute, nil, h.take), 3)
		if want := []time.Duration{time.Second + 2*ms, time.Second + ms, time.Second}; !slices.Equal(took, want) {
			t.Errorf("%v, want %v", took, want)
		}
	})
}

func TestHandOverHoldsUpNoOtherGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hands{begun: time.Now(), takes: time.Hour}
		join(flight.NewGatherer(2, time.Minute, nil, h.take), 6)
		if want := []time.Duration{ms, 3 * ms, 5 * ms}; !slices.Equal(h.at, want) {
			t.Errorf("handed over at %v, want %v", h.at, want)
		}
	})
}

// TestHandOverThatEndsItsGoroutineLeavesNoItemWaiting ends the goroutine of the first
// item, as a callback of a program can.
func TestHandOverThatEndsItsGoroutineLeavesNoItemWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := flight.NewGatherer(3, time.Minute, nil, func([]int) { runtime.Goexit() })
		took := join(g, 3)
		if slices.Max(took) != ms {
			t.Errorf("%v; the first has not returned, the others waited for 1ms and 0", took)
		}
	})
}

func TestNoGroupWaitsFromTheEndOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, over := &hands{begun: time.Now()}, make(chan struct{})
		g := flight.NewGatherer(100, time.Hour, over, h.take)
		time.AfterFunc(5*ms, func() { close(over) })
		join(g, 3)
		g.Join(7)
		if want := [][]int{{0, 1, 2}, {7}}; !slices.EqualFunc(h.groups, want, slices.Equal) || !slices.Equal(h.at, []time.Duration{5 * ms, 5 * ms}) {
			t.Errorf("%v at %v", h.groups, h.at)
		}
	})
}

// TestEachItemIsHandedOverOnceHoweverTheyInterleave lets many items come at once.
func TestEachItemIsHandedOverOnceHoweverTheyInterleave(t *testing.T) {
	const items, size = 2000, 7
	h := &hands{begun: time.Now()}
	g := flight.NewGatherer(size, 50*time.Microsecond, nil, h.take)
	var all sync.WaitGroup
	for i := range items {
		all.Go(func() { g.Join(i) })
	}
	all.Wait()
	seen := map[int]bool{}
	for _, group := range h.groups {
		if len(group) == 0 || len(group) > size {
			t.Fatalf("a group of %d, at most %d", len(group), size)
		}
		for _, i := range group {
			if seen[i] {
				t.Fatalf("%d was handed over twice", i)
			}
			seen[i] = true
		}
	}
	if len(seen) != items {
		t.Fatalf("%d of %d items were handed over", len(seen), items)
	}
}
