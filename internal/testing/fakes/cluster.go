package fakes

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/slots"
)

// RedisCluster is a model of a Redis Cluster: each server serves some hash slots and
// redirects commands for others. A node is identified by its port, 7000 and up;
// the host in an address is ignored.
type RedisCluster struct {
	// Servers are the nodes, in the order of their addresses.
	Servers []*Redis

	mu        sync.Mutex // guards below; never held over a lock of a server
	owner     [slots.Count]int
	going     map[int]int  // slots on the move, and their destinations
	primaryOf []int        // of each node; a primary is its own
	hosts     []string     // host names of the nodes in replies
	downs     map[int]bool // nodes that reply CLUSTERDOWN
	asked     int          // number of requests for the topology
	dialled   map[string]int
}

// NewRedisCluster returns a cluster of primaries that share the slots evenly. Each
// replica belongs to one primary, in order from the first.
func NewRedisCluster(primaries, replicas int) *RedisCluster {
	c := &RedisCluster{going: map[int]int{}, downs: map[int]bool{}, dialled: map[string]int{}}
	for i := range primaries + replicas {
		s := NewRedis()
		s.Gate = func(ss *RedisSession, name string, args [][]byte) bool { return c.gate(i, ss, name, args) }
		s.Handle("CLUSTER", func(ss *RedisSession, args [][]byte) { c.describe(i, ss, args) })
		s.Handle("READONLY", func(ss *RedisSession, _ [][]byte) {
			ss.readOnly = true
			ss.Status("OK")
		})
		// The nodes pass messages on to each other.
		s.Handle("PUBLISH", func(ss *RedisSession, args [][]byte) {
			n := 0
			for _, s := range c.Servers {
				n += s.Publish(string(args[1]), string(args[2]))
			}
			ss.Int(n)
		})
		c.Servers = append(c.Servers, s)
		c.hosts = append(c.hosts, "10.0.0."+strconv.Itoa(i))
		c.primaryOf = append(c.primaryOf, i)
		if i >= primaries {
			c.primaryOf[i] = i - primaries
		}
	}
	for slot := range c.owner {
		c.owner[slot] = slot * primaries / slots.Count
	}
	return c
}

// Addr returns the initial address of a node.
func (c *RedisCluster) Addr(i int) string {
	return net.JoinHostPort("10.0.0."+strconv.Itoa(i), port(i))
}

func port(i int) string { return strconv.Itoa(7000 + i) }

// Dial opens a connection to the node with the port of addr.
func (c *RedisCluster) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c.mu.Lock()
	c.dialled[addr]++
	c.mu.Unlock()
	for i, s := range c.Servers {
		if strings.HasSuffix(addr, ":"+port(i)) {
			return s.Dial(ctx, network, addr)
		}
	}
	return nil, ErrRefused
}

// Dialled returns the number of dials to an address.
func (c *RedisCluster) Dialled(addr string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dialled[addr]
}

// Close stops all nodes.
func (c *RedisCluster) Close() {
	for _, s := range c.Servers {
		s.Close()
	}
}

// Owner returns the node that serves the slot of a key.
func (c *RedisCluster) Owner(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owner[slots.Of(key)]
}

// Asked returns the number of requests for the topology.
func (c *RedisCluster) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// Change moves slots, with their keys. moves maps slots to nodes.
func (c *RedisCluster) Change(moves map[int]int) {
	for slot, to := range moves {
		c.mu.Lock()
		from := c.owner[slot]
		c.owner[slot] = to
		delete(c.going, slot)
		c.mu.Unlock()
		if from >= 0 && to >= 0 {
			mine := func(key string) bool { return slots.Of(key) == slot }
			c.Servers[to].add(c.Servers[from].take(mine))
			c.Servers[from].endSharded(mine)
		}
	}
}

// Migrate begins to move the slot of a key: its node redirects commands for
// missing keys to the node to, with ASK.
func (c *RedisCluster) Migrate(key string, to int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.going[slots.Of(key)] = to
}

// Carry moves one key during the migration of its slot.
func (c *RedisCluster) Carry(key string) {
	c.mu.Lock()
	from, to := c.owner[slots.Of(key)], c.going[slots.Of(key)]
	c.mu.Unlock()
	c.Servers[to].add(c.Servers[from].take(func(k string) bool { return k == key }))
}

// Promote gives the slots of a primary to its replica, and makes the primary a
// replica of it. Each node keeps its own data; nothing is copied.
func (c *RedisCluster) Promote(replica int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.primaryOf[replica]
	for slot := range c.owner {
		if c.owner[slot] == old {
			c.owner[slot] = replica
		}
	}
	c.primaryOf[old], c.primaryOf[replica] = replica, replica
}

// Lose takes slots from their nodes, so that no node serves them.
func (c *RedisCluster) Lose(first, last int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for slot := first; slot <= last; slot++ {
		c.owner[slot] = -1
	}
}

// Down makes a node reply CLUSTERDOWN to all commands with keys, or ends that.
func (c *RedisCluster) Down(i int, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.downs[i] = down
}

// Tell changes the host of node i in the replies of all nodes.
func (c *RedisCluster) Tell(i int, host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts[i] = host
}

