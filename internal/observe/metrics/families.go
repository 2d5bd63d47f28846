package metrics

import "github.com/strata-cache/strata"

// Families returns all metrics of a cache, in the order in which docs/guide/metrics.md explains
// them.
func Families() (all []Family) {
	for _, part := range [][]Family{reads(), loads(), staleness(), ofL2(), agreement(), memory(), mishaps()} {
		all = append(all, part...)
	}
	return all
}

// reads are the ways of reads: each look-up, miss and flight has one row.
func reads() []Family {
	return []Family{{
		Name: "strata_tier_requests_total", Unit: "{request}", Labels: []string{"tier", "result"},
		Help: "Look-ups in a tier by result. Of L1 hits and misses are all reads. Of L2 an error is one request without an answer, for one key or many, and a timeout one without an answer in time.",
		Rows: []Row{
			count(func(r *Reading) uint64 { return r.L1.Hits }, "L1", "hit"),
			count(func(r *Reading) uint64 { return r.L1.Misses }, "L1", "miss"),
			onL2(count(func(r *Reading) uint64 { return r.L2.Hits }, "L2", "hit")),
			onL2(count(func(r *Reading) uint64 { return r.remoteMisses }, "L2", "miss")),
			onL2(count(func(r *Reading) uint64 { return r.remoteForeign }, "L2", "foreign")),
			onL2(count(gets("error"), "L2", "error")),
			onL2(count(gets("timeout"), "L2", "timeout")),
		},
	}, {
		Name: "strata_misses_total", Unit: "{miss}", Labels: []string{"outcome"},
		Help: "Misses of L1, refreshes and warmed keys by what came of them: a flight of their own, a part in another one, a negative entry or a stale value of L1, or nothing.",
		Rows: []Row{
			count(func(r *Reading) uint64 { return r.Flights }, "flight"),
			count(func(r *Reading) uint64 { return r.Joins }, "joined"),
			count(func(r *Reading) uint64 { return r.Negative }, "negative"),
			count(func(r *Reading) uint64 { return r.Remembered - r.Negative }, "stale"),
			count(func(r *Reading) uint64 { return r.TurnedAway }, "turned_away"),
		},
	}, {
		Name: "strata_flights_total", Unit: "{flight}", Labels: []string{"outcome"},
		Help: "Flights by their end. A flight is the work for one missed key, shared by all its callers.",
		Rows: []Row{
			count(func(r *Reading) uint64 { return r.Rechecked }, "rechecked"),
			count(func(r *Reading) uint64 { return r.L2.Hits }, "l2"),
			count(func(r *Reading) uint64 { return r.Absent }, "absent"),
			count(func(r *Reading) uint64 { return r.Abandoned }, "abandoned"),
			count(func(r *Reading) uint64 { return r.Throttled }, "throttled"),
			count(func(r *Reading) uint64 { return r.Loads.Total() }, "loaded"),
		},
	}, single(Counter, "strata_warmed_keys_total", "{key}", "Keys that Warm looked up in L2, or loaded.", nil,
		func(r *Reading) int64 { return int64(r.Warmed) })}
}

// gets is the number of requests for values of L2 with that result.
func gets(result string) func(*Reading) uint64 {
	return func(r *Reading) (n uint64) {
		for i := range r.Operations {
			if o := &r.Operations[i]; o.Operation == "get" && o.Result == result {
				n += o.Latency.Count()
			}
		}
		return n
	}
}

