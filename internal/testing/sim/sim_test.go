package sim_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/sim"
)

// made are traces of known shape, of 20 000 requests each.
func made() (all []*sim.Trace) {
	for name, keys := range map[string]iter.Seq[uint64]{
		"zipf0.8": sim.Zipf(3000, 0.8, 1),
		"zipf1.2": sim.Zipf(3000, 1.2, 2),
		"loop":    sim.Loop(700),
		"zigzag":  sim.Zigzag(700),
		"scan":    sim.ScanAndHot(1000, 0.4, 3),
		"shift":   sim.Shift(1000, 3000, 4),
		"phases":  sim.Phases(2500, sim.Loop(300), sim.Zipf(1000, 1, 5), sim.Zigzag(400)),
		"random":  sim.Zipf(500, 0, 6),
	} {
		all = append(all, sim.NewTrace(name, sim.Take(keys, 20_000)))
	}
	slices.SortFunc(all, func(a, b *sim.Trace) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func ratio(t *testing.T, name string, capacity int, tr *sim.Trace) float64 {
	t.Helper()
	p, err := sim.New(name, capacity, tr)
	if err != nil {
		t.Fatal(err)
	}
	return sim.Run(p, tr.Keys).Ratio()
}

// sized has the method that every simulated policy has beside Access.
type sized interface {
	sim.Policy
	Len() int
}

func TestNoPolicyHoldsMoreThanItsCapacity(t *testing.T) {
	for _, tr := range made() {
		for _, name := range sim.Names() {
			for _, capacity := range []int{1, 2, 3, 7, 50, 333} {
				p, err := sim.New(name, capacity, tr)
				if err != nil {
					t.Fatal(err)
				}
				checkLen(t, tr.Name+"/"+name, p.(sized), capacity, tr.Keys[:2*kit.Rounds(2500)])
			}
		}
	}
}

func checkLen(t *testing.T, name string, p sized, capacity int, keys []uint64) {
	t.Helper()
	for i, key := range keys {
		p.Access(key)
		if n := p.Len(); n > capacity {
			t.Fatalf("%s: %d keys after request %d, capacity %d", name, n, i, capacity)
		}
	}
}

func TestNoPolicyHitsAKeyThatItWasNeverAskedFor(t *testing.T) {
	for _, tr := range made() {
		for _, name := range sim.Names() {
			p, err := sim.New(name, 100, tr)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[uint64]bool{}
			for i, key := range tr.Keys {
				if p.Access(key) && !seen[key] {
					t.Fatalf("%s/%s: request %d hits %d", tr.Name, name, i, key)
				}
				seen[key] = true
			}
		}
	}
}

func TestEveryPolicyKeepsWhatFits(t *testing.T) {
	for _, tr := range made() {
		for _, name := range sim.Names() {
			p, err := sim.New(name, tr.Distinct, tr)
			if err != nil {
				t.Fatal(err)
			}
			if got := sim.Run(p, tr.Keys); got.Requests-got.Hits != tr.Distinct {
				t.Errorf("%s/%s: %d misses for %d keys that all fit", tr.Name, name, got.Requests-got.Hits, tr.Distinct)
			}
		}
	}
}

func TestNoPolicyBeatsTheOptimum(t *testing.T) {
	for _, tr := range made() {
		tr = sim.NewTrace(tr.Name, tr.Keys[:kit.Rounds(len(tr.Keys))])
		for _, capacity := range []int{1, 2, 10, 60, 250} {
			optimum := ratio(t, "belady", capacity, tr)
			for _, name := range sim.Names() {
				if got := ratio(t, name, capacity, tr); got > optimum {
					t.Errorf("%s, %d entries: %s has %.4f, the optimum %.4f", tr.Name, capacity, name, got, optimum)
				}
			}
		}
	}
}

// TestBeladyIsTheOptimum compares it with a search through all choices.
func TestBeladyIsTheOptimum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		keys := make([]uint64, 14)
		for i := range keys {
			keys[i] = random.Uint64N(5)
		}
		tr := sim.NewTrace("", keys)
		for capacity := 1; capacity <= 4; capacity++ {
			p, err := sim.New("belady", capacity, tr)
			if err != nil {
				t.Fatal(err)
			}
			best := search(keys, 0, capacity, map[[2]uint64]int{})
			if got := sim.Run(p, keys).Hits; got != best {
				t.Fatalf("%v, capacity %d: %d hits, the best are %d", keys, capacity, got, best)
			}
		}
	}
}

