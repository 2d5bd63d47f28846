package strataotel

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/strata-cache/strata"
)

// kind is the instrument of a family.
type kind uint8

const (
	counter kind = iota
	gauge
	secondsCounter // of nanoseconds
	secondsGauge
)

// reading has the numbers of a cache at one time.
type reading struct {
	strata.Stats
	remoteMisses, remoteForeign uint64 // of L2.Misses, disjoint
}

// family is a metric with all its rows. Names are the ones in package prometheus, with dots
// and without the unit and _total.
type family struct {
	name, unit string
	kind       kind
	help       string
	has        func(*strata.Stats) bool // whether a cache has it; nil for all
	rows       []row
	servers    func(*strata.Stats) []string // a row of 1 for each of these
}

// row is a number with its attributes.
type row struct {
	attributes []attribute.KeyValue
	value      func(*reading) int64
	has        func(*strata.Stats) bool // nil: as for the family
	describe   func(*strata.Stats) []attribute.KeyValue
}

// count is a row of a counter. attributes are names without strata., and values, in turn.
func count(f func(*reading) uint64, attributes ...string) row {
	// OpenTelemetry has no unsigned counters. No number here comes near the bound.
	r := row{value: func(r *reading) int64 { return int64(f(r)) }}
	for i := 0; i < len(attributes); i += 2 {
		r.attributes = append(r.attributes, attribute.String("strata."+attributes[i], attributes[i+1]))
	}
	return r
}

// number is a row of a gauge.
func number(f func(*reading) int64) []row { return []row{{value: f}} }

func hasL2(s *strata.Stats) bool  { return s.Parts.L2 != "" }
func hasBus(s *strata.Stats) bool { return s.Parts.Bus != "" }

// compresses reports whether the Codec has compressed a value, or left it as it is.
func compresses(s *strata.Stats) bool { return s.Compressed+s.StoredRaw > 0 }

// onL2 is r for caches with an L2.
func onL2(r row) row {
	r.has = hasL2
	return r
}

// families returns all metrics of a cache that can be observed.
func families() (all []family) {
	for _, part := range [][]family{reads(), loads(), staleness(), ofL2(), agreement(), memory(), mishaps()} {
		all = append(all, part...)
	}
	return all
}

