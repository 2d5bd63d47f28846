package strata

import (
	"fmt"
	"math"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/internal/cache/l2"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/memory"
)

// Stats are the numbers of a Cache since it was made, unless a field says
// otherwise. The fields are read one after the other. While no call is running,
// these sums hold:
//
//	Reads   = L1.Hits + L1.Misses
//	L1.Misses + Refreshes + Warmed = Flights + Joins + TurnedAway + Remembered
//	Flights = Rechecked + L2.Hits + Absent + Abandoned + Throttled + Loads.Total()
type Stats struct {
	// Name is the cache's name, Parts describe its make.
	Name  string
	Parts Parts

	// Reads counts calls of Get and GetOrLoad, and keys of GetMany.
	Reads uint64
	// L1 is the tier in this process: a stale entry is a miss.
	L1 TierStats
	// L2 is the remote tier, as flights read it.
	L2 TierStats

	// Flights counts misses that started a flight.
	Flights uint64
	// Joins counts misses that shared the flight of another caller. Joins over
	// L1.Misses is the share rate: high while a stampede is prevented.
	Joins uint64
	// TurnedAway counts misses that ended without a flight: the context had ended,
	// the cache was closed, the load recursive, or a Get had no L2 to read.
	TurnedAway uint64
	// Rechecked counts flights that found the entry in their second look at L1.
	Rechecked uint64
	// Absent counts flights of Get that found no value.
	Absent uint64
	// Abandoned counts flights that ended before a load began, because the cache
	// was closed or, with Limits.CancelAbandoned, every caller had left.
	Abandoned uint64

	// Loads is about runs of the Loader.
	Loads LoadStats
	// OriginFailing is for how long loads have failed, OriginSlow for how long they have taken
	// more than a quarter of Limits.HardTimeout, as do loads that still run; 0 while most do
	// not. A load that fails among others that succeed changes neither. Both are 0, too, when
	// no load has ended for ten minutes.
	OriginFailing, OriginSlow time.Duration
	// Saved estimates the time that callers did not wait for the origin: for each read that
	// ran no load, the mean duration of loads at the time of the next call of Stats.
	Saved time.Duration

	// Refreshes counts loads started in the background, while the entry could be served;
	// RefreshesDropped counts reads that started none, because Limits.MaxRefreshes were
	// running.
	Refreshes, RefreshesDropped uint64
	// Warmed counts keys that [Cache.Warm] looked up in L2 or loaded.
	Warmed uint64
	// StaleRevalidating, StaleOnError and StaleAllowed count served stale values: while
	// they were refreshed; because a load had failed, took longer than Limits.SoftTimeout,
	// or could not be waited for; and because the caller allows it.
	StaleRevalidating, StaleOnError, StaleAllowed uint64
	// Remembered counts misses that L1 answered: Negative of them with a negative entry, the
	// others with a stale value. Throttled counts flights that did not load, because a load of
	// the key had failed a moment before, or no slot of Limits.MaxLoads came free.
	// BudgetSpent is the part of Throttled due to the retry budget: too many keys had
	// failed.
	Remembered, Negative, Throttled, BudgetSpent uint64
	// Overloaded counts callers beyond Limits.MaxWaiters.
	Overloaded uint64
	// BreakerOpen is whether the circuit breaker of L2 is open, StoringStopped whether no value
	// is stored there because it has refused to store too often: of several servers all.
	BreakerOpen, StoringStopped bool
	// ServersLeftAlone and ServersWithoutStores are the names, in order, of the servers
	// among several with an open breaker, and of the ones where no value is stored.
	ServersLeftAlone, ServersWithoutStores []string
	// BreakerChanges counts the times at which the breaker of L2, or of a server of it, was
	// opened or closed.
	BreakerChanges uint64
	// Operations are the durations of operations on L2, by operation and result. Pairs
	// without an operation are left out.
	Operations []OperationStats
	// ReadBytes and WrittenBytes are the sizes of encoded values that came from L2 and that
	// were sent to it.
	ReadBytes, WrittenBytes SizeHistogram
	// Refused counts values that came too late to be stored in L1: their key
	// was invalidated or set while they were on their way.
	Refused uint64
	// RemoteRefused counts values that L2 refused for that reason.
	RemoteRefused uint64
	// LeaseWaits counts flights that waited for another instance's load, LeaseWins the
	// flights among them that got its answer, and ran no load.
	LeaseWaits, LeaseWins uint64

	// Invalidations counts keys and tags that callers invalidated or expired on
	// this instance; everything at once counts as one. Heard counts the keys and tags that
	// other instances announced, Gaps the times at which the bus may have lost messages,
	// Unreadable messages without an effect: damaged, of another version, or about a key or a
	// tag that this instance cannot have.
	Invalidations, Heard, Gaps, Unreadable uint64
	// Missed counts lanes (of 1024 slices of the key space) in which a lost message was
	// found, Confirmed the entries of L1 that L2 has confirmed: they had become suspect for
	// that reason.
	Missed, Confirmed uint64
	// Degraded counts reads that L1 answered while the bus was silent, or while
	// L2 could not confirm an entry: another instance may have invalidated it.
	Degraded uint64

	// Connected is whether the bus is connected. Without a bus, or while it is
	// silent, other instances' invalidations do not reach L1, and no entry
	// lives there for more than UnconfirmedTTL without being confirmed.
	Connected bool
	// BusSilence is the time since the bus last delivered something; zero without a bus.
	// BusEcho is how long heartbeats of this instance take until they come back: as late are
	// the messages of others. A quiet cache may send none.
	BusSilence time.Duration
	BusEcho    Histogram

	// Pending is the number of drops that L2 or the bus has not confirmed yet.
	Pending int

	// Evicted counts entries that left L1 to make room, Expired the entries swept after
	// their life, Rejected the entries that L1 did not take because of their
	// weight.
	Evicted, Expired, Rejected uint64
	// EvictionAge is for how long evicted values were in L1, from a sample of one
	// in 64. Ages far below the TTL say that L1 is too small.
	EvictionAge Histogram
	// Entries and Weight are the number and the weight of the entries in L1 now.
	Entries int64
	Weight  int64
	// MaxEntries and MaxWeight are the bounds of L1; 0 for none.
	MaxEntries, MaxWeight int64

	// Guard are the numbers of Memory.Guard, which caches may share; zeros without one.
	Guard memory.GuardStats

	// TuneRefused counts calls of [Cache.Tune] with an invalid value. Off says that this
	// instance of the cache is turned off.
	TuneRefused uint64
	Off         bool

	// Mutations counts entries that callers have changed, as far as
	// Memory.DetectMutation has found them.
	Mutations uint64
	// CallbackPanics counts panics of hooks, weighers and other functions of the Options, apart from Loaders.
	CallbackPanics uint64
	// CallbacksLate counts calls of hooks, of the Tracer and of the Logger for which the
	// cache did not wait until they returned. CallbacksDropped counts events, spans and
	// lines left out because too many such calls had not returned.
	CallbacksLate, CallbacksDropped uint64
	// EncodeErrors counts values missing in L2, or in L1 with Memory.Encoded, because the Codec refused
	// them, since they would come back as other values or not at all, or because they are too
	// large. Callers get them, and every instance loads them. The first one is logged.
	EncodeErrors uint64
	// DecodeErrors counts values of L1, with Memory.Encoded, that the Codec could not decode. The reads
	// were misses.
	DecodeErrors uint64
	// Compressed counts values that [codec.Compressed] has made shorter, StoredRaw values
	// that it has left as they are: they are small, or would not become shorter. Both are of
	// the Codec: caches that share one share them.
	Compressed, StoredRaw uint64
}

