package strataprom

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/strata-cache/strata/internal/observe/metrics"
)

// metric is a [prometheus.Metric] with a constant value. It exists because a metric of
// package prometheus holds either classic buckets or native ones, and sorts its labels
// anew for each scrape.
type metric struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	kind   metrics.Kind
	number float64        // of a counter or gauge
	counts *dto.Histogram // of a histogram
}

// Desc returns the description.
func (m *metric) Desc() *prometheus.Desc { return m.desc }

// Write writes the metric to out.
func (m *metric) Write(out *dto.Metric) error {
	out.Label = m.labels
	switch m.kind {
	case metrics.Counter:
		out.Counter = &dto.Counter{Value: &m.number}
	case metrics.Gauge:
		out.Gauge = &dto.Gauge{Value: &m.number}
	case metrics.Buckets:
		out.Histogram = m.counts
	}
	return nil
}

// bounds are the upper bounds of the classic buckets of a histogram: 2^lowest, 2^(lowest+1)
// and so on.
type bounds struct {
	lowest int
	upper  []float64
}

func newBounds(lowest, highest int) bounds {
	b := bounds{lowest: lowest}
	for e := lowest; e <= highest; e++ {
		// Powers of two are the bounds of native histograms and of those in strata: no count has to
		// be split.
		b.upper = append(b.upper, math.Ldexp(1, e))
	}
	return b
}

// classic are the bounds of the classic buckets of each histogram. It has 18 series: these 15,
// +Inf, sum and count.
var classic = map[string]bounds{ // read-only
	"strata_load_duration_seconds":   newBounds(-10, 4), // 1 ms to 16 s
	"strata_remote_duration_seconds": newBounds(-14, 0), // 61 µs to 1 s
	"strata_bus_echo_seconds":        newBounds(-13, 1), // 122 µs to 2 s
	"strata_eviction_age_seconds":    newBounds(0, 14),  // 1 s to 4.6 h
	"strata_remote_value_bytes":      newBounds(6, 20),  // 64 B to 1 MiB
}

// durationUnit is the exponent of the lowest bucket of a [strata.Histogram], in seconds.
const durationUnit = -20

// histogramOf returns the histogram in v, or nil if v is a number.
func histogramOf(v metrics.Value, b bounds) *dto.Histogram {
	switch {
	case v.Durations != nil:
		return doubling(v.Durations.Buckets[:], durationUnit, v.Durations.Sum.Seconds(), b)
	case v.Sizes != nil:
		return doubling(v.Sizes.Buckets[:], 0, float64(v.Sizes.Sum), b)
	}
	return nil
}

// doubling returns a histogram. Its bucket i ends at 2^(lowest+i), and includes this bound. It
// is a native histogram with all buckets, and a classic one with the bounds b. In the native
// one, the lowest bucket is the zero bucket. The last one has no end in strata; here it ends at
// 2^(lowest+i), too.
func doubling(buckets []uint64, lowest int, sum float64, b bounds) *dto.Histogram {
	h := &dto.Histogram{
		SampleSum: &sum, SampleCount: new(uint64(0)),
		Schema: new(int32(0)), ZeroThreshold: new(math.Ldexp(1, lowest)), ZeroCount: &buckets[0],
	}
	// In one piece each, because a scrape makes many.
	classic, pointers, seen := make([]dto.Bucket, len(b.upper)), make([]*dto.Bucket, len(b.upper)), make([]uint64, len(b.upper))
	for i, n := range buckets {
		*h.SampleCount += n
		if k := lowest + i - b.lowest; k >= 0 && k < len(classic) {
			seen[k], pointers[k] = *h.SampleCount, &classic[k]
			classic[k].UpperBound, classic[k].CumulativeCount = &b.upper[k], &seen[k]
		}
	}
	h.Bucket = pointers
	h.PositiveSpan, h.PositiveDelta = spans(buckets[1:], lowest+1)
	return h
}

// spans returns the counts as a native histogram has them: spans of filled buckets, each with
// the distance from the span before, and the differences between the counts of neighbours.
// The first bucket ends at 2^lowest.
func spans(buckets []uint64, lowest int) (spans []*dto.BucketSpan, deltas []int64) {
	at, before := 0, int64(0) // where the last span ends, and the count before
	for i, n := range buckets {
		if n == 0 {
			continue
		}
		if e := lowest + i; len(spans) == 0 || e != at {
			spans = append(spans, &dto.BucketSpan{Offset: new(int32(e - at)), Length: new(uint32(0))})
			at = e
		}
		// A neighbour of the bucket before belongs to its span.
		*spans[len(spans)-1].Length++
		deltas = append(deltas, int64(n)-before)
		at, before = at+1, int64(n)
	}
	return spans, deltas
}
