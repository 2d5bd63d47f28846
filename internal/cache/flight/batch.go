// Batches: many flights that one leader leads, with one context and one goroutine.
//
// States of a batch: registered, launched; each of its flights lands by itself. The
// caller that leads waits for each, or, if it has no other reason to stop than its own
// context, for all at once. Flights of a gathered batch stay on their own goroutines.
//
// Invariant: the batch lands each flight that it leads, whichever keys are refused. An
// extra key is inserted only if no right to store was taken in its shard since the
// registration of the batch.

package flight

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/limit"
)

// Batch is a number of flights that one leader leads. Each lands by itself.
type Batch[K comparable, V any] struct {
	// Led are the flights that the batch leads, Joined the flights that were under way
	// already.
	Led, Joined []*Flight[K, V]
	// Refused are the keys without a flight, with ErrClosed or ErrRecursive. Nil if
	// there are none.
	Refused map[K]error

	g        *Group[K, V]
	room     room[K, V]
	launched launched[K, V]
	node     Node // of the leader's loads
	scope    limit.Scope
	open     atomic.Int64 // flights with a running context
	since    uint64       // Group.revocations from before the batch began

	// all is closed when no launched flight has callers that wait. Nil if the caller
	// that leads waits for each by itself.
	all     chan struct{}
	waiting atomic.Int64 // launched flights with callers that wait

	once   sync.Once
	urgent chan struct{}
}

// room is the memory of the flights that a batch leads.
type room[K comparable, V any] struct {
	keys  int            // the most flights
	all   []Flight[K, V] // nil until one is needed
	spare []Flight[K, V] // for further flights, the end of all
	users atomic.Int32   // see Batch.Leave
}

// launched are the flights of a batch that were launched, and how they are taken on.
type launched[K comparable, V any] struct {
	flights []*Flight[K, V]
	then    func()
}

// Batch registers the caller with the flights of keys, which are all different. It
// joins the flights under way, and leads the others until each has landed. A key is
// refused if the group is closed, or ctx belongs to a load of the key.
func (g *Group[K, V]) Batch(ctx context.Context, keys []K, kind Kind) *Batch[K, V] {
	b := &Batch[K, V]{g: g, urgent: make(chan struct{}), since: g.revocations.Load()}
	b.room.keys = len(keys)
	b.room.users.Store(1)
	c := caller{ctx, from(ctx)}
	for _, k := range keys {
		f, p, err := g.register(c, k, kind, b)
		switch p {
		case Led:
			b.Led = append(b.Led, f)
		case Joined:
			b.Joined = append(b.Joined, f)
		default:
			b.refused(k, err)
		}
	}
	return b
}

// refused notes that a key has no flight. The flights that the batch leads must land
// even so.
func (b *Batch[K, V]) refused(key K, err error) {
	if b.Refused == nil {
		b.Refused = make(map[K]error)
	}
	b.Refused[key] = err
}

// Gather returns a Batch of fs, flights that were each launched alone: from now on they
// have one load, in the Context of the Batch. The caller finishes this Context after the
// load. It has the values of the first flight, and is cancelled when the contexts of all
// flights are. The goroutines of the flights wait for the load.
func (g *Group[K, V]) Gather(fs []*Flight[K, V]) *Batch[K, V] {
	b := &Batch[K, V]{g: g, Led: fs, urgent: make(chan struct{}), since: g.revocations.Load()}
	b.node.load, b.node.outer = b, fs[0].node.outer
	b.scope.Begin(fs[0].scope, &b.node)
	b.open.Store(int64(len(fs)))
	for _, f := range fs {
		f.node.dependOn(&b.node)
		if b.gather(f) {
			b.urge()
		}
		f.scope.Follow(b)
	}
	return b
}

// gather makes the launched flight f one of the batch, and reports whether it is urgent. The memory
// of f is not used for another flight later, since the context of the batch still refers to f.
func (b *Batch[K, V]) gather(f *Flight[K, V]) (urgent bool) {
	f.home.mu.Lock()
	defer f.home.mu.Unlock()
	f.shared, f.gathered = true, b
	return f.urged
}

