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

	"github.com/strata-cache/strata/internal/cache/limit"
)

// ErrClosed is returned to callers when the group is closed.
var ErrClosed = errors.New("flight: closed")

// The number of locks over which keys are spread: four for each processor, within these
// bounds. A flight takes its lock three times in a life that mostly contains a network round trip.
const fewShards, manyShards = 8, 64

// shardBits are the bits of a key's hash that may choose its shard; the next ones choose its chain.
const shardBits = 6

// Group holds the running flights and writes of one cache. The zero Group is
// not usable; see [NewGroup].
type Group[K comparable, V any] struct {
	// CancelAbandoned cancels a flight that its last caller leaves, unless it is
	// kept; from then on it cannot be joined. Otherwise such a flight continues, and
	// can be joined. It is set before the group is used.
	CancelAbandoned bool
	// Hash and Note, if set, are called for each dropped or written key, and for each key of which
	// a load brings nothing to keep: Hash before the lock of the key's flights is taken, Note with
	// the hash under this lock. So Note must not wait or call back. at is the time that the caller
	// has read before, zero without one. They are set before the group is used.
	Hash func(K) uint64
	Note func(hash uint64, at int64)

	seed    maphash.Seed
	stamp   func() uint64
	runs    sync.WaitGroup
	runners runners[K, V]
	slabs   Slabs[Flight[K, V]] // for batches
	// reloads counts the reloads that run.
	reloads atomic.Int64
	// revocations counts the events that take rights to store: fences, writes, holds.
	revocations atomic.Uint64
	watches     watches[K]
	shards      []shard[K, V] // a power of two
}

// shard is the part of a group that one lock guards.
type shard[K comparable, V any] struct {
	mu      sync.Mutex
	closed  bool
	running running[K, V]
	// The maps are made when they are needed: empty ones took most of the memory of a new cache.
	writes  map[K][]*Write[K]
	holds   map[K]hold
	holdAll hold          // on all keys, when too many keys are on hold
	revoked uint64        // Group.revocations at the last one in this shard
	stamp   func() uint64 // Group.stamp
}

// NewGroup returns an empty group. stamp is called when a flight is registered.
func NewGroup[K comparable, V any](stamp func() uint64) *Group[K, V] {
	n := fewShards
	for n < 4*runtime.GOMAXPROCS(0) && n < manyShards {
		n *= 2
	}
	g := &Group[K, V]{seed: maphash.MakeSeed(), stamp: stamp, shards: make([]shard[K, V], n)}
	g.watches.seed = g.seed
	for i := range g.shards {
		s := &g.shards[i]
		s.stamp = stamp
	}
	return g
}

// spot is a key, and where its flights, writes and holds are.
type spot[K comparable, V any] struct {
	*shard[K, V]
	key  K
	hash uint64
}

func (g *Group[K, V]) spot(key K) spot[K, V] {
	hash := maphash.Comparable(g.seed, key)
	return spot[K, V]{&g.shards[hash&uint64(len(g.shards)-1)], key, hash}
}

// find returns the flight that a caller of that kind would join; nil if there is none. s.mu is held.
func (s spot[K, V]) find(kind Kind) *Flight[K, V] { return s.running.find(kind, s.key, s.hash) }

// Leader is the work of the caller that registers a flight.
type Leader[K comparable, V any] interface {
	memory[K, V]
	// Scope returns the memory for the context of Then. It must be new: code that
	// runs in that context may keep it.
	Scope() *limit.Scope
	// First runs on the caller's goroutine, under the caller's context. It
	// reports whether it has landed the flight. If not, Then takes over. A Reload
	// begins with Then.
	First(ctx context.Context, f *Flight[K, V]) (landed bool)
	// Then runs on a goroutine of its own, under the flight's context, and
	// lands the flight.
	Then(f *Flight[K, V])
	// Release is called when the group has no further use for the leader and its flight:
	// it has not become one, or First has landed the flight, or Then and the wait of
	// the caller are over. It is not called if one of them panics or ends its goroutine.
	Release()
}

// memory has the Flight of a caller that leads one.
type memory[K comparable, V any] interface {
	// Flight returns a zero Flight, which becomes the leader's. The group calls it if
	// no flight is under way, and holds a lock meanwhile.
	Flight() *Flight[K, V]
}

// Part is the role of a caller in a flight.
type Part uint8