// TierStats are the numbers of one tier.
type TierStats struct {
	// Hits counts look-ups that found a fresh value, Misses the others.
	Hits, Misses uint64
	// Errors counts operations refused or without an answer, TimedOut the ones without an
	// answer in time.
	Errors, TimedOut uint64
	// Foreign counts values that could not be read: of another program, of another version of
	// strata or of the codec, or damaged. They are misses, too. The log has one line a minute
	// about them at most.
	Foreign uint64
}

// LoadStats are the numbers of loads.
type LoadStats struct {
	// OK, NotFound, NotModified, Errors and Panics count loads by their outcomes.
	// Loaders that exited their goroutine count as panics.
	OK, NotFound, NotModified, Errors, Panics uint64
	// Changed is the part of OK that brought another value than the cache had of the key when the
	// load began, fresh or stale; Unchanged is the part that brought an equal value. NotModified
	// is apart from them. Values of basic types, arrays and structs of these, slices of bytes,
	// and types with a method Equal are compared themselves, others by their encoded bytes: with
	// an L2 as far as it had the value before; without one, if there is a Remote.Codec, one load
	// in 16, which counts as 16. If a codec writes maps in any order, as gob does, equal ones count as changed.
	Changed, Unchanged uint64
	// Running is the number of loads that run now. A load of several keys counts as one
	// for each.
	Running int64
	// Waiters is the number of callers that shared a load that another caller had
	// started, MostWaiters the most of a single load.
	Waiters, MostWaiters uint64
	// Latency is the duration of loads.
	Latency Histogram
}

