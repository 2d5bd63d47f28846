package strata

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/guard"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/internal/cache/l2"
	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/internal/cache/limit"
	"github.com/strata-cache/strata/internal/cache/origin"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/snapshot/drops"
)

// Cache answers reads from L1, the memory of this process, else from L2, a
// store that all instances share, else from the origin by running a Loader
// once for all callers. It is safe for concurrent use. Create it with [New]
// and close it with [Cache.Close]; the zero Cache is not usable.
type Cache[K comparable, V any] struct {
	// The hit path reads these. An entry with a Stamp below the watermark of
	// generation has to be judged before it is served.
	memory *l1.Cache[K, local.Held[V]] // empty with Memory.Encoded
	core
	near     local.Store[K, V] // L1, with the entries about keys without a value
	compared *origin.Changes[V]
	encoding codec.Codec[V] // the codec of L2, or the codec that an L2 would have
	names    envelope.Names[K]
	older    []codec.Older[V] // how L2 is read beside encoding
	drops    *drops.Log       // of a cache without a bus; nil with one

	flights  *flight.Group[K, V]
	gathered gathered[K, V]
	slabs    flight.Slabs[read[K, V]] // for batches
	hot      observe.HotKeys[K]
	o        Options[K, V]
}

// core is the part of a cache that needs neither the type of the keys nor the type of the
// values. It is compiled once, however many types a program caches.
type core struct {
	generation ledger.Ledger
	settings   *settings
	now        func() int64 // of L1's clock
	l2         *l2.Store
	link       *ledger.Link // nil without a bus

	loading
	background *limit.Background // of refreshes
	dropping   flight.Period     // calls that drop entries in L2 and then here
	purges     *limit.Passes     // over L1, after drops of many entries
	waiting    limit.Waiters     // callers that wait for loads

	parts Parts
	tuned tuned
	watched
	counts counts
	probes sync.WaitGroup
	ending
}

// watched is for functions of the program that the cache tells something, and for package admin.
type watched struct {
	callbacks *observe.Runners
	given     *settings // the options before defaults were set
	journal   observe.Journal
	asker     observe.Asker
}

// ending is the state of the end of a cache.
type ending struct {
	open   context.Context // ends with Close
	end    context.CancelFunc
	closed atomic.Bool
	once   sync.Once
	// lost logs once the drops that Close has given up; lostError is its error.
	lost      sync.Once
	lostError error
}

// loading is the state that the loads of a cache share.
type loading struct {
	loads     *limit.Loads
	deadlines *limit.Deadlines     // of HardTimeout; nil without
	leaders   sync.Pool            // of *leader[K, V]
	boxes     flight.Slabs[sealed] // for batches
	origin    *origin.Origin
	births    expiry.Births // of their values
	texts     bool          // keys are strings
}

const (
	// maxPending is the largest number of drops pending one by one. Beyond it
	// everything is dropped at once.
	maxPending = 10_000
	// closeWithin is for how long Close tries pending drops if its context has
	// no deadline.
	closeWithin = 10 * time.Second
	// tellWithin is for how long Close waits for hooks, and for the Logger.
	tellWithin = time.Second
)

// New returns a Cache. It checks all Options and returns one error that names every wrong
// field. It does not wait for the network: an instance starts while L2 is down.
func New[K comparable, V any](o Options[K, V]) (*Cache[K, V], error) {
	given, codecGiven := o.settings(), o.Remote.Codec != nil
	s, err := o.setDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cache[K, V]{o: o}
	c.callbacks = observe.NewRunners(given.Hooks != nil || o.Tracer != nil)
	s.Logger = slog.New(c.journal.Handler(c.callbacks.Log.Handler(s.Logger.Handler())))
	c.settings, c.given, c.o.Logger = s, given, s.Logger
	c.tuned.lives.Store(&tunedLives{s.TTL, s.Stale})
	engine := l1.Config[K, local.Held[V]]{
		MaxEntries: o.Memory.MaxEntries, MaxWeight: o.Memory.MaxWeight, Policy: evict.Policy(o.Memory.Policy), EvictShare: o.Memory.EvictShare,
		IdleTTL: o.IdleTTL, Notify: c.evicted(),
	}
	if o.Memory.Encoded {
		engine.MaxEntries, engine.MaxWeight = 1, 0
	}
	c.memory = l1.New(engine)
	c.texts, c.names = envelope.IsString[K](), o.Remote.names()
	if c.encoding = o.Remote.Codec; c.encoding == nil {
		c.encoding = defaultCodec[V]()
	}
	if err := c.startNear(); err != nil {
		return nil, err
	}
	c.compared = origin.NewChanges(o.Remote.Tier != nil, codecGiven, c.encode)
	c.flights = flight.NewGroup[K, V](c.generation.Watermark)
	c.flights.CancelAbandoned = o.Limits.CancelAbandoned
	c.purges = limit.NewPasses(c.purge)
	var f form
	if o.Remote.Tier != nil || o.Memory.Encoded {
		f, c.older = o.Remote.format()
	}
	c.start(c.memory.Now, f)
	if !c.l2.HasBus() && o.Name != "" && c.names.Of != nil && c.names.Parse != nil { // else it has no snapshots, or others tell of drops
		c.drops = drops.New(c.l2.Instance(), c.memory.Now)
		c.flights.Hash, c.flights.Note = drops.Hasher(c.nameOf), c.drops.Note
	}
	c.parts = c.describe(c.encoding.Name())
	c.startGathering()
	c.startLink()
	return c, nil
}

