//go:build unix

package servers

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/redis"
)

// NodeTimeout is the time without an answer after which the nodes of a cluster with replicas take
// another node for dead. Without replicas it is a minute: no replica can take over, and caches
// would take the state of a busy machine for a failover.
const NodeTimeout = time.Second

// Cluster is a Redis Cluster. Its methods are for one goroutine at a time.
type Cluster struct {
	// Nodes are the primaries, as they were at first, and then the replicas: of
	// the first primary, the second and so on, and then again.
	Nodes []*Redis

	t         testing.TB
	primaries int             // at first
	raw       []*redis.Client // to each node alone
	ids       []string
}

// StartCluster starts primaries that share the slots, and replicas of them, with
// further arguments, and waits until all know each other.
func StartCluster(t testing.TB, primaries, replicasEach int, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t, primaries: primaries}
	n := primaries * (1 + replicasEach)
	ports := make([]string, n)
	for i := range n {
		port := Port(t)
		ports[i] = strconv.Itoa(port)
		r := StartRedis(t, append([]string{
			"--cluster-enabled", "yes", "--cluster-port", ports[i],
			"--cluster-config-file", filepath.Join(t.TempDir(), "nodes"),
			"--cluster-node-timeout", strconv.FormatInt(startTimeout.Milliseconds(), 10), // a handshake lasts no longer
			"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
		}, args...)...)
		c.Nodes = append(c.Nodes, r)
		c.raw = append(c.raw, r.Client(t, func(o *redis.Options) { o.Network, o.Addr, o.Timeout = "unix", r.Socket, startTimeout }))
		c.ids = append(c.ids, c.must(i, "CLUSTER", "MYID"))
		c.must(i, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < primaries {
			c.must(i, "CLUSTER", "ADDSLOTSRANGE", i*slots.Count/primaries, (i+1)*slots.Count/primaries-1)
		}
	}
	for i := range n {
		for j := range i { // all pairs: gossip takes a part of the node timeout
			c.must(j, "CLUSTER", "MEET", "127.0.0.1", strings.TrimPrefix(c.Nodes[i].Addr, "127.0.0.1:"), ports[i])
		}
	}
	c.await("all know each other", func(i int) bool {
		return strings.Count(c.must(i, "CLUSTER", "NODES"), " connected") == n
	})
	for i := range n {
		c.must(i, "CONFIG", "SET", "cluster-node-timeout", NodeTimeout.Milliseconds())
	}
	for i := primaries; i < n; i++ {
		c.must(i, "CLUSTER", "REPLICATE", c.ids[i%primaries])
	}
	c.await("all serve", func(i int) bool {
		copies := strings.Contains(c.must(i, "INFO", "replication"), "master_link_status:up")
		if copies && i < primaries {
			_ = c.TakeOver(i) // on a busy machine a replica has taken its place; await asks again
		}
		// A node that has yet to hear of the highest epoch looks like one after a failover a moment later.
		return c.state(i) != "" && c.state(i) == c.state(n-1) && copies == (i >= primaries) && strings.Count(c.must(i, "CLUSTER", "NODES"), "slave") == n-primaries
	})
	for i := range c.raw {
		if replicasEach == 0 {
			c.must(i, "CONFIG", "SET", "cluster-node-timeout", 60_000)
		}
	}
	return c
}

// state returns the state of the cluster and its epoch, as a node sees them; "" unless the state is good.
func (c *Cluster) state(i int) string {
	info := c.must(i, "CLUSTER", "INFO")
	_, epoch, _ := strings.Cut(info, "cluster_current_epoch:")
	epoch, _, ok := strings.Cut(epoch, "\r\n")
	if !ok || !strings.Contains(info, "cluster_state:ok") {
		return ""
	}
	return epoch
}

// Client returns a client of the cluster, and closes it when the test ends.
func (c *Cluster) Client(t testing.TB, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	return c.Nodes[0].Client(t, append([]func(*redis.Options){func(o *redis.Options) {
		o.Cluster = true
		for _, r := range c.Nodes[1:] {
			o.Addrs = append(o.Addrs, r.Addr)
		}
	}}, change...)...)
}

// Raw returns a client of one node alone.
func (c *Cluster) Raw(i int) *redis.Client { return c.raw[i] }

// Owner returns the node that serves the slot of a key, as node at sees it.
func (c *Cluster) Owner(at int, key string) int {
	c.t.Helper()
	slot := slots.Of(key)
	for line := range strings.Lines(c.must(at, "CLUSTER", "NODES")) {
		f := strings.Fields(line)
		for _, r := range f[8:] {
			first, last, _ := strings.Cut(r, "-")
			a, err := strconv.Atoi(first)
			if err != nil {
				continue // a slot on the move
			}
			b, err := strconv.Atoi(last)
			if err != nil {
				b = a
			}
			if a <= slot && slot <= b {
				return c.index(f[0])
			}
		}
	}
	return -1
}

