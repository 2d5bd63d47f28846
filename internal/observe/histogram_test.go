package observe

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// ratSeconds is d as an exact number of seconds.
func ratSeconds(d time.Duration) *big.Rat { return big.NewRat(int64(d), int64(time.Second)) }

// ratPower is 2^n.
func ratPower(n int) *big.Rat {
	if n < 0 {
		return new(big.Rat).Inv(ratPower(-n))
	}
	return new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(n)))
}

// checkBucket compares the bucket of d with the bucket by exact arithmetic: 2^(k-1) < d
// ≤ 2^k seconds for the bucket k+20.
func checkBucket(t *testing.T, d time.Duration) {
	t.Helper()
	i := bucket(d)
	if i < DurationBuckets-1 && ratSeconds(d).Cmp(ratPower(i-UnitBits)) > 0 {
		t.Errorf("%v is in bucket %d, which ends at %v", d, i, DurationBound(i))
	}
	if i > 0 && ratSeconds(d).Cmp(ratPower(i-1-UnitBits)) <= 0 {
		t.Errorf("%v is in bucket %d, which begins after %v", d, i, DurationBound(i-1))
	}
}

func TestBoundsOfDurationsArePowersOfTwoSeconds(t *testing.T) {
	for i := range DurationBuckets {
		for d := DurationBound(i) - 2; d <= DurationBound(i)+2; d++ {
			checkBucket(t, max(d, 0))
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		checkBucket(t, time.Duration(r.Int64N(1<<r.IntN(63))))
	}
	if bucket(math.MaxInt64) != DurationBuckets-1 || bucket(0) != 0 || DurationBound(UnitBits) != time.Second {
		t.Error("the ends of the range are wrong")
	}
}

func TestDurationsAreCountedOnceAndSummed(t *testing.T) {
	var h Durations
	if h.Mean() != 0 {
		t.Error("an empty histogram has a mean")
	}
	for _, d := range []time.Duration{-time.Second, 0, time.Microsecond, time.Second, time.Hour, 365 * 24 * time.Hour} {
		h.Add(d)
	}
	n, sum := h.Read()
	var all uint64
	for _, x := range n {
		all += x
	}
	want := time.Microsecond + time.Second + time.Hour + 365*24*time.Hour
	if all != 6 || sum != want || h.Mean() != want/6 {
		t.Errorf("%d durations of %v, mean %v, want 6 of %v", all, sum, h.Mean(), want)
	}
	if n[0] != 2 || n[UnitBits] != 1 || n[DurationBuckets-1] != 1 {
		t.Errorf("buckets are %v", n)
	}
}

func TestSizesAreInTheLowestBucketThatHoldsThem(t *testing.T) {
	var h Sizes
	for _, n := range []int{0, 1, 2, 3, 4, 5, 1024, 1025, math.MaxInt32} {
		h.Add(n)
	}
	n, sum := h.Read()
	if n[0] != 2 || n[1] != 1 || n[2] != 2 || n[3] != 1 || n[10] != 1 || n[11] != 1 || n[31] != 1 || sum != 0+1+2+3+4+5+1024+1025+math.MaxInt32 {
		t.Errorf("buckets are %v, sum %d", n, sum)
	}
}

func TestDurationsAreRoundedToThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1234: "1.23µs", 999_999: "1ms", 3_012_364_119: "3.01s", 59_999_999_999: "1m0s", -45_678_901: "-45.7ms",
		61_499 * time.Millisecond: "1m1s", time.Hour - 1: "1h0m0s", 90*time.Minute + 31*time.Second: "1h31m0s", 20 * time.Millisecond: "20ms",
	} {
		if got := RoundDuration(d).String(); got != want {
			t.Errorf("%v is rounded to %s, want %s", d, got, want)
		}
	}
}

func TestMissesAndForeignValuesAreDisjointAndNeverFall(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var d Disjoint
		var misses, foreign, rest, counted uint64
		for range 50 {
			before, beforeCounted := rest, counted
			misses, foreign = misses+r.Uint64N(4), foreign+r.Uint64N(3)
			seen := misses - min(misses, r.Uint64N(2)) // a scrape overtaken by a later one
			rest, counted = d.Split(seen, foreign)
			if rest < before || counted < beforeCounted || rest+counted > misses || rest+counted < seen || counted > foreign {
				t.Fatalf("%d misses and %d foreign values: from %d, %d to %d, %d", misses, foreign, before, beforeCounted, rest, counted)
			}
		}
		if rest, counted = d.Split(misses+foreign, foreign); counted != foreign || rest != misses {
			t.Fatalf("%d of %d foreign values are counted, %d other misses of %d", counted, foreign, rest, misses)
		}
	}
}

func TestSavedTimeNeverFallsAndWaitsForTheFirstLoad(t *testing.T) {
	var s SavedTime
	for i, step := range []struct {
		reads      uint64
		mean, want time.Duration
	}{
		{100, 0, 0}, // no load has ended
		{110, time.Millisecond, 110 * time.Millisecond},
		{90, time.Millisecond, 110 * time.Millisecond}, // an older count
		{120, 2 * time.Millisecond, 130 * time.Millisecond},
	} {
		if got := s.UpTo(step.reads, step.mean); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
	most := s.UpTo(math.MaxUint64/2, time.Hour)
	if next := s.UpTo(math.MaxUint64, time.Hour); most < 1<<61 || next < most {
		t.Errorf("the sum goes over: %d, then %d", most, next)
	}
}