// reads are the ways of reads: each look-up, miss and flight has one row.
func reads() []family {
	return []family{{
		name: "strata.tier.requests", unit: "{request}",
		help: "Look-ups in a tier by result. Of L1 hits and misses are all reads. Of L2 an error is one request without an answer, for one key or many, and a timeout one without an answer in time.",
		rows: []row{
			count(func(r *reading) uint64 { return r.L1.Hits }, "tier", "L1", "result", "hit"),
			count(func(r *reading) uint64 { return r.L1.Misses }, "tier", "L1", "result", "miss"),
			onL2(count(func(r *reading) uint64 { return r.L2.Hits }, "tier", "L2", "result", "hit")),
			onL2(count(func(r *reading) uint64 { return r.remoteMisses }, "tier", "L2", "result", "miss")),
			onL2(count(func(r *reading) uint64 { return r.remoteForeign }, "tier", "L2", "result", "foreign")),
			onL2(count(gets("error"), "tier", "L2", "result", "error")),
			onL2(count(gets("timeout"), "tier", "L2", "result", "timeout")),
		},
	}, {
		name: "strata.misses", unit: "{miss}",
		help: "Misses of L1, refreshes and warmed keys by what came of them: a flight of their own, a part in another one, a negative entry or a stale value of L1, or nothing.",
		rows: []row{
			count(func(r *reading) uint64 { return r.Flights }, "outcome", "flight"),
			count(func(r *reading) uint64 { return r.Joins }, "outcome", "joined"),
			count(func(r *reading) uint64 { return r.Negative }, "outcome", "negative"),
			// Remembered has both, so that only the difference is disjoint from the row before.
			count(func(r *reading) uint64 { return r.Remembered - r.Negative }, "outcome", "stale"),
			count(func(r *reading) uint64 { return r.TurnedAway }, "outcome", "turned_away"),
		},
	}, {
		name: "strata.flights", unit: "{flight}",
		help: "Flights by their end. A flight is the work for one missed key, shared by all its callers.",
		rows: []row{
			count(func(r *reading) uint64 { return r.Rechecked }, "outcome", "rechecked"),
			count(func(r *reading) uint64 { return r.L2.Hits }, "outcome", "l2"),
			count(func(r *reading) uint64 { return r.Absent }, "outcome", "absent"),
			count(func(r *reading) uint64 { return r.Abandoned }, "outcome", "abandoned"),
			count(func(r *reading) uint64 { return r.Throttled }, "outcome", "throttled"),
			count(func(r *reading) uint64 { return r.Loads.Total() }, "outcome", "loaded"),
		},
	}, {
		name: "strata.warmed.keys", unit: "{key}", help: "Keys that Warm looked up in L2.", has: hasL2,
		rows: []row{count(func(r *reading) uint64 { return r.Warmed })},
	}}
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
	return []family{{
		name: "strata.loads", unit: "{load}", help: "Runs of the Loader by outcome. A Loader that exits its goroutine counts as a panic.",
		rows: []row{
			count(func(r *reading) uint64 { return r.Loads.OK }, "outcome", "ok"),
			count(func(r *reading) uint64 { return r.Loads.NotFound }, "outcome", "not_found"),
			count(func(r *reading) uint64 { return r.Loads.NotModified }, "outcome", "not_modified"),
			count(func(r *reading) uint64 { return r.Loads.Errors }, "outcome", "error"),
			count(func(r *reading) uint64 { return r.Loads.Panics }, "outcome", "panic"),
		},
	}, {
		name: "strata.values.compared", unit: "{value}",
		help: "Values of loads that the cache has compared with the one that it had of the key before: another one (changed), or an equal one.",
		rows: []row{
			count(func(r *reading) uint64 { return r.Loads.Changed }, "result", "changed"),
			count(func(r *reading) uint64 { return r.Loads.Unchanged }, "result", "unchanged"),
		},
	}, {
		name: "strata.loads.in.flight", unit: "{load}", kind: gauge, help: "Loads that run now. A load of several keys counts as one for each.",
		rows: number(func(r *reading) int64 { return r.Loads.Running }),
	}, {
		name: "strata.load.waiters", unit: "{caller}", help: "Callers that shared a load that another caller had started.",
		rows: []row{count(func(r *reading) uint64 { return r.Loads.Waiters })},
	}, {
		name: "strata.load.waiters.max", unit: "{caller}", kind: gauge, help: "The most callers that have shared one load since the cache was made.",
		rows: number(func(r *reading) int64 { return int64(r.Loads.MostWaiters) }),
	}, {
		name: "strata.origin.failing", unit: "s", kind: secondsGauge, help: "For how long loads have failed; 0 while they succeed.",
		rows: number(func(r *reading) int64 { return int64(r.OriginFailing) }),
	}, {
		name: "strata.origin.slow", unit: "s", kind: secondsGauge, help: "For how long loads have taken more than a quarter of Limits.HardTimeout; 0 while they do not.",
		rows: number(func(r *reading) int64 { return int64(r.OriginSlow) }),
	}, {
		name: "strata.saved", unit: "s", kind: secondsCounter, help: "Time that callers did not wait for the origin: reads that ran no load, times the mean duration of a load.",
		rows: number(func(r *reading) int64 { return int64(r.Saved) }),
	}, {
		name: "strata.flights.over.budget", unit: "{flight}", help: "Flights that did not load because too many keys had failed. They are a part of the throttled ones.",
		rows: []row{count(func(r *reading) uint64 { return r.BudgetSpent })},
	}, {
		name: "strata.overloaded", unit: "{caller}", help: "Callers that were turned away because Limits.MaxWaiters waited for the same key.",
		rows: []row{count(func(r *reading) uint64 { return r.Overloaded })},
	}, {
		name: "strata.lease.waits", unit: "{flight}", has: hasL2,
		help: "Flights that have waited for the load of another instance: they got its answer (won), or did not (lost).",
		rows: []row{
			count(func(r *reading) uint64 { return r.LeaseWins }, "result", "won"),
			count(func(r *reading) uint64 { return r.LeaseWaits - r.LeaseWins }, "result", "lost"),
		},
	}}
}

