// The graph of loads that wait for each other, across groups.
//
// States of an edge: it stands while a caller inside one load waits for another.
//
// Invariant: of loads that wait for each other in a circle, at least one caller
// finds the circle and gets ErrRecursive. The edge is added before the search. So
// if two loads close a circle at the same time, at least one of them sees the edge
// of the other.

package flight

import (
	"context"
	"errors"
	"sync"

	"github.com/strata-cache/strata/internal/cache/limit"
)

// ErrRecursive is returned when a caller inside a load asks for a flight that
// waits, directly or through other flights, for that load.
var ErrRecursive = errors.New("flight: recursive load")

// Node is a flight's place in the graph of loads that wait for each other. Nodes of
// different groups, and so of different caches, share one graph.
type Node struct {
	mu    sync.Mutex
	waits map[*Node]int // flights that callers inside this load wait for
	batch *Node         // that runs this load; nil if none does

	// load is the *Flight or *Batch that the node belongs to, outer the load in which
	// it was begun. Both are set before the load begins.
	load  any
	outer *Node
}

// within returns a context for the load of n, by which callers are recognised as
// callers inside that load.
func within(ctx context.Context, n *Node) context.Context {
	return context.WithValue(ctx, limit.Own{}, n)
}

// from returns the innermost load that ctx belongs to, or nil.
func from(ctx context.Context) *Node {
	n, _ := ctx.Value(limit.Own{}).(*Node)
	return n
}

// inside reports whether n, or a load around it, is a load of key. Another load of
// key could wait for something that the first holds, such as a lease, although the
// flight of the first has lost its rights and cannot be joined any more.
func inside[K comparable, V any](n *Node, home *shard[K, V], key K) bool {
	for ; n != nil; n = n.outer {
		switch l := n.load.(type) {
		case *Flight[K, V]:
			if l.home == home && l.Key == key {
				return true
			}
		case *Batch[K, V]:
			for _, f := range l.Led {
				if f.home == home && f.Key == key {
					return true
				}
			}
		}
	}
	return false
}

// Apart returns a context with the values of ctx for work that no load waits for,
// although ctx may belong to one.
func Apart(ctx context.Context) context.Context {
	if from(ctx) == nil {
		return ctx
	}
	return within(ctx, nil)
}

// waitFor records that a caller inside n waits for t, and fails with
// ErrRecursive if t waits for n already. If two callers close a circle at the same
// time, both may find it; then both fail, and neither waits.
func (n *Node) waitFor(t *Node) error {
	n.mu.Lock()
	if n.waits == nil {
		n.waits = make(map[*Node]int)
	}
	n.waits[t]++
	n.mu.Unlock()
	if t.reaches(n, make(map[*Node]bool)) {
		n.stopWaiting(t)
		return ErrRecursive
	}
	return nil
}

// dependOn makes n wait for t permanently: the batch t runs the load of n.
func (n *Node) dependOn(t *Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.batch = t
}

// stopWaiting removes the edge that waitFor has added.
func (n *Node) stopWaiting(t *Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waits[t]--; n.waits[t] == 0 {
		delete(n.waits, t)
	}
}

// reaches reports whether n is goal or waits for it through other flights. It
// holds one node's lock at a time.
func (n *Node) reaches(goal *Node, seen map[*Node]bool) bool {
	if n == goal {
		return true
	}
	if seen[n] {
		return false
	}
	seen[n] = true
	n.mu.Lock()
	next := make([]*Node, 0, len(n.waits)+1)
	for t := range n.waits {
		next = append(next, t)
	}
	if n.batch != nil {
		next = append(next, n.batch)
	}
	n.mu.Unlock()
	for _, t := range next {
		if t.reaches(goal, seen) {
			return true
		}
	}
	return false
}
