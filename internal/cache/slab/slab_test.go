package slab_test

import (
	"testing"

	"github.com/strata-cache/strata/internal/cache/slab"
)

// TestSlabsAreZero takes slices of different lengths and gives them back full.
func TestSlabsAreZero(t *testing.T) {
	var s slab.Slabs[int]
	for i := range 1000 {
		n := i * 37 % (slab.Most + 10)
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