// startNear makes L1 as the cache uses it, around the engine.
func (c *Cache[K, V]) startNear() (err error) {
	o := &c.o
	c.births = expiry.NewBirths(o.TTL, o.Jitter, o.Memory.DetectMutation)
	c.near = local.Store[K, V]{
		Negatives: local.NewNegatives[K](o.Memory.MaxEntries, o.Memory.MaxWeight), Ledger: &c.generation,
		Births: c.births, Pace: local.Pace{At: o.RefreshAt, Spread: o.RefreshSpread, Mean: c.counts.latency.Mean},
		Lane: c.laneOf, Longest: c.memoryTTL, ErrorTTL: o.ErrorTTL, Reports: o.Hooks.Evict != nil,
		Windows: func(own *expiry.Own) (revalidate, onError time.Duration) {
			s := c.windows(own)
			return s.WhileRevalidate, s.OnError
		},
	}
	if o.Memory.Clone != nil || o.Memory.DetectMutation || o.ContextControls || o.Hooks.Hit != nil {
		c.near.Flags = expiry.Closely
	}
	c.near.UsePlain(c.memory)
	if o.Memory.Encoded {
		decode := func(b []byte) (V, error) { return c.decode(b, 0) }
		err = c.near.UseCoded(c.memory, o.Memory.MaxWeight, local.Codec[V]{Append: c.encode, Decode: decode}, o.Hooks.Evict != nil)
	}
	c.near.Guard((*guard.Guard)(o.Memory.Guard))
	return err
}

// start makes the parts of the cache beside L1 and flights. now is the clock of L1, f the
// form of the values in L2.
func (c *core) start(now func() int64, f form) {
	s := c.settings
	c.now = now
	c.background = limit.NewBackground(s.Limits.MaxRefreshes)
	c.waiting.Most = s.Limits.MaxWaiters
	c.loads = limit.NewLoads(s.Limits.MaxLoads, s.Limits.HardTimeout)
	c.deadlines = limit.NewDeadlines(s.Limits.HardTimeout, errLoadTimeout, now)
	c.origin = origin.New(origin.Options{
		Name: s.Name, ShowKeys: s.ShowKeys, Logger: s.Logger, Within: s.Limits.HardTimeout, Deadlines: c.deadlines,
	})
	c.open, c.end = context.WithCancel(context.Background())
	c.generation.OnInvalidateAll = c.wakePurger
	c.l2 = l2.New(c.l2Options(&f))
	for _, what := range append(checked(s).Advice(), f.advice...) {
		s.Logger.Warn("strata: options: "+what, slog.String("cache", s.Name))
	}
}

// l2Options configure the store that the cache shares with other instances.
func (c *core) l2Options(f *form) l2.Options {
	s := c.settings
	return l2.Options{
		Name: s.Name, Service: s.Service, Instance: rand.Uint64(), Tier: s.Remote.Tier, Bus: s.Remote.Bus,
		Timeout: s.Remote.Timeout, BreakAfter: s.Remote.BreakAfter, BreakFor: s.Remote.BreakFor,
		MaxPending: maxPending, Logger: s.Logger, Now: c.now, Closed: ErrClosed, Schema: f.schema, Older: f.older,
		Suspend: func(alone bool) { c.link.Suspend(alone) },
		Failed: func(ctx context.Context, op string, err error) {
			c.tell(s.Hooks.RemoteError, Event{Context: ctx, Tier: "L2", Op: op, Err: err})
		},
	}
}

// Name returns Options.Name.
func (c *Cache[K, V]) Name() string { return c.o.Name }

// Len returns the number of entries in L1, including expired ones not yet swept.
func (c *Cache[K, V]) Len() int { return c.near.Values.Len() }

