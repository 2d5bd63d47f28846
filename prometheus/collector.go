package strataprom

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/observe/histogram"
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
// Each cache is a label, so the caches of a registry must have different names. Register of
// the registry returns an error for two caches of one name, for no cache, for a nil cache,
// and for a name in another collector of the registry. A cache made later gets a collector
// of its own.
func NewCollector(caches ...Source) *Collector {
	c := &Collector{}
	if len(caches) == 0 {
		c.err = errors.New("strataprom: NewCollector was given no cache")
	}
	var names []string
	for i, source := range caches {
		// A collector cannot return an error. It is kept for Register, which asks for the
		// descriptions.
		if v := reflect.ValueOf(source); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			c.err = errors.Join(c.err, fmt.Errorf("strataprom: cache %d of %d is nil", i+1, len(caches)))
			continue
		}
		e := newExporter(source)
		if slices.Contains(names, e.name) {
			c.err = errors.Join(c.err, fmt.Errorf("strataprom: two caches have the name %q, which is their label: give them names that differ", e.name))
			continue
		}
		names = append(names, e.name)
		c.caches = append(c.caches, e)
	}
	// A registry sorts metrics, which is quicker if they are sorted.
	slices.SortFunc(c.caches, func(a, b *exporter) int { return strings.Compare(a.name, b.name) })
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
	source   Source
	name     string
	families []described
	misses   histogram.Disjoint
}

// described is a family with its description for one cache, and the labels of its rows.
type described struct {
	*family
	desc   *prometheus.Desc
	labels [][]*dto.LabelPair
	plain  []*dto.LabelPair // of a family with no label but cache
}

func newExporter(source Source) *exporter {
	s := source.Stats()
	e := &exporter{source: source, name: s.Name}
	for _, f := range families() {
		// As for caches: a registry sorts less if rows come in order.
		slices.SortFunc(f.rows, func(a, b row) int { return slices.Compare(a.labels, b.labels) })
		d := described{family: &f, desc: prometheus.NewDesc(f.name, f.help, f.labels, prometheus.Labels{"cache": s.Name, "cache_service": s.Parts.Service})}
		// The labels of all rows are made here, and not with each scrape.
		if len(f.labels) == 0 {
			d.plain = prometheus.MakeLabelPairs(d.desc, nil)
		}
		for _, r := range f.rows {
			d.labels = append(d.labels, prometheus.MakeLabelPairs(d.desc, r.labels))
		}
		e.families = append(e.families, d)
	}
	return e
}

// collect sends all metrics of the cache. Rows and families that do not concern it are left
// out: rows of L2 if the cache has none, and the like.
func (e *exporter) collect(to chan<- prometheus.Metric) {
	// All rows come from one look, so that sums and parts fit.
	r := &reading{Stats: e.source.Stats()}
	r.remoteMisses, r.remoteForeign = e.misses.Split(r.L2.Misses, r.L2.Foreign)
	for i := range e.families {
		d := &e.families[i]
		if d.has != nil && !d.has(r) {
			continue
		}
		for k, row := range d.rows {
			if row.has == nil || row.has(r) {
				to <- &metric{desc: d.desc, labels: d.labels[k], kind: d.kind, number: row.value(r)}
			}
		}
		if d.each != nil {
			d.each(r, func(m metric, values ...string) {
				m.desc, m.labels, m.kind = d.desc, d.plain, d.kind
				if len(values) > 0 {
					m.labels = prometheus.MakeLabelPairs(d.desc, values)
				}
				to <- &m
			})
		}
	}
}
