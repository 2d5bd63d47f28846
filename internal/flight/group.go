package flight

import (
	"context"
	"errors"
	"hash/maphash"
	"runtime"
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
	holds    map[K]hold
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
		s.holds = make(map[K]hold)
	}
	return g
}

// findable reports whether key equals itself. One that does not, as a NaN,
// could never be found again in a map, nor removed from it.
func findable[K comparable](key K) bool {
	same := key
	return key == same
}

func (g *Group[K, V]) shard(key K) *shard[K, V] {
	return &g.shards[maphash.Comparable(g.seed, key)%shards]
}

// Leader is what the caller that registers a flight does.
type Leader[K comparable, V any] interface {
	// First runs on the caller's goroutine, under the caller's context. It
	// reports whether it has landed the flight. If not, Then takes over.
	First(ctx context.Context, f *Flight[K, V]) (landed bool)
	// Then runs on a goroutine of its own, under the flight's context, and
	// lands the flight.
	Then(f *Flight[K, V])
}

// Part is what a caller had to do with a flight.
type Part uint8

// The parts of callers.
const (
	// None: there was no flight for the caller.
	None Part = iota
	// Led: the caller registered the flight.
	Led
	// Joined: the flight was under way.
	Joined
)

// Do gets key through its flight of that kind: it joins the one that is under
// way, or registers one and leads it. What First can answer costs neither a
// goroutine nor a context.
//
// It returns ErrClosed if the group is closed, ErrRecursive if ctx belongs to
// a load that the flight waits for, and ctx's error if ctx ends first.
func (g *Group[K, V]) Do(ctx context.Context, key K, kind Kind, l Leader[K, V]) (r Result[V], p Part, err error) {
	f, p, err := g.register(ctx, key, kind)
	switch {
	case err != nil:
		return r, None, err
	case p == Led && g.first(ctx, f, l):
		return f.result, Led, nil
	}
	if n := from(ctx); n != nil {
		if err := n.waitFor(&f.node); err != nil {
			g.leave(f)
			return r, None, err
		}
		defer n.waited(&f.node)
		g.urge(f)
	}
	if p == Led {
		g.launch(ctx, f, l)
	}
	r, err = g.wait(ctx, f)
	return r, p, err
}

// first lets the leader try by itself. The flight may have been joined already,
// but nobody whom its load could wait for: there is no load yet.
func (g *Group[K, V]) first(ctx context.Context, f *Flight[K, V], l Leader[K, V]) (landed bool) {
	ended := true // if First ends the goroutine; it has landed then
	defer func() {
		if landed || ended {
			g.runs.Done()
		}
	}()
	landed = l.First(ctx, f)
	ended = false
	return landed
}

// launch lets the leader go on, on a goroutine and context of the flight's own.
func (g *Group[K, V]) launch(ctx context.Context, f *Flight[K, V], l Leader[K, V]) {
	g.equip(ctx, f)
	go func() {
		defer g.runs.Done()
		defer f.cancel(nil)
		deepen()
		l.Then(f)
	}()
}

// deepen has the goroutine's stack grow at once to the 8 KiB that a load with
// network calls needs, while there is nearly nothing on it: growing step by step
// on the way down cost a tenth of a miss that L2 answers with a lease.
//
//go:noinline
func deepen() { runtime.KeepAlive(&[6 << 10]byte{}) }

// equip gives f a context of its own, and makes it one that can be waited for.
func (g *Group[K, V]) equip(ctx context.Context, f *Flight[K, V]) {
	f.node.load, f.node.outer = f, from(ctx)
	own, cancel := context.WithCancelCause(within(context.WithoutCancel(ctx), &f.node))
	s := f.home
	s.mu.Lock()
	f.ctx, f.cancel = own, cancel
	f.await()
	closed, left := s.closed, f.waiters == 0 && !f.kept
	s.mu.Unlock()
	switch {
	case closed:
		cancel(ErrClosed)
	case left:
		cancel(errAbandoned)
	}
}

// register makes the caller a waiter of key's flight, which it leads if there
// was none. It returns ErrClosed, or ErrRecursive if ctx belongs to a load of key.
func (g *Group[K, V]) register(ctx context.Context, key K, kind Kind) (f *Flight[K, V], p Part, err error) {
	s := g.shard(key)
	if kind == Load && inside(from(ctx), s, key) {
		return nil, None, ErrRecursive
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, None, ErrClosed
	}
	if f = s.joinable[kind][key]; f != nil {
		f.waiters++
		f.joined++
		f.await()
		return f, Joined, nil
	}
	f = &Flight[K, V]{Key: key, Stamp: g.stamp(), home: s, kind: kind, waiters: 1, joined: 1}
	if findable(key) {
		s.joinable[kind][key] = f
	}
	s.running[f] = struct{}{}
	g.runs.Add(1)
	return f, Led, nil
}

// wait returns the flight's result, or ctx's error if ctx ends first, or
// ErrClosed if the group is closed first.
func (g *Group[K, V]) wait(ctx context.Context, f *Flight[K, V]) (Result[V], error) {
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
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiters--; f.waiters > 0 || f.kept {
		return
	}
	s.detach(f)
	f.end(errAbandoned)
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
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiters == 0 {
		return false
	}
	f.kept = true
	return true
}

// Urgent returns a channel that is closed as soon as a caller inside a load
// waits for f: that load may hold what f is queueing for.
func (g *Group[K, V]) Urgent(f *Flight[K, V]) <-chan struct{} {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.urgent == nil {
		f.urgent = make(chan struct{})
		if f.urged {
			close(f.urgent)
		}
	}
	return f.urgent
}

func (g *Group[K, V]) urge(f *Flight[K, V]) {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	if !f.urged && f.urgent != nil {
		close(f.urgent)
	}
	f.urged = true
	if f.batch != nil {
		f.batch()
	}
}

// Land ends f with r. If f still has the right to store, its key is not on
// hold, and insert is not nil, insert is called first, under the lock that Fence takes: it must not
// wait or call back. Land reports whether insert was called, and how many
// callers f had.
func (g *Group[K, V]) Land(f *Flight[K, V], r Result[V], insert func()) (stored bool, callers int) {
	s := f.home
	s.mu.Lock()
	if stored = insert != nil && !f.fenced && !s.onHold(f.Key); stored {
		insert()
	}
	s.detach(f)
	delete(s.running, f)
	callers = f.joined
	f.result = r
	if f.done != nil {
		close(f.done)
	}
	s.mu.Unlock()
	return stored, callers
}

// Fenced reports whether f has lost the right to store.
func (g *Group[K, V]) Fenced(f *Flight[K, V]) bool {
	s := f.home
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
	for _, h := range s.holds {
		h.timer.Stop()
	}
	for f := range s.running {
		s.detach(f)
		f.end(ErrClosed)
	}
}
