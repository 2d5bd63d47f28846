package flight

import (
	"context"
	"errors"
	"sync"
)

// ErrRecursive is returned when a caller inside a load asks for a flight that
// waits, directly or through other flights, for that load.
var ErrRecursive = errors.New("flight: recursive load")

// Node is a flight's place in the graph of who waits for whom. Nodes of
// different groups, and so of different caches, share one graph.
type Node struct {
	mu    sync.Mutex
	waits map[*Node]int // flights that callers inside this load wait for

	// load is the *Flight or *Batch whose load it is, outer the load that it was
	// begun in. Both are set before the load begins.
	load  any
	outer *Node
}

type nodeKey struct{}

// within returns a context for the load of n. Callers that use it are known
// to be inside that load.
func within(ctx context.Context, n *Node) context.Context {
	return context.WithValue(ctx, nodeKey{}, n)
}

// from returns the innermost load that ctx belongs to, or nil.
func from(ctx context.Context) *Node {
	n, _ := ctx.Value(nodeKey{}).(*Node)
	return n
}

// inside reports whether n, or a load around it, is a load of key: what it asks
// for may wait for what it holds elsewhere, such as a lease, though its flight
// has lost its rights and cannot be joined any more.
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

// Apart returns a context with the values of ctx for what no load waits for,
// though ctx may belong to one.
func Apart(ctx context.Context) context.Context {
	if from(ctx) == nil {
		return ctx
	}
	return within(ctx, nil)
}

// waitFor records that a caller inside n waits for t, and fails with
// ErrRecursive if t waits for n already. The edge is added before the search:
// of two loads that close a circle at the same time at least one finds it, as
// each lock orders the edges. Both may; then both fail, and none waits.
func (n *Node) waitFor(t *Node) error {
	n.mu.Lock()
	if n.waits == nil {
		n.waits = make(map[*Node]int)
	}
	n.waits[t]++
	n.mu.Unlock()
	if t.reaches(n, make(map[*Node]bool)) {
		n.waited(t)
		return ErrRecursive
	}
	return nil
}

// lean makes n wait for t for good: t is where loads for n are made.
func (n *Node) lean(t *Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waits == nil {
		n.waits = make(map[*Node]int)
	}
	n.waits[t]++
}

// waited takes back what waitFor recorded.
func (n *Node) waited(t *Node) {
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
	next := make([]*Node, 0, len(n.waits))
	for t := range n.waits {
		next = append(next, t)
	}
	n.mu.Unlock()
	for _, t := range next {
		if t.reaches(goal, seen) {
			return true
		}
	}
	return false
}