// Flight returns a Flight that belongs to the batch. A caller of it waits for every load that the
// leader waits for.
func (b *Batch[K, V]) Flight() (f *Flight[K, V]) {
	r := &b.room
	if r.all == nil {
		r.all, b.Led = b.g.slabs.Take(r.keys), make([]*Flight[K, V], 0, r.keys)
		r.spare = r.all
	}
	f, r.spare = &r.spare[0], r.spare[1:]
	f.batch, f.node.batch = b, &b.node // no other goroutine knows f yet
	return f
}

// Leave is called by the leader, when it needs none of its flights any more: they have landed, or
// were launched. When the goroutine of the launched ones has left them, too, their memory is
// used for another batch, unless others may know one of them.
func (b *Batch[K, V]) Leave() {
	if b.room.users.Add(-1) > 0 {
		return
	}
	for _, f := range b.Led {
		if f.shared {
			return
		}
	}
	b.Led = nil
	b.g.slabs.Give(b.room.all)
}

func (b *Batch[K, V]) urge() { b.once.Do(func() { close(b.urgent) }) }

// Urgent is [Group.Urgent] for any of the batch's flights.
func (b *Batch[K, V]) Urgent() <-chan struct{} { return b.urgent }

// Gone is [Group.Gone] for some of the batch's flights together, which have not landed.
func (b *Batch[K, V]) Gone(fs iter.Seq2[*Flight[K, V], bool]) <-chan bool {
	p := newPresence()
	p.many = true
	for f, refresh := range fs {
		f.home.mu.Lock()
		f.join(p, refresh)
		f.home.mu.Unlock()
	}
	return p.gone
}

// Context is the context of the work for all flights at once. It is cancelled when
// the contexts of all flights are.
func (b *Batch[K, V]) Context() *limit.Scope { return &b.scope }

// Done says that so many flights, which the leader has landed, need no
// [Batch.Launch]. Without any the group may have ended its wait in Close, so its
// count is left alone: an Add of zero would wake that wait a second time.
func (b *Batch[K, V]) Done(landed int) {
	if landed > 0 {
		b.g.runs.Add(-landed)
	}
}

// Launch calls then on a goroutine of the group, which lands the flights fs of the
// batch. Each of them gets a context. The caller, with patience p, waits for them then.
func (b *Batch[K, V]) Launch(ctx context.Context, p Patience, fs []*Flight[K, V], then func()) {
	c := caller{ctx, from(ctx)}
	b.node.load, b.node.outer = b, c.load
	b.scope.Begin(ctx, &b.node)
	b.open.Store(int64(len(fs)))
	b.waiting.Store(int64(len(fs)))
	if p.Soft == nil && c.load == nil {
		b.all = make(chan struct{})
	}
	scopes := make([]limit.Scope, len(fs))
	for i, f := range fs {
		b.g.equip(c, f, &scopes[i], false)
	}
	if c.load != nil {
		b.urge()
	}
	b.room.users.Store(2)
	b.launched = launched[K, V]{fs, then}
	b.g.runners.run(b.g, launch[K, V]{batch: b})
}

// run calls the function of Launch, on a goroutine of the group.
func (b *Batch[K, V]) run() {
	defer b.g.runs.Add(-len(b.launched.flights))
	returned := false
	defer func() {
		known := b.scope.Finish()
		for _, f := range b.launched.flights {
			if f.scope.Finish() || known {
				f.shared = true
			}
		}
		if returned {
			b.Leave()
		}
	}()
	b.launched.then()
	returned = true
}

// Ended notes that the context of one more flight was cancelled. The last one cancels
// the context of the batch.
func (b *Batch[K, V]) Ended(cause error) {
	if b.open.Add(-1) == 0 {
		b.scope.End(cause)
	}
}

// Without says that f, one of the batch's flights, needs the Context of the batch no more: it lands before
// the others, or loads by itself. So the others alone decide whether the batch is abandoned. It does nothing for a
// nil batch, and for a flight that was not launched.
func (b *Batch[K, V]) Without(f *Flight[K, V]) {
	if b != nil && f.scope != nil && f.scope.Leave(b) {
		b.Ended(errAbandoned)
	}
}

// waitsForAll reports whether the caller that leads waits for all launched flights at
// once. A nil batch does not.
func (b *Batch[K, V]) waitsForAll() bool { return b != nil && b.all != nil }

