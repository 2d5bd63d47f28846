// Package batcher brings items together that come one by one: a group of them is handed
// over when it is full, or when the first of them has waited for some time.
package batcher

import (
	"sync"
	"time"
)

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

// group is the items that are handed over together.
type group[T any] struct {
	items []T           // guarded by the mutex of the Gatherer while the group is open
	full  chan struct{} // closed when the group is
	done  chan struct{} // closed when the hand-over has returned
}

// New returns a Gatherer that hands groups of up to size items to hand, each at most
// wait after its first item. If size is one, or wait is not positive, each item is a
// group. From the end of over on no group waits.
func New[T any](size int, wait time.Duration, over <-chan struct{}, hand func([]T)) *Gatherer[T] {
	if wait <= 0 {
		size = 1
	}
	return &Gatherer[T]{size: size, wait: wait, over: over, hand: hand}
}

// Join adds an item to a group, and returns when that was handed over and the hand-over
// has returned. The hand-over runs on the goroutine of the item that came first: if it
// ends that goroutine the others return all the same.
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
