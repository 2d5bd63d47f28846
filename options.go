package strata

import (
	"log/slog"
	"math"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/remote"
)

// NoExpiry is the TTL of entries that live until they are evicted or
// invalidated. It must be written: a TTL of zero is refused.
const NoExpiry time.Duration = math.MaxInt64

// Defaults of Options.
const (
	// DefaultMaxEntries bounds a cache whose Memory names no bound.
	DefaultMaxEntries = 10_000
	// DefaultJitter is the share by which a TTL is shortened at most.
	DefaultJitter = 0.1
	// DefaultRemoteTimeout bounds each operation on L2.
	DefaultRemoteTimeout = 100 * time.Millisecond
	// DefaultLease is the life of a lease that is not renewed.
	DefaultLease = 5 * time.Second
	// DefaultHardTimeout ends a load that never returns.
	DefaultHardTimeout = time.Minute
	// DefaultRefreshAt is the share of its TTL after which an entry that is
	// read is refreshed.
	DefaultRefreshAt = 0.8
	// DefaultMaxRefreshes is the number of refreshes that run at once.
	DefaultMaxRefreshes = 256
	// DefaultErrorTTL is for how long the first failure of a load is
	// remembered. It doubles with each further one, up to ten times as long.
	DefaultErrorTTL = time.Second
	// MaxNotFoundTTL is the longest default of NotFoundTTL.
	MaxNotFoundTTL = 30 * time.Second
	// DefaultMaxKeyBytes is the longest key if Limits.MaxKeyBytes is zero.
	DefaultMaxKeyBytes = 8 << 10
	// MaxHold is the longest hold of InvalidateHold. Longer ones that others
	// announce are as long as that.
	MaxHold = 24 * time.Hour
	// DefaultBreakAfter and DefaultBreakFor are when, and for how long, L2 is
	// left alone.
	DefaultBreakAfter = 5
	DefaultBreakFor   = 5 * time.Second
	// UnconfirmedTTL caps the life of an entry in L1 when other instances can
	// change L2 and no healthy bus tells this one.
	UnconfirmedTTL = 30 * time.Second
)

const (
	maxName = 128 // bytes
	// minTTL is the resolution of a busy clock. A TTL below it is most often a
	// number without its unit: 60 is 60 ns.
	minTTL = time.Millisecond
)

// Options configure a Cache. TTL is the only field that must be set.
type Options[K comparable, V any] struct {
	// Name is the cache's name: its label in metrics, its prefix in L2, its
	// address on the bus. Instances with the same Name, Tier and value type
	// share entries. Required with a Tier or Bus; at most 128 bytes, without
	// spaces, control characters and braces.
	Name string

	// TTL is how long an entry is fresh, counted from the end of its load.
	// Required; at least 1 ms; NoExpiry for ever.
	TTL time.Duration

	// Jitter is the share by which each TTL is shortened at random, so that
	// what was loaded together does not expire together. 0 means
	// DefaultJitter, a negative value none; at most 0.9.
	Jitter float64

	// RefreshAt is the share of its TTL after which a read of an entry starts a
	// refresh in the background, while it is fresh still. 0 means
	// DefaultRefreshAt, a negative value off; less than 1.
	RefreshAt float64

	// RefreshSpread makes refreshes begin earlier at random, by the time that
	// a load takes times RefreshSpread on average, so that instances do not
	// refresh together: the optimal probabilistic early expiration of Vattani,
	// Chierichetti and Lowenstein (VLDB 2015), with their β. 1 is what they
	// recommend. 0 means off.
	RefreshSpread float64

	// Stale says for how long an entry may be served after its TTL.
	Stale Stale

	// NotFoundTTL is for how long it is remembered, in both tiers, that the
	// origin has no such key. 0 means a quarter of TTL, at most
	// MaxNotFoundTTL; a negative value that it is not.
	NotFoundTTL time.Duration

	// ErrorTTL is for how long the failure of a load is remembered by this
	// instance: callers get the error, or a stale value, and the origin is left
	// alone. It doubles with each further failure of the key, up to ten times
	// ErrorTTL, shortened at random by up to a fifth. 0 means DefaultErrorTTL,
	// a negative value that failures are not remembered.
	ErrorTTL time.Duration

	// Memory configures L1, the tier in this process.
	Memory Memory[K, V]

	// Limits bound loads.
	Limits Limits

	// Remote configures L2, the tier that instances share, and the bus
	// between them. The zero Remote means that there is no L2.
	Remote Remote[K, V]

	// Loader is used by GetOrLoad when the call names none.
	Loader Loader[K, V]

	// Tags returns tags of a value that a load has brought or a call has written,
	// in addition to those of [WithTags] and [Load.SetTags]. It is asked for every
	// value, whichever way it is stored; a value that comes from L2 keeps the tags
	// that it was stored with. It runs once per store, never under a lock. What a
	// load has brought is not stored if Tags panics or its tags cannot be used; Set
	// and Update return an error then. Nil means none. A Tier must be a
	// remote.Tagger then.
	Tags func(key K, value V) []string

	// ContextControls honours what a context carries from [SkipReadContext], as
	// the middleware in stratahttp does. It costs each hit a look at its
	// context.
	ContextControls bool

	// ShowKeys allows errors and logs to name keys. They may be personal data.
	ShowKeys bool

	// Hooks are told what happens. Nil costs nothing.
	Hooks *Hooks

	// Logger gets the changes in the health of L2, bus and origin with their
	// causes, panics of Loaders and callbacks, invalidations that Close has lost,
	// and, when the cache is made, what may surprise in its Options. A failure
	// is a warning, its end is information. Each state is logged at
	// most once in 10 seconds. Loads fail from the first failure on, and succeed
	// again when one does and none has failed for 10 seconds. Nil means no logs.
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
	// value not at all.
	WhileRevalidate time.Duration

	// OnError is for how long a stale value is returned if its load fails. 0
	// means TTL, at least a minute and at most an hour; a negative value not
	// at all.
	OnError time.Duration
}