// The parts of callers.
const (
	// None: the caller got no flight.
	None Part = iota
	// Led: the caller registered the flight.
	Led
	// Joined: the flight was under way.
	Joined
)

// Do gets key through its flight of that kind for a caller with some patience, and writes the
// result to r: it joins the flight under way, or registers one and leads it. If First lands the
// flight, Do costs neither a goroutine nor a context.
//
// It returns, and leaves r alone, ErrClosed if the group is closed, ErrRecursive if the flight waits for
// the load to which ctx belongs, and ctx.Err() if ctx ends first. A flight that its caller has registered
// lands nevertheless: the part is Led.
func (g *Group[K, V]) Do(ctx context.Context, patience Patience, key K, kind Kind, l Leader[K, V], r *Result[V]) (p Part, err error) {
	n := from(ctx)
	f, p, err := g.register(caller{ctx, n}, key, kind, l)
	if p != Led {
		l.Release()
	}
	if err == nil && patience.Registered != nil {
		patience.Registered()
	}
	switch {
	case err != nil:
		return None, err
	case p == Led && kind != Reload && g.first(patience.soft(ctx), f, l):
		*r = f.result
		l.Release()
		return Led, nil
	}
	if n != nil {
		if err := n.waitFor(&f.node); err != nil {
			if p == Led { // a reload in the queue: others may have joined it
				g.refuse(f)
				g.launch(caller{ctx, n}, f, l, false)
				return Led, err
			}
			g.leave(f)
			return None, err
		}
		defer n.stopWaiting(&f.node)
		g.urge(f)
	}
	if p == Joined {
		return p, g.wait(ctx, patience, f, f.done, r)
	}
	g.launch(caller{ctx, n}, f, l, true)
	err = g.wait(ctx, patience, f, f.bell, r)
	if f.leave() {
		l.Release()
	}
	return p, err
}

// first runs First of the leader. Callers may have joined the flight already. Its
// load cannot wait for any of them: it has not begun.
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
// stays says that the caller that leads waits for the bell.
func (g *Group[K, V]) launch(c caller, f *Flight[K, V], l Leader[K, V], stays bool) {
	users := int32(1)
	if stays {
		users = 2
	}
	f.users.Store(users)
	g.equip(c, f, l.Scope(), stays)
	g.runners.run(g, launch[K, V]{f: f, leader: l})
}

// run runs a launched flight, or the launched flights of a batch, on a goroutine of the group.
func (g *Group[K, V]) run(l launch[K, V]) {
	if l.batch != nil {
		l.batch.run()
		return
	}
	defer g.runs.Done()
	scope, returned := l.f.scope, false
	defer func() {
		if !returned {
			scope.Finish()
		}
	}()
	l.f.inTurn()
	l.leader.Then(l.f)
	returned = true
	if scope.Finish() {
		l.f.shared = true
	}
	if l.f.leave() {
		l.leader.Release()
	}
}

// equip gives f a context of its own, and the signal for which the leader waits: its
// bell, or the channel for which the others wait, too.
func (g *Group[K, V]) equip(c caller, f *Flight[K, V], scope *limit.Scope, bell bool) {
	f.node.load, f.node.outer = f, c.load
	if scope.Begin(c.ctx, &f.node); f.batch != nil {
		scope.Precede(f.batch)
	}
	if bell && f.bell == nil {
		f.bell = make(chan struct{}, 1)
	}
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	f.scope, f.counted, f.listens = scope, f.batch != nil, bell
	if !bell && !f.batch.waitsForAll() {
		f.await()
	}
	switch {
	case s.closed:
		f.desert()
	case g.abandoned(f):
		f.end(errAbandoned)
	}
}

// caller is the context of a caller, and the innermost load that it belongs to, or
// nil.
type caller struct {
	ctx  context.Context
	load *Node
}

// endless reports whether the caller belongs to no load and waits without end.
func (c caller) endless() bool { return c.ctx.Done() == nil && c.load == nil }

