package sized_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/sim"
	"github.com/strata-cache/strata/internal/testing/sim/sized"
)

// made are traces of known shape.
func made(n int) []*sized.Trace {
	of := func(name string, keys iter.Seq[uint64], size func(uint64) int64) *sized.Trace {
		return sized.Of(name, sim.Take(keys, n), size)
	}
	return []*sized.Trace{
		of("web zipf", sim.Zipf(20_000, 0.9, 1), sized.Web),
		of("etc zipf", sim.Zipf(20_000, 1, 2), sized.ETC),
		of("web one-hits", sim.ScanAndHot(5000, 0.3, 3), sized.Web),
		of("etc shift", sim.Shift(10_000, n/4, 4), sized.ETC),
		of("heavy one-hits", sim.ScanAndHot(5000, 0.1, 5), func(key uint64) int64 {
			if key < 5000 {
				return 100
			}
			return 5000
		}),
	}
}

func run(t *testing.T, name string, bound int64, tr *sized.Trace) sized.Saved {
	t.Helper()
	p, err := sized.New(name, bound, tr)
	if err != nil {
		t.Fatal(err)
	}
	return sized.Run(p, tr)
}

// TestObjectsBytesAndSecondsSaved prints a table with -v and without -short, of recorded traces, too, if
// there are any. The engine's default must not be far behind LRU in any cell, and ahead of it on average.
func TestObjectsBytesAndSecondsSaved(t *testing.T) {
	all := made(60_000)
	for _, path := range files(t) {
		all = append(all, open(t, path))
	}
	var sum sized.Saved
	cells := 0.0
	for _, tr := range all {
		for _, bound := range tr.Bounds() {
			lru := run(t, "lru", bound, tr)
			names := sized.Names()
			if testing.Short() || !testing.Verbose() {
				names = nil
			}
			for _, name := range names {
				t.Logf("%-15s %11d bytes %-7s %v", tr.Name, bound, name, run(t, name, bound, tr))
			}
			lead := run(t, "a3fifo", bound, tr).Sub(lru)
			if lead.Objects < -1 || lead.Seconds < -1 {
				t.Errorf("%s, %d bytes: points to LRU: %v", tr.Name, bound, lead)
			}
			sum = sized.Saved{Objects: sum.Objects + lead.Objects, Bytes: sum.Bytes + lead.Bytes, Seconds: sum.Seconds + lead.Seconds}
			cells++
		}
	}
	if sum.Objects < 4*cells || sum.Bytes < 0 || sum.Seconds < 4*cells {
		t.Errorf("points to LRU, mean of %.0f cells: objects %.1f, bytes %.1f, seconds %.1f", cells, sum.Objects/cells, sum.Bytes/cells, sum.Seconds/cells)
	}
}

func files(t *testing.T) []string {
	dir := os.Getenv("TRACES")
	if dir == "" {
		t.Log("without recorded traces: TRACES names no folder")
		return nil
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"+sized.Suffix))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no traces in %s: %v", dir, err)
	}
	return paths
}