// Memory configures L1.
type Memory[K comparable, V any] struct {
	// MaxEntries bounds the number of entries. 0 means DefaultMaxEntries,
	// unless MaxWeight is set.
	MaxEntries int64

	// MaxWeight bounds the sum of what Weigh returns. It needs Weigh.
	MaxWeight int64

	// Weigh returns the weight of an entry, in the unit of MaxWeight, at
	// least 1. It runs once per store, never under a lock. An entry that it
	// panics on, or that weighs less than 1 or more than MaxWeight, is not
	// kept in L1. Nil means that each entry weighs 1.
	Weigh func(key K, value V) int64

	// Clone, if set, copies a value each time it is returned, so that callers may
	// change what they get. What they give to Set and Update is not copied.
	Clone func(value V) V

	// DetectMutation looks for callers who change what they share: values are
	// hashed when they come to L1 and at one hit in 64, by the Codec or else as
	// JSON. What has changed is logged and counted. For tests and staging.
	DetectMutation bool

	// TTL caps the life of entries in L1. 0 means the TTL of the Options, or
	// UnconfirmedTTL while there is an L2 and no healthy bus.
	TTL time.Duration
}

// Limits bound loads.
type Limits struct {
	// HardTimeout ends a load, whether or not anybody waits for it still: its
	// context is cancelled, and its callers get a stale value while
	// Stale.OnError allows, else an error that wraps context.DeadlineExceeded.
	// The next caller loads again, and so may other instances. The Loader's
	// result after that reaches nobody and is kept nowhere, whether it looks at
	// its context or not; until it returns it counts for MaxLoads, and Close
	// waits for it. A load waits as long at most for a slot of MaxLoads, and
	// for another instance that loads the key.
	// 0 means DefaultHardTimeout, a negative value none: then a Loader that
	// never returns keeps those who wait for its key for as long as they wait.
	HardTimeout time.Duration

	// CancelAbandoned cancels the context of a load when the last caller who
	// waits for it leaves; the next caller loads anew. A load that has a lease of
	// L2 goes on: other instances may be waiting for it. By default every load goes on, is stored, and
	// is joined by later callers: callers with less patience than the origin
	// needs fill the cache all the same.
	CancelAbandoned bool

	// SoftTimeout is how long a caller waits for a load, or for several, if L1 or
	// L2 has a stale value that may be served on error: then it gets that, and
	// the load goes on and stores what it brings. A GetMany waits for as long as
	// some key has no such value. 0 means that callers wait.
	SoftTimeout time.Duration

	// MaxLoads bounds the loads that run at once. Others queue, those that
	// somebody waits for before refreshes. A load inside a load is not counted.
	// A Loader that does not return at HardTimeout is a load still: it may keep
	// the origin busy. 0 means no bound.
	MaxLoads int

	// MaxRefreshes bounds the refreshes that run in the background at once; that of
	// a GetMany counts as one. A read that finds no room starts none: it
	// gets its value, and the next read of the key tries again. So a refresh is
	// put off, and callers wait only for entries that reach their end before
	// there was room. 0 means DefaultMaxRefreshes, enough for
	// 200 entries that are due at the same time.
	MaxRefreshes int

	// MaxWaiters bounds the callers that wait at once. Others get a stale value
	// if there is one, or ErrOverloaded. 0 means no bound.
	MaxWaiters int

	// MaxKeyBytes bounds the length of a key, if that is a string, and of its name
	// in L2: what is longer fails with ErrKeyTooLong before anything is done.
	// MaxEntries counts entries, and so does not bound what long keys take.
	// 0 means DefaultMaxKeyBytes, a negative value no bound. All instances of a
	// cache should have the same.
	MaxKeyBytes int

	// Lease is how long other instances wait at most for an instance that
	// loads and does not answer any more. It is renewed while the load runs.
	// 0 means DefaultLease; at least 100 ms.
	Lease time.Duration
}

