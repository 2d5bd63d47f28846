package sim_test

import (
	"iter"
	"slices"
	"testing"

	"github.com/strata-cache/strata/internal/testing/sim"
)

func TestMadeTracesHaveTheirShapes(t *testing.T) {
	for name, c := range map[string]struct {
		trace iter.Seq[uint64]
		want  []uint64
	}{
		"loop":          {sim.Loop(3), []uint64{0, 1, 2, 0, 1, 2, 0}},
		"zigzag":        {sim.Zigzag(3), []uint64{0, 1, 2, 1, 0, 1, 2}},
		"zigzag of one": {sim.Zigzag(1), []uint64{0, 0}},
		"scan alone":    {sim.ScanAndHot(5, 1, 1), []uint64{5, 6, 7}},
		"phases":        {sim.Phases(2, sim.Loop(3), sim.Loop(9)), []uint64{0, 256, 1, 257, 512, 0, 513, 769}},
		"read again":    {sim.Reread(1, 2, 2, 1), []uint64{1, 2, 1, 2, 3, 4, 3, 4}},
		"walk":          {sim.Walk(5, 1, 1), []uint64{2, 1, 2, 1, 2}},
		"walk of one":   {sim.Walk(1, 1, 1), []uint64{0, 0, 0}},
		"none":          {sim.Loop(3), nil},
	} {
		if got := sim.Take(c.trace, len(c.want)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestZipfDrawsEachKeyAsOftenAsItsShare(t *testing.T) {
	const n = 300_000
	counts := map[uint64]int{}
	for _, key := range sim.Take(sim.Zipf(3, 1, 1), n) {
		counts[key]++
	}
	for key, share := range []float64{6. / 11, 3. / 11, 2. / 11} {
		if got := float64(counts[uint64(key)]) / n; got < share-0.01 || got > share+0.01 {
			t.Errorf("key %d: share %.3f, want %.3f", key, got, share)
		}
	}
}

func TestShiftGivesTheSharesToOtherKeys(t *testing.T) {
	keys := sim.Take(sim.Shift(100, 10_000, 1), 20_000)
	if before, after := mode(keys[:10_000]), mode(keys[10_000:]); before == after {
		t.Errorf("key %d is the most frequent of both periods", before)
	}
}

func mode(keys []uint64) (most uint64) {
	counts := map[uint64]int{}
	for _, key := range keys {
		if counts[key]++; counts[key] > counts[most] {
			most = key
		}
	}
	return most
}

func TestASeedMakesTheSameTrace(t *testing.T) {
	for name, make := range map[string]func(seed uint64) iter.Seq[uint64]{
		"zipf":  func(seed uint64) iter.Seq[uint64] { return sim.Zipf(100, 0.8, seed) },
		"scan":  func(seed uint64) iter.Seq[uint64] { return sim.ScanAndHot(100, 0.3, seed) },
		"shift": func(seed uint64) iter.Seq[uint64] { return sim.Shift(100, 50, seed) },
		"again": func(seed uint64) iter.Seq[uint64] { return sim.Reread(0.5, 10, 50, seed) },
		"walk":  func(seed uint64) iter.Seq[uint64] { return sim.Walk(100, 10, seed) },
	} {
		one := sim.Take(make(1), 1000)
		if !slices.Equal(one, sim.Take(make(1), 1000)) {
			t.Errorf("%s: one seed, two traces", name)
		}
		if slices.Equal(one, sim.Take(make(2), 1000)) {
			t.Errorf("%s: two seeds, one trace", name)
		}
	}
}
