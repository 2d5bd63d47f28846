// Waiting: the callers of a flight, their results, and their leaving.
//
// States of a caller: waiting; then answered by the result or by an offer, or gone
// with the error of its own context or with ErrClosed.
//
// Invariant: a caller that leaves changes nothing for the others. A flight without
// callers is cancelled only with CancelAbandoned or if its leader was refused, never
// once it is kept, and it is unjoinable before it is cancelled.

package flight

import (
	"context"
	"sync"
)

// wait waits for done, which is f's done or the bell of the caller. It writes to r the
// flight's result, or its offer if the caller's patience ends first; or it returns ctx.Err()
// if ctx ends first, or ErrClosed if the group is closed first.
func (g *Group[K, V]) wait(ctx context.Context, p Patience, f *Flight[K, V], done <-chan struct{}, r *Result[V]) error {
	// The usual caller has nothing but the result to wait for, and needs no select.
	gone := ctx.Done()
	if gone == nil && p.Soft == nil {
		<-done
		return f.answer(r)
	}
	select {
	case <-done:
		return f.answer(r)
	default:
	}
	var soft <-chan struct{}
	if p.Soft != nil {
		soft = p.Soft.Done()
	}
	for {
		select {
		case <-done:
			return f.answer(r)
		case <-gone:
			g.leave(f)
			return ctx.Err()
		case <-soft:
			if ctx.Err() != nil {
				soft = nil // it ends with ctx, which counts
				continue
			}
			next, taken := g.take(p, f, r)
			if taken {
				return nil
			}
			soft = next
		}
	}
}

// answer writes the result of f to r, or returns ErrClosed if the group was closed before f had
// one. The caller was woken.
func (f *Flight[K, V]) answer(r *Result[V]) error {
	if f.deserted {
		return ErrClosed
	}
	*r = f.result
	return nil
}

// take writes the offer of f to r, and ends the caller's waiting; f continues. If f has no
// offer that the caller may take, taken is false and next is a channel that the coming offer
// closes: an offer of L2 may follow the one of L1.
func (g *Group[K, V]) take(p Patience, f *Flight[K, V], r *Result[V]) (next <-chan struct{}, taken bool) {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	o := f.offered
	if o == nil || !p.Good(o.until, o.result.Note, o.result.Tags, o.result.TagWatermark) {
		if f.offers == nil {
			f.offers = make(chan struct{})
		}
		return f.offers, false
	}
	f.kept = true
	f.count(-1)
	*r = o.result
	return nil, true
}

// Offer makes r the offer of f, until some time: callers may take it instead of
// waiting for the end of f. It replaces an earlier offer. A reload with a fence since its
// registration offers nothing until Start: callers from after the fence join it.
func (g *Group[K, V]) Offer(f *Flight[K, V], r Result[V], until int64) {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.pending && f.fenced {
		return
	}
	r.Offered = true
	f.offered = &offer[V]{result: r, until: until}
	if f.offers != nil {
		close(f.offers)
		f.offers = nil
	}
}

// leave ends the caller's waiting. With CancelAbandoned a flight that the last
// waiter leaves is cancelled, unless it is kept. It cannot be joined from then on,
// so that no other caller gets the cancellation.
func (g *Group[K, V]) leave(f *Flight[K, V]) {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.count(-1); g.abandoned(f) {
		s.detach(f)
		f.end(errAbandoned)
	}
}

// abandoned reports whether f must be cancelled because no caller waits for it.
// The shard's mutex is held.
func (g *Group[K, V]) abandoned(f *Flight[K, V]) bool {
	return (g.CancelAbandoned || f.refused) && f.waiters == 0 && !f.kept
}

// refuse ends the waiting of the caller that leads f, which would wait for itself.
// Unless others wait for f it is cancelled.
func (g *Group[K, V]) refuse(f *Flight[K, V]) {
	s := f.home
	s.mu.Lock()
	f.refused = true
	s.mu.Unlock()
	g.leave(f)
}

// Keep makes f continue when every caller leaves, also with CancelAbandoned,
// because others depend on it by now. It reports false if f is abandoned already.
func (g *Group[K, V]) Keep(f *Flight[K, V]) bool {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	f.kept = !g.abandoned(f) // a kept flight is never abandoned
	return f.kept
}

// Waiting returns the number of callers that wait for f. endless: one of the
// callers that have joined belongs to no load and has a context that never ends. It
// may be f's own Loader, with a context of its own.
func (g *Group[K, V]) Waiting(f *Flight[K, V]) (callers int, endless bool) {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.waiters, f.endless
}

