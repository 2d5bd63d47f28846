package strata

import (
	"log/slog"
	"math"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/memory"
	"github.com/strata-cache/strata/remote"
)

// NoExpiry is the TTL of entries that live until they are evicted or
// invalidated. It must be written: a TTL of zero is refused.
const NoExpiry time.Duration = math.MaxInt64

const (
	// maxHold is the longest hold of InvalidateHold. A longer hold that another
	// instance announces is cut to it.
	maxHold = 24 * time.Hour
	// UnconfirmedTTL caps the life of an entry in L1 if other instances can change
	// L2 and this instance has no healthy bus.
	UnconfirmedTTL = 30 * time.Second
)

// Options configure a Cache. TTL is the only field that must be set.
type Options[K comparable, V any] struct {
	// Name is the cache's name: its label in metrics, its prefix in L2, its
	// address on the bus. Instances with the same Name, Tier and value type
	// share entries. Required with a Tier or Bus; at most 128 bytes of UTF-8, without
	// spaces, braces and characters that cannot be printed.
	Name string

	// Service is the name of the program, or of the group of programs, to which the
	// entries belong: caches of two services share nothing, not even with the same Name
	// on one Tier and Bus. It is a label of metrics. Empty is a service of its own. At
	// most 64 bytes; in all else as Name.
	Service string

	// TTL is how long an entry is fresh, counted from the end of its load.
	// Required; at least 1 ms; NoExpiry for ever.
	TTL time.Duration

	// IdleTTL is how long an entry of L1 lives without a read: a value, fresh or
	// stale, is gone from L1 between 7/8 of IdleTTL and IdleTTL after the last call that
	// found it there, after the last Touch, or after its store. TTL and Stale remain the
	// upper bounds. L2 keeps a value for TTL and Stale, so that the next read may bring
	// it back. Negative entries live for NotFoundTTL. 0 means that reads do not matter;
	// at least 1 ms.
	IdleTTL time.Duration

	// Jitter is the share by which each TTL is shortened at random, so that
	// entries of the same age do not expire together. 0 means
	// 0.1, a negative value none; at most 0.9.
	Jitter float64

	// RefreshAt is the share of its TTL after which a read of a fresh entry starts
	// a refresh in the background. 0 means 0.8, a negative value off; less than 1.
	RefreshAt float64

	// RefreshSpread makes refreshes begin earlier at random, on average by
	// RefreshSpread times the duration of a load, so that instances do not
	// refresh together: the optimal probabilistic early expiration of Vattani,
	// Chierichetti and Lowenstein (VLDB 2015), with their β, for which they
	// recommend 1. 0 means off, 100 is the most.
	RefreshSpread float64

	// RefreshEvery makes the cache refresh the hottest entries of L1 by itself, once in
	// RefreshEvery or up to a tenth earlier: the entries past the share RefreshAt of their TTL,
	// or past it by the next time. So hot keys do not expire if RefreshEvery
	// and a load take less than the TTL. The hottest are as many as Limits.MaxRefreshes,
	// in the order of Hottest. An entry without further reads is refreshed up to three times, and
	// then ends; an entry never read since its load or Set ends without a refresh. With a
	// Tier, an entry that lives longer there than in L1 is left to its next read, which finds
	// it in L2. A look takes all entries. 0: off; at least 1 ms. It needs a Loader or ManyLoader.
	RefreshEvery time.Duration

	// Stale says for how long an entry may be served after its TTL.
	Stale Stale

	// NotFoundTTL is the TTL of negative entries: for so long both tiers remember
	// that the origin has no such key. 0 means a quarter of TTL, at most
	// 30 s; a negative value means none.
	NotFoundTTL time.Duration

	// IsNotFound reports whether an error of a Loader says that the origin has no such
	// key: it is then remembered for NotFoundTTL, and callers get an error that wraps
	// ErrNotFound as well. ErrNotFound itself needs no function. Nil means the function
	// IsNotFound of this package. If it panics the error is like any other.
	IsNotFound func(err error) bool

	// ErrorTTL is for how long this instance remembers the failure of a load:
	// callers get the error, or a stale value, and the key is not loaded. It doubles
	// with each further failure of the key, up to ten times
	// ErrorTTL, shortened at random by up to a fifth. 0 means a second,
	// a negative value that failures are not remembered.
	ErrorTTL time.Duration

	// Memory configures L1, the tier in this process.
	Memory Memory[K, V]

	// Limits bound loads.
	Limits Limits

	// Remote configures L2, the tier that instances share, and the bus
	// between them. The zero Remote means that there is no L2.
	Remote Remote[K, V]

	// Loader is used by a GetOrLoad without a Loader.
	Loader Loader[K, V]

	// ManyLoader is used by a GetMany without a ManyLoader and, if Loader is nil, by a
	// GetOrLoad without a Loader, with one key.
	ManyLoader ManyLoader[K, V]

	// BatchWait makes such loads of single keys, refreshes included, wait for each
	// other: the loads that begin within BatchWait of the first are one call of
	// ManyLoader. Values that L1 or L2 has do not wait, nor do loads inside loads and
	// SkipReads. Each key keeps its callers, its lease, its call options, its result and
	// its error. The call has the context values of the caller that came first, and
	// counts as one load for Limits.MaxLoads; Limits.HardTimeout begins with it. 0 means
	// off; at most a second. It needs ManyLoader, and no Loader.
	BatchWait time.Duration

	// BatchSize is the number of keys with which a call of ManyLoader waits for no
	// others. 0 means 100; at most 500. It needs BatchWait.
	BatchSize int

	// Tags returns the tags of a loaded or written value, in addition to the tags of
	// [WithTags] and [Load.SetTags]. It is called once for each store, in
	// every way of storing, and never under a lock. A value from L2 keeps the tags
	// with which it was stored. If Tags panics or its tags cannot be used, a loaded
	// value is not stored, and Set and Update return an error. Nil means no tags.
	// With Tags a Tier must be a remote.Tagger.
	Tags func(key K, value V) []string

	// ContextControls makes reads with a context of [SkipReadContext], which the
	// middleware in stratahttp uses, skip the cache. It costs each hit a look at its
	// context.
	ContextControls bool

	// ShowKeys allows errors and logs to name keys. They may be personal data.
	ShowKeys bool

	// Hooks are functions called for events. Nil costs nothing.
	Hooks *Hooks

	// Tracer is told of loads, invalidations, and reads that L1 does not answer, as spans.
	// Nil costs nothing.
	Tracer Tracer

	// Logger gets the changes in the health of L2, bus and origin with their
	// causes, panics of Loaders and callbacks, invalidations that Close has lost,
	// and, when the cache is made, advice about surprising Options. The begin of a
	// failure is a warning, its end is information. Each state is logged at
	// most once in 10 seconds, and less often while it comes and goes. Stats.OriginFailing
	// says when loads count as failing. Nil means no logs.
	// Values are never logged, unless a Loader panics with one; keys only with
	// ShowKeys.
	Logger *slog.Logger
}

