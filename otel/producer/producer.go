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
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/strata-cache/strata"
)

// Source is a cache of any types, a [strata.Cache].
type Source interface {
	Stats() strata.Stats
}

// Producer is a Producer of the SDK for the histograms of some caches.
type Producer struct {
	caches []Source
	begun  time.Time
	err    error
}

// New returns a Producer for caches. Duplicate names, a nil cache or no cache make every
// collection return an error, beside the histograms of the valid caches.
func New(caches ...Source) *Producer {
	p := &Producer{begun: time.Now()}
	if len(caches) == 0 {
		p.err = errors.New("strataotel: the producer was given no cache")
	}
	var names []string
	for i, c := range caches {
		if v := reflect.ValueOf(c); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			p.err = errors.Join(p.err, fmt.Errorf("strataotel: cache %d of %d is nil", i+1, len(caches)))
			continue
		}
		name := c.Stats().Name
		if slices.Contains(names, name) {
			p.err = errors.Join(p.err, fmt.Errorf("strataotel: two caches have the name %q, which is their attribute: give them names that differ", name))
			continue
		}
		names = append(names, name)
		p.caches = append(p.caches, c)
	}
	return p
}

// Produce returns the histograms as they are now.
func (p *Producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	now := time.Now()
	loads := points{name: "strata.load.duration", unit: "s", help: "Duration of loads."}
	remote := points{name: "strata.remote.duration", unit: "s", help: "Duration of operations on L2 by operation and result: ok, timeout, error, or cancelled because the caller left."}
	value := points{name: "strata.remote.value", unit: "By", help: "Size of encoded values that were read from L2 or written to it."}
	echo := points{name: "strata.bus.echo", unit: "s", help: "Time until a heartbeat of this instance comes back over the bus: as late are the messages of others."}
	age := points{name: "strata.eviction.age", unit: "s", help: "Age of values that left L1 to make room, of one in 64. Ages far below the TTL say that L1 is too small."}
	for _, c := range p.caches {
		s := c.Stats()
		of := func(to *points, point metricdata.ExponentialHistogramDataPoint[float64], attributes ...attribute.KeyValue) {
			attributes = append(attributes, attribute.String("strata.cache.name", s.Name))
			if s.Parts.Service != "" {
				attributes = append(attributes, attribute.String("strata.cache.service", s.Parts.Service))
			}
			point.Attributes = attribute.NewSet(attributes...)
			point.StartTime, point.Time = p.begun, now
			to.all = append(to.all, point)
		}
		of(&loads, durations(&s.Loads.Latency))
		of(&age, durations(&s.EvictionAge))
		if s.Parts.Bus != "" {
			of(&echo, durations(&s.BusEcho))
		}
		if s.Parts.L2 == "" {
			continue
		}
		of(&value, sizes(&s.ReadBytes), attribute.String("strata.direction", "read"))
		of(&value, sizes(&s.WrittenBytes), attribute.String("strata.direction", "written"))
		for i := range s.Operations {
			o := &s.Operations[i]
			of(&remote, durations(&o.Latency), attribute.String("strata.op", o.Operation), attribute.String("strata.result", o.Result))
		}
	}
	// The name is that of package strataotel: its metrics and these are of one library.
	scope := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: "github.com/strata-cache/strata/otel"}}
	for _, ps := range []points{loads, remote, value, echo, age} {
		if len(ps.all) > 0 {
			scope.Metrics = append(scope.Metrics, ps.metric())
		}
	}
	if len(scope.Metrics) == 0 {
		return nil, p.err
	}
	return []metricdata.ScopeMetrics{scope}, p.err
}

// points are the histograms of one metric.
type points struct {
	name, unit, help string
	all              []metricdata.ExponentialHistogramDataPoint[float64]
}

func (p *points) metric() metricdata.Metrics {
	return metricdata.Metrics{
		Name: p.name, Unit: p.unit, Description: p.help,
		Data: metricdata.ExponentialHistogram[float64]{DataPoints: p.all, Temporality: metricdata.CumulativeTemporality},
	}
}

// durationUnit is the exponent of the lowest bucket of a [strata.Histogram], in seconds.
const durationUnit = -20

func durations(h *strata.Histogram) metricdata.ExponentialHistogramDataPoint[float64] {
	return doubling(h.Buckets[:], durationUnit, h.Sum.Seconds())
}

func sizes(h *strata.SizeHistogram) metricdata.ExponentialHistogramDataPoint[float64] {
	return doubling(h.Buckets[:], 0, float64(h.Sum))
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