func open(t *testing.T, path string) *sized.Trace {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	requests, err := sized.Read(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	return sized.NewTrace(strings.TrimSuffix(filepath.Base(path), sized.Suffix), requests, sized.Origin)
}

// TestHeavyOneHitsCostLittle is the demonstration of holes: the same weight of keys that are asked
// for once comes as many light objects or as few heavy ones.
func TestHeavyOneHitsCostLittle(t *testing.T) {
	for _, heavy := range []int64{1, 5, 20, 50, 200} {
		var requests []sized.Request
		owed, once := int64(0), uint64(1<<40)
		for _, key := range sim.Take(sim.Zipf(3000, 1, 1), 60_000) {
			for owed++; owed >= 2*heavy; owed -= 2 * heavy {
				requests = append(requests, sized.Request{Key: once, Size: heavy})
				once++
			}
			requests = append(requests, sized.Request{Key: key, Size: 1})
		}
		tr := sized.NewTrace("", requests, sized.Origin)
		hits := run(t, "a3fifo", 1000, tr).Objects * float64(len(requests)) / 60_000
		if hits < 72 {
			t.Errorf("%.1f %% hits beside one-hit objects of weight %d", hits, heavy)
		}
	}
}

func TestNoPolicyHoldsMoreThanItsBound(t *testing.T) {
	for _, tr := range made(5000) {
		for _, name := range sized.Names() {
			for _, bound := range []int64{1, 1000, 50_000, 1 << 20} {
				checkHeld(t, name, bound, tr)
			}
		}
	}
}

func checkHeld(t *testing.T, name string, bound int64, tr *sized.Trace) {
	p, err := sized.New(name, bound, tr)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range tr.Requests {
		if p.Access(r); p.(interface{ Held() int64 }).Held() > bound {
			t.Fatalf("%s/%s: more than %d bytes after request %d", tr.Name, name, bound, i)
		}
	}
}

// TestEqualSizesAreEntries compares with the simulators of package sim.
func TestEqualSizesAreEntries(t *testing.T) {
	keys := sim.Take(sim.Phases(500, sim.Zipf(300, 1, 1), sim.Loop(60)), 10_000)
	tr, entries := sized.Of("", keys, func(uint64) int64 { return 7 }), sim.NewTrace("", keys)
	for name, same := range map[string]string{"lru": "lru", "cachelfu": "cachelfu", "fifo": "fifo", "belady": "belady"} {
		const n = 50
		other, err := sim.New(same, n, entries)
		if err != nil {
			t.Fatal(err)
		}
		got, want := run(t, name, 7*n+6, tr).Objects, 100*sim.Run(other, keys).Ratio()
		if got-want > 1e-9 || want-got > 1e-9 {
			t.Errorf("%s: %.2f %% hits, %.2f by entries", name, got, want)
		}
	}
}

// naiveGDSF is GDSF with a search through all objects.
type naiveGDSF struct {
	bound, held int64
	clock       float64
	objects     map[uint64]*naiveObject
}

type naiveObject struct {
	size       int64
	uses, rank float64
}

func (p *naiveGDSF) Access(r sized.Request) bool {
	x, hit := p.objects[r.Key], p.objects[r.Key] != nil
	if !hit {
		if r.Size > p.bound {
			return false
		}
		for p.held+r.Size > p.bound {
			victim, least := uint64(0), (*naiveObject)(nil)
			for key, o := range p.objects {
				if least == nil || o.rank < least.rank {
					victim, least = key, o
				}
			}
			p.clock, p.held = least.rank, p.held-least.size
			delete(p.objects, victim)
		}
		x = &naiveObject{size: r.Size}
		p.objects[r.Key] = x
		p.held += r.Size
	}
	x.uses++
	x.rank = p.clock + x.uses/float64(r.Size)
	return hit
}

func TestGDSFAgreesWithItsReference(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	size := func(key uint64) int64 { return 1 + int64(key*key%97) + int64(key)*100 } // all differ
	for range 50 {
		keys := 1 + random.Uint64N(40)
		bound := 1 + random.Int64N(20_000)
		p, r := sized.NewGDSF(bound, func(sized.Request) float64 { return 1 }), &naiveGDSF{bound: bound, objects: map[uint64]*naiveObject{}}
		for i := range 500 {
			key := random.Uint64N(keys)
			q := sized.Request{Key: key, Size: size(key)}
			if got, want := p.Access(q), r.Access(q); got != want {
				t.Fatalf("request %d for %d: hit %t, the reference says %t", i, key, got, want)
			}
		}
	}
}

// TestCostOfLoadsIsSavedByAPolicyThatKnowsIt compares the time of the origin that is saved, where the
// time of a load has nothing to do with the size.
func TestCostOfLoadsIsSavedByAPolicyThatKnowsIt(t *testing.T) {
	for _, tr := range made(60_000) {
		tr = sized.NewTrace(tr.Name, tr.Requests, sized.Queries)
		for _, bound := range tr.Bounds()[1:] {
			cost := run(t, "gdsfcost", bound, tr).Seconds
			same, a3fifo := run(t, "gdsf", bound, tr).Seconds, run(t, "a3fifo", bound, tr).Seconds
			t.Logf("%s, %d bytes: %.1f %% of the seconds, GDSF without costs %.1f, A3-FIFO %.1f", tr.Name, bound, cost, same, a3fifo)
			if cost < same-0.2 || cost < a3fifo {
				t.Errorf("%s, %d bytes: %.1f %% of the seconds, GDSF without costs %.1f, A3-FIFO %.1f", tr.Name, bound, cost, same, a3fifo)
			}
		}
	}
}

// TestKnowledgeIsWorthSomething: with the future known more is found than by any policy.
func TestKnowledgeIsWorthSomething(t *testing.T) {
	for _, tr := range made(kit.Rounds(20_000)) {
		for _, bound := range tr.Bounds() {
			best := run(t, "belady", bound, tr).Objects
			for _, name := range sized.Names() {
				if got := run(t, name, bound, tr).Objects; got > best+1 {
					t.Errorf("%s, %d bytes: %s finds %.1f %%, with the future known %.1f", tr.Name, bound, name, got, best)
				}
			}
		}
	}
}

func TestReadTakesWholeRequestsOnly(t *testing.T) {
	for _, x := range []struct {
		words []uint64
		limit int
		want  []sized.Request
		err   error
	}{
		{[]uint64{1, 10, 2, 20}, 0, []sized.Request{{Key: 1, Size: 10}, {Key: 2, Size: 20}}, nil},
		{[]uint64{1, 10, 2, 20}, 1, []sized.Request{{Key: 1, Size: 10}}, nil},
		{[]uint64{1, 10, 2}, 0, nil, sim.ErrMalformed},
		{[]uint64{1, 1 << 41}, 0, nil, sim.ErrMalformed},
		{nil, 0, []sized.Request{}, nil},
	} {
		var file bytes.Buffer
		w := gzip.NewWriter(&file)
		for _, word := range x.words {
			if err := binary.Write(w, binary.LittleEndian, word); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := sized.Read(&file, x.limit); !errors.Is(err, x.err) || !slices.Equal(got, x.want) {
			t.Errorf("%v: %v, %v", x.words, got, err)
		}
	}
}

// TestGeneratedSizesAreTheOnesPublished compares medians.
func TestGeneratedSizesAreTheOnesPublished(t *testing.T) {
	for _, x := range []struct {
		size        func(uint64) int64
		least, most int64
	}{{sized.Web, 11_000, 14_500}, {sized.ETC, 155, 180}, {queries, 4_900_000, 5_100_000}} {
		var sizes []int64
		for key := range uint64(20_000) {
			sizes = append(sizes, x.size(key))
		}
		slices.Sort(sizes)
		first, again := x.size(5), x.size(5)
		if m := sizes[len(sizes)/2]; m < x.least || m > x.most || first != again {
			t.Errorf("median %d, want %d to %d", m, x.least, x.most)
		}
	}
}

func queries(key uint64) int64 { return int64(sized.Queries(sized.Request{Key: key})) }

func TestNewRefusesUnknownNamesAndNoBound(t *testing.T) {
	tr := sized.Of("", []uint64{1}, sized.Web)
	for _, x := range []struct {
		name  string
		bound int64
		want  string
	}{{"mru", 1, `unknown policy "mru"`}, {"lru", 0, "at least 1: 0"}} {
		if _, err := sized.New(x.name, x.bound, tr); err == nil || !strings.Contains(fmt.Sprint(err), x.want) {
			t.Errorf("%s, %d: %v, want %q", x.name, x.bound, err, x.want)
		}
	}
}