// register makes the caller a waiter of the flight of key. If there is none, the caller leads a new
// one, in the memory that own gives. It returns ErrClosed, or ErrRecursive if the caller belongs to
// a load of key.
func (g *Group[K, V]) register(c caller, key K, kind Kind, own memory[K, V]) (f *Flight[K, V], p Part, err error) {
	s := g.spot(key)
	if kind != Read && inside(c.load, s.shard, key) {
		return nil, None, ErrRecursive
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, None, ErrClosed
	}
	if f = s.find(kind); f != nil {
		f.count(1)
		f.joined++
		f.shared = true
		f.endless = f.endless || c.endless()
		f.await()
		return f, Joined, nil
	}
	f = own.Flight()
	f.Key, f.hash, f.Stamp, f.home, f.kind, f.fenced = key, s.hash, g.stamp(), s.shard, kind, s.held(key)
	f.waiters, f.joined, f.shared = 1, 1, c.load != nil
	f.joinable[kind] = true
	if kind == Reload {
		g.reloads.Add(1)
		s.enqueue(f)
	}
	s.running.enter(f)
	g.runs.Add(1)
	return f, Led, nil
}

// Running reports how many callers wait for key's joinable load, if there is
// one.
func (g *Group[K, V]) Running(key K) (waiters int, running bool) {
	s := g.spot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.find(Load); f != nil {
		return f.waiters, true
	}
	return 0, false
}

// Reloading reports whether the flight that a Load of key would join is a Reload.
func (g *Group[K, V]) Reloading(key K) bool {
	if g.reloads.Load() == 0 {
		return false
	}
	s := g.spot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.find(Load)
	return f != nil && f.kind == Reload
}

// Stop closes the group: it cancels all flights, and makes their callers return with
// ErrClosed. It does not wait for the flights. It may be called more than once.
func (g *Group[K, V]) Stop() {
	for i := range g.shards {
		g.shards[i].close()
	}
	g.runners.close()
}

// Close stops the group, and waits until no flight runs or ctx ends. It may be called
// more than once.
func (g *Group[K, V]) Close(ctx context.Context) error {
	g.Stop()
	idle := make(chan struct{})
	go func() {
		g.runs.Wait()
		g.runners.all.Wait()
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
	for f := range s.running.all() {
		f.desert()
	}
	// All contexts have ended by now: if the detaching gives a reload its turn, the
	// reload does not begin.
	for f := range s.running.all() {
		s.detach(f)
	}
}

// Land ends f with *r, which it copies. If f still has the right to store and insert is not nil,
// insert is called first, under the lock that Fence takes: it must not
// wait or call back. Land reports whether insert was called, and how many
// callers f had.
func (g *Group[K, V]) Land(f *Flight[K, V], r *Result[V], insert func()) (stored bool, callers int) {
	s, hash := f.home, uint64(0)
	if insert != nil {
		hash = g.HashOf(f.Key)
	}
	s.mu.Lock()
	if stored = insert != nil && !f.fenced; stored {
		insert()
		if f.notKept || r.Err != nil {
			g.dropped(f.Key, hash, 0) // an older value has gone, and nothing newer shows it
		} else {
			g.watches.changed(f.Key, false)
		}
		if f.kind == Reload {
			g.noteRevocation(s)
		}
		if f.kind == Reload || r.Newer { // values that others have read meanwhile are older
			spot[K, V]{s, f.Key, f.hash}.fenceFlights()
		}
	}
	s.detach(f)
	s.running.exit(f)
	if f.kind == Reload {
		g.reloads.Add(-1)
	}
	callers = f.joined
	f.result = *r // also if it is deserted, for the caller that leads
	if insert != nil && !stored {
		f.result.Times.Fresh = 0 // something newer has come
	}
	f.result.Shared = callers > 1
	f.wake(false)
	s.mu.Unlock()
	return stored, callers
}

// WithRight calls do under the lock that Fence takes, and tells it whether f, which has not landed,
// has the right to store. It must not wait or call back.
func (g *Group[K, V]) WithRight(f *Flight[K, V], do func(right bool)) {
	f.home.mu.Lock()
	defer f.home.mu.Unlock()
	do(!f.fenced)
}

// NotKept notes that the result of f is stored in no tier, so that no entry shows
// it: an extra key of a batch that began earlier may be older. It is called by an
// insert of [Group.Land].
func (g *Group[K, V]) NotKept(f *Flight[K, V]) {
	f.notKept = true
	g.noteRevocation(f.home)
}

// detach makes f unjoinable and takes its right to store. If a reload waits for f it is its
// turn. s.mu is held.
func (s *shard[K, V]) detach(f *Flight[K, V]) {
	f.fenced, f.joinable = true, [kinds]bool{}
	if next := s.running.find(Reload, f.Key, f.hash); next != nil && next.after == f {
		next.promote()
	}
}
