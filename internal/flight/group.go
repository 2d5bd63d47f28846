package flight

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
)

// ErrClosed is returned to callers when the group is closed.
var ErrClosed = errors.New("flight: closed")

// shards is the number of locks that keys are spread over. A flight takes its
// lock three times in a life that has a network round trip in it, so this
// need not grow with the machine.
const shards = 64

// Group holds the running flights and writes of one cache. The zero Group is
// not usable; see [NewGroup].
type Group[K comparable, V any] struct {
	seed   maphash.Seed
	stamp  func() uint64
	closed chan struct{}
	once   sync.Once
	runs   sync.WaitGroup
	shards [shards]shard[K, V]
}

// shard is the part of a group that one lock guards.
type shard[K comparable, V any] struct {
	mu       sync.Mutex
	closed   bool
	joinable [kinds]map[K]*Flight[K, V]
	running  map[*Flight[K, V]]struct{} // joinable or not
	writes   map[K][]*Write[K]
}

// NewGroup returns an empty group. stamp is read when a flight is registered.
func NewGroup[K comparable, V any](stamp func() uint64) *Group[K, V] {
	g := &Group[K, V]{seed: maphash.MakeSeed(), stamp: stamp, closed: make(chan struct{})}
	for i := range g.shards {
		s := &g.shards[i]
		for k := range s.joinable {
			s.joinable[k] = make(map[K]*Flight[K, V])
		}
		s.running = make(map[*Flight[K, V]]struct{})
		s.writes = make(map[K][]*Write[K])
	}
	return g
}

func (g *Group[K, V]) shard(key K) *shard[K, V] {
	return &g.shards[maphash.Comparable(g.seed, key)%shards]
}

// Join makes the caller a waiter of key's flight of that kind. If there is
// none, it registers one and runs it on a goroutine of its own; that is what
// leader reports. The caller must then call [Group.Wait].
//
// It returns ErrClosed after Close, and ErrRecursive if ctx belongs to a load
// that the flight waits for.
func (g *Group[K, V]) Join(ctx context.Context, key K, kind Kind, run func(*Flight[K, V])) (f *Flight[K, V], leader bool, err error) {
	f, leader, err = g.register(ctx, key, kind)
	if err != nil {
		return nil, false, err
	}
	if n := from(ctx); n != nil {
		if err := n.waitFor(&f.node); err != nil {
			g.leave(f)
			return nil, false, err
		}
	}
	if leader {
		go func() {
			defer g.runs.Done()
			run(f)
		}()
	}
	return f, leader, nil
}

func (g *Group[K, V]) register(ctx context.Context, key K, kind Kind) (f *Flight[K, V], leader bool, err error) {
	s := g.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false, ErrClosed
	}
	if f = s.joinable[kind][key]; f != nil {
		f.waiters++
		f.joined++
		return f, false, nil
	}
	f = &Flight[K, V]{Key: key, Stamp: g.stamp(), done: make(chan struct{}), kind: kind, waiters: 1, joined: 1}
	f.ctx, f.cancel = context.WithCancelCause(within(context.WithoutCancel(ctx), &f.node))
	s.joinable[kind][key] = f
	s.running[f] = struct{}{}
	g.runs.Add(1)
	return f, true, nil
}

// Wait returns the flight's result, or ctx's error if ctx ends first, or ErrClosed if the group is closed first. Each successful Join needs
// one Wait with the same context.
func (g *Group[K, V]) Wait(ctx context.Context, f *Flight[K, V]) (Result[V], error) {
	if n := from(ctx); n != nil {
		defer n.waited(&f.node)
	}
	select {
	case <-f.done:
		return f.result, nil
	default:
	}
	select {
	case <-f.done:
		return f.result, nil
	case <-ctx.Done():
		g.leave(f)
		return Result[V]{}, ctx.Err()
	case <-g.closed:
		return Result[V]{}, ErrClosed
	}
}

// leave makes the caller no waiter any more. A flight that the last waiter
// leaves is cancelled, unless it is kept; it cannot be joined from then on, so
// that nobody inherits the cancellation.
func (g *Group[K, V]) leave(f *Flight[K, V]) {
	s := g.shard(f.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiters--; f.waiters > 0 || f.kept {
		return
	}
	s.detach(f)
	f.cancel(errAbandoned)
}

// detach makes f unjoinable and takes its right to store. Only f itself is
// removed: its key may belong to a newer flight. s.mu is held.
func (s *shard[K, V]) detach(f *Flight[K, V]) {
	f.fenced = true
	if s.joinable[f.kind][f.Key] == f {
		delete(s.joinable[f.kind], f.Key)
	}
}

// Keep makes f go on when every caller leaves: others depend on it by now. It
// reports false if it is too late for that.
func (g *Group[K, V]) Keep(f *Flight[K, V]) bool {
	s := g.shard(f.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiters == 0 {
		return false
	}
	f.kept = true
	return true
}

// Land ends f with r. If f still has the right to store, and insert is not
// nil, insert is called first, under the lock that Fence takes: it must not
// wait or call back. Land reports whether insert was called, and how many
// callers f had.
func (g *Group[K, V]) Land(f *Flight[K, V], r Result[V], insert func()) (stored bool, callers int) {
	s := g.shard(f.Key)
	s.mu.Lock()
	if stored = insert != nil && !f.fenced; stored {
		insert()
	}
	s.detach(f)
	delete(s.running, f)
	callers = f.joined
	s.mu.Unlock()
	f.result = r
	close(f.done)
	f.cancel(nil)
	return stored, callers
}

// Fenced reports whether f has lost the right to store.
func (g *Group[K, V]) Fenced(f *Flight[K, V]) bool {
	s := g.shard(f.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.fenced
}

// Running reports how many callers wait for key's joinable load, if there is
// one.
func (g *Group[K, V]) Running(key K) (waiters int, running bool) {
	s := g.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.joinable[Load][key]; f != nil {
		return f.waiters, true
	}
	return 0, false
}

// Close cancels all flights, makes their callers return with ErrClosed, and
// waits until no flight runs or ctx ends. It may be called more than once.
func (g *Group[K, V]) Close(ctx context.Context) error {
	g.once.Do(func() { close(g.closed) })
	for i := range g.shards {
		g.shards[i].close()
	}
	idle := make(chan struct{})
	go func() {
		g.runs.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *shard[K, V]) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for f := range s.running {
		s.detach(f)
		f.cancel(ErrClosed)
	}
}
