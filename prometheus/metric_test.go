package strataprom

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/observe/metrics"
)

// native returns the counts of a native histogram by the exponents of their upper bounds.
func native(h *dto.Histogram) map[int]uint64 {
	counts, at, n, i := map[int]uint64{}, 0, int64(0), 0
	for _, span := range h.PositiveSpan {
		at += int(span.GetOffset())
		for range span.GetLength() {
			n += h.PositiveDelta[i]
			counts[at] = uint64(n)
			at, i = at+1, i+1
		}
	}
	return counts
}

// checkCounts compares a histogram with the buckets that it was made of.
func checkCounts(t *testing.T, h *dto.Histogram, buckets []uint64, lowest int) {
	t.Helper()
	counts, total := native(h), uint64(0)
	for i, n := range buckets {
		total += n
		got := counts[lowest+i]
		if i == 0 {
			got = h.GetZeroCount()
		}
		if got != n {
			t.Errorf("native bucket %d has %d of %d", i, got, n)
		}
	}
	if h.GetSampleCount() != total || h.GetSchema() != 0 || h.GetZeroThreshold() != math.Ldexp(1, lowest) {
		t.Errorf("count %d of %d, schema %d, zero up to %v", h.GetSampleCount(), total, h.GetSchema(), h.GetZeroThreshold())
	}
	for _, b := range h.Bucket {
		want := uint64(0)
		for i, n := range buckets {
			if math.Ldexp(1, lowest+i) <= b.GetUpperBound() {
				want += n
			}
		}
		if b.GetCumulativeCount() != want {
			t.Errorf("%d values up to %v, want %d", b.GetCumulativeCount(), b.GetUpperBound(), want)
		}
	}
}

func TestHistogramsLoseNoBucket(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var d strata.Histogram
		var s strata.SizeHistogram
		for range r.IntN(8) {
			d.Buckets[r.IntN(len(d.Buckets))] = r.Uint64N(1 << 40)
			s.Buckets[r.IntN(len(s.Buckets))] = r.Uint64N(1 << 40)
		}
		d.Sum, s.Sum = 1500*time.Millisecond, 77
		for _, f := range metrics.Families() {
			if f.Kind != metrics.Buckets {
				continue
			}
			h := histogramOf(metrics.Value{Durations: &d}, classic[f.Name])
			checkCounts(t, h, d.Buckets[:], durationUnit)
			if h.GetSampleSum() != 1.5 || len(h.Bucket) != 15 {
				t.Errorf("%s: sum %v, %d bounds", f.Name, h.GetSampleSum(), len(h.Bucket))
			}
		}
		h := histogramOf(metrics.Value{Sizes: &s}, classic["strata_remote_value_bytes"])
		checkCounts(t, h, s.Buckets[:], 0)
		if h.GetSampleSum() != 77 {
			t.Errorf("sum %v", h.GetSampleSum())
		}
	}
}

// The bounds of strata are rounded down to a nanosecond. The bounds of a metric are exact.
func TestBoundsOfMetricsAreThoseOfStrata(t *testing.T) {
	var h strata.Histogram
	for i := range len(h.Buckets) - 1 {
		exact := math.Ldexp(1, durationUnit+i)
		if d := h.Bound(i).Seconds(); d > exact || exact-d >= 1e-9 {
			t.Errorf("bucket %d ends at %v here and %v there", i, d, exact)
		}
	}
}
