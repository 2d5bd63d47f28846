package strataprom

import "github.com/strata-cache/strata"

// reading is the result of one look at a cache.
type reading struct {
	strata.Stats
	remoteMisses, remoteForeign uint64 // of L2.Misses, disjoint
}

// family is a metric with all its rows.
type family struct {
	name   string
	kind   kind
	help   string
	labels []string
	has    func(*reading) bool // whether the cache has it; nil for all
	rows   []row
	each   func(r *reading, send func(m metric, labels ...string)) // rows known only from the reading
}

// row is a number with the values of the labels.
type row struct {
	labels []string
	value  func(*reading) float64
	has    func(*reading) bool // nil for all
}

func count(f func(*reading) uint64, labels ...string) row {
	return row{labels: labels, value: func(r *reading) float64 { return float64(f(r)) }}
}

// of is a family with one row.
func of(kind kind, name, help string, has func(*reading) bool, f func(*reading) float64) family {
	return family{name: name, kind: kind, help: help, has: has, rows: []row{{value: f}}}
}

func hasL2(r *reading) bool  { return r.Parts.L2 != "" }
func hasBus(r *reading) bool { return r.Parts.Bus != "" }

// compresses reports whether the Codec has compressed a value, or left it as it is.
func compresses(r *reading) bool { return r.Compressed+r.StoredRaw > 0 }

// onL2 is r for caches with an L2.
func onL2(r row) row {
	r.has = hasL2
	return r
}

// histogramOf is a family with one histogram.
func histogramOf(name, help string, has func(*reading) bool, f func(*reading) metric) family {
	return family{
		name: name, kind: buckets, help: help, has: has,
		each: func(r *reading, send func(metric, ...string)) { send(f(r)) },
	}
}

// serversOf is a family with a row for each server that names returns.
func serversOf(name, help string, names func(*reading) []string) family {
	return family{
		name: name, kind: gauge, help: help, has: hasL2, labels: []string{"server"},
		each: func(r *reading, send func(metric, ...string)) {
			for _, server := range names(r) {
				send(metric{number: 1}, server)
			}
		},
	}
}

// families returns all metrics of a cache, in the order in which docs/guide/metrics.md explains
// them.
func families() (all []family) {
	for _, part := range [][]family{reads(), loads(), staleness(), remoteFamilies(), agreement(), memory(), mishaps()} {
		all = append(all, part...)
	}
	return all
}

// reads are the ways of reads: each look-up, miss and flight has one row.
func reads() []family {
	return []family{{
		name: "strata_tier_requests_total", labels: []string{"tier", "result"},
		help: "Look-ups in a tier by result. Of L1 hits and misses are all reads. Of L2 an error is one request without an answer, for one key or many, and a timeout one without an answer in time.",
		rows: []row{
			count(func(r *reading) uint64 { return r.L1.Hits }, "L1", "hit"),
			count(func(r *reading) uint64 { return r.L1.Misses }, "L1", "miss"),
			onL2(count(func(r *reading) uint64 { return r.L2.Hits }, "L2", "hit")),
			onL2(count(func(r *reading) uint64 { return r.remoteMisses }, "L2", "miss")),
			onL2(count(func(r *reading) uint64 { return r.remoteForeign }, "L2", "foreign")),
			onL2(count(gets("error"), "L2", "error")),
			onL2(count(gets("timeout"), "L2", "timeout")),
		},
	}, {
		name: "strata_misses_total", labels: []string{"outcome"},
		help: "Misses of L1, refreshes and warmed keys by what came of them: a flight of their own, a part in another one, a negative entry or a stale value of L1, or nothing.",
		rows: []row{
			count(func(r *reading) uint64 { return r.Flights }, "flight"),
			count(func(r *reading) uint64 { return r.Joins }, "joined"),
			count(func(r *reading) uint64 { return r.Negative }, "negative"),
			count(func(r *reading) uint64 { return r.Remembered - r.Negative }, "stale"),
			count(func(r *reading) uint64 { return r.TurnedAway }, "turned_away"),
		},
	}, {
		name: "strata_flights_total", labels: []string{"outcome"},
		help: "Flights by their end. A flight is the work for one missed key, shared by all its callers.",
		rows: []row{
			count(func(r *reading) uint64 { return r.Rechecked }, "rechecked"),
			count(func(r *reading) uint64 { return r.L2.Hits }, "l2"),
			count(func(r *reading) uint64 { return r.Absent }, "absent"),
			count(func(r *reading) uint64 { return r.Abandoned }, "abandoned"),
			count(func(r *reading) uint64 { return r.Throttled }, "throttled"),
			count(func(r *reading) uint64 { return r.Loads.Total() }, "loaded"),
		},
	}, of(
		counter, "strata_warmed_keys_total", "Keys that Warm looked up in L2.", hasL2,
		func(r *reading) float64 { return float64(r.Warmed) },
	)}
}