// Urgent returns a channel, closed as soon as a caller inside a load waits for f:
// this load may hold the slot for which f queues.
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
			f.batch.urge()
		}
		if f.gathered != nil {
			f.gathered.urge()
		}
	}
}

// presence tells whether any caller waits for any of some flights: for one flight,
// or for the flights of a batch.
type presence struct {
	gone chan bool // holds the latest change until it is received
	many bool      // it is of a batch

	mu      sync.Mutex // guards below
	flights int        // those with a caller
}

func newPresence() *presence { return &presence{gone: make(chan bool, 1)} }

// add notes that n flights more have a caller, and sends a change from none to some
// or back.
func (p *presence) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.flights
	if p.flights += n; (before == 0) == (p.flights == 0) {
		return
	}
	select {
	case <-p.gone: // an older change, not received yet
	default:
	}
	p.gone <- p.flights == 0
}

// Gone returns a channel that receives true when no caller waits for f any more,
// and false when a caller does again, as of the latest change. A refresh is no caller. A flight of a batch
// that goes on by itself is no longer one of the flights of its batch.
func (g *Group[K, V]) Gone(f *Flight[K, V], refresh bool) <-chan bool {
	f.home.mu.Lock()
	defer f.home.mu.Unlock()
	switch {
	case f.presence == nil:
		f.join(newPresence(), refresh)
	case f.presence.many:
		if f.heard() {
			f.presence.add(-1)
		}
		f.join(newPresence(), refresh)
	}
	return f.presence.gone
}

// join makes the flight one of the flights of p. The shard's mutex is held.
func (a *audience) join(p *presence, refresh bool) {
	a.presence, a.refresh = p, refresh
	p.add(1) // and back: p tells of no flight with a caller, too
	if !a.heard() {
		p.add(-1)
	}
}

// heard reports whether any caller waits, apart from a refresh. The shard's mutex is held.
func (a *audience) heard() bool { return a.waiters > 1 || a.waiters == 1 && !a.refresh }

// count adds n to the callers that wait. The shard's mutex is held.
func (a *audience) count(n int) {
	before := a.heard()
	a.waiters += n
	switch {
	case a.presence == nil || a.heard() == before:
	case before:
		a.presence.add(-1)
	default:
		a.presence.add(1)
	}
}

// queue is the place of a reload behind the load of its key that runs. Other
// flights do not use it.
type queue[K comparable, V any] struct {
	turn   chan struct{} // closed when it is the reload's turn
	behind *Node         // of the load that the reload has to wait for; nil if none
	queued bool          // see Flight.Queued

	// Guarded by the shard's mutex.
	pending bool          // the load has not begun: fences do not detach the reload
	after   *Flight[K, V] // the load that the reload waits for; nil from its turn on
}

// enqueue makes f, a reload, wait until no older load of its key can be joined.
// s.mu is held.
func (s *shard[K, V]) enqueue(f *Flight[K, V]) {
	f.pending, f.turn = true, make(chan struct{})
	older := s.running.find(Load, f.Key, f.hash)
	if older == nil {
		f.promote()
		return
	}
	f.after, f.behind, older.shared = older, &older.node, true
	f.node.waits = map[*Node]int{f.behind: 1} // no other goroutine knows f yet
}

// promote makes f, a reload, the flight that callers join if they ask for a load
// of its key. The shard's mutex is held.
func (f *Flight[K, V]) promote() {
	f.after = nil
	f.joinable[Load] = true
	close(f.turn)
}

// inTurn waits until f, if it is a reload, is promoted or cancelled.
func (f *Flight[K, V]) inTurn() {
	if f.behind == nil {
		return
	}
	select {
	case <-f.turn:
	case <-f.scope.Done():
	}
	f.node.stopWaiting(f.behind)
	f.behind, f.queued = nil, true
}

// Queued reports, in Then, whether f is a reload that has waited for the end of an
// older load.
func (f *Flight[K, V]) Queued() bool { return f.queued }

// Start must be called when the load of f, a reload, begins: the next caller that
// asks for a Reload of the key gets another flight. Fences from before Start leave
// f the right to store, since the load begins after them. Start returns false if
// there was such a fence: values read for f before Start must not be served.
func (g *Group[K, V]) Start(f *Flight[K, V]) (current bool) {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	f.joinable[Reload] = false
	current = !f.fenced
	f.pending, f.Stamp, f.fenced = false, s.stamp(), s.closed || s.held(f.Key)
	return current
}
