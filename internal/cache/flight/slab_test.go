package flight_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/strata-cache/strata/internal/cache/flight"
)

// TestSlabsAreZero takes slices of different lengths and gives them back full.
func TestSlabsAreZero(t *testing.T) {
	var s flight.Slabs[int]
	for i := range 1000 {
		n := i * 37 % (flight.Most + 10)
		some := s.Take(n)
		if len(some) != n {
			t.Fatalf("%d values, want %d", len(some), n)
		}
		for j, v := range some {
			if v != 0 {
				t.Fatalf("value %d of %d is %d", j, n, v)
			}
			some[j] = i + 1
		}
		for _, v := range some[n:cap(some)] {
			if v != 0 {
				t.Fatal("beyond the end of a slice is what was given back")
			}
		}
		s.Give(some)
	}
}

// TestEachGoesOnBehindACallThatEndsTheGoroutine has two of five calls end it.
func TestEachGoesOnBehindACallThatEndsTheGoroutine(t *testing.T) {
	var seen []int
	var wg sync.WaitGroup
	wg.Go(func() {
		flight.Each([]int{0, 1, 2, 3, 4}, func(i int) {
			if seen = append(seen, i); i%2 == 1 {
				runtime.Goexit()
			}
		})
	})
	wg.Wait()
	if !slices.Equal(seen, []int{0, 1, 2, 3, 4}) {
		t.Errorf("seen are %v", seen)
	}
}
