package strataotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
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
	meter, all := provider.Meter(scope), poolFamilies()
	var instruments []metric.Observable
	for _, f := range all {
		i, failed := f.instrument(meter)
		if failed != nil {
			return nil, fmt.Errorf("strataotel: %s: %w", f.name, failed)
		}
		instruments = append(instruments, i)
		for k, r := range f.rows {
			attributes := []attribute.KeyValue{is("db.client.connection.pool.name", pool)}
			if f.key != "" {
				attributes = append(attributes, attribute.String("db.client.connection."+f.key, r.of))
			}
			f.rows[k].attributes = metric.WithAttributeSet(attribute.NewSet(attributes...))
		}
	}
	handle, err := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		// One look for all rows, so that the open connections are the idle ones and those in use.
		s := PoolStats(stats())
		for i, f := range all {
			for _, r := range f.rows {
				to.ObserveInt64(instruments[i].(metric.Int64Observable), r.value(&s), r.attributes)
			}
		}
		return nil
	}, instruments...)
	if err != nil {
		return nil, fmt.Errorf("strataotel: registering a pool: %w", err)
	}
	return handle.Unregister, nil
}

// poolFamily is a metric of a pool with all its rows.
type poolFamily struct {
	name, unit, help string
	count            bool   // else an up-down counter
	key              string // of the attribute behind db.client.connection.
	rows             []poolRow
}

// poolRow is a number, with the value of the attribute.
type poolRow struct {
	of         string
	value      func(*PoolStats) int64
	attributes metric.ObserveOption
}

func (f *poolFamily) instrument(meter metric.Meter) (metric.Observable, error) {
	if f.count {
		return meter.Int64ObservableCounter(f.name, metric.WithUnit(f.unit), metric.WithDescription(f.help))
	}
	return meter.Int64ObservableUpDownCounter(f.name, metric.WithUnit(f.unit), metric.WithDescription(f.help))
}

func poolFamilies() []poolFamily {
	row := func(of string, value func(*PoolStats) int64) poolRow { return poolRow{of: of, value: value} }
	return []poolFamily{{
		name: "db.client.connection.count", unit: "{connection}", key: "state", help: "Open connections of the pool: idle ones, and those in use.",
		rows: []poolRow{
			row("idle", func(s *PoolStats) int64 { return int64(s.Idle) }),
			row("used", func(s *PoolStats) int64 { return int64(max(s.Open-s.Idle, 0)) }),
		},
	}, {
		name: "db.client.connection.pending_requests", unit: "{request}", help: "Calls that wait for a connection.",
		rows: []poolRow{row("", func(s *PoolStats) int64 { return int64(s.Waiting) })},
	}, {
		name: "db.client.connection.timeouts", unit: "{timeout}", count: true, help: "Calls that gave up waiting for a connection.",
		rows: []poolRow{row("", func(s *PoolStats) int64 { return int64(s.Expired) })},
	}, {
		name: "db.client.connection.requests", unit: "{request}", count: true, key: "result",
		help: "Requests for a connection: those that found an idle one (reused), and the others (waited).",
		rows: []poolRow{
			row("reused", func(s *PoolStats) int64 { return int64(s.Reused) }),
			row("waited", func(s *PoolStats) int64 { return int64(s.Waited) }),
		},
	}, {
		name: "db.client.connection.dials", unit: "{dial}", count: true, key: "result", help: "Attempts to open a connection by result.",
		rows: []poolRow{
			row("ok", func(s *PoolStats) int64 { return int64(s.Dials - min(s.DialErrors, s.Dials)) }),
			row("error", func(s *PoolStats) int64 { return int64(s.DialErrors) }),
		},
	}, {
		name: "db.client.connection.closed", unit: "{connection}", count: true, key: "reason",
		help: "Connections that were closed because they were found dead (stale) or failed in a call (broken).",
		rows: []poolRow{
			row("stale", func(s *PoolStats) int64 { return int64(s.Stale) }),
			row("broken", func(s *PoolStats) int64 { return int64(s.Broken) }),
		},
	}, {
		name: "db.client.retried.calls", unit: "{call}", count: true, help: "Calls that were sent again on another connection.",
		rows: []poolRow{row("", func(s *PoolStats) int64 { return int64(s.Retried) })},
	}}
}