// Stale says for how long an entry may be served after its TTL. The two windows
// begin at the same time; an entry is kept, in both tiers, for its TTL and the
// longer of them. They should be the same on all instances.
type Stale struct {
	// WhileRevalidate is for how long a stale value is returned at once, while
	// it is refreshed in the background. 0 means a tenth of TTL, a negative
	// value that stale values are not returned so.
	WhileRevalidate time.Duration

	// OnError is for how long a stale value is returned if its load fails. 0
	// means TTL, at least a minute and at most an hour; a negative value that stale
	// values are not returned so.
	OnError time.Duration
}

// Memory configures L1.
type Memory[K comparable, V any] struct {
	// MaxEntries bounds the number of entries. 0 means 10 000, unless MaxWeight
	// is set.
	MaxEntries int64

	// MaxWeight bounds the sum of the weights of all entries. It needs Weigh, or Encoded.
	MaxWeight int64

	// Weigh returns the weight of an entry, in the unit of MaxWeight, at
	// least 1, or memory.Pinned for an entry that L1 never evicts and that counts as 1: if pinned
	// entries leave no room for a new entry, L1 does not keep it. It runs once per store, never
	// under a lock. An entry is not kept in L1 if Weigh panics or returns another weight below 1,
	// or more than MaxWeight; a loaded one that is heavy only once it is loaded often. Nil means 1. It needs MaxWeight.
	Weigh func(key K, value V) int64

	// Policy decides which entries make room for others: one of the constants of
	// package memory, which describes them. The zero value is memory.A3FIFO. Negative
	// entries are evicted by A3FIFO.
	Policy memory.Policy

	// EvictShare is the share of L1 evicted when an entry needs room, between 0 and 0.5, in
	// part in the background; see memory.Options. 0 means only as much as the entry
	// needs.
	EvictShare float64

	// Guard makes L1 smaller while the process has too little memory; guards of guard.Floor keep
	// so many entries, or so much weight. Nil means none.
	Guard *memory.Guard

	// Off makes L1 keep nothing: every read asks L2, and one load at a time still
	// serves all callers of a key. The errors of failed loads are remembered nevertheless;
	// see ErrorTTL. The other fields, but Clone, have no effect then.
	Off bool

	// Clone, if set, copies a value each time it is returned, and when Set or Update
	// stores it, so that callers may change it. The value of a Loader belongs to the
	// cache.
	Clone func(value V) V

	// DetectMutation looks for callers that change shared values: values are
	// hashed when they come to L1 and at one hit in 64, by the Codec or else as
	// JSON, which is also taken for types that may hold maps: other codecs write these in any order.
	// Changed values are logged and counted. Values that are refused so are not looked at. It is for tests and staging.
	DetectMutation bool

	// Encoded makes L1 keep values as bytes, by Remote.Codec, in memory that the garbage collector
	// does not look at. A value is decoded for each caller, who may change it: a hit takes as long as
	// Decode. MaxWeight bounds all memory of the entries in bytes then: at least memory.MinBytes; 0 means
	// 64 MiB. Keys are strings, or without pointers, floats and padding. A value that the Codec refuses
	// is served, shared by callers of one load, and not kept; a kept one that it cannot decode is a miss.
	// Eviction is as in memory.ByteCache. MaxEntries, Weigh, Policy, EvictShare, IdleTTL, Clone and
	// DetectMutation cannot be set with it.
	Encoded bool

	// TTL caps the life of entries in L1. 0 means the TTL of the Options, or
	// UnconfirmedTTL while there is an L2 and no healthy bus.
	TTL time.Duration
}

