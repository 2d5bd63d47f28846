package local

import (
	"testing"

	"github.com/strata-cache/strata/internal/cache/l1"
)

// TestReadsNeverFall: a look-up is a hit of the store before the cache says more, and the store loses some hits.
func TestReadsNeverFall(t *testing.T) {
	var l Lookups
	var of l1.Stats
	read := func(hits, misses uint64) {
		t.Helper()
		if s := l.Read(func() l1.Stats { return of }); s.Hits != hits || s.Misses != misses {
			t.Errorf("%d hits, %d misses, want %d and %d", s.Hits, s.Misses, hits, misses)
		}
	}
	of.Hits = 3
	l.AsMiss(false)
	read(3, 0)
	l.AsMiss(true)
	read(3, 1)
	of.Hits, of.Misses = 5, 2
	read(4, 3)
	for range 9 {
		l.AsMiss(true)
	}
	read(4, 12)
	of.Hits = 15
	read(5, 12)
}
