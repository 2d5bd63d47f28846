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
// lock three times in a life that has a network round trip in it, so this
// need not grow with the machine.
const shards = 64

// Group holds the running flights and writes of one cache. The zero Group is
// not usable; see [NewGroup].
type Group[K comparable, V any] struct {
	// CancelAbandoned cancels a flight that its last caller leaves, unless it is
	// kept, and lets nobody join it from then on. Else such a flight goes on, and
	// can be joined. It is set before the group is used.
	CancelAbandoned bool

	seed   maphash.Seed
	stamp  func() uint64
	closed chan struct{}
	once   sync.Once
	runs   sync.WaitGroup
	// moves counts what takes rights to store: fences, writes, holds.
	moves  atomic.Uint64
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
	rest     hold          // of all keys, when too many are on hold
	moved    uint64        // the group's moves at the last one here
	stamp    func() uint64 // the group's
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
		s.stamp = stamp
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
	// reports whether it has landed the flight. If not, Then takes over. A Reload
	// begins with Then.
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
func (g *Group[K, V]) Do(ctx context.Context, key K, kind Kind, l Leader[K, V]) (Result[V], Part, error) {
	return g.DoSoftly(ctx, Patience{}, key, kind, l)
}

// DoSoftly is Do for a caller with little patience.
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
			if p == Led { // a reload, in the queue: others may have joined it
				g.refuse(f)
				g.launch(ctx, f, l)
				return r, None, err
			}
			g.leave(f)
			return r, None, err
		}
		defer n.waited(&f.node)
		g.urge(f)
	}
	if p == Led {
		g.launch(ctx, f, l)
	}
	r, err = g.wait(ctx, patience, f)
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
		f.inTurn()
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
	f = &Flight[K, V]{Key: key, Stamp: g.stamp(), home: s, kind: kind, waiters: 1, joined: 1, fenced: s.held(key)}
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

// wait returns the flight's result, or what it offers if the caller's patience
// ends first, or ctx's error if ctx does, or ErrClosed if the group is closed first.
func (g *Group[K, V]) wait(ctx context.Context, p Patience, f *Flight[K, V]) (Result[V], error) {
	select {
	case <-f.done:
		return f.result, nil
	default:
	}
	var soft <-chan struct{}
	if p.Soft != nil {
		soft = p.Soft.Done()
	}
	for {
		select {
		case <-f.done:
			return f.result, nil
		case <-ctx.Done():
			g.leave(f)
			return Result[V]{}, ctx.Err()
		case <-g.closed:
			return Result[V]{}, ErrClosed
		case <-soft:
			if ctx.Err() != nil {
				soft = nil // it ends with ctx, which counts
				continue
			}
			r, next, ok := g.take(p, f)
			if ok {
				return r, nil
			}
			soft = next
		}
	}
}

// take returns what f offers, and makes the caller no waiter any more: f goes on
// all the same. If there is nothing to take, next is closed when there is, or nil.
func (g *Group[K, V]) take(p Patience, f *Flight[K, V]) (r Result[V], next <-chan struct{}, ok bool) {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	o := f.offered
	if o == nil {
		if f.offers == nil {
			f.offers = make(chan struct{})
		}
		return r, f.offers, false
	}
	if !p.Good(o.until, o.result.Tags, o.result.TagWatermark) {
		return r, nil, false
	}
	f.kept = true
	f.count(-1)
	return o.result, nil, true
}

// Offer makes r what callers of f take, until some time, if they do not wait for
// its end. It takes the place of what was offered before.
func (g *Group[K, V]) Offer(f *Flight[K, V], r Result[V], until int64) {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Offered = true
	f.offered = &offer[V]{result: r, until: until}
	if f.offers != nil {
		close(f.offers)
		f.offers = nil
	}
}

// leave makes the caller no waiter any more. With CancelAbandoned a flight that
// the last waiter leaves is cancelled, unless it is kept; it cannot be joined
// from then on, so that nobody inherits the cancellation.
func (g *Group[K, V]) leave(f *Flight[K, V]) {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.count(-1); g.abandoned(f) {
		s.detach(f)
		f.end(errAbandoned)
	}
}

// abandoned reports whether f is to be cancelled, as nobody waits for it. The
// shard's mutex is held.
func (g *Group[K, V]) abandoned(f *Flight[K, V]) bool {
	return (g.CancelAbandoned || f.refused) && f.waiters == 0 && !f.kept
}

// refuse makes the caller that leads f no waiter of it: it would wait for itself.
// Unless others wait for f it is cancelled.
func (g *Group[K, V]) refuse(f *Flight[K, V]) {
	s := f.home
	s.mu.Lock()
	f.refused = true
	s.mu.Unlock()
	g.leave(f)
}

// detach makes f unjoinable and takes its right to store. Only f itself is
// removed: its key may belong to a newer flight. If a reload waits for f it is its
// turn. s.mu is held.
func (s *shard[K, V]) detach(f *Flight[K, V]) {
	f.fenced = true
	for _, m := range s.joinable {
		if m[f.Key] == f {
			delete(m, f.Key)
		}
	}
	if next := s.joinable[Reload][f.Key]; next != nil && next.after == f {
		s.promote(next)
	}
}

// Keep makes f go on when every caller leaves, also with CancelAbandoned: others
// depend on it by now. It reports false if it is too late for that.
func (g *Group[K, V]) Keep(f *Flight[K, V]) bool {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.abandoned(f) {
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
	for ; f != nil; f = f.after {
		if !f.urged && f.urgent != nil {
			close(f.urgent)
		}
		f.urged = true
		if f.batch != nil {
			f.batch()
		}
	}
}

// Land ends f with r. If f still has the right to store and insert is not nil,
// insert is called first, under the lock that Fence takes: it must not
// wait or call back. Land reports whether insert was called, and how many
// callers f had.
func (g *Group[K, V]) Land(f *Flight[K, V], r Result[V], insert func()) (stored bool, callers int) {
	s := f.home
	s.mu.Lock()
	if stored = insert != nil && !f.fenced; stored {
		insert()
		if f.kind == Reload { // what others have read meanwhile is older
			s.moved = g.moves.Add(1)
			s.fenceFlights(f.Key)
		}
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

// NotKept notes that the result of f is kept nowhere, so that nothing else tells of
// it: what a batch that has begun before brings unasked may be older. It is
// called by an insert of [Group.Land].
func (g *Group[K, V]) NotKept(f *Flight[K, V]) { g.move(f.home) }

// Waiting returns how many callers wait for f. endless says that one has joined
// it who belongs to no load and whose context never ends: it may be f's own
// Loader, with a context of its own.
func (g *Group[K, V]) Waiting(f *Flight[K, V]) (callers int, endless bool) {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.waiters, f.endless
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
	s.rest.stop()
	for f := range s.running {
		f.end(ErrClosed)
	}
	// Now that all have ended: a reload whose turn comes does not begin.
	for f := range s.running {
		s.detach(f)
	}
}