// Total is the number of loads.
func (l LoadStats) Total() uint64 {
	return l.OK + l.NotFound + l.NotModified + l.Errors + l.Panics
}

// counts are the counters off the hit path.
type counts struct {
	lookups                               local.Lookups
	flights, joins, turnedAway            atomic.Uint64
	rechecked, absent, abandoned          atomic.Uint64
	remoteHits, remoteMisses              atomic.Uint64
	remoteRefused                         atomic.Uint64
	loads                                 [outcomes]atomic.Uint64
	waiters, maxWaiters                   atomic.Uint64
	latency                               observe.Durations
	running                               atomic.Int64
	saved                                 observe.SavedTime
	refused, leasesAnswered, leasesInVain atomic.Uint64
	staleRevalidating, staleOnError       atomic.Uint64
	staleAllowed                          atomic.Uint64
	remembered, negative                  atomic.Uint64 // disjoint
	throttled, budgetSpent                atomic.Uint64
	refreshes, refreshesDropped, warmed   atomic.Uint64
	overloaded, mutations                 atomic.Uint64
	invalidations, heard, unreadable      atomic.Uint64
	encodeErrors, callbackPanics          atomic.Uint64
	confirmed, degraded                   atomic.Uint64
}

// Stats returns the cache's numbers. It reads some hundreds of counters, and takes each lock
// of L1 and of the bus for a moment; it does not wait for the network.
func (c *Cache[K, V]) Stats() Stats {
	n := &c.counts
	m, l := n.lookups.Read(c.near.Values.Stats), c.link.Stats()
	s := Stats{
		Name: c.o.Name, Parts: c.parts, Loads: n.loadStats(),
		Flights: n.flights.Load(), Joins: n.joins.Load(), TurnedAway: n.turnedAway.Load(),
		Rechecked: n.rechecked.Load(), Absent: n.absent.Load(), Abandoned: n.abandoned.Load(),
		Refreshes: n.refreshes.Load(), RefreshesDropped: n.refreshesDropped.Load(), Warmed: n.warmed.Load(),
		StaleRevalidating: n.staleRevalidating.Load(), StaleOnError: n.staleOnError.Load(), StaleAllowed: n.staleAllowed.Load(),
		Remembered: n.remembered.Load(), Negative: n.negative.Load(), Throttled: n.throttled.Load(),
		BudgetSpent: n.budgetSpent.Load(), Overloaded: n.overloaded.Load(), Mutations: n.mutations.Load(),
		Refused: n.refused.Load(), RemoteRefused: n.remoteRefused.Load(), EncodeErrors: n.encodeErrors.Load(), DecodeErrors: c.near.Values.Undecoded(),
		LeaseWaits: n.leasesInVain.Load(), LeaseWins: n.leasesAnswered.Load(), Confirmed: n.confirmed.Load(),
		BreakerOpen: c.l2.LeftAlone(), BreakerChanges: c.l2.BreakerChanges(), StoringStopped: c.l2.StoringStopped(),
		ServersLeftAlone: c.l2.ServersLeftAlone(), ServersWithoutStores: c.l2.ServersWithoutStores(), Pending: c.l2.Pending(),
		Invalidations: n.invalidations.Load(), Heard: n.heard.Load() + l.Alls, Gaps: l.Gaps, Missed: l.Missed,
		Unreadable: n.unreadable.Load() + l.Unreadable, Degraded: n.degraded.Load() + l.Degraded,
		Connected: c.link.Connected(), BusSilence: c.link.Silence(), BusEcho: durations(c.link.Echo()),
		TuneRefused: c.tuned.refused.Load(), Off: c.tuned.off.Load(),
		Evicted: m.Evicted, Expired: m.Expired, Rejected: m.Rejected, EvictionAge: durations(c.near.Values.Ages()),
		Entries: m.Entries, Weight: m.Weight, Guard: memory.GuardStats(c.near.GuardStats()),
		CallbackPanics: n.callbackPanics.Load() + c.callbacks.Panics(),
		CallbacksLate:  c.callbacks.Late(), CallbacksDropped: c.callbacks.Dropped(),
	}
	s.Remembered, s.LeaseWaits = s.Remembered+s.Negative, s.LeaseWaits+s.LeaseWins
	s.Loads.Changed, s.Loads.Unchanged = c.compared.Read()
	s.OriginFailing, s.OriginSlow = c.origin.Read(c.now())
	s.L1.Hits, s.L1.Misses = m.Hits, m.Misses
	s.Reads = s.L1.Hits + s.L1.Misses
	s.MaxEntries, s.MaxWeight = c.near.Values.Bounds()
	s.Saved = n.saved.UpTo(answered(&s), n.latency.Mean())
	c.addOperations(&s, c.encoding)
	s.L2 = TierStats{
		Hits:     n.remoteHits.Load(),
		Misses:   n.remoteMisses.Load(),
		TimedOut: c.l2.TimedOut(), // before Errors
		Errors:   c.l2.Errors(),
		Foreign:  c.l2.Foreign(),
	}
	return s
}

