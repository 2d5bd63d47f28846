package strataotel

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/observe/histogram"
)

// Source is a cache of any types, a [strata.Cache].
type Source interface {
	Stats() strata.Stats
}

// RegisterMetrics has a provider observe counters and gauges of caches, and returns a function
// that ends this. Nil stands for the global provider. Each collection calls Stats once for each
// cache. The caches may be closed, before or after.
//
// Each cache is an attribute, so names must differ. Two caches of one name, no cache at all, and
// a nil cache are errors, and then nothing is registered. Caches of one name in two calls are
// not noticed: their numbers take turns under this name.
func RegisterMetrics(provider metric.MeterProvider, caches ...Source) (unregister func() error, err error) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	if len(caches) == 0 {
		err = errors.New("strataotel: RegisterMetrics was given no cache")
	}
	var names []string
	for i, c := range caches {
		// All mistakes are told at once, and a nil pointer in an interface is one of them.
		if v := reflect.ValueOf(c); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			err = errors.Join(err, fmt.Errorf("strataotel: cache %d of %d is nil", i+1, len(caches)))
			continue
		}
		name := c.Stats().Name
		if slices.Contains(names, name) {
			err = errors.Join(err, fmt.Errorf("strataotel: two caches have the name %q, which is their attribute: give them names that differ", name))
		}
		names = append(names, name)
	}
	if err != nil {
		return nil, err
	}
	meter, all := provider.Meter(scope), families()
	instruments, err := newInstruments(meter, all)
	if err != nil {
		return nil, err
	}
	var observers []*observer
	for _, c := range caches {
		observers = append(observers, newObserver(c, instruments, all))
	}
	// One callback for all caches: a collection then has the numbers of all of them from about the
	// same time.
	handle, err := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, o := range observers {
			o.observe(to)
		}
		return nil
	}, instruments...)
	if err != nil {
		return nil, fmt.Errorf("strataotel: registering metrics: %w", err)
	}
	return handle.Unregister, nil
}

// newInstruments returns one instrument for each family, in the order of families.
func newInstruments(meter metric.Meter, all []family) (instruments []metric.Observable, err error) {
	for _, f := range all {
		var i metric.Observable
		var failed error
		switch f.kind {
		case counter:
			i, failed = meter.Int64ObservableCounter(f.name, metric.WithUnit(f.unit), metric.WithDescription(f.help))
		case gauge:
			i, failed = meter.Int64ObservableGauge(f.name, metric.WithUnit(f.unit), metric.WithDescription(f.help))
		case secondsCounter:
			i, failed = meter.Float64ObservableCounter(f.name, metric.WithUnit(f.unit), metric.WithDescription(f.help))
		case secondsGauge:
			i, failed = meter.Float64ObservableGauge(f.name, metric.WithUnit(f.unit), metric.WithDescription(f.help))
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("strataotel: %s: %w", f.name, failed))
		}
		instruments = append(instruments, i)
	}
	return instruments, err
}

// observer tells the numbers of one cache.
type observer struct {
	source  Source
	misses  histogram.Disjoint
	rows    []observed
	servers []observedServers
	cache   []attribute.KeyValue // of all rows
}

// observedServers is the instrument of a row for each server.
type observedServers struct {
	of         func(*strata.Stats) []string
	instrument metric.Int64Observable
}

// observed is a row with its instrument and its attributes.
type observed struct {
	row
	instrument metric.Observable
	attributes metric.ObserveOption
}

// newObserver returns the observer of a cache. The name and the parts of a cache do not change.
func newObserver(source Source, instruments []metric.Observable, all []family) *observer {
	o := &observer{source: source}
	s := source.Stats()
	o.cache = append(o.cache, is(cacheName, s.Name))
	if s.Parts.Service != "" {
		o.cache = append(o.cache, is(cacheService, s.Parts.Service))
	}
	for i, f := range all {
		if n, ok := instruments[i].(metric.Int64Observable); ok && f.servers != nil {
			o.servers = append(o.servers, observedServers{f.servers, n})
		}
		for _, r := range f.rows {
			// A row without a condition of its own has that of its family.
			if r.has == nil {
				r.has = f.has
			}
			attributes := slices.Clone(o.cache)
			if r.describe != nil {
				attributes = append(attributes, r.describe(&s)...)
			}
			attributes = append(attributes, r.attributes...)
			// The set of attributes is made once, and not with each collection.
			o.rows = append(o.rows, observed{r, instruments[i], metric.WithAttributeSet(attribute.NewSet(attributes...))})
		}
	}
	return o
}

// observe tells the numbers that the cache has now.
func (o *observer) observe(to metric.Observer) {
	// All rows come from one look, so that sums and parts fit.
	r := &reading{Stats: o.source.Stats()}
	r.remoteMisses, r.remoteForeign = o.misses.Split(r.L2.Misses, r.L2.Foreign)
	for _, of := range o.servers {
		for _, server := range of.of(&r.Stats) {
			to.ObserveInt64(of.instrument, 1, metric.WithAttributes(o.cache...), metric.WithAttributes(is(serverName, server)))
		}
	}
	for _, row := range o.rows {
		if row.has != nil && !row.has(&r.Stats) {
			continue
		}
		switch i := row.instrument.(type) {
		case metric.Int64Observable:
			to.ObserveInt64(i, row.value(r), row.attributes)
		// Numbers of this kind are nanoseconds.
		case metric.Float64Observable:
			to.ObserveFloat64(i, float64(row.value(r))/1e9, row.attributes)
		}
	}
}
