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

	"github.com/strata-cache/strata/internal/cache/lifetime"
)

// Batch is a number of flights that one leader leads. Each lands by itself.
type Batch[K comparable, V any] struct {
	// Led are the flights that the batch leads, Joined the flights that were under way
	// already.
	Led, Joined []*Flight[K, V]
	// Refused are the keys without a flight, with ErrClosed or ErrRecursive. Nil if
	// there are none.
	Refused map[K]error

	g     *Group[K, V]
	spare []Flight[K, V] // for further flights, in one piece
	node  Node           // of the leader's loads
	scope lifetime.Scope
	open  atomic.Int64 // flights with a running context
	since uint64       // Group.revocations from before the batch began

	// all is closed when no launched flight has callers that wait. Nil if the caller
	// that leads waits for each by itself.
	all     chan struct{}
	waiting atomic.Int64 // launched flights with callers that wait

	once   sync.Once
	urgent chan struct{}
}

// Batch registers the caller with the flights of keys, which are all different. It
// joins the flights under way, and leads the others until each has landed. A key is
// refused if the group is closed, or ctx belongs to a load of the key.
func (g *Group[K, V]) Batch(ctx context.Context, keys []K, kind Kind) *Batch[K, V] {
	b := &Batch[K, V]{
		g: g, spare: make([]Flight[K, V], len(keys)), Led: make([]*Flight[K, V], 0, len(keys)),
		urgent: make(chan struct{}), since: g.revocations.Load(),
	}
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

// Flight returns a Flight that belongs to the batch.
func (b *Batch[K, V]) Flight() (f *Flight[K, V]) {
	f, b.spare = &b.spare[0], b.spare[1:]
	f.batch = b
	return f
}

func (b *Batch[K, V]) urge() { b.once.Do(func() { close(b.urgent) }) }

// Urgent is [Group.Urgent] for any of the batch's flights.
func (b *Batch[K, V]) Urgent() <-chan struct{} { return b.urgent }

// Gone is [Group.Gone] for some of the batch's flights together, which have not landed.
func (b *Batch[K, V]) Gone(fs iter.Seq[*Flight[K, V]]) <-chan bool {
	p := newPresence()
	for f := range fs {
		f.home.mu.Lock()
		f.join(p)
		f.home.mu.Unlock()
	}
	return p.gone
}

// Context is the context of the work for all flights at once. It is cancelled when
// the contexts of all flights are.
func (b *Batch[K, V]) Context() *lifetime.Scope { return &b.scope }

// Done says that so many flights, which the leader has landed, need no
// [Batch.Launch]. Without any the group may have ended its wait in Close, so its
// count is left alone: an Add of zero would wake that wait a second time.
func (b *Batch[K, V]) Done(landed int) {
	if landed > 0 {
		b.g.runs.Add(-landed)
	}
}

// Launch calls then on a goroutine of its own, which lands the flights fs of the
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
	scopes := make([]lifetime.Scope, len(fs))
	for i, f := range fs {
		// A caller of f waits for every load that the leader waits for.
		f.node.dependOn(&b.node)
		b.g.equip(c, f, &scopes[i], false)
		f.scope.Follow(b)
	}
	if c.load != nil {
		b.urge()
	}
	b.g.runners.all.Go(func() {
		defer b.g.runs.Add(-len(fs))
		defer func() {
			for _, f := range fs {
				f.scope.Finish()
			}
			b.scope.Finish()
		}()
		then()
	})
}

// Ended notes that the context of one more flight was cancelled. The last one cancels
// the context of the batch.
func (b *Batch[K, V]) Ended(cause error) {
	if b.open.Add(-1) == 0 {
		b.scope.End(cause)
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
func (b *Batch[K, V]) waitForAll(ctx context.Context, f *Flight[K, V]) (Result[V], error) {
	select {
	case <-b.all:
		return f.answer()
	default:
	}
	select {
	case <-b.all:
		return f.answer()
	case <-ctx.Done():
	}
	if f.isWoken() {
		return f.answer()
	}
	b.g.leave(f)
	return Result[V]{}, ctx.Err()
}

// Wait waits for one of the batch's flights, as the callers of [Group.DoSoftly] do.
func (b *Batch[K, V]) Wait(ctx context.Context, p Patience, f *Flight[K, V]) (Result[V], error) {
	if f.batch == b && b.waitsForAll() {
		return b.waitForAll(ctx, f)
	}
	if n := from(ctx); n != nil {
		if err := n.waitFor(&f.node); err != nil {
			b.g.leave(f)
			return Result[V]{}, err
		}
		defer n.stopWaiting(&f.node)
		b.g.urge(f)
	}
	return b.g.wait(ctx, p, f, f.done)
}

// Fill calls insert for an extra key, under the lock that Fence takes, if a flight
// of that key from the registration of the batch would have the right to store, and
// no flight or write of the key runs. It may refuse other keys, too: revocations
// are remembered for each lock, not for each key.
func (b *Batch[K, V]) Fill(key K, insert func()) {
	s := b.g.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, held := s.holds[key] // the end of a hold may not be among the revocations yet
	if s.closed || s.revoked > b.since || held || s.holdAll.timer != nil || s.busy(key) {
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