func (n *counts) loadStats() LoadStats {
	return LoadStats{
		OK: n.loads[LoadOK].Load(), NotFound: n.loads[LoadNotFound].Load(), NotModified: n.loads[LoadNotModified].Load(),
		Errors: n.loads[LoadError].Load(), Panics: n.loads[LoadPanic].Load(), Waiters: n.waiters.Load(), MostWaiters: n.maxWaiters.Load(),
		Running: n.running.Load(), Latency: durations(&n.latency),
	}
}

// Parts describe the make of a cache. They do not change.
type Parts struct {
	// Service is Options.Service.
	Service string
	// Version is the version of this module in the program, or "unknown".
	Version string
	// Schema is the name of the codec, with the fingerprint of the type of values in
	// hexadecimal digits: instances with another schema do not share values. Empty without a
	// Tier.
	Schema string
	// L2 and Bus are the Go types of the Tier and the Bus, or empty.
	L2, Bus string
	// L2Server is the address of the server of L2, or of all its servers; empty without a Tier
	// that tells it.
	L2Server string
	// Partition is "strict" with Remote.Strict, else "available".
	Partition string
	// Instance is the name of this instance: the host, the number of the process, and a
	// random number in hexadecimal digits.
	Instance string
}

// Histogram counts durations in buckets of doubling width, in units of 2⁻²⁰ seconds
// (0.954 µs). Its buckets have the bounds of a native histogram of Prometheus with
// schema 0 and of an exponential histogram of OpenTelemetry with scale 0, so that both hold
// the same counts. The zero Histogram is empty.
type Histogram struct {
	// Buckets[i] counts durations of Bound(i) at most that no lower bucket counts. The last
	// one counts all longer ones.
	Buckets [44]uint64
	// Sum is the sum of all durations.
	Sum time.Duration
}