// Limits bound loads.
type Limits struct {
	// HardTimeout ends a load, with or without waiting callers: its context is
	// cancelled, and its callers get a stale value while
	// Stale.OnError allows, else an error that wraps context.DeadlineExceeded.
	// The next caller loads again, and so may other instances. A result that the
	// Loader returns later reaches no caller and no tier, even if the Loader ignores
	// its context. Until it returns it counts for MaxLoads, and Close
	// waits for it. HardTimeout also bounds the wait of a load for a slot of
	// MaxLoads, and for another instance that loads the key.
	// 0 means a minute, a negative value none: then callers wait for a
	// Loader that never returns until their own contexts end.
	HardTimeout time.Duration

	// CancelAbandoned cancels the context of a load when its last waiting caller
	// leaves; the next caller loads anew. A load with a lease of L2 continues: other
	// instances may be waiting for it. By default every load continues, is stored,
	// and is joined by later callers, so that callers with less patience than the
	// origin needs still fill the cache.
	CancelAbandoned bool

	// SoftTimeout is how long a caller waits for one or several loads if L1 or L2
	// has a stale value that may be served on error. Then the caller gets that
	// value, and the load continues and is stored. A GetMany waits for as long as
	// some key has no such value. 0 means that callers wait for the load.
	SoftTimeout time.Duration

	// MaxLoads bounds the loads that run at once. Others queue, those with waiting
	// callers before refreshes. A load inside a load is not counted.
	// A Loader that does not return at HardTimeout still counts: it may keep
	// the origin busy. 0 means no bound.
	MaxLoads int

	// MaxRefreshes bounds the refreshes that run in the background at once; the
	// refresh of a GetMany counts as one. A read beyond the bound starts no refresh:
	// it gets its value, and the next read of the key tries again. So a refresh is
	// delayed, and callers wait only for entries that end before
	// there was room. 0 means 256, enough for 200 entries due at the same time.
	MaxRefreshes int

	// MaxWaiters bounds the callers that wait for loads at once. Others get a stale value of L1
	// if there is one, or ErrOverloaded, and a SkipRead always that. A Get, and a GetMany without any loader, count as none. 0 means no bound.
	MaxWaiters int

	// MaxKeyBytes bounds the length of a key of a string type, and of its name in
	// L2: a call with a longer key fails with ErrKeyTooLong and does nothing.
	// MaxEntries counts entries, and so does not bound the memory of long keys.
	// 0 means 8 KiB, a negative value no bound. All instances of a
	// cache should have the same.
	MaxKeyBytes int

	// Lease is the longest time that other instances wait for an instance that
	// stopped during its load. The lease is renewed while the load runs.
	// 0 means 5 s; at least 100 ms.
	Lease time.Duration
}

