package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// maxTopology is the largest description of a cluster, in bytes. A description
// in which each slot is a range of its own takes a third of it.
const maxTopology = 16 << 20

// ErrNoNode is in the chain of the error of a call about a slot that no node
// serves. Nothing was sent.
var ErrNoNode = errors.New("redis: no node serves the slot")

var errCrowd = fmt.Errorf("%w: more servers than a cluster has", ErrProtocol)

// cluster has the nodes of a cluster. It opens and closes nodes, and asks
// servers for the topology; follow.go finds the node for a call.
type cluster struct {
	o     *Options
	steps *resp.Steps
	fleet *slots.Fleet[*node]
	made  atomic.Uint64 // nodes so far

	// Stats must never fall: a node counts from its opening to the end of its closing, which may take
	// a dial's time, and its counters stay.
	mu    sync.Mutex // guards below
	nodes map[*node]struct{}
	gone  pool.Stats // of closed nodes
}

func newCluster(o *Options, steps *resp.Steps) *cluster {
	k := &cluster{o: o, steps: steps, nodes: map[*node]struct{}{}}
	k.fleet = slots.NewFleet(slots.Config[*node]{
		Seeds:    append([]string{o.Addr}, o.Addrs...),
		Ask:      k.topology,
		Telling:  telling,
		Open:     k.open,
		Close:    k.shut,
		Changed:  (*node).changed,
		Silent:   (*node).silent,
		Replicas: o.ReplicaReads,
		Timeout:  o.DialTimeout,
		Closed:   ErrClosed,
		Crowd:    errCrowd,
	})
	return k
}

// open makes a node.
func (k *cluster) open(addr string, replica bool) *node {
	n := newNode(k.o.at(addr), func(ctx context.Context, o *Options) (*conn, error) {
		cn, err := connect(ctx, o, k.steps)
		// A replica answers reads only on a connection that has sent READONLY. Otherwise it
		// redirects them.
		if err != nil || !replica {
			return cn, err
		}
		if _, err = cn.once(ctx, k.o.DialTimeout, "READONLY"); err != nil {
			cn.Close()
			return nil, err
		}
		return cn, nil
	})
	n.serial = k.made.Add(1)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.nodes[n] = struct{}{}
	return n
}

// shut closes a node and keeps its counters.
func (k *cluster) shut(n *node) {
	n.left.Store(!k.closed())
	n.close()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone.Add(n.pool.Stats())
	delete(k.nodes, n)
}

// closed reports whether the client was closed.
func (k *cluster) closed() bool { return k.fleet.Err() == ErrClosed }

func (k *cluster) stats() pool.Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.gone
	for n := range k.nodes {
		s.Add(n.pool.Stats())
	}
	return s
}

// topology asks a server for the topology, over a connection outside of the
// pool: the connections of the pool may all be in use, and this reply has a
// bound of its own.
func (k *cluster) topology(ctx context.Context, addr string) (*slots.Map, error) {
	o := k.o.at(addr)
	o.MaxReply, o.MaxValue = maxTopology, maxTopology
	cn, err := connect(ctx, &o, k.steps)
	if err != nil {
		return nil, err
	}
	defer cn.Close()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	asked := slots.Asked{Host: host, TLS: o.TLS != nil}
	// CLUSTER SHARDS tells which nodes are healthy. Servers before Redis 7 do not know it, and are
	// asked with CLUSTER SLOTS.
	parse := asked.ParseShards
	v, err := cn.once(ctx, o.DialTimeout, "CLUSTER", "SHARDS")
	var refused *Error
	if errors.As(err, &refused) {
		parse = asked.ParseSlots
		v, err = cn.once(ctx, o.DialTimeout, "CLUSTER", "SLOTS")
	}
	if err != nil {
		return nil, err
	}
	m, err := parse(v)
	// A cluster without any served slot is a state that passes, such as the first seconds of new
	// servers. Any other bad reply breaks the protocol.
	switch {
	case err == slots.ErrEmpty:
		return nil, &ConnError{Op: "route", Err: ErrNoNode}
	case err != nil:
		return nil, &ConnError{Op: "route", Err: fmt.Errorf("%w: %w", ErrProtocol, err)}
	}
	return m, nil
}