// gets is the number of requests for values of L2 with that result.
func gets(result string) func(*reading) uint64 {
	return func(r *reading) (n uint64) {
		for i := range r.Operations {
			if o := &r.Operations[i]; o.Operation == "get" && o.Result == result {
				n += o.Latency.Count()
			}
		}
		return n
	}
}

// loads are about the origin.
func loads() []family {
	return []family{
		{
			name: "strata_loads_total", help: "Runs of the Loader by outcome. A Loader that exits its goroutine counts as a panic.", labels: []string{"outcome"},
			rows: []row{
				count(func(r *reading) uint64 { return r.Loads.OK }, "ok"),
				count(func(r *reading) uint64 { return r.Loads.NotFound }, "not_found"),
				count(func(r *reading) uint64 { return r.Loads.NotModified }, "not_modified"),
				count(func(r *reading) uint64 { return r.Loads.Errors }, "error"),
				count(func(r *reading) uint64 { return r.Loads.Panics }, "panic"),
			},
		},
		{
			name: "strata_values_compared_total", labels: []string{"result"},
			help: "Values of loads that the cache has compared with the one that it had of the key before: another one (changed), or an equal one.",
			rows: []row{
				count(func(r *reading) uint64 { return r.Loads.Changed }, "changed"),
				count(func(r *reading) uint64 { return r.Loads.Unchanged }, "unchanged"),
			},
		},
		histogramOf("strata_load_duration_seconds", "Duration of loads.", nil,
			func(r *reading) metric { return ofDurations(&r.Loads.Latency, loadBounds) }),
		of(gauge, "strata_loads_in_flight", "Loads that run now. A load of several keys counts as one for each.", nil,
			func(r *reading) float64 { return float64(r.Loads.Running) }),
		of(counter, "strata_load_waiters_total", "Callers that shared a load that another caller had started.", nil,
			func(r *reading) float64 { return float64(r.Loads.Waiters) }),
		of(gauge, "strata_load_waiters_max", "The most callers that have shared one load since the cache was made.", nil,
			func(r *reading) float64 { return float64(r.Loads.MostWaiters) }),
		of(gauge, "strata_origin_failing_seconds", "For how long loads have failed; 0 while they succeed.", nil,
			func(r *reading) float64 { return r.OriginFailing.Seconds() }),
		of(gauge, "strata_origin_slow_seconds", "For how long loads have taken more than a quarter of Limits.HardTimeout; 0 while they do not.", nil,
			func(r *reading) float64 { return r.OriginSlow.Seconds() }),
		of(counter, "strata_seconds_saved_total", "Time that callers did not wait for the origin: reads that ran no load, times the mean duration of a load.", nil,
			func(r *reading) float64 { return seconds(r.Saved) }),
		of(counter, "strata_flights_over_budget_total", "Flights that did not load because too many keys had failed. They are a part of the throttled ones.", nil,
			func(r *reading) float64 { return float64(r.BudgetSpent) }),
		of(counter, "strata_overloaded_total", "Callers that were turned away because Limits.MaxWaiters waited for the same key.", nil,
			func(r *reading) float64 { return float64(r.Overloaded) }),
		{
			name: "strata_lease_waits_total", has: hasL2, labels: []string{"result"},
			help: "Flights that have waited for the load of another instance: they got its answer (won), or did not (lost).",
			rows: []row{
				count(func(r *reading) uint64 { return r.LeaseWins }, "won"),
				count(func(r *reading) uint64 { return r.LeaseWaits - r.LeaseWins }, "lost"),
			},
		},
	}
}

