package observe

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// exact are the true sums of a stream that a sketch has seen.
func streamOf(t *testing.T, s *Sketch[int], r *rand.Rand, n int, next func() int) (exact map[int]uint64, all uint64) {
	t.Helper()
	exact = map[int]uint64{}
	for range n {
		key, w := next(), uint64(1+r.IntN(3))
		s.Add(key, w)
		exact[key] += w
		all += w
	}
	return exact, all
}

func TestSumsAreNeverTooLowAndOverBoundsTheRest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.1, 1, 1<<20)
	s := NewSketch[int](100)
	exact, all := streamOf(t, s, r, 100_000, func() int { return int(zipf.Uint64()) })
	top := s.Top(200)
	if len(top) != 100 {
		t.Fatalf("%d keys in a sketch of 100", len(top))
	}
	seen := map[int]bool{}
	last := uint64(math.MaxUint64)
	for _, c := range top {
		seen[c.Key] = true
		if c.Sum < exact[c.Key] || c.Sum-c.Over > exact[c.Key] || c.Sum > last {
			t.Errorf("key %d: %d to %d, exactly %d, after %d", c.Key, c.Sum-c.Over, c.Sum, exact[c.Key], last)
		}
		last = c.Sum
	}
	for key, sum := range exact {
		if sum > all/100 && !seen[key] {
			t.Errorf("key %d has %d of %d, and is not found", key, sum, all)
		}
	}
}

func TestFewKeysAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s := NewSketch[int](50)
	exact, _ := streamOf(t, s, r, 10_000, func() int { return r.IntN(50) })
	for _, c := range s.Top(50) {
		if c.Sum != exact[c.Key] || c.Over != 0 {
			t.Errorf("key %d: %d, exactly %d", c.Key, c.Sum, exact[c.Key])
		}
	}
}

func TestKeysThatAreNotEqualToThemselvesTakeNoRoom(t *testing.T) {
	s := NewSketch[float64](3)
	for range 1000 {
		s.Add(math.NaN(), 1)
	}
	s.Add(1, 1)
	if top := s.Top(-1); len(top) != 0 {
		t.Errorf("Top(-1) is %v", top)
	}
	if top := s.Top(9); len(top) != 1 || top[0].Key != 1 {
		t.Errorf("got %v", top)
	}
}

func BenchmarkAdd(b *testing.B) {
	s := NewSketch[string](256)
	keys := make([]string, 4096)
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.1, 1, uint64(len(keys)-1))
	for i := range keys {
		keys[i] = fmt.Sprint("user:", zipf.Uint64())
	}
	for i := 0; b.Loop(); i++ {
		s.Add(keys[i%len(keys)], 64)
	}
}
