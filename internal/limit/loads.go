package limit

import (
	"container/list"
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// ErrNoSlot is returned to a load that has waited in the queue for as long as
// it may.
var ErrNoSlot = errors.New("limit: no slot came free in time")

// Loads bounds the loads of one cache that run at once. Who asks for a slot
// when all are taken waits for its turn: foreground loads, for which callers
// wait, before background ones, and within a class in the order in which they
// asked. Use [NewLoads] to make one.
type Loads struct {
	max      int
	patience time.Duration // of loads in the queue; not positive: for ever

	// What slots are given back with, made once.
	release, releaseUrgent func()

	mu      sync.Mutex // guards below
	taken   int        // slots; never more than max
	most    int
	beyond  int // loads that were let through and run
	urgent  uint64
	waiting [2]list.List // of *turn, foreground first; empty while a slot is free
}

// turn is what one caller waits for.
type turn struct {
	queue *list.List
	place *list.Element // nil once a slot was given
	given chan struct{} // closed when a slot was given
}

// NewLoads returns a bound of max loads; zero or less means that there is
// none, so that loads are only counted. A load waits in the queue for patience;
// zero or less means for ever.
func NewLoads(max int, patience time.Duration) *Loads {
	if max <= 0 {
		max = math.MaxInt
	}
	l := &Loads{max: max, patience: patience}
	l.release, l.releaseUrgent = l.give, l.returned
	return l
}

// Acquire waits for a slot, and returns what gives it back; the caller calls
// that exactly once. If ctx ends first, or has already, the error is its cause;
// [ErrNoSlot] if no slot came free in time.
//
// urgent, which may be nil, is closed when a load that has a slot waits for
// this one. In the queue it would then wait for itself, so it is let through at
// once, beyond the bound. It runs in the place of the one that waits for it,
// and what it gives back is no slot.
//
// gone, which may be nil, tells when nobody waits for the load any more, so that
// it is a background one from then on (true), and when somebody does again.
func (l *Loads) Acquire(ctx context.Context, background bool, urgent <-chan struct{}, gone <-chan bool) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t := l.enter(background)
	if t == nil {
		return l.release, nil
	}
	var over <-chan time.Time // nil: never
	if l.patience > 0 {
		timer := time.NewTimer(l.patience)
		defer timer.Stop()
		over = timer.C
	}
	for {
		select {
		case <-t.given:
			return l.release, nil
		case <-urgent:
			return l.pass(t), nil
		case nobody := <-gone:
			l.move(t, background || nobody)
		case <-over:
			l.leave(t)
			return nil, ErrNoSlot
		case <-ctx.Done():
			l.leave(t)
			return nil, context.Cause(ctx)
		}
	}
}

// TryAcquire is an [Loads.Acquire] that never waits: ok is false if no slot is
// free. Its class makes no difference, as no slot is free while a load of
// either class waits.
func (l *Loads) TryAcquire(_ bool) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.take() {
		return nil, false
	}
	return l.release, true
}

// LoadStats are the numbers of a [Loads].
type LoadStats struct {
	// Running loads, those beyond the bound included, and Waiting ones.
	Running, Waiting int
	// Most is the highest number of loads that ever had a slot at once; those
	// beyond the bound have none.
	Most int
	// Urgent is the number of loads that were ever let through beyond the
	// bound.
	Urgent uint64
}

// Stats returns the numbers of one moment.
func (l *Loads) Stats() LoadStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return LoadStats{
		Running: l.taken + l.beyond,
		Waiting: l.waiting[0].Len() + l.waiting[1].Len(),
		Most:    l.most,
		Urgent:  l.urgent,
	}
}

// take takes a slot if one is free. l.mu is held.
func (l *Loads) take() bool {
	if l.taken == l.max {
		return false
	}
	l.taken++
	l.most = max(l.most, l.taken)
	return true
}

// enter takes a slot and returns nil, or else a turn in the queue.
func (l *Loads) enter(background bool) *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.take() {
		return nil
	}
	t := &turn{queue: l.queue(background), given: make(chan struct{})}
	t.place = t.queue.PushBack(t)
	return t
}

// queue returns the queue of a class. l.mu is held.
func (l *Loads) queue(background bool) *list.List {
	if background {
		return &l.waiting[1]
	}
	return &l.waiting[0]
}

// move puts t at the end of another queue, unless it was given a slot
// meanwhile, or is in that queue.
func (l *Loads) move(t *turn, background bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	to := l.queue(background)
	if t.place == nil || t.queue == to {
		return
	}
	t.queue.Remove(t.place)
	t.queue = to
	t.place = to.PushBack(t)
}

// give gives a slot back: to the next in the queue, or to nobody.
func (l *Loads) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handOn()
}

// handOn is give. l.mu is held.
func (l *Loads) handOn() {
	for i := range l.waiting {
		if first := l.waiting[i].Front(); first != nil {
			t := l.waiting[i].Remove(first).(*turn)
			t.place = nil
			close(t.given)
			return
		}
	}
	l.taken--
}

// leave gives t up, and hands on the slot that it was given meanwhile.
func (l *Loads) leave(t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.place == nil {
		l.handOn()
		return
	}
	t.queue.Remove(t.place)
}

// pass lets t through beyond the bound, unless it was given a slot meanwhile,
// and returns what gives back what it has.
func (l *Loads) pass(t *turn) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.place == nil {
		return l.release
	}
	t.queue.Remove(t.place)
	l.beyond++
	l.urgent++
	return l.releaseUrgent
}

// returned notes the end of a load beyond the bound.
func (l *Loads) returned() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beyond--
}
