package strataotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/strata-cache/strata/internal/observe/metrics"
)

// PoolStats are the numbers of the connections of a client: redis.Stats and
// memcached.PoolStats have these fields.
type PoolStats = struct {
	Reused, Waited, Expired uint64
	Dials, DialErrors       uint64
	Stale, Broken           uint64
	Retried                 uint64
	Open, Idle, Waiting     int
}

// RegisterPool has a provider observe the connections of a client of redis or memcached, under the
// name of a pool that no other one has, and returns a function that ends this. Nil stands for the
// global provider.
//
//	strataotel.RegisterPool(nil, "redis", client.Stats)
//	strataotel.RegisterPool(nil, "memcached", client.PoolStats)
//
// db.client.connection.count, .pending_requests and .timeouts are metrics of the conventions of
// OpenTelemetry. The conventions have no metrics like the others. Their names begin alike.
func RegisterPool[S ~PoolStats](provider metric.MeterProvider, pool string, stats func() S) (unregister func() error, err error) {
	if stats == nil {
		return nil, errors.New("strataotel: RegisterPool was given no function")
	}
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	meter, all := provider.Meter(scope), metrics.PoolFamilies()
	var instruments []metric.Observable
	attributes := make([][]metric.ObserveOption, len(all))
	for i, f := range all {
		instrument, failed := newPoolInstrument(meter, &f)
		if failed != nil {
			return nil, fmt.Errorf("strataotel: %s: %w", f.Dotted, failed)
		}
		instruments = append(instruments, instrument)
		for _, r := range f.Rows {
			of := []attribute.KeyValue{is("db.client.connection.pool.name", pool)}
			if f.Label != "" {
				of = append(of, attribute.String("db.client.connection."+f.Label, r.Of))
			}
			attributes[i] = append(attributes[i], metric.WithAttributeSet(attribute.NewSet(of...)))
		}
	}
	handle, err := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		// One look for all rows, so that the open connections are the idle ones and those in use.
		s := PoolStats(stats())
		for i, f := range all {
			for k, r := range f.Rows {
				to.ObserveInt64(instruments[i].(metric.Int64Observable), r.Number(&s), attributes[i][k])
			}
		}
		return nil
	}, instruments...)
	if err != nil {
		return nil, fmt.Errorf("strataotel: registering a pool: %w", err)
	}
	return handle.Unregister, nil
}

// newPoolInstrument returns a counter, or for the present state of the pool an up-down counter.
func newPoolInstrument(meter metric.Meter, f *metrics.PoolFamily) (metric.Observable, error) {
	if f.Kind == metrics.Counter {
		return meter.Int64ObservableCounter(f.Dotted, metric.WithUnit(f.Unit), metric.WithDescription(f.Help))
	}
	return meter.Int64ObservableUpDownCounter(f.Dotted, metric.WithUnit(f.Unit), metric.WithDescription(f.Help))
}
