package strataprom

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
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
	descs []*prometheus.Desc // of poolFamilies
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
	for _, f := range poolFamilies() {
		c.descs = append(c.descs, prometheus.NewDesc(f.name, f.help, f.labels, prometheus.Labels{"pool": pool}))
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
	for i, f := range poolFamilies() {
		for _, r := range f.rows {
			to <- &metric{desc: c.descs[i], labels: prometheus.MakeLabelPairs(c.descs[i], r.labels), kind: f.kind, number: r.value(&s)}
		}
	}
}

// poolFamily is a metric of a pool with all its rows.
type poolFamily struct {
	name, help string
	kind       kind
	labels     []string
	rows       []poolRow
}

// poolRow is a number with the values of the labels.
type poolRow struct {
	labels []string
	value  func(*PoolStats) float64
}

func poolFamilies() []poolFamily {
	row := func(value func(*PoolStats) float64, labels ...string) poolRow { return poolRow{labels, value} }
	return []poolFamily{{
		name: "db_client_connections", kind: gauge, labels: []string{"state"},
		help: "Open connections of the pool: idle ones, and those in use.",
		rows: []poolRow{
			row(func(s *PoolStats) float64 { return float64(s.Idle) }, "idle"),
			row(func(s *PoolStats) float64 { return float64(max(s.Open-s.Idle, 0)) }, "used"),
		},
	}, {
		name: "db_client_connection_pending_requests", kind: gauge,
		help: "Calls that wait for a connection.",
		rows: []poolRow{row(func(s *PoolStats) float64 { return float64(s.Waiting) })},
	}, {
		name: "db_client_connection_timeouts_total",
		help: "Calls that gave up waiting for a connection.",
		rows: []poolRow{row(func(s *PoolStats) float64 { return float64(s.Expired) })},
	}, {
		name: "db_client_connection_requests_total", labels: []string{"result"},
		help: "Requests for a connection: those that found an idle one (reused), and the others (waited).",
		rows: []poolRow{
			row(func(s *PoolStats) float64 { return float64(s.Reused) }, "reused"),
			row(func(s *PoolStats) float64 { return float64(s.Waited) }, "waited"),
		},
	}, {
		name: "db_client_connection_dials_total", labels: []string{"result"},
		help: "Attempts to open a connection by result.",
		rows: []poolRow{
			row(func(s *PoolStats) float64 { return float64(s.Dials - min(s.DialErrors, s.Dials)) }, "ok"),
			row(func(s *PoolStats) float64 { return float64(s.DialErrors) }, "error"),
		},
	}, {
		name: "db_client_connection_closed_total", labels: []string{"reason"},
		help: "Connections that were closed because they were found dead (stale) or failed in a call (broken).",
		rows: []poolRow{
			row(func(s *PoolStats) float64 { return float64(s.Stale) }, "stale"),
			row(func(s *PoolStats) float64 { return float64(s.Broken) }, "broken"),
		},
	}, {
		name: "db_client_retried_calls_total",
		help: "Calls that were sent again on another connection.",
		rows: []poolRow{row(func(s *PoolStats) float64 { return float64(s.Retried) })},
	}}
}
