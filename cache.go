package strata

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/internal/limit"
	"github.com/strata-cache/strata/internal/link"
	"github.com/strata-cache/strata/internal/retry"
	"github.com/strata-cache/strata/internal/trust"
	"github.com/strata-cache/strata/remote"
)

// Cache answers reads from L1, the memory of this process, else from L2, a
// store that all instances share, else from the origin by running a Loader
// once for all who ask. It is safe for concurrent use. Create it with [New]
// and close it with [Cache.Close]; the zero Cache is not usable.
type Cache[K comparable, V any] struct {
	// What the hit path reads. An entry whose Stamp is lower than trust's word
	// has to be judged before it is served.
	memory *l1.Cache[K, V]
	trust  trust.Ledger
	// look are the flags of every entry.
	look     uint32
	encoding codec.Codec[V] // that of L2, or the one that it would have
	// memos are about keys that have no value.
	memos *l1.Cache[K, memo]

	flights *flight.Group[K, V]
	o       Options[K, V]
	tier    remote.Tier // nil without L2
	bus     remote.Bus  // nil without a bus
	can     abilities
	retry   *retry.Queue // drops that were not confirmed
	schema  uint64
	// instance names this cache in announcements on the bus.
	instance uint64
	link     *link.Link // nil without a bus
	waits    waits      // for leases of other instances
	// doubt is until when (time of L1) this instance's own announcements are
	// obeyed: one of its drops has ended without an answer and may still be
	// carried out.
	doubt      atomic.Int64
	foreignLog foreignLog
	loads      *limit.Loads
	budget     limit.Budget
	failing    atomic.Int64   // loads that have failed since one has not
	breaker    *limit.Breaker // of all that L2 is asked
	storing    *limit.Breaker // of leases and values that are stored there
	health     healths
	background *limit.Background // of refreshes
	purger     purger
	waiting    atomic.Int64
	// breaking is held while the link is told of the breaker.
	breaking sync.Mutex
	// absence is the share of look-ups in L2 that find nothing; see ask.
	absence share

	counts counts
	probes sync.WaitGroup

	open   context.Context // ends with Close
	end    context.CancelFunc
	closed atomic.Bool
	once   sync.Once
	// lost tells once what Close has given up; lostError is its error.
	lost      sync.Once
	lostError error
}

const (
	// maxPending is the most drops that are pending one by one. Beyond it
	// everything is dropped at once.
	maxPending = 10_000
	// closeWithin is for how long Close tries pending drops if its context has
	// no deadline.
	closeWithin = 10 * time.Second
)

// abilities are what the tier can do beyond remote.Tier, asserted once.
type abilities struct {
	dropAll  remote.AllDropper
	release  remote.Releaser
	renew    remote.Renewer
	counter  remote.Counter
	doubt    remote.Doubter
	tag      remote.Tagger
	position remote.Positioner
	changes  remote.ChangeTeller
	probe    remote.Prober
	refresh  remote.Refresher
	many     remote.ManyAcquirer
	announce bool
}

// New returns a Cache. It checks all Options and returns one error that names
// every field that is wrong. It does not wait for the network: an instance
// starts while L2 is down.
func New[K comparable, V any](o Options[K, V]) (*Cache[K, V], error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cache[K, V]{o: o, bus: o.Remote.Bus, instance: rand.Uint64()}
	c.memory = l1.New(l1.Config[K, V]{
		MaxEntries: o.Memory.MaxEntries,
		MaxWeight:  o.Memory.MaxWeight,
		Notify:     c.evicted(),
	})
	c.memos = newMemos[K](o.Memory.MaxEntries, o.Memory.MaxWeight)
	c.background = limit.NewBackground(o.Limits.MaxRefreshes)
	c.loads = limit.NewLoads(o.Limits.MaxLoads, o.Limits.HardTimeout)
	c.breaker = limit.NewBreaker(max(0, o.Remote.BreakAfter), o.Remote.BreakFor)
	c.storing = limit.NewBreaker(max(0, o.Remote.BreakAfter), o.Remote.BreakFor)
	if c.encoding = o.Remote.Codec; c.encoding == nil {
		c.encoding = defaultCodec[V]()
	}
	if o.Memory.Clone != nil || o.Memory.DetectMutation || o.ContextControls || o.Hooks.Hit != nil {
		c.look = closely
	}
	c.open, c.end = context.WithCancel(context.Background())
	c.trust.OnDisown = c.wakePurger
	c.flights = flight.NewGroup[K, V](c.trust.Word)
	c.flights.CancelAbandoned = o.Limits.CancelAbandoned
	if o.Remote.Tier != nil {
		c.bind(o.Remote.Tier)
	}
	c.retry = retry.New(retry.Options{
		Drop:     c.dropAgain,
		DropTags: c.dropTagsOnce,
		DropAll:  c.dropAllOnce,
		Timeout:  o.Remote.Timeout,
		MaxKeys:  maxPending,
	})
	for _, what := range o.advice() {
		o.Logger.Warn("strata: options: "+what, slog.String("cache", o.Name))
	}
	c.startLink()
	return c, nil
}

