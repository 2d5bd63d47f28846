package memory_test

import (
	"fmt"
	"iter"
	"math"
	"testing"

	"github.com/strata-cache/strata/internal/sim"
	"github.com/strata-cache/strata/internal/sim/trace"
	"github.com/strata-cache/strata/memory"
)

// readThrough is a cache that stores each key that it misses.
type readThrough struct {
	*memory.Cache[uint64, uint64]
}

func (c readThrough) Access(key uint64) bool {
	if _, ok := c.Get(key); ok {
		return true
	}
	c.Set(key, key)
	return false
}

// TestHitRatioIsThatOfTheSimulatedPolicy compares the engine, with its shards and
// its hash table, with a simulator of one queue.
func TestHitRatioIsThatOfTheSimulatedPolicy(t *testing.T) {
	for name, keys := range map[string]iter.Seq[uint64]{
		"zipf":  trace.Zipf(20_000, 0.9, 1),
		"loop":  trace.Loop(3000),
		"scan":  trace.ScanAndHot(2000, 0.5, 2),
		"shift": trace.Shift(5000, 10_000, 3),
		"mixed": trace.Phases(10_000, trace.Loop(900), trace.Zipf(10_000, 1.1, 4)),
	} {
		tr := sim.NewTrace(name, trace.Take(keys, 100_000))
		for _, n := range []int{50, 1000, 4000} {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				c := mustNew(t, memory.Options[uint64, uint64]{MaxEntries: n})
				p, err := sim.New("a3fifo", n, tr)
				if err != nil {
					t.Fatal(err)
				}
				got, want := 100*sim.Run(readThrough{c}, tr.Keys).Ratio(), 100*sim.Run(p, tr.Keys).Ratio()
				if math.Abs(got-want) > 0.3 {
					t.Fatalf("hit ratio %.2f %%, simulated %.2f %%", got, want)
				}
			})
		}
	}
}
