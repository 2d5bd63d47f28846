package strataotel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/observe/metrics"
)

// Source is a cache of any types, a [strata.Cache].
type Source interface {
	Stats() strata.Stats
}

// RegisterMetrics has a provider observe counters and gauges of caches, and returns a function
// that ends this. Nil stands for the global provider. Each collection calls Stats once for each
// cache. The caches may be closed, before or after.
//
// The name and the service of a cache are attributes. Two caches that have both in common, no cache at
// all, and a nil cache are errors, and then nothing is registered. Two such caches in two calls are not
// noticed: their numbers take turns under this name.
func RegisterMetrics(provider metric.MeterProvider, caches ...Source) (unregister func() error, err error) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	if _, err = metrics.Check("strataotel", "RegisterMetrics", "attribute", caches); err != nil {
		return nil, err
	}
	meter, all := provider.Meter(scope), observable()
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

// observable returns the families of counters and gauges. Histograms are of package producer.
func observable() []metrics.Family {
	return slices.DeleteFunc(metrics.Families(), func(f metrics.Family) bool { return f.Kind == metrics.Buckets })
}

// newInstruments returns one instrument for each family, in the order of families.
func newInstruments(meter metric.Meter, all []metrics.Family) (instruments []metric.Observable, err error) {
	for i := range all {
		f := &all[i]
		instrument, failed := newInstrument(meter, f)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("strataotel: %s: %w", f.Dotted(), failed))
		}
		instruments = append(instruments, instrument)
	}
	return instruments, err
}

func newInstrument(meter metric.Meter, f *metrics.Family) (metric.Observable, error) {
	unit, help := metric.WithUnit(f.Unit), metric.WithDescription(f.Help)
	switch counts := f.Kind == metrics.Counter; {
	case f.Seconds() && counts:
		return meter.Float64ObservableCounter(f.Dotted(), unit, help)
	case f.Seconds():
		return meter.Float64ObservableGauge(f.Dotted(), unit, help)
	case counts:
		return meter.Int64ObservableCounter(f.Dotted(), unit, help)
	}
	return meter.Int64ObservableGauge(f.Dotted(), unit, help)
}

// observer tells the numbers of one cache.
type observer struct {
	read     *metrics.Cache
	families []observed
	cache    []attribute.KeyValue // of all rows
}

// observed is a family with its instrument and the attributes of its rows.
type observed struct {
	metrics.Family
	instrument metric.Observable
	attributes []metric.ObserveOption
}

// newObserver returns the observer of a cache. The name and the service of a cache do not change.
func newObserver(source Source, instruments []metric.Observable, all []metrics.Family) *observer {
	o := &observer{read: metrics.Of(source)}
	s := source.Stats()
	o.cache = append(o.cache, is(cacheName, s.Name))
	if s.Parts.Service != "" {
		o.cache = append(o.cache, is(cacheService, s.Parts.Service))
	}
	for i, f := range all {
		of := observed{Family: f, instrument: instruments[i]}
		for _, r := range f.Rows {
			of.attributes = append(of.attributes, o.with(f.Labels, r.Labels))
		}
		o.families = append(o.families, of)
	}
	return o
}

// with returns the attributes of a row with these values of the labels.
func (o *observer) with(labels, values []string) metric.ObserveOption {
	all := slices.Clone(o.cache)
	for i, value := range values {
		all = append(all, is(attribute.Key("strata."+labels[i]), value))
	}
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

// observe tells the numbers that the cache has now.
func (o *observer) observe(to metric.Observer) {
	r := o.read.Read()
	for i := range o.families {
		f := &o.families[i]
		if f.Has != nil && !f.Has(r) {
			continue
		}
		for k, row := range f.Rows {
			if row.Has == nil || row.Has(r) {
				f.tell(to, row.Number(r), f.attributes[k])
			}
		}
		if f.Each != nil {
			f.Each(r, func(v metrics.Value, values ...string) { f.tell(to, v.Number, o.with(f.Labels, values)) })
		}
	}
}

// tell tells one number.
func (f *observed) tell(to metric.Observer, n int64, attributes metric.ObserveOption) {
	switch i := f.instrument.(type) {
	case metric.Int64Observable:
		to.ObserveInt64(i, n, attributes)
	case metric.Float64Observable:
		to.ObserveFloat64(i, f.Float(n), attributes)
	}
}