// gate replies to the commands that node i does not serve. It reports whether
// it has replied.
func (c *RedisCluster) gate(i int, ss *RedisSession, name string, args [][]byte) bool {
	allowed := ss.asking
	ss.asking = allowed && (name == "MULTI" || ss.tx != nil && name != "EXEC")
	if name == "ASKING" {
		ss.asking = true
		ss.Status("OK")
		return true
	}
	switch name {
	case "HELLO", "AUTH", "SELECT", "READONLY", "SUBSCRIBE", "PSUBSCRIBE", "PUBLISH":
		return false
	}
	at := slots.FirstKey(name, len(args), func(i int) string { return string(args[i]) })
	if at == 0 {
		return false
	}
	step, many := slots.Splits(name)
	slot := slots.Of(string(args[at]))
	present, missing := 0, 0
	for n := at; n < len(args) && (n == at || many); n += max(1, step) {
		if slots.Of(string(args[n])) != slot {
			ss.Error("CROSSSLOT Keys in request don't hash to the same slot")
			return true
		}
		if _, ok := ss.look(args[n]); ok {
			present++
		} else {
			missing++
		}
	}
	text := c.redirection(i, ss, slot, name, allowed, present, missing)
	if text != "" {
		ss.Error(text)
	}
	return text != ""
}

// redirection returns the error of node i for a slot that it does not serve, or
// an empty string.
func (c *RedisCluster) redirection(i int, ss *RedisSession, slot int, name string, allowed bool, present, missing int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	owner := c.owner[slot]
	to, moving := c.going[slot]
	where := func(n int) string {
		return " " + strconv.Itoa(slot) + " " + c.hosts[n] + ":" + port(n)
	}
	switch {
	case c.downs[i]:
		return "CLUSTERDOWN The cluster is down"
	case owner < 0:
		return "CLUSTERDOWN Hash slot not served"
	case owner == i && moving && missing > 0 && present > 0:
		return "TRYAGAIN Multiple keys request during rehashing of slot"
	case owner == i && moving && missing > 0:
		return "ASK" + where(to)
	case owner == i:
		return ""
	case moving && to == i && allowed && missing > 0 && missing+present > 1:
		return "TRYAGAIN Multiple keys request during rehashing of slot"
	case moving && to == i && allowed:
		return ""
	case c.primaryOf[i] == owner && ss.readOnly && resp.ReadsOnly(name):
		return ""
	}
	return "MOVED" + where(owner)
}

// describe handles CLUSTER SHARDS and CLUSTER SLOTS.
func (c *RedisCluster) describe(i int, ss *RedisSession, args [][]byte) {
	sub := strings.ToUpper(string(args[len(args)-1]))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	switch {
	case sub == "SHARDS" && !c.Servers[i].Old:
		ss.Out = resp.AppendArray(ss.Out, len(c.Servers))
		for n := range c.Servers {
			c.describeShard(ss, n)
		}
	case sub == "SLOTS":
		ranges := c.ranges(-1)
		ss.Out = resp.AppendArray(ss.Out, len(ranges))
		for _, r := range ranges {
			members := c.members(c.owner[r[0]])
			ss.Out = resp.AppendArray(ss.Out, 2+len(members))
			ss.Int(r[0])
			ss.Int(r[1])
			for _, m := range members {
				ss.Out = resp.AppendArray(ss.Out, 2)
				ss.Bulk(c.hosts[m])
				ss.Int(7000 + m)
			}
		}
	default:
		ss.Error("ERR unknown subcommand")
	}
}

// describeShard appends the shard of node n. A node without slots has a shard
// without slots.
func (c *RedisCluster) describeShard(ss *RedisSession, n int) {
	ranges := c.ranges(n)
	ss.Out = resp.AppendMap(ss.Out, 2)
	ss.Bulk("slots")
	ss.Out = resp.AppendArray(ss.Out, 2*len(ranges))
	for _, r := range ranges {
		ss.Int(r[0])
		ss.Int(r[1])
	}
	members := c.members(n)
	ss.Bulk("nodes")
	ss.Out = resp.AppendArray(ss.Out, len(members))
	for _, m := range members {
		role := "replica"
		if c.primaryOf[m] == m {
			role = "master"
		}
		ss.Out = resp.AppendMap(ss.Out, 4)
		ss.Bulk("endpoint")
		ss.Bulk(c.hosts[m])
		ss.Bulk("port")
		ss.Int(7000 + m)
		ss.Bulk("role")
		ss.Bulk(role)
		ss.Bulk("health")
		ss.Bulk("online")
	}
}

// members returns a primary and its replicas.
func (c *RedisCluster) members(primary int) []int {
	all := []int{primary}
	for n, of := range c.primaryOf {
		if of == primary && n != primary {
			all = append(all, n)
		}
	}
	return all
}

// ranges returns the ranges of slots of node n, or of all nodes if n is
// negative.
func (c *RedisCluster) ranges(n int) (all [][2]int) {
	for slot, owner := range c.owner {
		switch {
		case owner < 0 || n >= 0 && owner != n:
		case slot > 0 && c.owner[slot-1] == owner:
			all[len(all)-1][1] = slot
		default:
			all = append(all, [2]int{slot, slot})
		}
	}
	return all
}

// take removes the keys that match and returns them.
func (s *Redis) take(match func(string) bool) map[string]entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := map[string]entry{}
	for k, e := range s.dbs[0] {
		if match(k) {
			taken[k] = e
			delete(s.dbs[0], k)
		}
	}
	return taken
}

func (s *Redis) add(entries map[string]entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dbs[0] == nil {
		s.dbs[0] = map[string]entry{}
	}
	for k, e := range entries {
		s.dbs[0][k] = e
	}
}