// search returns the most hits that keys, all below 64, can have in a cache that
// holds the keys of a bit set.
func search(keys []uint64, cache uint64, capacity int, known map[[2]uint64]int) (best int) {
	if len(keys) == 0 {
		return 0
	}
	state := [2]uint64{uint64(len(keys)), cache}
	if best, ok := known[state]; ok {
		return best
	}
	key, rest := uint64(1)<<keys[0], keys[1:]
	best = search(rest, cache, capacity, known) // key is not kept
	if cache&key != 0 {
		best++
	} else if count(cache) < capacity {
		best = max(best, search(rest, cache|key, capacity, known))
	}
	for i := range 64 {
		if victim := uint64(1) << i; cache&key == 0 && cache&victim != 0 {
			best = max(best, search(rest, cache&^victim|key, capacity, known))
		}
	}
	known[state] = best
	return best
}

func count(set uint64) (n int) {
	for ; set != 0; set &= set - 1 {
		n++
	}
	return n
}

func TestSomePoliciesKeepPartOfALoopThatIsTooLong(t *testing.T) {
	tr := sim.NewTrace("loop", sim.Take(sim.Loop(1000), 100_000))
	for name, least := range map[string]float64{
		"lru": 0, "fifo": 0, "clock": 0, "sieve": 0, "arc": 0, "lirs": 0.48, "s3fifo": 0, "a3fifo": 0.45, "tinylfu": 0.3, "belady": 0.49,
	} {
		got := ratio(t, name, 500, tr)
		if got < least || least == 0 && got != 0 {
			t.Errorf("%s: hit ratio %.3f, want at least %.2f, and 0 only if that is 0", name, got, least)
		}
	}
}

func TestSomePoliciesKeepTheHotKeysDuringAScan(t *testing.T) {
	tr := sim.NewTrace("scan", sim.Take(sim.ScanAndHot(1000, 0.6, 1), 100_000))
	lru := ratio(t, "lru", 200, tr)
	for _, name := range []string{"lfu", "sieve", "arc", "lirs", "s3fifo", "a3fifo", "tinylfu"} {
		if got := ratio(t, name, 200, tr); got < lru+0.03 {
			t.Errorf("%s: hit ratio %.3f, LRU has %.3f", name, got, lru)
		}
	}
}

// TestRecencyIsNotLostInLargeCaches asks for keys of a moment ago, where LRU is hard to beat.
func TestRecencyIsNotLostInLargeCaches(t *testing.T) {
	tr := sim.NewTrace("recent", sim.Take(sim.Recent(0.45, 30_000, 1), 200_000))
	for _, capacity := range []int{2000, 8000, 20_000} {
		lru, got := ratio(t, "lru", capacity, tr), ratio(t, "a3fifo", capacity, tr)
		t.Logf("%d entries: hit ratio %.3f, LRU has %.3f", capacity, got, lru)
		if got < lru-0.02 {
			t.Errorf("%d entries: hit ratio %.3f, LRU has %.3f", capacity, got, lru)
		}
	}
}

// TestSweepsOfLargeCachesAreHit guards sweeps there and back against quick changes of the queues.
func TestSweepsOfLargeCachesAreHit(t *testing.T) {
	tr := sim.NewTrace("zigzag", sim.Take(sim.Zigzag(10_000), 200_000))
	for _, capacity := range []int{2000, 5000, 8000} {
		lru, got := ratio(t, "lru", capacity, tr), ratio(t, "a3fifo", capacity, tr)
		t.Logf("%d entries: hit ratio %.3f, LRU has %.3f", capacity, got, lru)
		if got < lru-0.08 {
			t.Errorf("%d entries: hit ratio %.3f, LRU has %.3f", capacity, got, lru)
		}
	}
}

