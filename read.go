// A read that L1 cannot answer goes through five stages, each in its own file:
//
//	look-up  L1 again, then L2      read_lookup.go   settled by a value
//	lease    the right to store     read_lease.go    settled by another instance
//	load     the Loader runs        read_load.go     settled at HardTimeout
//	store    L2, an entry for L1    read_store.go
//	land     L1, the callers wake   read_land.go
//
// A settled read has its outcome and skips the stages up to land. Invariant: each
// read lands exactly once, also after a panic, and then holds no lease.

package strata

import (
	"context"
	"errors"
	"iter"
	"runtime/debug"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/internal/cache/l2"
	"github.com/strata-cache/strata/internal/cache/limit"
	"github.com/strata-cache/strata/remote"
)

// read is one key on its way through the stages.
type read[K comparable, V any] struct {
	c     *Cache[K, V]
	f     *flight.Flight[K, V]
	ctx   context.Context // of the caller in the look-up, later of the flight
	call  call
	loads bool // there is a Loader
	// tagGeneration is the watermark of tags from before anything was read.
	tagGeneration uint64
	l2            l2.Session
	skippedGet    bool // the question for the lease is the first one to L2
	beside        bool // the caller waits for a reload if L2 has nothing
	pending       bool // a reload before the begin of its load
	// buffer is memory for a value of L2, until it is decoded or copied.
	buffer []byte

	candidate candidate[K, V]
	suspect   suspect[K, V]
	right     right
	outcome   outcome[K, V]
}

// candidate is a stale value that may be served if the load fails, and that the
// load may confirm. Its zero value is none.
type candidate[K comparable, V any] struct {
	value *V
	note  uint8 // the tier that it comes from
	until int64 // the end of the time in which it may be served on error
	kept  int64 // the end of the time in which a tier keeps it
	times flight.Times
	id    remote.ID // zero if L2 does not hold it
	tags  []string
	own   *expiry.Own // nil: the windows and lives of the Options
	sum   uint64      // of the payload in L2; 0 if the payload was not read
	// unbounded says that it was expired in L2 at a time unknown here, so
	// that L2 keeps it for its whole life.
	unbounded bool
	// entry is the entry for L1 of a value that comes from L2. It is stored if the
	// value is served and L1 has nothing fresh by then.
	entry *entry[K, V]
	here  *entry[K, V] // of L1, that the value is from; nil if it is from L2
}

// suspect is an entry of L1 that L2 has to confirm.
type suspect[K comparable, V any] struct {
	entry *entry[K, V]
	since int64
}

// right is the right of a read to store its value.
type right struct {
	lease remote.Lease // without a Token there is none for L2
	// replaces is a value that L2 takes for fresh and that this read must replace.
	replaces remote.ID
	noStore  bool // the value must not be stored in any tier
	used     bool // L2 has taken, or refused, the answer of the load
}

// outcome is the end of a read.
type outcome[K comparable, V any] struct {
	settled  bool // no further stage but land
	landed   bool
	how      end
	res      flight.Result[V]
	entry    *entry[K, V]                 // for L1
	negative *l1.Entry[K, local.Negative] // for L1, instead of an entry
	took     time.Duration                // by the Loader
	ended    int64                        // when the Loader has returned
	loaded   bool                         // the Loader has returned a value, or confirmed the previous one
	late     bool                         // a tag of entry was dropped meanwhile
	kept     bool                         // L1 has taken entry
	beside   bool                         // load is within the span of another read, see [flight.Result]
	load     context.Context              // within the span of the load; nil without one
}

// end is the way in which a flight got its result.
type end uint8

const (
	endAbandoned end = iota // the flight was cancelled
	endL1                   // L1 had the value by then
	endL2                   // L2 had the value
	endAbsent               // L2 did not have the value, and there was no Loader
	endLoad                 // the Loader ran
	endThrottled            // the Loader has failed too recently, or got no slot
)