// All iterates over the keys and values that L1 would serve as fresh, in no order. It
// leaves out stale, expired, negative and dropped entries, and entries that L2 has to
// confirm first. At the moment of the yield a Get would find the same pair in L1; with
// Memory.Clone the value is a copy.
//
// The cache may be used and changed meanwhile, also by the body of the loop: the iteration
// waits for nothing and holds nothing up. An entry that stays in L1 is seen once; an entry
// added, removed or replaced meanwhile may be seen or not. The iteration is not a read: it
// is not counted, tells no hook, starts no refresh, and prolongs no idle life. It does not
// look at L2. A closed cache has no entries.
func (c *Cache[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for e := range c.near.Fresh() {
			if !yield(e.Key, c.clone(e.Value.V)) {
				return
			}
		}
	}
}

// Keys iterates over the keys of [Cache.All], without the values.
func (c *Cache[K, V]) Keys() iter.Seq[K] {
	return c.near.FreshKeys()
}

// Hottest iterates over up to n of the entries of [Cache.All], the most used first, as
// of the begin of the iteration: with memory.LRU by the place in the order of eviction,
// with memory.LFU by the number of uses, and else by the number of recent uses, up to
// three. Each shard of L1 has an order; between entries of different shards the order is
// approximate. With LRU and LFU pinned entries with a read come first, and the other
// pinned entries last. Use it to load the hot part of a cache in a new process, and
// math.MaxInt as n for all entries: with Len as n, entries that come in between would push
// out others.
func (c *Cache[K, V]) Hottest(n int) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, e := range c.near.Hottest(n) {
			// The entry may have been dropped or replaced since.
			if now, _ := c.near.Values.Peek(e.Key); now != nil && c.near.IsFresh(now) && !yield(now.Key, c.clone(now.Value.V)) {
				return
			}
		}
	}
}

// Touch counts as a read of keys for Options.IdleTTL and for the eviction policy of L1,
// without values. It returns the number of keys with a value in L1, fresh or stale.
// It renews no TTL, does not look at L2, starts no refresh, and is not counted in Stats.
func (c *Cache[K, V]) Touch(keys ...K) (n int) {
	for _, k := range keys {
		if c.near.Touch(k) {
			n++
		}
	}
	return n
}

// Close ends the cache: running loads are cancelled, their callers get
// ErrClosed, and the entries of L1 are gone. It waits until every goroutine of the
// cache has ended, or ctx has; then it returns ctx's error, and a Loader that ignores its
// context, or the end of a subscription of the Bus, is still running. Hooks, the Tracer and
// the Logger it waits for a second at most. The Tier and the Bus stay open: they are their
// maker's to close, after the cache. Close may be called more than once.
//
// Invalidations that L2 or the bus has not confirmed are tried until they are or
// ctx ends; without a deadline, for 10 seconds. The rest is lost: other
// instances may serve the values under these drops until they expire. Close
// logs that, and its error is, or wraps, a *[RemoteError] with their number in
// Pending.
// While nothing is pending it does not wait for L2.
//
// A Loader must not call Close: it would wait for itself until ctx ends.
func (c *Cache[K, V]) Close(ctx context.Context) error {
	c.closed.Store(true)
	c.flights.Stop() // first, so that a batch that stops gathering does not load
	late := c.stop(ctx)
	err := c.stopped(ctx, c.flights.Close(ctx), late)
	c.near.Values.Close()
	c.near.Negatives.Close()
	c.callbacks.Wait(ctx, tellWithin)
	return err
}

// stop ends all work for the cache beside its flights. Pending drops are tried meanwhile.
func (c *core) stop(ctx context.Context) error {
	c.end()
	c.l2.Hurry()
	c.background.Close()
	c.purges.Close()
	return c.stopLink(ctx)
}

// stopped ends the rest. err is the error of ending the flights, late of ending the link.
func (c *core) stopped(ctx context.Context, err, late error) error {
	if err == nil {
		c.background.Wait() // their flights have ended
		err = late
	}
	if lost := c.closeRetry(ctx); lost != nil {
		err = errors.Join(err, lost)
	}
	c.deadlines.Close()
	return err
}

// closeRetry tries the pending drops until ctx ends, and logs and returns how many
// are lost.
func (c *core) closeRetry(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeWithin)
		defer cancel()
	}
	l := c.l2.Close(ctx)
	if l.Drops() == 0 {
		return nil
	}
	c.lost.Do(func() {
		cause := ctx.Err()
		if l.Err != nil {
			cause = fmt.Errorf("%w: %w", cause, l.Err)
		}
		c.lostError = &RemoteError{Op: opClose, Pending: l.Drops(), Err: cause}
		c.l2.LogLost(l, cause, c.settings.ShowKeys)
	})
	return c.lostError
}