// TestLoopThatNearlyFitsIsHit guards loops over few more keys than a cache holds, alone and between
// other requests, against quick changes of the queues.
func TestLoopThatNearlyFitsIsHit(t *testing.T) {
	between := sim.Phases(10_000, sim.Loop(1200), sim.Zipf(10_000, 1.1, 3))
	for _, x := range []struct {
		keys     iter.Seq[uint64]
		capacity int
		least    float64
	}{{sim.Loop(10_000), 9500, 0.75}, {between, 1000, 0.64}} {
		tr := sim.NewTrace("loop", sim.Take(x.keys, 200_000))
		if got := ratio(t, "a3fifo", x.capacity, tr); got < x.least {
			t.Errorf("%d entries: hit ratio %.3f, want %.2f", x.capacity, got, x.least)
		}
	}
}

// settled returns the hit ratio of the second half of a trace: the first one is for learning.
func settled(t *testing.T, name string, capacity int, tr *sim.Trace) float64 {
	t.Helper()
	p, err := sim.New(name, capacity, tr)
	if err != nil {
		t.Fatal(err)
	}
	half := len(tr.Keys) / 2
	sim.Run(p, tr.Keys[:half])
	return sim.Run(p, tr.Keys[half:]).Ratio()
}

// TestRecencyIsLearned asks for keys in orders in which recency alone counts: keys that are read
// once more after a long time, sweeps there and back, and walks that turn around at random. LRU is
// the optimum of the last two. A queue that is first in, first out has no more than half of the
// lead of LRU in a walk.
func TestRecencyIsLearned(t *testing.T) {
	for _, x := range []struct {
		name          string
		keys          iter.Seq[uint64]
		n             int
		capacities    []int
		lru, wTinyLFU float64 // how far behind
	}{
		{"reread 100", sim.Reread(0.5, 100, 100, 1), 20_000, []int{50, 150, 1000}, 0.01, 0.01},
		{"reread 1000", sim.Reread(0.5, 1000, 1000, 1), 60_000, []int{300, 1200, 4000}, 0.01, 0.01},
		{"reread 500 to 5000", sim.Reread(0.5, 500, 5000, 1), 80_000, []int{1200, 4000}, 0.01, 0.01},
		{"sweep", sim.Zigzag(3000), 84_000, []int{450, 1000, 1500, 2400}, 0.05, 0.045},
		{"large sweep, small cache", sim.Zigzag(10_000), 160_000, []int{1500}, 0.01, 0},
		{"large sweep", sim.Zigzag(10_000), 160_000, []int{5000}, 0.05, 0.04},
		{"walk", sim.Walk(3000, 300, 1), 80_000, []int{200, 500}, 0.08, 0},
		{"large walk", sim.Walk(10_000, 2000, 1), 200_000, []int{1500}, 0.08, 0},
	} {
		tr := sim.NewTrace(x.name, sim.Take(x.keys, x.n))
		for _, c := range x.capacities {
			got, lru, tiny := settled(t, "a3fifo", c, tr), settled(t, "lru", c, tr), settled(t, "tinylfu", c, tr)
			t.Logf("%s, %d entries: hit ratio %.3f, LRU has %.3f, W-TinyLFU %.3f", x.name, c, got, lru, tiny)
			if got < lru-x.lru || got < tiny-x.wTinyLFU {
				t.Errorf("%s, %d entries: hit ratio %.3f, LRU has %.3f, W-TinyLFU %.3f", x.name, c, got, lru, tiny)
			}
		}
	}
}

// sliding asks for keys by f, which gets the number of the request, without end.
func sliding(f func(i int) int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := 0; yield(uint64(f(i))); i++ {
		}
	}
}

