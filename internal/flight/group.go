// The group: all running flights and writes of one cache, and the way of a caller
// to the flight of its key.
//
// States of a group: open, closed. States of a flight in it: joinable, running but
// not joinable, landed.
//
// Invariant: each key has at most one joinable flight of each kind. A closed group
// registers nothing, and has cancelled the context of every running flight.

package flight

import (
	"context"
	"errors"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
)

// ErrClosed is returned to callers when the group is closed.
var ErrClosed = errors.New("flight: closed")

// shards is the number of locks that keys are spread over. A flight takes its
// lock three times in a life that contains a network round trip, so this
// need not grow with the machine.
const shards = 64

// Group holds the running flights and writes of one cache. The zero Group is
// not usable; see [NewGroup].
type Group[K comparable, V any] struct {
	// CancelAbandoned cancels a flight that its last caller leaves, unless it is
	// kept; from then on it cannot be joined. Otherwise such a flight continues, and
	// can be joined. It is set before the group is used.
	CancelAbandoned bool

	seed   maphash.Seed
	stamp  func() uint64
	closed chan struct{}
	once   sync.Once
	runs   sync.WaitGroup
	// revocations counts the events that take rights to store: fences, writes, holds.
	revocations atomic.Uint64
	shards      [shards]shard[K, V]
}

// shard is the part of a group that one lock guards.
type shard[K comparable, V any] struct {
	mu       sync.Mutex
	closed   bool
	joinable [kinds]map[K]*Flight[K, V]
	running  map[*Flight[K, V]]struct{} // joinable or not
	writes   map[K][]*Write[K]
	holds    map[K]hold
	holdAll  hold          // on all keys, when too many keys are on hold
	revoked  uint64        // Group.revocations at the last one in this shard
	stamp    func() uint64 // Group.stamp
}

// NewGroup returns an empty group. stamp is called when a flight is registered.
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
		s.stamp = stamp
	}
	return g
}

// findable reports whether key equals itself. A key that does not, as a NaN,
// could never be found again in a map, nor removed from it.
func findable[K comparable](key K) bool {
	same := key
	return key == same
}

func (g *Group[K, V]) shard(key K) *shard[K, V] {
	return &g.shards[maphash.Comparable(g.seed, key)%shards]
}

// Leader is the work of the caller that registers a flight.
type Leader[K comparable, V any] interface {
	// First runs on the caller's goroutine, under the caller's context. It
	// reports whether it has landed the flight. If not, Then takes over. A Reload
	// begins with Then.
	First(ctx context.Context, f *Flight[K, V]) (landed bool)
	// Then runs on a goroutine of its own, under the flight's context, and
	// lands the flight.
	Then(f *Flight[K, V])
}

// Part is the role of a caller in a flight.
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

// Do gets key through its flight of that kind: it joins the flight that is under
// way, or registers one and leads it. If First lands the flight, Do costs neither
// a goroutine nor a context.
//
// It returns ErrClosed if the group is closed, ErrRecursive if ctx belongs to
// a load that the flight waits for, and ctx's error if ctx ends first.
func (g *Group[K, V]) Do(ctx context.Context, key K, kind Kind, l Leader[K, V]) (Result[V], Part, error) {
	return g.DoSoftly(ctx, Patience{}, key, kind, l)
}

// DoSoftly is Do for a caller with limited patience.
func (g *Group[K, V]) DoSoftly(ctx context.Context, patience Patience, key K, kind Kind, l Leader[K, V]) (r Result[V], p Part, err error) {
	f, p, err := g.register(ctx, key, kind)
	if err == nil && patience.Registered != nil {
		patience.Registered()
	}
	switch {
	case err != nil:
		return r, None, err
	case p == Led && kind != Reload && g.first(patience.soft(ctx), f, l):
		return f.result, Led, nil
	}
	if n := from(ctx); n != nil {
		if err := n.waitFor(&f.node); err != nil {
			if p == Led { // a reload in the queue: others may have joined it
				g.refuse(f)
				g.launch(ctx, f, l)
				return r, None, err
			}
			g.leave(f)
			return r, None, err
		}
		defer n.stopWaiting(&f.node)
		g.urge(f)
	}
	if p == Led {
		g.launch(ctx, f, l)
	}
	r, err = g.wait(ctx, patience, f)
	return r, p, err
}

// first runs First of the leader. Callers may have joined the flight already, but
// none that its load could wait for: there is no load yet.
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

// launch runs Then of the leader, on a goroutine and a context of the flight's own.
func (g *Group[K, V]) launch(ctx context.Context, f *Flight[K, V], l Leader[K, V]) {
	g.equip(ctx, f)
	go func() {
		defer g.runs.Done()
		defer f.cancel(nil)
		growStack()
		f.inTurn()
		l.Then(f)
	}()
}

// growStack makes the goroutine's stack grow at once to the 8 KiB that a load with
// network calls needs, while the stack is nearly empty. Growth step by step on the
// way down cost a tenth of a miss that L2 answers with a lease.
//
//go:noinline
func growStack() { runtime.KeepAlive(&[6 << 10]byte{}) }

// equip gives f a context of its own, and the channel that callers wait for.
func (g *Group[K, V]) equip(ctx context.Context, f *Flight[K, V]) {
	f.node.load, f.node.outer = f, from(ctx)
	own, cancel := context.WithCancelCause(within(context.WithoutCancel(ctx), &f.node))
	s := f.home
	s.mu.Lock()
	f.ctx, f.cancel = own, cancel
	f.await()
	closed, left := s.closed, g.abandoned(f)
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
	if kind != Read && inside(from(ctx), s, key) {
		return nil, None, ErrRecursive
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, None, ErrClosed
	}
	if f = s.joinable[kind][key]; f != nil {
		f.count(1)
		f.joined++
		f.endless = f.endless || ctx.Done() == nil && from(ctx) == nil
		f.await()
		return f, Joined, nil
	}
	f = &Flight[K, V]{Key: key, Stamp: g.stamp(), home: s, kind: kind, fenced: s.held(key), audience: audience{waiters: 1, joined: 1}}
	if findable(key) {
		s.joinable[kind][key] = f
	}
	if kind == Reload {
		s.enqueue(f)
	}
	s.running[f] = struct{}{}
	g.runs.Add(1)
	return f, Led, nil
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

// Reloading reports whether the flight that a Load of key would join is a Reload.
func (g *Group[K, V]) Reloading(key K) bool {
	s := g.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.joinable[Load][key]
	return f != nil && f.kind == Reload
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
		h.stop()
	}
	s.holdAll.stop()
	for f := range s.running {
		f.end(ErrClosed)
	}
	// All have ended: a reload whose turn comes with the detaching does not begin.
	for f := range s.running {
		s.detach(f)
	}
}