// bind takes this cache's part of the tier.
func (c *Cache[K, V]) bind(t remote.Tier) {
	c.schema = codec.Fingerprint(c.o.Remote.Codec)
	if b, ok := t.(remote.Binder); ok {
		t = b.Bind(remote.Space{Name: c.o.Name, Schema: c.schema, Instance: c.instance})
	}
	c.tier = t
	c.can.dropAll, _ = t.(remote.AllDropper)
	c.can.release, _ = t.(remote.Releaser)
	c.can.renew, _ = t.(remote.Renewer)
	c.can.counter, _ = t.(remote.Counter)
	c.can.doubt, _ = t.(remote.Doubter)
	c.can.tag, _ = t.(remote.Tagger)
	c.can.position, _ = t.(remote.Positioner)
	c.can.changes, _ = t.(remote.ChangeTeller)
	c.can.probe, _ = t.(remote.Prober)
	c.can.refresh, _ = t.(remote.Refresher)
	c.can.many, _ = t.(remote.ManyAcquirer)
	if a, ok := t.(remote.Announcer); ok {
		c.can.announce = a.Announces()
	}
}

// Name returns Options.Name.
func (c *Cache[K, V]) Name() string { return c.o.Name }

// Len returns the number of entries in L1, expired ones that were not swept
// yet included.
func (c *Cache[K, V]) Len() int { return c.memory.Len() }

// Close ends the cache: running loads are cancelled, their callers get
// ErrClosed, and what L1 held is gone. It waits until every goroutine of the
// cache has ended, or ctx has; then it returns ctx's error, and a Loader that
// ignores its context is still running. The Tier and the Bus stay open: they
// are their maker's to close, after the cache. Close may be called more than
// once.
//
// Invalidations that L2 or the bus has not confirmed are tried until they are or
// ctx ends; without a deadline, for 10 seconds. The rest is lost: other
// instances may serve what was to be dropped until it expires. Close logs that,
// and its error is, or wraps, a *[RemoteError] whose Pending is their number.
// While nothing is pending it does not wait for L2.
//
// A Loader or hook must not call Close: it would wait for itself until ctx
// ends.
func (c *Cache[K, V]) Close(ctx context.Context) error {
	c.closed.Store(true)
	c.end()
	c.once.Do(c.stopLink)
	c.background.Close()
	c.purger.close()
	c.retry.Hurry() // it goes on while flights end
	err := c.flights.Close(ctx)
	if err == nil {
		c.background.Wait() // their flights have ended
	}
	if lost := c.closeRetry(ctx); lost != nil {
		err = errors.Join(err, lost)
	}
	c.memory.Close()
	c.memos.Close()
	return err
}

// closeRetry tries what is pending until ctx ends, and returns and logs what is
// lost.
func (c *Cache[K, V]) closeRetry(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeWithin)
		defer cancel()
	}
	l := c.retry.Close(ctx)
	if l.Drops() == 0 {
		return nil
	}
	c.lost.Do(func() {
		cause := ctx.Err()
		if l.Err != nil {
			cause = fmt.Errorf("%w: %w", cause, l.Err)
		}
		c.lostError = &RemoteError{Op: opClose, Pending: l.Drops(), Err: cause}
		about := []any{
			slog.String("cache", c.o.Name), slog.Int("keys", l.Keys), slog.Int("tags", l.Tags),
			slog.Bool("all", l.All), slog.Any("error", cause),
		}
		if c.o.ShowKeys {
			about = append(about, slog.Any("names", l.Names))
		}
		c.o.Logger.Error("strata: closed with invalidations that are not confirmed: they are lost", about...)
	})
	return c.lostError
}

// contain keeps a panic of a user's callback from ending the process or
// leaving the cache in a state of its own.
func (c *Cache[K, V]) contain(callback string) {
	if p := recover(); p != nil {
		c.counts.callbackPanics.Add(1)
		c.o.Logger.Error("strata: callback panicked", slog.String("cache", c.o.Name), slog.String("callback", callback), slog.Any("panic", p))
	}
}