// TestChangedKeysAreFound changes the keys in use, all at once or little by little: what main has of
// the former keys makes room.
func TestChangedKeysAreFound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, x := range []struct {
		name     string
		keys     func(i int) int
		n        int
		capacity int
		lru      float64 // how far behind
	}{
		{"loops over 900 others", func(i int) int { return i/10_000*1_000_000 + i%900 }, 200_000, 1000, 0.03},
		{"a window of 8000 that moves", func(i int) int { return i/10_000*2500 + random.IntN(8000) }, 400_000, 10_000, 0.04},
		{"each four times, 100 apart", func(i int) int { return max(0, i/4-25*(i%4)) }, 100_000, 200, 0.01},
		{"each four times, 400 apart", func(i int) int { return max(0, i/4-100*(i%4)) }, 100_000, 1000, 0.02},
		{"each eight times, 1600 together", func(i int) int { return max(0, i/8-200*(i%8)) }, 400_000, 2000, 0.05},
	} {
		tr := sim.NewTrace(x.name, sim.Take(sliding(x.keys), x.n))
		lru, got := ratio(t, "lru", x.capacity, tr), ratio(t, "a3fifo", x.capacity, tr)
		if !testing.Short() {
			t.Logf("%s, %d entries: hit ratio %.3f, LRU has %.3f, W-TinyLFU %.3f", x.name, x.capacity, got, lru, ratio(t, "tinylfu", x.capacity, tr))
		}
		if got < lru-x.lru {
			t.Errorf("%s, %d entries: hit ratio %.3f, LRU has %.3f", x.name, x.capacity, got, lru)
		}
	}
}

func TestRunAllReturnsResultsInTheOrderOfCells(t *testing.T) {
	var cells []sim.Cell
	var want []sim.Result
	for i, tr := range made() {
		tr = sim.NewTrace(tr.Name, tr.Keys[:1000*(i+1)])
		for _, name := range sim.Names() {
			p, err := sim.New(name, 40, tr)
			if err != nil {
				t.Fatal(err)
			}
			cells = append(cells, sim.Cell{Trace: tr, Capacity: 40, Policy: name})
			want = append(want, sim.Run(p, tr.Keys))
		}
	}
	got, err := sim.RunAll(cells)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestNewRefusesUnknownNamesAndNoCapacity(t *testing.T) {
	tr := sim.NewTrace("", nil)
	for _, c := range []struct {
		name     string
		capacity int
		want     string
	}{
		{"mru", 1, `unknown policy "mru": there are lru, lfu`},
		{"lru", 0, "at least 1: 0"},
	} {
		if _, err := sim.New(c.name, c.capacity, tr); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %d: got %v, want %q", c.name, c.capacity, err, c.want)
		}
		if _, err := sim.RunAll([]sim.Cell{{Trace: tr, Capacity: c.capacity, Policy: c.name}}); err == nil {
			t.Errorf("RunAll accepts %s, %d", c.name, c.capacity)
		}
	}
}

func TestCapacitiesAreSharesOfTheDistinctKeys(t *testing.T) {
	for distinct, want := range map[uint64]string{100: "[]", 1000: "[50 150]", 10_000: "[50 200 500 1500]"} {
		keys := slices.Collect(func(yield func(uint64) bool) {
			for i := range 2 * distinct {
				if !yield(i % distinct) {
					return
				}
			}
		})
		if got := fmt.Sprint(sim.NewTrace("", keys).Capacities()); got != want {
			t.Errorf("%d keys: %s, want %s", distinct, got, want)
		}
	}
}

func BenchmarkPolicies(b *testing.B) {
	tr := sim.NewTrace("zipf", sim.Take(sim.Zipf(50_000, 0.9, 1), 500_000))
	for _, name := range sim.Names() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p, err := sim.New(name, 5000, tr)
				if err != nil {
					b.Fatal(err)
				}
				sim.Run(p, tr.Keys)
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*len(tr.Keys)), "ns/request")
		})
	}
}