// woken notes that the callers of one more launched flight have ceased to wait.
func (b *Batch[K, V]) woken() {
	if b.waiting.Add(-1) == 0 && b.all != nil {
		close(b.all)
	}
}

// waitForAll is Wait for a launched flight of the batch, if the caller waits for all of
// them at once.
func (b *Batch[K, V]) waitForAll(ctx context.Context, f *Flight[K, V], r *Result[V]) error {
	select {
	case <-b.all:
		return f.answer(r)
	default:
	}
	select {
	case <-b.all:
		return f.answer(r)
	case <-ctx.Done():
	}
	if f.isWoken() {
		return f.answer(r)
	}
	b.g.leave(f)
	return ctx.Err()
}

// Wait waits for one of the batch's flights, as the callers of [Group.Do] do.
func (b *Batch[K, V]) Wait(ctx context.Context, p Patience, f *Flight[K, V]) (r Result[V], err error) {
	if f.batch == b && b.waitsForAll() {
		err = b.waitForAll(ctx, f, &r)
		return r, err
	}
	if n := from(ctx); n != nil {
		if err := n.waitFor(&f.node); err != nil {
			b.g.leave(f)
			return r, err
		}
		defer n.stopWaiting(&f.node)
		b.g.urge(f)
	}
	err = b.g.wait(ctx, p, f, f.done, &r)
	return r, err
}

// Fill calls insert for an extra key, under the lock that Fence takes, if a flight
// of that key from the registration of the batch would have the right to store, and
// no flight or write of the key runs. It may refuse other keys, too: revocations
// are remembered for each lock, not for each key.
func (b *Batch[K, V]) Fill(key K, insert func()) {
	s := b.g.spot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, held := s.holds[key] // the end of a hold may not be among the revocations yet
	if s.closed || s.revoked > b.since || held || s.holdAll.timer != nil || s.busy() {
		return
	}
	insert()
	b.g.watches.changed(key, false)
}

// Gatherer forms groups of items.
//
// States of a group: open, from its first item on; closed, when it is full or its time is
// over; done, when the hand-over has returned. At most one group is open.
//
// Invariant: each item is handed over once, in one group. A group has at least one item
// and at most size of them.
type Gatherer[T any] struct {
	size int
	wait time.Duration
	over <-chan struct{}
	hand func([]T)

	mu   sync.Mutex // guards below
	open *group[T]  // nil if none is
}

// group is the items of one hand-over.
type group[T any] struct {
	items []T           // guarded by the mutex of the Gatherer while the group is open
	full  chan struct{} // closed when the group is
	done  chan struct{} // closed when the hand-over has returned
}

// NewGatherer returns a Gatherer that calls hand with groups of up to size items. It hands
// a group over when the group is full, or when the duration wait has passed since its first
// item. If size is one, or wait is not positive, each item is a group. Once over is closed
// no group waits.
func NewGatherer[T any](size int, wait time.Duration, over <-chan struct{}, hand func([]T)) *Gatherer[T] {
	if wait <= 0 {
		size = 1
	}
	return &Gatherer[T]{size: size, wait: wait, over: over, hand: hand}
}

// Join adds an item to a group, and returns when the hand-over of the group has
// returned. The hand-over runs on the goroutine of the first item: if it ends this
// goroutine, the Joins of the others still return.
func (g *Gatherer[T]) Join(item T) {
	if g.size <= 1 {
		g.hand([]T{item})
		return
	}
	own, first := g.enter(item)
	if !first {
		<-own.done
		return
	}
	defer close(own.done)
	g.await(own)
	g.hand(own.items)
}

// enter adds an item to the open group, and reports whether the item has opened it.
func (g *Gatherer[T]) enter(item T) (own *group[T], first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if own = g.open; own == nil {
		own, first = &group[T]{full: make(chan struct{}), done: make(chan struct{})}, true
		g.open = own
	}
	if own.items = append(own.items, item); len(own.items) == g.size {
		g.open = nil
		close(own.full)
	}
	return own, first
}

// await returns when the group is full or its time is over. Then it is closed.
func (g *Gatherer[T]) await(own *group[T]) {
	t := time.NewTimer(g.wait)
	defer t.Stop()
	select {
	case <-own.full:
		return
	case <-t.C:
	case <-g.over:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == own { // else it was filled at the same moment
		g.open = nil
	}
}