// loads are about the origin.
func loads() []Family {
	return []Family{
		{
			Name: "strata_loads_total", Unit: "{load}", Help: "Runs of the Loader by outcome. A Loader that exits its goroutine counts as a panic.", Labels: []string{"outcome"},
			Rows: []Row{
				count(func(r *Reading) uint64 { return r.Loads.OK }, "ok"),
				count(func(r *Reading) uint64 { return r.Loads.NotFound }, "not_found"),
				count(func(r *Reading) uint64 { return r.Loads.NotModified }, "not_modified"),
				count(func(r *Reading) uint64 { return r.Loads.Errors }, "error"),
				count(func(r *Reading) uint64 { return r.Loads.Panics }, "panic"),
			},
		},
		{
			Name: "strata_values_compared_total", Unit: "{value}", Labels: []string{"result"},
			Help: "Values of loads that the cache has compared with the one that it had of the key before: another one (changed), or an equal one.",
			Rows: []Row{
				count(func(r *Reading) uint64 { return r.Loads.Changed }, "changed"),
				count(func(r *Reading) uint64 { return r.Loads.Unchanged }, "unchanged"),
			},
		},
		histogramOf("strata_load_duration_seconds", "Duration of loads.", nil,
			func(r *Reading) *strata.Histogram { return &r.Loads.Latency }),
		single(Gauge, "strata_loads_in_flight", "{load}", "Loads that run now. A load of several keys counts as one for each.", nil,
			func(r *Reading) int64 { return r.Loads.Running }),
		single(Counter, "strata_load_waiters_total", "{caller}", "Callers that shared a load that another caller had started.", nil,
			func(r *Reading) int64 { return int64(r.Loads.Waiters) }),
		single(Gauge, "strata_load_waiters_max", "{caller}", "The most callers that have shared one load since the cache was made.", nil,
			func(r *Reading) int64 { return int64(r.Loads.MostWaiters) }),
		single(Gauge, "strata_origin_failing_seconds", "s", "For how long loads have failed; 0 while they succeed.", nil,
			func(r *Reading) int64 { return int64(r.OriginFailing) }),
		single(Gauge, "strata_origin_slow_seconds", "s", "For how long loads have taken more than a quarter of Limits.HardTimeout; 0 while they do not.", nil,
			func(r *Reading) int64 { return int64(r.OriginSlow) }),
		single(Counter, "strata_seconds_saved_total", "s", "Time that callers did not wait for the origin: reads that ran no load, times the mean duration of a load.", nil,
			func(r *Reading) int64 { return int64(r.Saved) }),
		single(Counter, "strata_flights_over_budget_total", "{flight}", "Flights that did not load because too many keys had failed. They are a part of the throttled ones.", nil,
			func(r *Reading) int64 { return int64(r.BudgetSpent) }),
		single(Counter, "strata_overloaded_total", "{caller}", "Callers that were turned away because Limits.MaxWaiters callers waited for loads.", nil,
			func(r *Reading) int64 { return int64(r.Overloaded) }),
		{
			Name: "strata_lease_waits_total", Unit: "{flight}", Has: hasL2, Labels: []string{"result"},
			Help: "Flights that have waited for the load of another instance: they got its answer (won), or did not (lost).",
			Rows: []Row{
				count(func(r *Reading) uint64 { return r.LeaseWins }, "won"),
				count(func(r *Reading) uint64 { return r.LeaseWaits - r.LeaseWins }, "lost"),
			},
		},
	}
}

// staleness returns the metrics about values past their TTL.
func staleness() []Family {
	return []Family{{
		Name: "strata_refreshes_total", Unit: "{refresh}", Help: "Refreshes in the background: started, or dropped because Limits.MaxRefreshes were running.", Labels: []string{"result"},
		Rows: []Row{
			count(func(r *Reading) uint64 { return r.Refreshes }, "started"),
			count(func(r *Reading) uint64 { return r.RefreshesDropped }, "dropped"),
		},
	}, {
		Name: "strata_stale_served_total", Unit: "{value}", Labels: []string{"reason"},
		Help: "Stale values that were served: while they were refreshed, because a load failed or took too long, or because the caller allows it.",
		Rows: []Row{
			count(func(r *Reading) uint64 { return r.StaleRevalidating }, "revalidating"),
			count(func(r *Reading) uint64 { return r.StaleOnError }, "error"),
			count(func(r *Reading) uint64 { return r.StaleAllowed }, "allowed"),
		},
	}, {
		Name: "strata_stores_refused_total", Unit: "{value}", Help: "Values that came too late to be stored in a tier: their key was invalidated or set while they were on their way.", Labels: []string{"tier"},
		Rows: []Row{
			count(func(r *Reading) uint64 { return r.Refused }, "L1"),
			onL2(count(func(r *Reading) uint64 { return r.RemoteRefused }, "L2")),
		},
	}}
}

