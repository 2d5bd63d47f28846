// Keeps track of the nodes of a Redis Cluster: it opens a node
// for each server of the topology, and closes the nodes of servers that have
// left. It knows no protocol: the owner supplies the functions that ask a
// server and open a node.
//
// A [Fleet] is idle or has one refresh that runs or waits to begin; a second
// Refresh joins it. A refresh that brings a topology replaces the view.
// Invariant: each node in the view is open. A node that a refresh does not
// confirm is closed, also if its server comes back in another role.

package slots

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// between is the shortest time between the beginnings of two refreshes.
	// Each refresh without a change doubles it, up to betweenMost.
	between     = 100 * time.Millisecond
	betweenMost = 800 * time.Millisecond
	// hedge is the time after which a second server is asked if the first is
	// silent.
	hedge = 200 * time.Millisecond
	// watchEvery is the time between two checks of all nodes; refreshEvery is
	// the age at which the topology is refreshed without another reason.
	watchEvery   = time.Second
	refreshEvery = 30 * time.Second
	// stallAfter is the silence of a node after which each check starts a
	// refresh. After stallMost of silence a check refreshes only a view older
	// than stallMost.
	stallAfter = time.Second
	stallMost  = 10 * time.Second
	// grace is the time for which calls may run on a node after it has left.
	grace = time.Second
	// manyNodes bounds the nodes that redirections can make a client open.
	manyNodes = 8192
)

// Config is the functions and settings of a fleet. All fields are required.
type Config[N comparable] struct {
	// Seeds are the addresses known before the first refresh.
	Seeds []string
	// Ask asks a server for the topology. It returns when ctx ends.
	Ask func(ctx context.Context, addr string) (*Map, error)
	// Telling returns the more telling of the errors of two questions, of which
	// the first may be nil.
	Telling func(a, b error) error
	// Open returns a node, and opens no connection yet. A server has a separate
	// node for replica reads.
	Open func(addr string, replica bool) N
	// Close closes a node and waits for its goroutines.
	Close func(N)
	// Changed is called for each node that stays when a refresh brings another
	// topology: the node may serve other slots. Changed must not wait.
	Changed func(N)
	// Silent returns for how long calls have waited for a node that sends
	// nothing.
	Silent func(n N, now time.Time) time.Duration
	// Replicas adds replicas to views.
	Replicas bool
	// Timeout bounds a refresh.
	Timeout time.Duration
	// Closed is the error after Close; Crowd is the error for more than
	// manyNodes nodes.
	Closed, Crowd error
}

// place identifies a node.
type place struct {
	addr    string
	replica bool
}

// Fleet holds the nodes of a cluster. Its methods are safe for concurrent use.
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
	done     chan struct{} // closed when the present refresh ends; nil if no refresh runs or waits
	hint     string        // server to ask first in the next refresh, or in the one that waits
	begun    time.Time     // beginning of the last refresh
	pause    time.Duration // shortest time from begun to the next refresh
	err      error         // of the last refresh
}

// NewFleet returns a fleet with its seeds alone. It asks no server yet.
func NewFleet[N comparable](o Config[N]) *Fleet[N] {
	f := &Fleet[N]{o: o, nodes: map[place]N{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// View is the result of one refresh. It is immutable.
type View[N comparable] struct {
	topology  *Map
	primaries []N
	replicas  [][]N // of each primary, if Config.Replicas
	at        time.Time
}

// View returns the newest view, or nil before the first refresh.
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

// Primaries returns all primaries. The caller must not change the slice.
func (v *View[N]) Primaries() []N { return v.primaries }

// Known reports whether a server is in the topology.
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
	// A server that redirects to ever new addresses must not make the client open nodes without
	// end. The next refresh closes the ones that are not in the topology.
	case len(f.nodes) >= manyNodes:
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

// Nodes returns all open nodes.
func (f *Fleet[N]) Nodes() []N {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.nodes))
}

// Err returns the error of the last refresh, or nil.
func (f *Fleet[N]) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return f.o.Closed
	}
	return f.err
}

// Close closes all nodes and waits for the goroutines of the fleet.
func (f *Fleet[N]) Close() {
	f.mu.Lock()
	f.closed = true
	nodes := f.nodes
	f.nodes = nil
	f.mu.Unlock()
	// The end of the context ends the refresh and the pauses of leaving nodes, for which the Wait
	// below waits.
	f.cancel()
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() { f.o.Close(n) })
	}
	all.Wait()
	f.tasks.Wait()
}
