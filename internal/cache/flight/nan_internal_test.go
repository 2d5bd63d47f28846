package flight

import (
	"math"
	"testing"
	"time"
)

// one is the memory of one flight.
type one[K comparable, V any] struct{}

func (one[K, V]) Flight() *Flight[K, V] { return new(Flight[K, V]) }

func TestKeysThatDoNotEqualThemselvesLeaveNothingBehind(t *testing.T) {
	g := NewGroup[float64, int](func() uint64 { return 0 })
	for range 1000 {
		f, part, _ := g.register(caller{ctx: t.Context()}, math.NaN(), Load, one[float64, int]{})
		if part != Led {
			t.Fatalf("part %v", part)
		}
		g.Land(f, &Result[int]{}, nil)
		g.runs.Done()
		w, err := g.Begin(math.NaN())
		if err != nil {
			t.Fatal(err)
		}
		g.End(w, func() {}, func() {})
		g.Hold(math.NaN(), time.Hour)
	}
	left := 0
	for i := range g.shards {
		s := &g.shards[i]
		left += s.running.n + len(s.writes) + len(s.holds)
	}
	if left != 0 {
		t.Errorf("%d things left behind", left)
	}
}
