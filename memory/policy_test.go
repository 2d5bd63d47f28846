package memory_test

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"

	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/sim"
	"github.com/strata-cache/strata/memory"
)

// everyPolicy returns all policies.
func everyPolicy() (all []memory.Policy) {
	for _, p := range evict.Policies() {
		all = append(all, memory.Policy(p))
	}
	return all
}

// simulators are the names of the simulators of the policies.
var simulators = map[memory.Policy]string{ // read-only
	memory.A3FIFO: "a3fifo", memory.LRU: "lru", memory.LFU: "cachelfu", memory.FIFO: "fifo", memory.Random: "random",
}

func TestEachPolicyHasASimulator(t *testing.T) {
	for _, p := range everyPolicy() {
		if !slices.Contains(sim.Names(), simulators[p]) {
			t.Errorf("%v has no simulator", p)
		}
	}
}

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

// traces returns traces of n requests each.
func traces(n int) (all []*sim.Trace) {
	for name, keys := range map[string]iter.Seq[uint64]{
		"zipf":  sim.Zipf(20_000, 0.9, 1),
		"loop":  sim.Loop(3000),
		"scan":  sim.ScanAndHot(2000, 0.5, 2),
		"shift": sim.Shift(5000, 10_000, 3),
		"mixed": sim.Phases(10_000, sim.Loop(900), sim.Zipf(10_000, 1.1, 4)),
	} {
		all = append(all, sim.NewTrace(name, sim.Take(keys, n)))
	}
	return all
}

// capacities are the bounds of caches that traces are run on: with -short one of them.
func capacities() []int {
	if testing.Short() {
		return []int{1000}
	}
	return []int{50, 1000, 4000}
}

// TestHitRatioIsThatOfTheSimulatedPolicy compares the engine, with its shards and
// its hash table, with a simulator of one queue.
func TestHitRatioIsThatOfTheSimulatedPolicy(t *testing.T) {
	kit.Alone(t)
	for _, tr := range traces(100_000) {
		for _, n := range capacities() {
			t.Run(fmt.Sprint(tr.Name, " ", n), func(t *testing.T) {
				c := mustNew(t, memory.Options[uint64, uint64]{MaxEntries: n})
				p, err := sim.New(simulators[memory.A3FIFO], n, tr)
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

// TestPoliciesHitWhatTheirSimulatorsHit compares single requests: caches with one
// shard decide exactly as the simulators do.
func TestPoliciesHitWhatTheirSimulatorsHit(t *testing.T) {
	all := traces(kit.Rounds(15_000))
	for _, policy := range everyPolicy() {
		if policy == memory.A3FIFO || policy == memory.Random {
			continue // their hit ratios are compared: shards and chance change single requests
		}
		for _, tr := range all {
			for _, n := range []int{1, 2, 50, 1000} {
				t.Run(fmt.Sprint(policy, " ", tr.Name, " ", n), func(t *testing.T) { agree(t, policy, n, tr) })
			}
		}
	}
}

// agree runs a trace on a cache of n entries and on the simulator of its policy.
func agree(t *testing.T, policy memory.Policy, n int, tr *sim.Trace) {
	c := readThrough{mustNew(t, memory.Options[uint64, uint64]{MaxEntries: n, Policy: policy})}
	p, err := sim.New(simulators[policy], n, tr)
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range tr.Keys {
		if got, want := c.Access(key), p.Access(key); got != want {
			t.Fatalf("request %d for %d: hit %t, simulated %t", i, key, got, want)
		}
	}
}

func TestRandomHitsAsOftenAsItsSimulator(t *testing.T) {
	for _, tr := range traces(50_000) {
		for _, n := range capacities() {
			c := mustNew(t, memory.Options[uint64, uint64]{MaxEntries: n, Policy: memory.Random})
			p, err := sim.New(simulators[memory.Random], n, tr)
			if err != nil {
				t.Fatal(err)
			}
			got, want := 100*sim.Run(readThrough{c}, tr.Keys).Ratio(), 100*sim.Run(p, tr.Keys).Ratio()
			if math.Abs(got-want) > 1.5 {
				t.Errorf("%s, %d entries: hit ratio %.2f %%, simulated %.2f %%", tr.Name, n, got, want)
			}
		}
	}
}

// TestOnEvictHearsOfAllThatIsEvictedAtOnce stores one entry more than fit.
func TestOnEvictHearsOfAllThatIsEvictedAtOnce(t *testing.T) {
	var gone []int
	c := mustNew(t, memory.Options[int, int]{
		MaxEntries: 50, Policy: memory.FIFO, EvictShare: 0.1,
		OnEvict: func(k, _ int, why memory.Reason) {
			if why == memory.Evicted {
				gone = append(gone, k)
			}
		},
	})
	for k := range 51 {
		c.Set(k, k)
	}
	if !slices.Equal(gone, []int{0, 1, 2, 3, 4}) || c.Len() != 46 {
		t.Fatalf("evicted %v, %d entries are left", gone, c.Len())
	}
}

func TestInvalidPoliciesAndSharesAreRefused(t *testing.T) {
	for _, x := range []struct {
		policy memory.Policy
		share  float64
		want   string
	}{
		{memory.Random, 0.5, ""},
		{memory.Policy(len(everyPolicy())), 0, "memory: Policy: unknown"},
		{0, 0.51, "memory: EvictShare: not between 0 and 0.5"},
		{0, -0.01, "memory: EvictShare: not between 0 and 0.5"},
		{255, math.NaN(), "memory: Policy: unknown\nmemory: EvictShare: not between 0 and 0.5"},
	} {
		c, err := memory.New(memory.Options[int, int]{Policy: x.policy, EvictShare: x.share})
		if fmt.Sprint(err) != cmp.Or(x.want, "<nil>") {
			t.Errorf("%v, %v: %v, want %q", x.policy, x.share, err, x.want)
		}
		if err == nil {
			c.Close()
		}
	}
}
