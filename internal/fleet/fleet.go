// Package fleet keeps track of the nodes of a Redis Cluster: which there are,
// what each serves, and who has left. It knows no protocol: its owner says how
// a server is asked and what a node is.
package fleet

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/slots"
)

const (
	// between is the least time between the beginnings of two refreshes. It is
	// doubled, up to betweenMost, by each that brings nothing new.
	between     = 100 * time.Millisecond
	betweenMost = 800 * time.Millisecond
	// hedge is how long one server is waited for before another is asked too.
	hedge = 200 * time.Millisecond
	// watchEvery is how often nodes are looked at, and refreshEvery how old the
	// topology becomes if nobody complains about it.
	watchEvery   = time.Second
	refreshEvery = 30 * time.Second
	// stallAfter is how long a node may say nothing until its role is doubted,
	// each second at first, and after stallMost seldom.
	stallAfter = time.Second
	stallMost  = 10 * time.Second
	// grace is how long calls may run on a node that has left.
	grace = time.Second
	// maxNodes bounds what redirections can make a client reach.
	maxNodes = 8192
)

// Config says what a fleet needs. All fields are required.
type Config[N comparable] struct {
	// Seeds are the addresses that are known before anybody was asked.
	Seeds []string
	// Ask asks a server for the topology. It obeys ctx.
	Ask func(ctx context.Context, addr string) (*slots.Map, error)
	// Open returns a node, on which nothing is opened yet. A node for replica
	// reads is another one than that of the same server for everything else.
	Open func(addr string, replica bool) N
	// Close closes a node and waits for what it has started.
	Close func(N)
	// Changed is told of each node that is kept when a refresh brings another
	// topology: it may serve slots that it did not. It must not wait.
	Changed func(N)
	// Silent is for how long calls have waited for a node that says nothing.
	Silent func(n N, now time.Time) time.Duration
	// Replicas says that replicas are wanted in views.
	Replicas bool
	// Timeout bounds a refresh.
	Timeout time.Duration
	// Closed is the error after Close, Crowd the one for a node too many.
	Closed, Crowd error
}

// place names a node.
type place struct {
	addr    string
	replica bool
}

// Fleet knows the nodes of a cluster. Its methods are safe for concurrent use.
type Fleet[N comparable] struct {
	o      Config[N]
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	view   atomic.Pointer[View[N]]

	mu       sync.Mutex // guards below
	nodes    map[place]N
	watching bool
	closed   bool
	done     chan struct{} // closed when the refresh has ended that runs or waits; nil if none does
	hint     string        // for the next refresh, or the one that waits to begin
	begun    time.Time     // the last refresh
	pause    time.Duration // from then until the next
	err      error         // of the last one
}

// New returns a fleet that knows its seeds only. It asks nobody yet.
func New[N comparable](o Config[N]) *Fleet[N] {
	f := &Fleet[N]{o: o, nodes: map[place]N{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// View is what was known at some time. It does not change.
type View[N comparable] struct {
	topology  *slots.Map
	primaries []N
	replicas  [][]N // of each primary, if they are wanted
	at        time.Time
}

// View returns the newest one, or nil before the first.
func (f *Fleet[N]) View() *View[N] { return f.view.Load() }

// Primary returns the node that serves a slot.
func (v *View[N]) Primary(slot int) (n N, ok bool) {
	i := v.topology.Shard(slot)
	if i < 0 {
		return n, false
	}
	return v.primaries[i], true
}

// Replica returns one of the replicas of the node that serves a slot.
func (v *View[N]) Replica(slot int) (n N, ok bool) {
	i := v.topology.Shard(slot)
	if i < 0 || len(v.replicas) == 0 || len(v.replicas[i]) == 0 {
		return n, false
	}
	return v.replicas[i][rand.IntN(len(v.replicas[i]))], true
}

// Any returns one of the primaries.
func (v *View[N]) Any() N { return v.primaries[rand.IntN(len(v.primaries))] }

// Primaries returns all of them. The slice must not be changed.
func (v *View[N]) Primaries() []N { return v.primaries }

// Known reports whether a server is part of what is known.
func (v *View[N]) Known(addr string) bool {
	for _, s := range v.topology.Shards {
		if s.Primary == addr {
			return true
		}
		for _, r := range s.Replicas {
			if r == addr {
				return true
			}
		}
	}
	return false
}

// At returns the node for an address that a server has named.
func (f *Fleet[N]) At(addr string) (n N, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return n, f.o.Closed
	case len(f.nodes) >= maxNodes:
		return n, f.o.Crowd
	}
	return f.at(place{addr: addr}), nil
}

// at returns the node for a place. mu is held.
func (f *Fleet[N]) at(p place) N {
	n, ok := f.nodes[p]
	if !ok {
		n = f.o.Open(p.addr, p.replica)
		f.nodes[p] = n
	}
	return n
}

// Nodes returns all nodes that are open.
func (f *Fleet[N]) Nodes() []N {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]N, 0, len(f.nodes))
	for _, n := range f.nodes {
		all = append(all, n)
	}
	return all
}

// Err returns why the last refresh failed, or nil.
func (f *Fleet[N]) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return f.o.Closed
	}
	return f.err
}

// Close closes all nodes and waits for what the fleet has started.
func (f *Fleet[N]) Close() {
	f.mu.Lock()
	f.closed = true
	nodes := f.nodes
	f.nodes = nil
	f.mu.Unlock()
	f.cancel()
	for _, n := range nodes {
		f.o.Close(n)
	}
	f.tasks.Wait()
}
