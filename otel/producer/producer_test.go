package producer_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/otel/producer"
)

// only returns the first data point of a metric, and fails the test if there is no such metric.
func only(t *testing.T, s strata.Stats, name string) metricdata.ExponentialHistogramDataPoint[float64] {
	t.Helper()
	scopes, err := producer.New(lab.FixedStats(s)).Produce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range scopes[0].Metrics {
		if m.Name == name {
			d := m.Data.(metricdata.ExponentialHistogram[float64])
			if d.Temporality != metricdata.CumulativeTemporality {
				t.Errorf("%s is %v", name, d.Temporality)
			}
			return d.DataPoints[0]
		}
	}
	t.Fatalf("no %s", name)
	return metricdata.ExponentialHistogramDataPoint[float64]{}
}

// at returns how many values an exponential histogram of scale 0 has between 2^(e-1), excluded, and
// 2^e.
func at(h metricdata.ExponentialHistogramDataPoint[float64], e int) uint64 {
	if i := e - 1 - int(h.PositiveBucket.Offset); i >= 0 && i < len(h.PositiveBucket.Counts) {
		return h.PositiveBucket.Counts[i]
	}
	return 0
}

func TestHistogramsOfDurationsAreTakenOverWithoutLoss(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s strata.Stats
		h := &s.Loads.Latency
		for range r.IntN(20) {
			h.Buckets[r.IntN(len(h.Buckets))] += r.Uint64N(1000)
		}
		h.Sum = time.Duration(r.Int64N(int64(time.Hour)))
		got := only(t, s, "strata.load.duration")
		if got.Scale != 0 || got.Count != h.Count() || got.Sum != h.Sum.Seconds() || len(got.NegativeBucket.Counts) > 0 {
			t.Fatalf("got %+v of %+v", got, h)
		}
		if got.ZeroCount != h.Buckets[0] || h.Bound(0) != time.Duration(got.ZeroThreshold*1e9) {
			t.Fatalf("%d values up to %v s are zero, of %d up to %v", got.ZeroCount, got.ZeroThreshold, h.Buckets[0], h.Bound(0))
		}
		for i, n := range h.Buckets[1:] {
			e := i + 1 - 20
			if end := time.Duration(math.Ldexp(1e9, e)); i+2 < len(h.Buckets) && h.Bound(i+1) != end {
				t.Fatalf("bucket %d ends at %v and here at %v", i+1, h.Bound(i+1), end)
			}
			if at(got, e) != n {
				t.Fatalf("%d values end at 2^%d s, want %d", at(got, e), e, n)
			}
		}
		if got.Time.Before(got.StartTime) || got.StartTime.IsZero() {
			t.Errorf("from %v to %v", got.StartTime, got.Time)
		}
	}
}

func TestHistogramsOfSizesAreTakenOverWithoutLoss(t *testing.T) {
	s := strata.Stats{Parts: strata.Parts{L2: "tier"}}
	for i := range s.ReadBytes.Buckets {
		s.ReadBytes.Buckets[i] = uint64(i + 1)
	}
	s.ReadBytes.Sum = 1 << 60
	got := only(t, s, "strata.remote.value")
	if got.ZeroCount != 1 || got.ZeroThreshold != 1 || got.Sum != 1<<60 {
		t.Errorf("got %+v", got)
	}
	for i, n := range s.ReadBytes.Buckets[1:] {
		if at(got, i+1) != n {
			t.Errorf("%d values of 2^%d bytes, want %d", at(got, i+1), i+1, n)
		}
	}
}

func TestWrongCachesAreErrorsOfCollections(t *testing.T) {
	for want, caches := range map[string][]producer.Source{
		"no cache":                         nil,
		`two caches have the name "users"`: {lab.FixedStats{Name: "users"}, lab.FixedStats{Name: "users"}},
		"cache 2 of 2 is nil":              {lab.FixedStats{Name: "users"}, (*strata.Cache[string, int])(nil)},
	} {
		scopes, err := producer.New(caches...).Produce(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || len(scopes) != min(1, len(caches)) {
			t.Errorf("%d scopes and %v, want %q", len(scopes), err, want)
		}
	}
}