// ofL2 are about L2.
func ofL2() []Family {
	return []Family{
		single(Gauge, "strata_breaker_open", "1", "1 while the circuit breaker of L2 is open because it has failed too often, else 0.", hasL2,
			func(r *Reading) int64 { return oneIf(r.BreakerOpen) }),
		single(Counter, "strata_breaker_transitions_total", "{transition}", "Times at which the circuit breaker of L2 was opened or closed.", hasL2,
			func(r *Reading) int64 { return int64(r.BreakerChanges) }),
		single(Gauge, "strata_storing_stopped", "1", "1 while no value is stored in L2 because it has refused too many, else 0.", hasL2,
			func(r *Reading) int64 { return oneIf(r.StoringStopped) }),
		servers("strata_server_breaker_open", "1 for a server of L2, of several, whose circuit breaker is open because it has failed too often.",
			func(r *Reading) []string { return r.ServersLeftAlone }),
		servers("strata_server_storing_stopped", "1 for a server of L2, of several, on which no value is stored because it has refused too many.",
			func(r *Reading) []string { return r.ServersWithoutStores }),
		{
			Name: "strata_remote_duration_seconds", Unit: "s", Kind: Buckets, Has: hasL2, Labels: []string{"op", "result"},
			Help: "Duration of operations on L2 by operation and result: ok, timeout, error, or cancelled because the caller left.",
			Each: func(r *Reading, send func(Value, ...string)) {
				for i := range r.Operations {
					o := &r.Operations[i]
					send(Value{Durations: &o.Latency}, o.Operation, o.Result)
				}
			},
		},
		{
			Name: "strata_remote_value_bytes", Unit: "By", Kind: Buckets, Has: hasL2, Labels: []string{"direction"},
			Help: "Size of encoded values that were read from L2 or written to it.",
			Each: func(r *Reading, send func(Value, ...string)) {
				send(Value{Sizes: &r.ReadBytes}, "read")
				send(Value{Sizes: &r.WrittenBytes}, "written")
			},
		},
		single(Counter, "strata_codec_errors_total", "{value}", "Values that are not in L2, or in an encoded L1, because the Codec refused them or because they are too large.", nil,
			func(r *Reading) int64 { return int64(r.EncodeErrors) }),
		{
			Name: "strata_codec_compression_total", Unit: "{value}", Help: "Values that codec.Compressed has made shorter (compressed), or left as they are (raw).", Has: compresses, Labels: []string{"result"},
			Rows: []Row{
				count(func(r *Reading) uint64 { return r.Compressed }, "compressed"),
				count(func(r *Reading) uint64 { return r.StoredRaw }, "raw"),
			},
		},
	}
}

// agreement returns the metrics about the messages between instances.
func agreement() []Family {
	return []Family{
		{
			Name: "strata_invalidations_total", Unit: "{invalidation}", Help: "Keys and tags that were invalidated or expired, by callers of this instance (local) or of others (remote). Everything at once counts as one.", Labels: []string{"origin"},
			Rows: []Row{
				count(func(r *Reading) uint64 { return r.Invalidations }, "local"),
				count(func(r *Reading) uint64 { return r.Heard }, "remote"),
			},
		},
		single(Gauge, "strata_invalidations_pending", "{invalidation}", "Drops that L2 or the bus has not confirmed yet.", nil,
			func(r *Reading) int64 { return int64(r.Pending) }),
		single(Gauge, "strata_bus_connected", "1", "1 while the bus is connected and the circuit breaker of L2 is closed, else 0.", hasBus,
			func(r *Reading) int64 { return oneIf(r.Connected) }),
		single(Gauge, "strata_bus_silence_seconds", "s", "Time since the bus last delivered something.", hasBus,
			func(r *Reading) int64 { return int64(r.BusSilence) }),
		histogramOf("strata_bus_echo_seconds", "Time until a heartbeat of this instance comes back over the bus: as late are the messages of others.", hasBus,
			func(r *Reading) *strata.Histogram { return &r.BusEcho }),
		single(Counter, "strata_bus_gaps_total", "{gap}", "Times at which the bus may have lost messages.", hasBus,
			func(r *Reading) int64 { return int64(r.Gaps) }),
		single(Counter, "strata_bus_messages_unreadable_total", "{message}", "Messages without an effect: damaged, of another version, or about a key or a tag that no entry here may have.", hasBus,
			func(r *Reading) int64 { return int64(r.Unreadable) }),
		single(Counter, "strata_bus_lanes_missed_total", "{lane}", "Lanes, of 1024 slices of the keys, in which a lost message was found.", hasBus,
			func(r *Reading) int64 { return int64(r.Missed) }),
		single(Counter, "strata_entries_confirmed_total", "{entry}", "Entries of L1 that were suspect because of a lost message, and that L2 has confirmed.", hasL2,
			func(r *Reading) int64 { return int64(r.Confirmed) }),
		single(Counter, "strata_degraded_reads_total", "{read}", "Reads that L1 answered while another instance may have invalidated the entry: the bus was silent, or L2 could not confirm.", nil,
			func(r *Reading) int64 { return int64(r.Degraded) }),
	}
}

