// Batches: many flights that one leader leads, with one context and one goroutine.
//
// States of a batch: registered, launched; each of its flights lands by itself.
//
// Invariant: each flight that the batch leads is landed by it, whichever keys are
// refused. An extra key is inserted only if since the registration of the batch no
// right to store was taken in its shard.

package flight

import (
	"context"
	"github.com/strata-cache/strata/internal/lifetime"
	"sync"
	"sync/atomic"
)

// Batch is a number of flights that one leader leads. Each lands by itself.
type Batch[K comparable, V any] struct {
	// Led are the flights that the batch leads, Joined those that were under way.
	Led, Joined []*Flight[K, V]
	// Refused are the keys that have no flight, with ErrClosed or ErrRecursive.
	Refused map[K]error

	g     *Group[K, V]
	node  Node // of the leader's loads
	scope lifetime.Scope
	left  atomic.Int64 // flights whose contexts have not ended
	since uint64       // Group.revocations from before the batch began

	once     sync.Once
	urgent   chan struct{}
	presence *presence
}

// Batch registers the caller with the flights of keys, which are all different:
// it leads those that are not under way, until each has landed. Some keys, or
// all, are refused if the group is closed, or ctx belongs to a load of theirs.
func (g *Group[K, V]) Batch(ctx context.Context, keys []K, kind Kind) *Batch[K, V] {
	b := &Batch[K, V]{g: g, Refused: map[K]error{}, urgent: make(chan struct{}), since: g.revocations.Load(), presence: newPresence()}
	c := caller{ctx, from(ctx)}
	own := slab[K, V]{left: len(keys)}
	for _, k := range keys {
		f, p, err := g.register(c, k, kind, &own)
		switch p {
		case Led:
			b.enlist(f)
		case Joined:
			b.Joined = append(b.Joined, f)
		default:
			// The flights that the batch leads must land all the same.
			b.Refused[k] = err
		}
	}
	return b
}

// slab has the flights of a batch in one piece.
type slab[K comparable, V any] struct {
	left  int // at most so many are still needed
	spare []Flight[K, V]
}

// Flight returns one of them.
func (s *slab[K, V]) Flight() (f *Flight[K, V]) {
	if s.spare == nil {
		s.spare = make([]Flight[K, V], s.left)
	}
	f, s.spare = &s.spare[0], s.spare[1:]
	return f
}

// enlist makes f one of the flights that the batch leads. Other callers may have
// joined it already.
func (b *Batch[K, V]) enlist(f *Flight[K, V]) {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	f.batch = b.urge
	if f.urged {
		b.urge()
	}
	f.join(b.presence)
	b.Led = append(b.Led, f)
}

func (b *Batch[K, V]) urge() { b.once.Do(func() { close(b.urgent) }) }

// Urgent is [Group.Urgent] for any of the batch's flights.
func (b *Batch[K, V]) Urgent() <-chan struct{} { return b.urgent }

// Gone is [Group.Gone] for all of the batch's flights together.
func (b *Batch[K, V]) Gone() <-chan bool { return b.presence.gone }

// Context is the context of the work for all flights at once. It is cancelled when
// the contexts of all flights are.
func (b *Batch[K, V]) Context() *lifetime.Scope { return &b.scope }

// Done says that so many flights, which the leader has landed, need no
// [Batch.Launch].
func (b *Batch[K, V]) Done(landed int) { b.g.runs.Add(-landed) }

// Launch calls then on a goroutine of its own, which lands the flights fs of the
// batch. Each of them gets a context.
func (b *Batch[K, V]) Launch(ctx context.Context, fs []*Flight[K, V], then func()) {
	c := caller{ctx, from(ctx)}
	b.node.load, b.node.outer = b, c.load
	b.scope.Begin(ctx, nodeKey{}, &b.node)
	b.left.Store(int64(len(fs)))
	for _, f := range fs {
		// A caller of f waits for every load that the leader waits for.
		f.node.dependOn(&b.node)
		b.g.equip(c, f, nil)
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

// Ended notes that the context of one more flight was cancelled. With the last one
// that of the batch is.
func (b *Batch[K, V]) Ended(cause error) {
	if b.left.Add(-1) == 0 {
		b.scope.End(cause)
	}
}

// Wait waits for one of the batch's flights, as the callers of [Group.DoSoftly] do.
func (b *Batch[K, V]) Wait(ctx context.Context, p Patience, f *Flight[K, V]) (Result[V], error) {
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
	if s.closed || s.revoked > b.since || held || s.holdAll.timer != nil || len(s.writes[key]) > 0 {
		return
	}
	for _, m := range s.joinable {
		if m[key] != nil {
			return
		}
	}
	insert()
}