// Remote configures L2.
type Remote[K comparable, V any] struct {
	// Tier is the store that instances share. Nil means no L2.
	Tier remote.Tier

	// Bus tells instances of each other's invalidations. Without it an
	// instance may serve an entry that another has invalidated until the entry
	// expires in L1; see Memory.TTL. A tier that announces its drops, as the tier of
	// package redis, does so on its own server. A bus on another server then carries
	// heartbeats only, and invalidations are noticed seconds later.
	Bus remote.Bus

	// Codec encodes values for L2. Nil means codec.Bytes for []byte,
	// codec.String for string, and codec.JSON otherwise. With codec.Versioned values
	// of older versions of the program are read, too. The Codec may refuse a loaded
	// value, for example if other instances would read it as another value. Such a value
	// is served and kept in L1, counted in Stats.EncodeErrors and not stored in L2; a
	// Set of it fails.
	Codec codec.Codec[V]

	// Key returns the name of a key in L2; different keys need different names.
	// ParseKey is its inverse. With a Bus it is required beside Key, because messages
	// name keys; with a Tier alone Key is enough.
	//
	// Nil means: the key itself if its type is a string or integer type, and else its
	// text, if its type implements encoding.TextMarshaler and its pointer
	// encoding.TextUnmarshaler, as with UUIDs and netip.Addr. Of string and
	// integer types these methods are not used. For other types Key is required.
	//
	// A text must be parsed to a key equal to the first. A call with a key for which this
	// fails, or MarshalText fails, returns an error and does nothing: a type that gives two
	// keys one text is at fault. So times as keys must be rounded by t.UTC().Round(0),
	// which removes all parts that the text lacks.
	Key      func(K) string
	ParseKey func(string) (K, error)

	// Strict makes L1 count as empty when the bus has delivered nothing for 3 seconds, until the
	// bus is back: every read then asks L2. Without Strict L1 continues to serve its entries,
	// for UnconfirmedTTL at most, and such reads are marked; see Info.Degraded. Without a Bus
	// it has no effect.
	Strict bool

	// Timeout bounds each operation on L2. After the first failure a load uses L2
	// no more, so a dead L2 adds Timeout once. A slow L2 that answers may cost a
	// miss several operations: read, lease, store. 0 means 100 ms.
	Timeout time.Duration

	// BreakAfter is the number of failures in a row after which the circuit breaker of
	// L2 opens, BreakFor for how long. Then one operation is tried. Meanwhile
	// misses do not wait for L2, and the bus counts as silent. 0 means
	// 5 failures and 5 s; a negative BreakAfter means that there is no breaker.
	//
	// A store that answers and refuses to store, because it has no memory left, opens
	// another breaker. After as many refusals, and for as long, loads take no
	// leases and store in L1 alone, so that each instance loads for itself, and
	// Set and Update return *RemoteError. Reads, invalidations and the bus continue.
	BreakAfter int
	BreakFor   time.Duration
}

// window is how long an entry is kept after its TTL.
func (s Stale) window() time.Duration { return max(s.WhileRevalidate, s.OnError) }
