package rig

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

func TestProfileIs256Bytes(t *testing.T) {
	for _, i := range []int{0, 1, 77, 9999} {
		b, err := json.Marshal(ProfileOf(i))
		if err != nil {
			t.Fatal(err)
		}
		if len(b) < 248 || len(b) > 264 {
			t.Errorf("profile %d has %d bytes", i, len(b))
		}
	}
}

func TestZipfFavoursAFewKeys(t *testing.T) {
	const n, keys = 100_000, 10_000
	counts := map[int32]int{}
	for _, d := range Zipf(n, keys, 1.01, 1) {
		if d < 0 || d >= keys {
			t.Fatalf("draw %d", d)
		}
		counts[d]++
	}
	most := 0
	for _, c := range counts {
		most = max(most, c)
	}
	// The most popular of 10 000 keys has a share of about 10.5 %.
	if share := float64(most) / n; share < 0.09 || share > 0.12 {
		t.Errorf("the most popular key has a share of %.3f", share)
	}
	if len(counts) < keys/2 {
		t.Errorf("only %d of %d keys are drawn", len(counts), keys)
	}
}

func TestLoadCountsAndTimesCalls(t *testing.T) {
	var calls atomic.Int64
	r, err := Load{Goroutines: 5, Calls: 100, Every: 10}.Run(func(int, int) error {
		calls.Add(1)
		return nil
	})
	if err != nil || r.Calls != 500 || calls.Load() != 500 || len(r.times) != 50 {
		t.Errorf("%d calls of %d counted, %d timed, error %v", r.Calls, calls.Load(), len(r.times), err)
	}
	r, err = Load{Goroutines: 2, For: 20 * time.Millisecond}.Run(func(int, int) error {
		<-time.After(time.Millisecond)
		return nil
	})
	if err != nil || r.Calls == 0 || r.Took < 20*time.Millisecond || r.Quantile(0.5) < 900*time.Microsecond {
		t.Errorf("%d calls in %v, median %v, error %v", r.Calls, r.Took, r.Quantile(0.5), err)
	}
}

func TestLoadReturnsErrors(t *testing.T) {
	bad := errors.New("bad")
	_, err := Load{Goroutines: 3, Calls: 10}.Run(func(g, i int) error {
		if g == 1 && i == 5 {
			return bad
		}
		return nil
	})
	if !errors.Is(err, bad) {
		t.Errorf("error %v", err)
	}
}

func TestQuantiles(t *testing.T) {
	var r Run
	for i := range 100 {
		r.times = append(r.times, time.Duration(i))
	}
	if r.Quantile(0.5) != 50 || r.Quantile(0.99) != 99 || r.Quantile(1) != 99 || (Run{}).Quantile(0.5) != 0 {
		t.Errorf("median %d, p99 %d, all %d", r.Quantile(0.5), r.Quantile(0.99), r.Quantile(1))
	}
}

func TestRoundsBeginWithAnotherStepEachTime(t *testing.T) {
	order := ""
	step := func(name string) func() error {
		return func() error { order += name; return nil }
	}
	if err := Interleave(3, step("a"), step("b"), step("c")); err != nil || order != "abcbcacab" {
		t.Errorf("order %s, error %v", order, err)
	}
}

func TestNumbersAreReadable(t *testing.T) {
	for d, want := range map[time.Duration]string{
		25: "25ns", 999: "999ns", 1234: "1.23µs", 45678: "45.7µs", 999_999: "1ms",
		12_345_678: "12.3ms", 520_400_000: "520ms", 0: "0s",
	} {
		if got := Short(d); got != want {
			t.Errorf("%d ns is written %s, want %s", d, got, want)
		}
	}
	if got := Thousands(1234567.4); got != "1 234 567" {
		t.Errorf("%q", got)
	}
	if got := Compare([]float64{1, 2, 9}, []float64{1, 1, 3}).String(); got != "2.00 (middle half 1.00 to 3.00, all 1.00 to 3.00, 3 rounds)" {
		t.Errorf("%q", got)
	}
	if got := Median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("%v", got)
	}
}

// TestZipfFollowsItsLaw compares the shares of the two most frequent keys, for an
// s that the library does not have: the first is 2^s times the second.
func TestZipfFollowsItsLaw(t *testing.T) {
	const n, keys, s = 200_000, 1000, 0.99
	counts := make([]int, keys)
	for _, d := range Zipf(n, keys, s, 1) {
		counts[d]++
	}
	slices.SortFunc(counts, func(a, b int) int { return b - a })
	if r := float64(counts[0]) / float64(counts[1]); r < 1.9 || r > 2.1 {
		t.Errorf("the first key comes %.2f times as often as the second", r)
	}
	if share := float64(counts[0]) / n; share < 0.12 || share > 0.14 {
		t.Errorf("the first key has a share of %.3f", share)
	}
}

func TestGeomeanIsTheRootOfTheProduct(t *testing.T) {
	if got := Geomean([]float64{2, 4, 8}); math.Abs(got-4) > 1e-9 {
		t.Errorf("%v", got)
	}
	if got := Geomean(nil); got != 0 {
		t.Errorf("%v of none", got)
	}
}

func TestProcessorTimeIsMeasuredAlone(t *testing.T) {
	var sum atomic.Int64 // a spin for a time takes little of a busy processor
	spin := func(int, int) error {
		for i := range int64(100_000) {
			sum.Add(i)
		}
		return nil
	}
	r, err := Load{Goroutines: 1, Calls: 100, CPU: true}.Run(spin)
	if err != nil || cpuTime() > 0 && r.Costs.CPU < time.Millisecond || r.Costs.Bytes != 0 || r.Costs.Allocs != 0 {
		t.Errorf("%+v, error %v", r.Costs, err)
	}
}