// staleness returns the metrics about values past their TTL.
func staleness() []family {
	return []family{{
		name: "strata_refreshes_total", help: "Refreshes in the background: started, or dropped because Limits.MaxRefreshes were running.", labels: []string{"result"},
		rows: []row{
			count(func(r *reading) uint64 { return r.Refreshes }, "started"),
			count(func(r *reading) uint64 { return r.RefreshesDropped }, "dropped"),
		},
	}, {
		name: "strata_stale_served_total", labels: []string{"reason"},
		help: "Stale values that were served: while they were refreshed, because a load failed or took too long, or because the caller allows it.",
		rows: []row{
			count(func(r *reading) uint64 { return r.StaleRevalidating }, "revalidating"),
			count(func(r *reading) uint64 { return r.StaleOnError }, "error"),
			count(func(r *reading) uint64 { return r.StaleAllowed }, "allowed"),
		},
	}, {
		name: "strata_stores_refused_total", help: "Values that came too late to be stored in a tier: their key was invalidated or set while they were on their way.", labels: []string{"tier"},
		rows: []row{
			count(func(r *reading) uint64 { return r.Refused }, "L1"),
			onL2(count(func(r *reading) uint64 { return r.RemoteRefused }, "L2")),
		},
	}}
}

// remoteFamilies are about L2.
func remoteFamilies() []family {
	return []family{
		of(gauge, "strata_breaker_open", "1 while the circuit breaker of L2 is open because it has failed too often, else 0.", hasL2,
			func(r *reading) float64 { return oneIf(r.BreakerOpen) }),
		of(counter, "strata_breaker_transitions_total", "Times at which the circuit breaker of L2 was opened or closed.", hasL2,
			func(r *reading) float64 { return float64(r.BreakerChanges) }),
		of(gauge, "strata_storing_stopped", "1 while no value is stored in L2 because it has refused too many, else 0.", hasL2,
			func(r *reading) float64 { return oneIf(r.StoringStopped) }),
		serversOf("strata_server_breaker_open", "1 for a server of L2, of several, whose circuit breaker is open because it has failed too often.",
			func(r *reading) []string { return r.ServersLeftAlone }),
		serversOf("strata_server_storing_stopped", "1 for a server of L2, of several, on which no value is stored because it has refused too many.",
			func(r *reading) []string { return r.ServersWithoutStores }),
		{
			name: "strata_remote_duration_seconds", kind: buckets, has: hasL2, labels: []string{"op", "result"},
			help: "Duration of operations on L2 by operation and result: ok, timeout, error, or cancelled because the caller left.",
			each: func(r *reading, send func(metric, ...string)) {
				for i := range r.Operations {
					o := &r.Operations[i]
					send(ofDurations(&o.Latency, remoteBounds), o.Operation, o.Result)
				}
			},
		},
		{
			name: "strata_remote_value_bytes", kind: buckets, has: hasL2, labels: []string{"direction"},
			help: "Size of encoded values that were read from L2 or written to it.",
			each: func(r *reading, send func(metric, ...string)) {
				send(ofSizes(&r.ReadBytes, sizeBounds), "read")
				send(ofSizes(&r.WrittenBytes, sizeBounds), "written")
			},
		},
		of(counter, "strata_codec_errors_total", "Values that are not in L2 because the Codec refused them or because they are too large.", hasL2,
			func(r *reading) float64 { return float64(r.EncodeErrors) }),
		{
			name: "strata_codec_compression_total", help: "Values that codec.Compressed has made shorter (compressed), or left as they are (raw).", has: compresses, labels: []string{"result"},
			rows: []row{
				count(func(r *reading) uint64 { return r.Compressed }, "compressed"),
				count(func(r *reading) uint64 { return r.StoredRaw }, "raw"),
			},
		},
	}
}

