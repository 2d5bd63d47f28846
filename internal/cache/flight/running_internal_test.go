package flight

import (
	"math"
	"math/rand/v2"
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

// TestRunningFlightsAreFoundWhileOthersComeAndGo compares the table with a map, while it grows
// and shrinks.
func TestRunningFlightsAreFoundWhileOthersComeAndGo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test that can be repeated
	var r running[int, int]
	held := map[int]*Flight[int, int]{}
	hashOf := func(key int) uint64 { return uint64(key%500) << shardBits } // keys share hashes
	for i := range 40_000 {
		most := 2000
		if i > 20_000 {
			most = 3
		}
		key := random.IntN(1000)
		if f := held[key]; f != nil {
			r.exit(f)
			delete(held, key)
		} else if len(held) < most {
			f := &Flight[int, int]{Key: key}
			f.hash, f.joinable[i%2] = hashOf(key), true
			held[key] = f
			r.enter(f)
		}
		probe := random.IntN(1000)
		f := held[probe]
		for kind := range kinds {
			want := f
			if f != nil && !f.joinable[kind] {
				want = nil
			}
			if got := r.find(kind, probe, hashOf(probe)); got != want {
				t.Fatalf("step %d: %v, want %v", i, got, want)
			}
		}
		if i%1000 == 0 {
			n := 0
			for f := range r.all() {
				if n++; held[f.Key] != f {
					t.Fatalf("step %d: a flight that has left", i)
				}
			}
			if n != len(held) || r.n != n || len(r.chains) > max(keptChains, 8*n+8) {
				t.Fatalf("step %d: %d flights in %d chains, counted as %d, want %d", i, n, len(r.chains), r.n, len(held))
			}
		}
	}
}
