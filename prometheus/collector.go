package strataprom

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/observe/metrics"
)

// Source is a cache of any types, a [strata.Cache].
type Source interface {
	Stats() strata.Stats
}

// Collector is a [prometheus.Collector] of the numbers of some caches.
type Collector struct {
	caches []*exporter
	err    error // that Register returns
}

// NewCollector returns a collector of the numbers of caches. They may be closed, before or
// after.
//
// The name and the service of a cache are labels, so no two caches of a registry may have both in
// common. Register of the registry returns an error for two such caches, also in two collectors,
// for no cache, and for a nil cache. A cache made later gets a collector of its own.
func NewCollector(caches ...Source) *Collector {
	valid, err := metrics.Check("strataprom", "NewCollector", "label", caches)
	c := &Collector{err: err}
	for _, source := range valid {
		c.caches = append(c.caches, newExporter(source))
	}
	// A registry sorts metrics, which is quicker if they are sorted.
	slices.SortFunc(c.caches, func(a, b *exporter) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.service, b.service))
	})
	return c
}

// Describe sends the descriptions of all metrics, or the error of NewCollector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	if c.err != nil {
		to <- prometheus.NewInvalidDesc(c.err)
		return
	}
	for _, e := range c.caches {
		for i := range e.families {
			to <- e.families[i].desc
		}
	}
}

// Collect sends the numbers that the caches have now.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for _, e := range c.caches {
		e.collect(to)
	}
}

// exporter makes metrics of the numbers of one cache.
type exporter struct {
	cache         *metrics.Cache
	name, service string
	families      []described
}

// described is a family with its description for one cache, and the labels of its rows.
type described struct {
	metrics.Family
	desc   *prometheus.Desc
	labels [][]*dto.LabelPair
	plain  []*dto.LabelPair // of a family with no label but cache
}

func newExporter(source Source) *exporter {
	s := source.Stats()
	e := &exporter{cache: metrics.Of(source), name: s.Name, service: s.Parts.Service}
	for _, f := range metrics.Families() {
		slices.SortFunc(f.Rows, func(a, b metrics.Row) int { return slices.Compare(a.Labels, b.Labels) })
		d := described{Family: f, desc: prometheus.NewDesc(f.Name, f.Help, f.Labels, prometheus.Labels{"cache": s.Name, "cache_service": s.Parts.Service})}
		if len(f.Labels) == 0 {
			d.plain = prometheus.MakeLabelPairs(d.desc, nil)
		}
		for _, r := range f.Rows {
			d.labels = append(d.labels, prometheus.MakeLabelPairs(d.desc, r.Labels))
		}
		e.families = append(e.families, d)
	}
	return e
}

// collect sends all metrics of the cache. Rows and families that do not concern it are left
// out: rows of L2 if the cache has none, and the like.
func (e *exporter) collect(to chan<- prometheus.Metric) {
	r := e.cache.Read()
	for i := range e.families {
		d := &e.families[i]
		if d.Has != nil && !d.Has(r) {
			continue
		}
		for k, row := range d.Rows {
			if row.Has == nil || row.Has(r) {
				to <- &metric{desc: d.desc, labels: d.labels[k], kind: d.Kind, number: d.Float(row.Number(r))}
			}
		}
		if d.Each != nil {
			d.Each(r, func(v metrics.Value, values ...string) {
				m := &metric{desc: d.desc, labels: d.plain, kind: d.Kind, number: d.Float(v.Number), counts: histogramOf(v, classic[d.Name])}
				if len(values) > 0 {
					m.labels = prometheus.MakeLabelPairs(d.desc, values)
				}
				to <- m
			})
		}
	}
}
