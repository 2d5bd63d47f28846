package strataprom

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

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

// PoolCollector is a [prometheus.Collector] of the connections of one client.
type PoolCollector struct {
	read  func() PoolStats
	descs []*prometheus.Desc // of metrics.PoolFamilies
	err   error              // that Register returns
}

// NewPoolCollector returns a collector of the connections of a client of redis or memcached,
// under a name that no other pool of the registry has:
//
//	strataprom.NewPoolCollector("redis", client.Stats)
//	strataprom.NewPoolCollector("memcached", client.PoolStats)
//
// Names follow the conventions of OpenTelemetry where those define a name. The state of
// connections is db_client_connections, without the ending _count, which Prometheus keeps for
// histograms.
func NewPoolCollector[S ~PoolStats](pool string, stats func() S) *PoolCollector {
	c := &PoolCollector{}
	if stats == nil {
		c.err = errors.New("strataprom: NewPoolCollector was given no function")
		return c
	}
	// Both clients have their own type of numbers with the same fields.
	c.read = func() PoolStats { return PoolStats(stats()) }
	for _, f := range metrics.PoolFamilies() {
		var labels []string
		if f.Label != "" {
			labels = []string{f.Label}
		}
		c.descs = append(c.descs, prometheus.NewDesc(f.Name, f.Help, labels, prometheus.Labels{"pool": pool}))
	}
	return c
}

// Describe sends the descriptions of all metrics, or the error of NewPoolCollector.
func (c *PoolCollector) Describe(to chan<- *prometheus.Desc) {
	if c.err != nil {
		to <- prometheus.NewInvalidDesc(c.err)
		return
	}
	for _, d := range c.descs {
		to <- d
	}
}

// Collect sends the numbers that the client has now.
func (c *PoolCollector) Collect(to chan<- prometheus.Metric) {
	s := c.read()
	for i, f := range metrics.PoolFamilies() {
		for _, r := range f.Rows {
			var labels []string
			if f.Label != "" {
				labels = []string{r.Of}
			}
			to <- &metric{desc: c.descs[i], labels: prometheus.MakeLabelPairs(c.descs[i], labels), kind: f.Kind, number: float64(r.Number(&s))}
		}
	}
}