// Bound returns the upper bound of bucket i of a Histogram, which belongs to the bucket:
// 2^(i-20) seconds, rounded down to a nanosecond; the longest duration for the last bucket.
// i must be an index of Buckets.
func (h Histogram) Bound(i int) time.Duration {
	if i == len(h.Buckets)-1 {
		return math.MaxInt64
	}
	return observe.DurationBound(i)
}

// Count is the number of durations.
func (h Histogram) Count() uint64 { return observe.SumOf(h.Buckets[:]) }

// Quantile returns a duration that a share q (0 to 1) of all durations does
// not exceed: the upper end of its bucket, so up to twice the exact one. It is
// zero for an empty histogram.
func (h Histogram) Quantile(q float64) time.Duration {
	if i := observe.Quantile(h.Buckets[:], q); i >= 0 {
		return h.Bound(i)
	}
	return 0
}

// durations returns the counts of d; none for nil.
func durations(d *observe.Durations) (h Histogram) {
	if d != nil {
		h.Buckets, h.Sum = d.Read()
	}
	return h
}

// SizeHistogram counts sizes in bytes in buckets of doubling width. The zero SizeHistogram is
// empty.
type SizeHistogram struct {
	// Buckets[i] counts sizes of 2^i bytes at most that no lower bucket counts. The last
	// one counts all larger ones.
	Buckets [32]uint64
	// Sum is the sum of all sizes.
	Sum uint64
}

// OperationStats are the numbers of one operation on L2 with one result.
type OperationStats struct {
	// Operation is "get", "tags", "acquire", "put", "extend", "renew", "release", "drop",
	// "drop_tags" or "drop_all".
	Operation string
	// Result is "ok", "error", "timeout" or "cancelled" (the caller has left).
	Result string
	// Latency is the duration of these operations.
	Latency Histogram
}

// addOperations adds the durations and sizes of operations on L2 to s, and the counts of the
// codec if it compresses.
func (c *core) addOperations(s *Stats, encoding any) {
	if e, ok := encoding.(interface {
		Counts() (shortened, raw uint64)
	}); ok {
		s.Compressed, s.StoredRaw = e.Counts()
	}
	m := c.l2.Meter()
	if m == nil {
		return
	}
	for op := range l2.Operations {
		for r := range l2.Results {
			if h := durations(&m.Took[op][r]); h.Count() > 0 {
				s.Operations = append(s.Operations, OperationStats{op.String(), r.String(), h})
			}
		}
	}
	s.ReadBytes.Buckets, s.ReadBytes.Sum = m.Read.Read()
	s.WrittenBytes.Buckets, s.WrittenBytes.Sum = m.Written.Read()
}

// answered is the number of reads that ran no load.
func answered(s *Stats) uint64 {
	loads := s.Loads.Total()
	return s.Reads - min(s.Reads, loads-min(loads, s.Refreshes))
}

// describe returns the parts of the cache. encoding is the name of its codec.
func (c *core) describe(encoding string) Parts {
	r := &c.settings.Remote
	i := Parts{Service: c.settings.Service, Version: observe.ModuleVersion(), Partition: "available", Instance: c.l2.InstanceName(), L2Server: c.l2.Server()}
	if r.Strict {
		i.Partition = "strict"
	}
	if r.Tier != nil {
		i.L2, i.Schema = reflect.TypeOf(r.Tier).String(), fmt.Sprintf("%s %016x", encoding, c.l2.Schema())
	}
	if r.Bus != nil {
		i.Bus = reflect.TypeOf(r.Bus).String()
	}
	return i
}