// Remote configures L2.
type Remote[K comparable, V any] struct {
	// Tier is the store that instances share. Nil means no L2. It must be a
	// remote.AllDropper: what cannot be dropped key by key is dropped whole.
	Tier remote.Tier

	// Bus tells instances of each other's invalidations. Without it an
	// instance may serve what another has invalidated until its entry in L1
	// expires; see Memory.TTL. A tier that announces its drops, as that of
	// package redis, does so on its own server: on another one the bus carries
	// signs of life only, and what is invalidated is noticed seconds later.
	Bus remote.Bus

	// Codec encodes values for L2. Nil means codec.Bytes for []byte,
	// codec.String for string, and codec.JSON otherwise.
	Codec codec.Codec[V]

	// Key returns the name of a key in L2; different keys need different
	// names. ParseKey is its inverse, and is only used with a Bus. Both have
	// defaults for strings and integers and are required together otherwise.
	Key      func(K) string
	ParseKey func(string) (K, error)

	// Partition says what L1 is good for while the bus is silent. The default
	// is Available. Without a Bus it means nothing.
	Partition Partition

	// Timeout bounds each operation on L2. The first that fails ends L2's part
	// in a load, so a dead L2 adds it once; a slow one that answers may cost a
	// miss several operations: read, lease, store. 0 means
	// DefaultRemoteTimeout.
	Timeout time.Duration

	// BreakAfter is the number of operations in a row that have to fail for L2
	// to be left alone, BreakFor for how long: then one is tried. Meanwhile
	// misses do not wait for it, and the bus counts as silent. 0 means
	// DefaultBreakAfter and DefaultBreakFor; a negative BreakAfter that L2 is
	// never left alone.
	//
	// A store that answers and refuses to store, as one without memory left does,
	// is not left alone: after as many refusals, and for as long, loads take no
	// leases and store in L1 alone, so that each instance loads for itself, and
	// Set and Update return *RemoteError. Reads, invalidations and the bus go on.
	BreakAfter int
	BreakFor   time.Duration
}

// Partition says what an instance does that is cut off from the bus, so that it
// is not told what others invalidate.
type Partition uint8

const (
	// Available: L1 goes on serving what it has for UnconfirmedTTL at most.
	// Such reads are marked; see Info.Degraded.
	Available Partition = iota
	// Strict: when nothing has come over the bus for 3 seconds, L1 counts as
	// empty, and stays so until the bus is back. Every read then asks L2.
	Strict
)

// window is how long an entry is kept after its TTL.
func (s Stale) window() time.Duration { return max(s.WhileRevalidate, s.OnError) }

// used reports whether there is anything outside this process.
func (r *Remote[K, V]) used() bool { return r.Tier != nil || r.Bus != nil }
