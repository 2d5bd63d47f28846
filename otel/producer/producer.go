// Package producer hands the histograms of caches to a reader of the SDK of OpenTelemetry.
//
//	reader := metric.NewPeriodicReader(exporter, metric.WithProducer(producer.New(users, products)))
//
// OpenTelemetry has no instrument to observe a histogram counted elsewhere. A Producer hands over
// counts as they are: [strata.Histogram] has the buckets of an exponential histogram of scale 0,
// so nothing is lost or moved on the way, and a load costs nothing more. It needs the SDK, which
// package strataotel does not. There are no exemplars, and temporality is cumulative, also for a
// reader that prefers another.
//
// The metrics are strata.load.duration, strata.bus.echo, strata.eviction.age, and
// strata.remote.duration, with the attributes strata.op and strata.result, in seconds, and
// strata.remote.value, with strata.direction, in bytes. All have strata.cache.name, and
// strata.cache.service if there is one. Only caches with an L2 have metrics of L2, and only caches
// with a bus have metrics of the bus.
package producer

import (
	"context"
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/observe/metrics"
)

// Source is a cache of any types, a [strata.Cache].
type Source interface {
	Stats() strata.Stats
}

// Producer is a Producer of the SDK for the histograms of some caches.
type Producer struct {
	caches []*metrics.Cache
	begun  time.Time
	err    error
}

// New returns a Producer for caches. Duplicate names in one service, a nil cache or no cache make every
// collection return an error, beside the histograms of the valid caches.
func New(caches ...Source) *Producer {
	valid, err := metrics.Check("strataotel", "the producer", "attribute", caches)
	p := &Producer{begun: time.Now(), err: err}
	for _, c := range valid {
		p.caches = append(p.caches, metrics.Of(c))
	}
	return p
}

// Produce returns the histograms as they are now.
func (p *Producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	now := time.Now()
	var readings []*metrics.Reading
	for _, c := range p.caches {
		readings = append(readings, c.Read())
	}
	// The name is that of package strataotel: its metrics and these are of one library.
	scope := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: "github.com/strata-cache/strata/otel"}}
	for _, f := range metrics.Families() {
		if f.Kind != metrics.Buckets {
			continue
		}
		var points []metricdata.ExponentialHistogramDataPoint[float64]
		for _, r := range readings {
			if f.Has != nil && !f.Has(r) {
				continue
			}
			f.Each(r, func(v metrics.Value, labels ...string) {
				point := pointOf(v)
				point.Attributes = attributesOf(r, f.Labels, labels)
				point.StartTime, point.Time = p.begun, now
				points = append(points, point)
			})
		}
		if len(points) > 0 {
			scope.Metrics = append(scope.Metrics, metricdata.Metrics{
				Name: f.Dotted(), Unit: f.Unit, Description: f.Help,
				Data: metricdata.ExponentialHistogram[float64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality},
			})
		}
	}
	if len(scope.Metrics) == 0 {
		return nil, p.err
	}
	return []metricdata.ScopeMetrics{scope}, p.err
}

// attributesOf returns the attributes of the cache of a reading, and of labels.
func attributesOf(r *metrics.Reading, labels, values []string) attribute.Set {
	all := []attribute.KeyValue{attribute.String("strata.cache.name", r.Name)}
	if r.Parts.Service != "" {
		all = append(all, attribute.String("strata.cache.service", r.Parts.Service))
	}
	for i, value := range values {
		all = append(all, attribute.String("strata."+labels[i], value))
	}
	return attribute.NewSet(all...)
}

// durationUnit is the exponent of the lowest bucket of a [strata.Histogram], in seconds.
const durationUnit = -20

func pointOf(v metrics.Value) metricdata.ExponentialHistogramDataPoint[float64] {
	if h := v.Sizes; h != nil {
		return doubling(h.Buckets[:], 0, float64(h.Sum))
	}
	return doubling(v.Durations.Buckets[:], durationUnit, v.Durations.Sum.Seconds())
}

// doubling returns a histogram. Its bucket i ends at 2^(lowest+i), and includes this bound. The
// lowest bucket is the one around zero. The last one has no end in strata; here it ends at
// 2^(lowest+i), too.
func doubling(buckets []uint64, lowest int32, sum float64) metricdata.ExponentialHistogramDataPoint[float64] {
	h := metricdata.ExponentialHistogramDataPoint[float64]{Sum: sum, ZeroCount: buckets[0], ZeroThreshold: math.Ldexp(1, int(lowest))}
	for _, n := range buckets {
		h.Count += n
	}
	// Empty buckets at both ends are left out: most histograms fill a few of them.
	first, last := 1, len(buckets)-1
	for first <= last && buckets[first] == 0 {
		first++
	}
	for last >= first && buckets[last] == 0 {
		last--
	}
	if first <= last { // bucket k of OpenTelemetry begins at 2^k
		h.PositiveBucket.Offset = lowest + int32(first) - 1
		h.PositiveBucket.Counts = slices.Clone(buckets[first : last+1])
	}
	return h
}