// staleness returns the metrics about values past their TTL.
func staleness() []family {
	return []family{{
		name: "strata.refreshes", unit: "{refresh}", help: "Refreshes in the background: started, or dropped because Limits.MaxRefreshes were running.",
		rows: []row{
			count(func(r *reading) uint64 { return r.Refreshes }, "result", "started"),
			count(func(r *reading) uint64 { return r.RefreshesDropped }, "result", "dropped"),
		},
	}, {
		name: "strata.stale.served", unit: "{value}",
		help: "Stale values that were served: while they were refreshed, because a load failed or took too long, or because the caller allows it.",
		rows: []row{
			count(func(r *reading) uint64 { return r.StaleRevalidating }, "reason", "revalidating"),
			count(func(r *reading) uint64 { return r.StaleOnError }, "reason", "error"),
			count(func(r *reading) uint64 { return r.StaleAllowed }, "reason", "allowed"),
		},
	}, {
		name: "strata.stores.refused", unit: "{value}", help: "Values that came too late to be stored in a tier: their key was invalidated or set while they were on their way.",
		rows: []row{
			count(func(r *reading) uint64 { return r.Refused }, "tier", "L1"),
			onL2(count(func(r *reading) uint64 { return r.RemoteRefused }, "tier", "L2")),
		},
	}}
}

// ofL2 are about L2.
func ofL2() []family {
	return []family{{
		name: "strata.breaker.open", unit: "1", kind: gauge, has: hasL2, help: "1 while the circuit breaker of L2 is open because it has failed too often, else 0.",
		rows: number(func(r *reading) int64 { return oneIf(r.BreakerOpen) }),
	}, {
		name: "strata.breaker.transitions", unit: "{transition}", has: hasL2, help: "Times at which the circuit breaker of L2 was opened or closed.",
		rows: []row{count(func(r *reading) uint64 { return r.BreakerChanges })},
	}, {
		name: "strata.storing.stopped", unit: "1", kind: gauge, has: hasL2, help: "1 while no value is stored in L2 because it has refused too many, else 0.",
		rows: number(func(r *reading) int64 { return oneIf(r.StoringStopped) }),
	}, {
		name: "strata.server.breaker.open", unit: "1", kind: gauge, help: "1 for a server of L2, of several, whose circuit breaker is open because it has failed too often.",
		servers: func(s *strata.Stats) []string { return s.ServersLeftAlone },
	}, {
		name: "strata.server.storing.stopped", unit: "1", kind: gauge, help: "1 for a server of L2, of several, on which no value is stored because it has refused too many.",
		servers: func(s *strata.Stats) []string { return s.ServersWithoutStores },
	}, {
		name: "strata.codec.errors", unit: "{value}", has: hasL2, help: "Values that are not in L2 because the Codec refused them or because they are too large.",
		rows: []row{count(func(r *reading) uint64 { return r.EncodeErrors })},
	}, {
		name: "strata.codec.compression", unit: "{value}", has: compresses, help: "Values that codec.Compressed has made shorter (compressed), or left as they are (raw).",
		rows: []row{
			count(func(r *reading) uint64 { return r.Compressed }, "result", "compressed"),
			count(func(r *reading) uint64 { return r.StoredRaw }, "result", "raw"),
		},
	}}
}

// agreement is about messages between instances.
func agreement() []family {
	return []family{{
		name: "strata.invalidations", unit: "{invalidation}", help: "Keys and tags that were invalidated or expired, by callers of this instance (local) or of others (remote). Everything at once counts as one.",
		rows: []row{
			count(func(r *reading) uint64 { return r.Invalidations }, "origin", "local"),
			count(func(r *reading) uint64 { return r.Heard }, "origin", "remote"),
		},
	}, {
		name: "strata.invalidations.pending", unit: "{invalidation}", kind: gauge, help: "Drops that L2 or the bus has not confirmed yet.",
		rows: number(func(r *reading) int64 { return int64(r.Pending) }),
	}, {
		name: "strata.bus.connected", unit: "1", kind: gauge, has: hasBus, help: "1 while the bus is connected, else 0.",
		rows: number(func(r *reading) int64 { return oneIf(r.Connected) }),
	}, {
		name: "strata.bus.silence", unit: "s", kind: secondsGauge, has: hasBus, help: "Time since the bus last delivered something.",
		rows: number(func(r *reading) int64 { return int64(r.BusSilence) }),
	}, {
		name: "strata.bus.gaps", unit: "{gap}", has: hasBus, help: "Times at which the bus may have lost messages.",
		rows: []row{count(func(r *reading) uint64 { return r.Gaps })},
	}, {
		name: "strata.bus.messages.unreadable", unit: "{message}", has: hasBus, help: "Messages without an effect: damaged, of another version, or about a key or a tag that no entry here may have.",
		rows: []row{count(func(r *reading) uint64 { return r.Unreadable })},
	}, {
		name: "strata.bus.lanes.missed", unit: "{lane}", has: hasBus, help: "Lanes, of 1024 slices of the keys, in which a lost message was found.",
		rows: []row{count(func(r *reading) uint64 { return r.Missed })},
	}, {
		name: "strata.entries.confirmed", unit: "{entry}", has: hasL2, help: "Entries of L1 that were suspect because of a lost message, and that L2 has confirmed.",
		rows: []row{count(func(r *reading) uint64 { return r.Confirmed })},
	}, {
		name: "strata.degraded.reads", unit: "{read}", help: "Reads that L1 answered while another instance may have invalidated the entry: the bus was silent, or L2 could not confirm.",
		rows: []row{count(func(r *reading) uint64 { return r.Degraded })},
	}}
}

