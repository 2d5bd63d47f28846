package memory_test

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/memory"
)

// ofAStream is the share of hits of a cache that is filled by its misses: one read in four is of 2n keys, the others are
// of keys that are read once.
func ofAStream(c *memory.Cache[int, int], n int) float64 {
	defer c.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20 * n {
		key := 1_000_000_000 + i
		if r.IntN(4) == 0 {
			key = r.IntN(2 * n)
		}
		if _, ok := c.Get(key); !ok {
			c.Set(key, i)
		}
	}
	return c.Stats().HitRatio()
}

// ofALoop is the same for a loop over a few more keys than fit.
func ofALoop(c *memory.Cache[int, int], n int) float64 {
	defer c.Close()
	for i := range 20 * n {
		key := i % (n + n/10)
		if _, ok := c.Get(key); !ok {
			c.Set(key, i)
		}
	}
	return c.Stats().HitRatio()
}

func made(t *testing.T, o memory.Options[int, int]) *memory.Cache[int, int] {
	t.Helper()
	c, err := memory.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A cache has as many hits as one made with its present bound.
func TestCacheWithALoweredBoundHitsWhatOneMadeWithItHits(t *testing.T) {
	kit.Alone(t)
	n := kit.Rounds(20_000)
	for name, hits := range map[string]func(*memory.Cache[int, int], int) float64{"stream": ofAStream, "loop": ofALoop} {
		want := hits(made(t, memory.Options[int, int]{MaxEntries: n}), n)
		c := made(t, memory.Options[int, int]{MaxEntries: 10_000_000})
		if err := c.Resize(n, 0); err != nil {
			t.Fatal(err)
		}
		if got := hits(c, n); got < 0.8*want {
			t.Errorf("%s: %.3f of the reads hit a cache of %d entries that was made for 10,000,000, and %.3f one that was made for so many", name, got, n, want)
		}
	}
}

// Weights of one are entries, with however many processors.
func TestCacheBoundedByWeightHitsWhatOneBoundedByEntriesHits(t *testing.T) {
	kit.Alone(t)
	n := kit.Rounds(50_000)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(32))
	for name, hits := range map[string]func(*memory.Cache[int, int], int) float64{"stream": ofAStream, "loop": ofALoop} {
		want := hits(made(t, memory.Options[int, int]{MaxEntries: n}), n)
		got := hits(made(t, memory.Options[int, int]{MaxWeight: int64(n), Weigh: func(int, int) int64 { return 1 }}), n)
		if got < 0.8*want {
			t.Errorf("%s: %.3f of the reads hit a cache bounded by weight, and %.3f one of as many entries", name, got, want)
		}
	}
}

// A generous bound of the weight beside one of the number costs no hits.
func TestCacheWithTwoBoundsHitsWhatOneWithTheNarrowerBoundHits(t *testing.T) {
	kit.Alone(t)
	n := kit.Rounds(20_000)
	for name, hits := range map[string]func(*memory.Cache[int, int], int) float64{"stream": ofAStream, "loop": ofALoop} {
		want := hits(made(t, memory.Options[int, int]{MaxEntries: n}), n)
		got := hits(made(t, memory.Options[int, int]{MaxEntries: n, MaxWeight: 1 << 30, Weigh: func(int, int) int64 { return 100 }}), n)
		if got < 0.8*want {
			t.Errorf("%s: %.3f of the reads hit a cache of %d entries of 100 bytes that has a bound of 1 GiB as well, and %.3f one without", name, got, n, want)
		}
	}
}