// reads are the reads that one caller leads together: one for GetOrLoad, several
// for GetMany. They go through the stages side by side, and share each round trip
// to L2 and the run of the Loader.
type reads[K comparable, V any] struct {
	c    *Cache[K, V]
	ctx  context.Context // for the common work of all reads
	call call
	// load is the Loader of a single read, many the Loader of several.
	load Loader[K, V]
	many ManyLoader[K, V]
	all  []*read[K, V]
	run  loaderRun[K, V]
	// within is the context of the Loader, if there is memory for it already.
	within *loadContext

	// batch, begun and apart are used with several reads only: begun are the
	// stamps from before anything was read, apart counts the goroutines of reads that
	// wait for other instances, or have their outcome before the others load.
	batch *flight.Batch[K, V]
	begun stamps
	apart sync.WaitGroup
}

// leader leads the flight of a single read.
type leader[K comparable, V any] struct {
	flight *flight.Flight[K, V] // nil until one is needed
	reads  reads[K, V]
	read   read[K, V]
	one    [1]*read[K, V]
	beside bool
	again  bool // the time of the caller ended in the look-up
}

// leader returns the leader of a read with that Loader, which may be nil. Leaders are
// used again: nothing else keeps a leader, and Release says when it is done.
func (c *Cache[K, V]) leader(load Loader[K, V], o *call) *leader[K, V] {
	l, _ := c.leaders.Get().(*leader[K, V])
	if l == nil {
		l = new(leader[K, V])
	}
	l.reads.c, l.reads.call, l.reads.load = c, *o, load
	return l
}

// Flight returns the flight of the read.
func (l *leader[K, V]) Flight() *flight.Flight[K, V] {
	if l.flight == nil {
		l.flight = new(flight.Flight[K, V])
	}
	return l.flight
}

// Scope returns the context of the flight, which is one piece of memory with the context of
// the Loader.
func (l *leader[K, V]) Scope() *limit.Scope {
	l.reads.within = new(loadContext)
	return &l.reads.within.flight
}

// Release gives the leader back, unless its caller still looks at it, and its flight,
// unless others do.
func (l *leader[K, V]) Release() {
	c, f, buffer := l.reads.c, l.flight, l.read.buffer
	if l.beside {
		return
	}
	if f != nil && !f.Reuse() {
		f = nil
	}
	*l = leader[K, V]{flight: f}
	l.read.buffer = buffer
	c.leaders.Put(l)
}

// First looks up the key under the caller's own context. If the caller's time ends
// meanwhile, Then goes on for the callers that joined the flight.
func (l *leader[K, V]) First(ctx context.Context, f *flight.Flight[K, V]) (landed bool) {
	l.reads.begin(&l.read, ctx, f)
	l.read.beside = l.beside
	l.reads.ctx, l.reads.all = ctx, append(l.one[:0], &l.read)
	if c := l.reads.c; !c.l2.HasTier() && l.read.goesOn() {
		if e, _ := c.near.Values.Glance(f.Key); e == nil {
			return false // as most misses without L2: there is nothing to look up
		}
	}
	landed = len(l.reads.lookUp()) > 0
	l.again = !landed && l2.Over(ctx)
	return landed
}

// Then takes the read through the other stages.
func (l *leader[K, V]) Then(f *flight.Flight[K, V]) {
	g, ctx := &l.reads, f.Context()
	g.ctx = ctx
	if l.again || g.call.skipRead {
		g.all = []*read[K, V]{new(read[K, V])}
		g.begin(g.all[0], ctx, f)
	}
	r := g.all[0]
	r.ctx, r.beside = ctx, l.beside
	if l.again && len(g.lookUp()) > 0 {
		return
	}
	if g.call.gathers && !g.call.skipRead {
		g.c.gather(r)
		return
	}
	g.finish()
}

// begin makes the zero read r the read of f, which begins now.
func (g *reads[K, V]) begin(r *read[K, V], ctx context.Context, f *flight.Flight[K, V]) {
	r.c, r.f, r.ctx, r.call = g.c, f, ctx, g.call
	r.loads, r.pending = g.load != nil || g.many != nil, g.call.skipRead
	r.tagGeneration = g.c.generation.TagWatermark()
}