func (c *Cluster) index(id string) int {
	for i, known := range c.ids {
		if known == id {
			return i
		}
	}
	return -1
}

// Migrate moves a slot with its keys from its primary to another one. between is
// called before each step, if it is not nil.
func (c *Cluster) Migrate(slot, from, to int, between func()) {
	c.t.Helper()
	step := func(at int, args ...any) string {
		if between != nil {
			between()
		}
		return c.must(at, args...)
	}
	step(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[from])
	step(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to])
	host, port, _ := strings.Cut(c.Nodes[to].Addr, ":")
	for {
		move := []any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}
		for _, key := range c.raw[from].Do(c.t.Context(), "CLUSTER", "GETKEYSINSLOT", slot, 10).All() {
			name, err := key.String()
			if err != nil {
				c.t.Fatal(err)
			}
			move = append(move, name)
		}
		if len(move) == 7 {
			break
		}
		step(from, move...)
	}
	for _, i := range []int{to, from} {
		step(i, "CLUSTER", "SETSLOT", slot, "NODE", c.ids[to])
	}
}

// Shards is the number of parts that share the slots: the number of primaries at first.
func (c *Cluster) Shards() int { return c.primaries }

// Settled returns the primary of a shard, and reports whether all nodes serve and name that
// primary, and whether the replicas of the shard have caught up with it.
func (c *Cluster) Settled(shard int) (primary int, ok bool) {
	primary = -1
	for i := range c.Nodes {
		info, err := c.ask(i, "CLUSTER", "INFO")
		is := c.named(i, shard)
		if err != nil || !strings.Contains(info, "cluster_state:ok") || is < 0 || primary >= 0 && is != primary {
			return -1, false
		}
		primary = is
	}
	for i := shard; i < len(c.Nodes); i += c.primaries {
		want := "master_link_status:up"
		if i == primary {
			want = "role:master"
		}
		if text, err := c.ask(i, "INFO", "replication"); err != nil || !strings.Contains(text, want) {
			return -1, false
		}
	}
	return primary, true
}

// AwaitPrimary waits until the nodes name another primary for a shard than the node not, whose own
// view does not count. It returns the new primary.
func (c *Cluster) AwaitPrimary(shard, not int) (is int) {
	c.t.Helper()
	c.await("another primary is named", func(i int) bool {
		if i == not {
			return true
		}
		is = c.named(i, shard)
		return is >= 0 && is != not
	})
	return is
}

// named returns the primary of a shard that a node names: the one with slots that the
// node does not take for dead. It returns -1 if the node names none, or does not answer.
func (c *Cluster) named(at, shard int) (is int) {
	text, err := c.ask(at, "CLUSTER", "NODES")
	if err != nil {
		return -1
	}
	is = -1
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.Contains(f[2], "master") || strings.Contains(f[2], "fail") {
			continue
		}
		if i := c.index(f[0]); i >= 0 && i%c.primaries == shard {
			is = i
		}
	}
	return is
}

// TakeOver lets a replica take the place of its primary: while both agree, or with "FORCE"
// though the primary does not answer, or with "TAKEOVER" though no node agrees.
func (c *Cluster) TakeOver(replica int, how ...any) error {
	_, err := c.ask(replica, append([]any{"CLUSTER", "FAILOVER"}, how...)...)
	return err
}

// Replica returns the first replica of a shard with that primary.
func (c *Cluster) Replica(shard, primary int) int {
	if primary != shard {
		return shard
	}
	return shard + c.primaries
}

// Deafen keeps later writes to a node from its replicas: it no longer serves them.
func (c *Cluster) Deafen(i int) {
	c.t.Helper()
	c.must(i, "ACL", "SETUSER", "default", "-psync", "-sync")
	if err := c.raw[i].Do(c.t.Context(), "CLIENT", "KILL", "TYPE", "replica").Err(); err != nil {
		c.t.Fatal(err)
	}
}

// ask asks a node and returns the text of the reply.
func (c *Cluster) ask(i int, args ...any) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return c.raw[i].Do(ctx, args...).String()
}

// must is ask for an answer that must come.
func (c *Cluster) must(i int, args ...any) string {
	c.t.Helper()
	s, err := c.ask(i, args...)
	if err != nil {
		c.t.Fatalf("node %d: %v: %v", i, args[:min(3, len(args))], err)
	}
	return s
}

// await waits until ok is true of all nodes.
func (c *Cluster) await(what string, ok func(i int) bool) {
	c.t.Helper()
	for deadline := time.Now().Add(startTimeout); ; <-time.After(20 * time.Millisecond) {
		all := true
		for i := range c.Nodes {
			all = all && ok(i)
		}
		if all {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("waited in vain until %s:\n%s", what, fmt.Sprint(c.must(0, "CLUSTER", "NODES")))
		}
	}
}
