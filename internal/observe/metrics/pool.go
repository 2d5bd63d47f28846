package metrics

// PoolStats are the numbers of the connections of a client.
type PoolStats = struct {
	Reused, Waited, Expired uint64
	Dials, DialErrors       uint64
	Stale, Broken           uint64
	Retried                 uint64
	Open, Idle, Waiting     int
}

// PoolFamily is a metric of a pool of connections with all its rows. Names follow the
// conventions of OpenTelemetry where those define a name.
type PoolFamily struct {
	// Name is the name as Prometheus has it, Dotted as OpenTelemetry has it.
	Name, Dotted string
	Unit, Help   string
	Kind         Kind
	Label        string // may be empty
	Rows         []PoolRow
}

// PoolRow is a number with the value of the label.
type PoolRow struct {
	Of     string
	Number func(*PoolStats) int64
}

// PoolFamilies returns all metrics of a pool. The state of connections is named without the
// ending _count, which Prometheus keeps for histograms.
func PoolFamilies() []PoolFamily {
	one := func(f func(*PoolStats) int64) []PoolRow { return []PoolRow{{Number: f}} }
	return []PoolFamily{{
		Name: "db_client_connections", Dotted: "db.client.connection.count", Unit: "{connection}", Kind: Gauge, Label: "state",
		Help: "Open connections of the pool: idle ones, and those in use.",
		Rows: []PoolRow{
			{"idle", func(s *PoolStats) int64 { return int64(s.Idle) }},
			{"used", func(s *PoolStats) int64 { return int64(max(s.Open-s.Idle, 0)) }},
		},
	}, {
		Name: "db_client_connection_pending_requests", Dotted: "db.client.connection.pending_requests", Unit: "{request}", Kind: Gauge,
		Help: "Calls that wait for a connection.",
		Rows: one(func(s *PoolStats) int64 { return int64(s.Waiting) }),
	}, {
		Name: "db_client_connection_timeouts_total", Dotted: "db.client.connection.timeouts", Unit: "{timeout}",
		Help: "Calls that gave up waiting for a connection.",
		Rows: one(func(s *PoolStats) int64 { return int64(s.Expired) }),
	}, {
		Name: "db_client_connection_requests_total", Dotted: "db.client.connection.requests", Unit: "{request}", Label: "result",
		Help: "Requests for a connection: those that found an idle one (reused), and the others (waited).",
		Rows: []PoolRow{
			{"reused", func(s *PoolStats) int64 { return int64(s.Reused) }},
			{"waited", func(s *PoolStats) int64 { return int64(s.Waited) }},
		},
	}, {
		Name: "db_client_connection_dials_total", Dotted: "db.client.connection.dials", Unit: "{dial}", Label: "result",
		Help: "Attempts to open a connection by result.",
		Rows: []PoolRow{
			{"ok", func(s *PoolStats) int64 { return int64(s.Dials - min(s.DialErrors, s.Dials)) }},
			{"error", func(s *PoolStats) int64 { return int64(s.DialErrors) }},
		},
	}, {
		Name: "db_client_connection_closed_total", Dotted: "db.client.connection.closed", Unit: "{connection}", Label: "reason",
		Help: "Connections that were closed because they were found dead (stale) or failed in a call (broken).",
		Rows: []PoolRow{
			{"stale", func(s *PoolStats) int64 { return int64(s.Stale) }},
			{"broken", func(s *PoolStats) int64 { return int64(s.Broken) }},
		},
	}, {
		Name: "db_client_retried_calls_total", Dotted: "db.client.retried.calls", Unit: "{call}",
		Help: "Calls that were sent again on another connection.",
		Rows: one(func(s *PoolStats) int64 { return int64(s.Retried) }),
	}}
}