// finish takes the reads through the stages after the look-up.
func (g *reads[K, V]) finish() {
	defer g.apart.Wait()
	defer func() { g.landRest(recover()) }() // land, also when the Loader ends the goroutine
	if g.call.skipRead {
		g.all[0].prepareReload()
	}
	// Lease: one of all instances loads, and the others wait for its value. A load waits for its turn
	// in this instance first, so that no lease is held in that queue.
	if g.c.l2.HasTier() || g.c.o.Limits.MaxLoads > 0 {
		if !g.anyLeft((*read[K, V]).over) {
			return
		}
		release, ok := g.slot()
		if !ok {
			return
		}
		defer release()
		g.takeLeases()
	}
	// Load, unless all callers have left, or the key has failed and the retry budget is spent.
	if !g.anyLeft(func(r *read[K, V]) { r.over(); r.ration() }) {
		return
	}
	if g.call.skipRead {
		g.all[0].startReload()
	}
	// Store, unless the load was cut short: then its reads have landed by now.
	if g.runLoader() {
		g.store()
	}
}

// unsettled returns the reads without an outcome.
func (g *reads[K, V]) unsettled() []*read[K, V] {
	return flight.Where(g.all, func(r *read[K, V]) bool { return !r.outcome.settled })
}

// anyLeft calls settle for each read without an outcome, and reports whether any is left without
// one. If so, the others land beside it: they give leases back, and neither waits for the other.
func (g *reads[K, V]) anyLeft(settle func(*read[K, V])) bool {
	for _, r := range g.unsettled() {
		settle(r)
	}
	rest := g.unsettled()
	if len(rest) > 0 && len(rest) < len(g.all) {
		settled := flight.Where(g.all, func(r *read[K, V]) bool { return r.outcome.settled })
		g.all = rest
		g.apart.Go(func() { g.landBefore(settled) })
	}
	return len(rest) > 0
}

// landBefore lands some before the other reads, which may be abandoned without them.
func (g *reads[K, V]) landBefore(some []*read[K, V]) {
	for _, r := range some {
		g.batch.Without(r.f)
	}
	landAll(some)
}

// scope is the context of the flight, or of the batch, that the reads belong to.
func (g *reads[K, V]) scope() *limit.Scope {
	if g.batch != nil {
		return g.batch.Context()
	}
	return g.all[0].f.Context()
}

// slot waits for one of Limits.MaxLoads, if there is such a limit. Without a slot it
// settles the reads.
func (g *reads[K, V]) slot() (release func(), ok bool) {
	if g.c.o.Limits.MaxLoads <= 0 {
		return nothing, true
	}
	var urgent <-chan struct{}
	var gone <-chan bool
	if g.batch != nil {
		urgent, gone = g.batch.Urgent(), g.batch.Gone(g.flights())
	} else {
		f := g.all[0].f
		urgent, gone = g.c.flights.Urgent(f), g.c.flights.Gone(f, g.all[0].call.refresh)
	}
	release, err := g.c.loads.Acquire(g.ctx, g.call.refresh, urgent, gone)
	if err != nil {
		for _, r := range g.unsettled() {
			r.noSlot(err)
		}
	}
	return release, err == nil
}

// flights iterates over the flights of the reads, and tells which ones are refreshes.
func (g *reads[K, V]) flights() iter.Seq2[*flight.Flight[K, V], bool] {
	return func(yield func(*flight.Flight[K, V], bool) bool) {
		for _, r := range g.all {
			if !yield(r.f, r.call.refresh) {
				return
			}
		}
	}
}

// noSlot settles a read that got no slot: its flight was cancelled in the queue,
// or has waited there for Limits.HardTimeout.
func (r *read[K, V]) noSlot(err error) {
	if errors.Is(err, limit.ErrNoSlot) {
		if r.pending {
			r.startReload() // for the callers that have joined
		}
		r.fail(errNoSlot)
		return
	}
	r.settle(flight.Result[V]{Err: r.c.flightError(err)})
}

// over settles the read if its flight was cancelled.
func (r *read[K, V]) over() {
	if r.ctx.Err() != nil {
		r.settle(flight.Result[V]{Err: r.c.flightError(context.Cause(r.ctx))})
	}
}

// ration settles the read with the last failure if its load would be one more attempt at a
// failed key, and the retry budget is spent.
func (r *read[K, V]) ration() {
	c := r.c
	if r.outcome.settled || r.call.skipRead || !c.origin.Rations() || c.near.Failures(r.f.Key) == 0 || c.origin.Retry(c.memory.Now()) {
		return
	}
	c.counts.budgetSpent.Add(1)
	last := ErrOverloaded // if L1 has forgotten the failure
	if e, _ := c.near.Negatives.Peek(r.f.Key); e != nil && e.Value.Err != nil {
		last = e.Value.Err
	}
	r.fail(last)
}

