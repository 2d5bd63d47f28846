//go:build linux

package chaos

import (
	"fmt"
	"time"

	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/internal/testing/checker"
	"github.com/strata-cache/strata/internal/testing/servers"
)

// clusterKinds are the faults of a run with a Redis Cluster. The table is read-only.
var clusterKinds = []kind{
	{"kill", 4, (*run).killWorker},
	{"stop", 4, (*run).stopWorker},
	{"killnode", 6, (*run).killNode},
	{"pausenode", 6, (*run).pauseNode},
	{"pausenodelate", 6, (*run).pauseNodeLate},
	{"handover", 3, (*run).handOver},
	{"handoverlate", 4, (*run).handOverLate},
	{"takeover", 6, (*run).takeOver},
	{"takeoverlate", 6, (*run).takeOverLate},
	{"nodeempty", 3, (*run).emptyNode},
	{"moveslot", 6, (*run).moveSlot},
}

const (
	shards = 3
	// dethroned is the shortest life of a fault that makes a replica of a cluster take over:
	// the nodes agree that the primary is dead, and vote.
	dethroned = 3 * servers.NodeTimeout
	// hears is the time that an instance may take to hear of another primary of a cluster,
	// while its bus is silent, and to repeat its drops.
	hears = notice + time.Second
)

// startNodes starts a cluster, and the workers.
func (r *run) startNodes() {
	r.nodes = servers.StartCluster(r.t, shards, 1)
	for i := range r.o.Workers {
		s := &slot{index: i}
		r.slots = append(r.slots, s)
		r.birth(s)
	}
}

// addresses returns the addresses of all nodes.
func addresses(c *servers.Cluster) (all []string) {
	for _, n := range c.Nodes {
		all = append(all, n.Addr)
	}
	return all
}

// dethrone returns a fault that makes the replica of a shard take over, or nil if the replica
// has not caught up. begin gets both servers. end gets the former primary, after the replica
// has taken its place.
func (r *run) dethrone(lasts time.Duration, name string, begin func(primary, replica int), end func(primary int)) *fault {
	shard := r.rand.IntN(shards)
	primary, ok := r.nodes.Settled(shard)
	if !ok {
		return nil
	}
	f := r.about(lasts, fmt.Sprintf("%s of shard %d", name, shard))
	f.silent = false // messages of the other nodes arrive
	loss := checker.Loss{}
	f.begin = func() {
		loss = lossAt(r.clock.Now())
		begin(primary, r.nodes.Replica(shard, primary))
	}
	f.end = func() {
		is := r.nodes.AwaitPrimary(shard, primary)
		r.logf("the primary of shard %d is node %d", shard, is)
		end(primary)
		loss.To = r.clock.Now() + checker.Time(hears)
		r.losses = append(r.losses, loss)
	}
	return f
}

// killNode kills a primary. It comes back empty when its replica has taken over.
func (r *run) killNode(lasts time.Duration) *fault {
	return r.dethrone(max(lasts/2, dethroned), "kill the primary",
		func(primary, _ int) { r.nodes.Nodes[primary].Kill() },
		func(primary int) { r.nodes.Nodes[primary].Restart() })
}

// pauseNode pauses a primary. It goes on as it was when its replica has taken over, and
// must then hear of the change.
func (r *run) pauseNode(lasts time.Duration) *fault {
	return r.dethrone(max(lasts/2, dethroned), "pause the primary",
		func(primary, _ int) { r.nodes.Nodes[primary].Stop() },
		func(primary int) { r.nodes.Nodes[primary].Continue() })
}

// pauseNodeLate pauses a primary and a worker. Both go on when the replica has taken over.
func (r *run) pauseNodeLate(lasts time.Duration) *fault {
	return r.late(r.pauseNode(lasts), "and worker", hears)
}

// handOver lets a replica take over in agreement with its primary.
func (r *run) handOver(time.Duration) *fault {
	return r.dethrone(time.Second, "hand over the place", func(_, replica int) { r.order(replica) }, func(int) {})
}

// handOverLate is handOver while a worker is paused.
func (r *run) handOverLate(lasts time.Duration) *fault {
	return r.late(r.handOver(lasts), "and pause worker", hears)
}

// takeOver lets a replica take over without asking any node, while its primary is well, or
// is paused for a moment: so soon that no other node has noticed.
func (r *run) takeOver(time.Duration) *fault {
	pauses, how := r.rand.IntN(2) == 0, []any{"TAKEOVER"}
	if !pauses && r.rand.IntN(2) == 0 {
		how = []any{"FORCE"}
	}
	return r.dethrone(time.Second, "take the place",
		func(primary, replica int) {
			if pauses {
				r.nodes.Nodes[primary].Stop()
			}
			r.order(replica, how...)
		},
		func(primary int) {
			if pauses {
				r.nodes.Nodes[primary].Continue()
			}
		})
}

// takeOverLate is takeOver while a worker is paused.
func (r *run) takeOverLate(lasts time.Duration) *fault {
	return r.late(r.takeOver(lasts), "and pause worker", hears)
}

// order tells a replica to take over.
func (r *run) order(replica int, how ...any) {
	if err := r.nodes.TakeOver(replica, how...); err != nil {
		r.problem("CLUSTER FAILOVER %v: %v", how, err)
	}
}

// emptyNode kills a primary, and starts it again with nothing in it before its replica takes
// over. If the replica was faster, the fault counts as a change of primary.
func (r *run) emptyNode(time.Duration) *fault {
	shard := r.rand.IntN(shards)
	primary, ok := r.nodes.Settled(shard)
	if !ok {
		return nil
	}
	f := r.about(time.Second, fmt.Sprintf("kill the primary and restart it empty of shard %d", shard))
	f.silent = false
	loss := checker.Loss{}
	f.begin = func() {
		loss = lossAt(r.clock.Now())
		r.nodes.Nodes[primary].Kill()
		r.nodes.Nodes[primary].Restart()
	}
	f.end = func() {
		if is := r.nodes.AwaitPrimary(shard, -1); is != primary {
			r.logf("the primary of shard %d is node %d", shard, is)
			loss.To = r.clock.Now() + checker.Time(hears)
			r.losses = append(r.losses, loss)
		}
	}
	return f
}

// moveSlot moves the slot of a key to another shard. No drop may be lost: instances find
// the slot on another server then, and repeat their drops there.
func (r *run) moveSlot(time.Duration) *fault {
	from := r.rand.IntN(shards)
	to := (from + 1 + r.rand.IntN(shards-1)) % shards
	source, ok := r.nodes.Settled(from)
	target, yes := r.nodes.Settled(to)
	if !ok || !yes {
		return nil
	}
	key, err := r.nodes.Raw(source).Do(r.t.Context(), "RANDOMKEY").String()
	if err != nil || key == "" {
		return nil
	}
	slot := slots.Of(key)
	if r.nodes.Owner(source, key) != source {
		return nil
	}
	f := r.about(0, fmt.Sprintf("move slot %d", slot))
	f.bus, f.silent, f.learns = false, false, true
	f.begin = func() { r.nodes.Migrate(slot, source, target, nil) }
	return f
}