// memory is about the entries of L1.
func memory() []Family {
	return []Family{
		single(Gauge, "strata_entries", "{entry}", "Entries in L1 now.", nil,
			func(r *Reading) int64 { return r.Entries }),
		single(Gauge, "strata_entries_limit", "{entry}", "Largest number of entries in L1.", func(r *Reading) bool { return r.MaxEntries > 0 },
			func(r *Reading) int64 { return r.MaxEntries }),
		single(Gauge, "strata_weight", "1", "Weight of the entries in L1 now.", nil,
			func(r *Reading) int64 { return r.Weight }),
		single(Gauge, "strata_weight_limit", "1", "Largest weight of the entries in L1.", func(r *Reading) bool { return r.MaxWeight > 0 },
			func(r *Reading) int64 { return r.MaxWeight }),
		{
			Name: "strata_evictions_total", Unit: "{entry}", Help: "Entries that left L1 to make room (size) or after their life (expired), and those that L1 did not take because of their weight (rejected).", Labels: []string{"reason"},
			Rows: []Row{
				count(func(r *Reading) uint64 { return r.Evicted }, "size"),
				count(func(r *Reading) uint64 { return r.Expired }, "expired"),
				count(func(r *Reading) uint64 { return r.Rejected }, "rejected"),
			},
		},
		histogramOf("strata_eviction_age_seconds", "Age of values that left L1 to make room, of one in 64. Ages far below the TTL say that L1 is too small.", nil,
			func(r *Reading) *strata.Histogram { return &r.EvictionAge }),
		single(Gauge, "strata_guard_heap_bytes", "By", "Live heap of the process at the last look of the guard.", hasGuard,
			func(r *Reading) int64 { return r.Guard.Heap }),
		single(Gauge, "strata_guard_ceiling_bytes", "By", "Live heap from which the guard evicts.", hasGuard,
			func(r *Reading) int64 { return r.Guard.Ceiling }),
		single(Counter, "strata_guard_evictions_total", "{entry}", "Entries that the guard has evicted, of all its caches.", hasGuard,
			func(r *Reading) int64 { return int64(r.Guard.Evicted) }),
		single(Gauge, "strata_guard_exhausted", "1", "1 while the heap is too large and the guard has nothing left to evict, else 0.", hasGuard,
			func(r *Reading) int64 { return oneIf(r.Guard.Exhausted) }),
	}
}

// mishaps are mistakes in the program around the cache, its switch, and the make of the cache.
func mishaps() []Family {
	return []Family{
		single(Gauge, "strata_off", "1", "1 while this instance of the cache is turned off by Tune, else 0.", nil,
			func(r *Reading) int64 { return oneIf(r.Off) }),
		single(Counter, "strata_tune_refused_total", "{call}", "Calls of Tune with an invalid value, which changed nothing.", nil,
			func(r *Reading) int64 { return int64(r.TuneRefused) }),
		single(Counter, "strata_callback_panics_total", "{panic}", "Panics of hooks, weighers and other functions of the Options, apart from Loaders.", nil,
			func(r *Reading) int64 { return int64(r.CallbackPanics) }),
		single(Counter, "strata_callbacks_dropped_total", "{event}", "Events, spans and lines of the log that were left out because too many calls of callbacks had not returned.", nil,
			func(r *Reading) int64 { return int64(r.CallbacksDropped) }),
		single(Counter, "strata_undecoded_total", "{value}", "Values of an encoded L1 that the Codec could not decode.", undecoded,
			func(r *Reading) int64 { return int64(r.DecodeErrors) }),
		single(Counter, "strata_mutations_total", "{entry}", "Entries that callers have changed, as far as Memory.DetectMutation has found them.", nil,
			func(r *Reading) int64 { return int64(r.Mutations) }),
		{
			Name: "strata_info", Unit: "1", Kind: Gauge, Help: "Always 1; the labels describe the make of the cache.", Labels: []string{"version", "schema", "l2", "bus", "partition"},
			Each: func(r *Reading, send func(Value, ...string)) {
				p := &r.Parts
				send(Value{Number: 1}, p.Version, p.Schema, p.L2, p.Bus, p.Partition)
			},
		},
	}
}