// fail settles a read that may not load, or cannot: with the candidate if that
// may be served, else with err.
func (r *read[K, V]) fail(err error) {
	r.outcome.how = endThrottled
	r.reliveCandidate(r.c.near.FailedWith(r.f.Key)) // it may be from before that load failed
	if r.outcome.settled = r.serveCandidate(err); !r.outcome.settled {
		r.settle(flight.Result[V]{Err: err})
	}
}

// settle makes res the outcome of the read.
func (r *read[K, V]) settle(res flight.Result[V]) {
	r.outcome.settled, r.outcome.res = true, res
}

// safely calls f, which may call the user's Key or Codec. A panic settles the
// read. Panics of Loaders do not come this far.
func (r *read[K, V]) safely(f func(*read[K, V]) bool) (settled bool) {
	defer func() {
		if p := recover(); p != nil {
			r.panicked(p)
			settled = true
		}
	}()
	settled = f(r)
	r.outcome.settled = r.outcome.settled || settled
	return settled
}

// panicked makes a panic the outcome of the read.
func (r *read[K, V]) panicked(p any) {
	r.outcome.entry = nil
	r.settle(flight.Result[V]{Err: &LoadPanicError{Value: p, Stack: debug.Stack()}})
}

// stamps returns the stamps of an entry that the read brings, with these tags and lives.
func (r *read[K, V]) stamps(tags []string, own *expiry.Own) stamps {
	return stamps{Generation: r.f.Stamp, TagGeneration: r.tagGeneration, Tags: tags, Own: own}
}

// The note of a result describes its value.
const (
	noteTier     = 3 // mask of: noteL1, noteL2, noteOrigin
	noteL1       = 1
	noteL2       = 2
	noteOrigin   = 3
	noteStale    = 4
	noteDegraded = 8
	// noteRevalidate asks the leader to start a refresh.
	noteRevalidate = 16
)

// foundEntry settles the read with an entry of L1.
func (r *read[K, V]) foundEntry(e *entry[K, V]) {
	r.found(e.Value.V, local.RecordOf(e).Traits.Tags(), endL1)
	r.outcome.res.Times = r.c.timesOf(e)
}

// found settles the read with v, which has these tags.
func (r *read[K, V]) found(v V, tags []string, how end) {
	r.outcome.how = how
	r.settle(flight.Result[V]{Value: v, Found: true, Note: noteL1, Tags: tags})
	if how == endL2 {
		r.outcome.res.Note = noteL2
	}
}

// sessions returns the knowledge of rs about L2.
func sessions[K comparable, V any](rs []*read[K, V]) l2.Sessions {
	return l2.Sessions{N: len(rs), At: func(i int) *l2.Session { return &rs[i].l2 }}
}

// serving returns the reads of rs for which L2 is not down. The others are served their
// suspects.
func serving[K comparable, V any](rs []*read[K, V]) []*read[K, V] {
	return flight.Where(rs, func(r *read[K, V]) bool {
		if r.l2.Down {
			r.outcome.settled = r.serveSuspect()
		}
		return !r.l2.Down
	})
}

// answered notes the outcome of an operation for all of rs: L2 is down for the reads with
// a failed operation.
func (c *Cache[K, V]) answered(op string, err error, rs []*read[K, V]) {
	if len(rs) == 1 {
		rs[0].answered(op, remote.ErrorOf(err, 0))
		return
	}
	c.l2.AnsweredAll(rs[0].ctx, op, sessions(rs), err)
}

// opContext bounds one operation on L2.
func (r *read[K, V]) opContext() (context.Context, context.CancelFunc) {
	return r.c.l2.Bound(r.ctx)
}

// answered reports whether L2 has answered. If it has not, the read leaves L2
// alone from now on: a dead L2 costs a miss one timeout, not one per stage.
func (r *read[K, V]) answered(op string, err error) bool {
	return r.l2.Answered(r.ctx, r.c.l2, op, err)
}