// memory is about the entries of L1.
func memory() []family {
	return []family{{
		name: "strata.entries", unit: "{entry}", kind: gauge, help: "Entries in L1 now.",
		rows: number(func(r *reading) int64 { return r.Entries }),
	}, {
		name: "strata.entries.limit", unit: "{entry}", kind: gauge, help: "Largest number of entries in L1.",
		has:  func(s *strata.Stats) bool { return s.MaxEntries > 0 },
		rows: number(func(r *reading) int64 { return r.MaxEntries }),
	}, {
		name: "strata.weight", unit: "1", kind: gauge, help: "Weight of the entries in L1 now.",
		rows: number(func(r *reading) int64 { return r.Weight }),
	}, {
		name: "strata.weight.limit", unit: "1", kind: gauge, help: "Largest weight of the entries in L1.",
		has:  func(s *strata.Stats) bool { return s.MaxWeight > 0 },
		rows: number(func(r *reading) int64 { return r.MaxWeight }),
	}, {
		name: "strata.evictions", unit: "{entry}", help: "Entries that left L1 to make room (size) or after their life (expired), and those that L1 did not take because of their weight (rejected).",
		rows: []row{
			count(func(r *reading) uint64 { return r.Evicted }, "reason", "size"),
			count(func(r *reading) uint64 { return r.Expired }, "reason", "expired"),
			count(func(r *reading) uint64 { return r.Rejected }, "reason", "rejected"),
		},
	}}
}

// mishaps are mistakes in the program around the cache, its switch, and the make of the cache.
func mishaps() []family {
	return []family{{
		name: "strata.off", unit: "1", kind: gauge, help: "1 while this instance of the cache is turned off by Tune, else 0.",
		rows: number(func(r *reading) int64 { return oneIf(r.Off) }),
	}, {
		name: "strata.tune.refused", unit: "{call}", help: "Calls of Tune with an invalid value, which changed nothing.",
		rows: []row{count(func(r *reading) uint64 { return r.TuneRefused })},
	}, {
		name: "strata.callback.panics", unit: "{panic}", help: "Panics of hooks and weighers.",
		rows: []row{count(func(r *reading) uint64 { return r.CallbackPanics })},
	}, {
		name: "strata.callbacks.dropped", unit: "{event}", help: "Events, spans and lines of the log that were left out because too many calls of callbacks had not returned.",
		rows: []row{count(func(r *reading) uint64 { return r.CallbacksDropped })},
	}, {
		name: "strata.mutations", unit: "{entry}", help: "Entries that callers have changed, as far as Memory.DetectMutation has found them.",
		rows: []row{count(func(r *reading) uint64 { return r.Mutations })},
	}, {
		name: "strata.info", unit: "1", kind: gauge, help: "Always 1; the attributes describe the make of the cache.",
		rows: []row{{value: func(*reading) int64 { return 1 }, describe: describe}},
	}}
}

// describe returns the make of a cache.
func describe(s *strata.Stats) []attribute.KeyValue {
	p := &s.Parts
	return []attribute.KeyValue{
		is("strata.version", p.Version), is("strata.schema", p.Schema), is("strata.l2", p.L2),
		is("strata.bus", p.Bus), is("strata.partition", p.Partition),
	}
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