// agreement returns the metrics about the messages between instances.
func agreement() []family {
	return []family{
		{
			name: "strata_invalidations_total", help: "Keys and tags that were invalidated or expired, by callers of this instance (local) or of others (remote). Everything at once counts as one.", labels: []string{"origin"},
			rows: []row{
				count(func(r *reading) uint64 { return r.Invalidations }, "local"),
				count(func(r *reading) uint64 { return r.Heard }, "remote"),
			},
		},
		of(gauge, "strata_invalidations_pending", "Drops that L2 or the bus has not confirmed yet.", nil,
			func(r *reading) float64 { return float64(r.Pending) }),
		of(gauge, "strata_bus_connected", "1 while the bus is connected and the circuit breaker of L2 is closed, else 0.", hasBus,
			func(r *reading) float64 { return oneIf(r.Connected) }),
		of(gauge, "strata_bus_silence_seconds", "Time since the bus last delivered something.", hasBus,
			func(r *reading) float64 { return seconds(r.BusSilence) }),
		histogramOf("strata_bus_echo_seconds", "Time until a heartbeat of this instance comes back over the bus: as late are the messages of others.", hasBus,
			func(r *reading) metric { return ofDurations(&r.BusEcho, echoBounds) }),
		of(counter, "strata_bus_gaps_total", "Times at which the bus may have lost messages.", hasBus,
			func(r *reading) float64 { return float64(r.Gaps) }),
		of(counter, "strata_bus_messages_unreadable_total", "Messages without an effect: damaged, of another version, or about a key or a tag that no entry here may have.", hasBus,
			func(r *reading) float64 { return float64(r.Unreadable) }),
		of(counter, "strata_bus_lanes_missed_total", "Lanes, of 1024 slices of the keys, in which a lost message was found.", hasBus,
			func(r *reading) float64 { return float64(r.Missed) }),
		of(counter, "strata_entries_confirmed_total", "Entries of L1 that were suspect because of a lost message, and that L2 has confirmed.", hasL2,
			func(r *reading) float64 { return float64(r.Confirmed) }),
		of(counter, "strata_degraded_reads_total", "Reads that L1 answered while another instance may have invalidated the entry: the bus was silent, or L2 could not confirm.", nil,
			func(r *reading) float64 { return float64(r.Degraded) }),
	}
}

// memory is about the entries of L1.
func memory() []family {
	return []family{
		of(gauge, "strata_entries", "Entries in L1 now.", nil,
			func(r *reading) float64 { return float64(r.Entries) }),
		of(gauge, "strata_entries_limit", "Largest number of entries in L1.", func(r *reading) bool { return r.MaxEntries > 0 },
			func(r *reading) float64 { return float64(r.MaxEntries) }),
		of(gauge, "strata_weight", "Weight of the entries in L1 now.", nil,
			func(r *reading) float64 { return float64(r.Weight) }),
		of(gauge, "strata_weight_limit", "Largest weight of the entries in L1.", func(r *reading) bool { return r.MaxWeight > 0 },
			func(r *reading) float64 { return float64(r.MaxWeight) }),
		{
			name: "strata_evictions_total", help: "Entries that left L1 to make room (size) or after their life (expired), and those that L1 did not take because of their weight (rejected).", labels: []string{"reason"},
			rows: []row{
				count(func(r *reading) uint64 { return r.Evicted }, "size"),
				count(func(r *reading) uint64 { return r.Expired }, "expired"),
				count(func(r *reading) uint64 { return r.Rejected }, "rejected"),
			},
		},
		histogramOf("strata_eviction_age_seconds", "Age of values that left L1 to make room, of one in 64. Ages far below the TTL say that L1 is too small.", nil,
			func(r *reading) metric { return ofDurations(&r.EvictionAge, ageBounds) }),
	}
}

// mishaps are mistakes in the program around the cache, its switch, and the make of the cache.
func mishaps() []family {
	return []family{
		of(gauge, "strata_off", "1 while this instance of the cache is turned off by Tune, else 0.", nil,
			func(r *reading) float64 { return oneIf(r.Off) }),
		of(counter, "strata_tune_refused_total", "Calls of Tune with an invalid value, which changed nothing.", nil,
			func(r *reading) float64 { return float64(r.TuneRefused) }),
		of(counter, "strata_callback_panics_total", "Panics of hooks and weighers.", nil,
			func(r *reading) float64 { return float64(r.CallbackPanics) }),
		of(counter, "strata_callbacks_dropped_total", "Events, spans and lines of the log that were left out because too many calls of callbacks had not returned.", nil,
			func(r *reading) float64 { return float64(r.CallbacksDropped) }),
		of(counter, "strata_mutations_total", "Entries that callers have changed, as far as Memory.DetectMutation has found them.", nil,
			func(r *reading) float64 { return float64(r.Mutations) }),
		{
			name: "strata_info", kind: gauge, help: "Always 1; the labels describe the make of the cache.", labels: []string{"version", "schema", "l2", "bus", "partition"},
			each: func(r *reading, send func(metric, ...string)) {
				p := &r.Parts
				send(metric{number: 1}, p.Version, p.Schema, p.L2, p.Bus, p.Partition)
			},
		},
	}
}
