package slots

import (
	"errors"
	"net"
	"slices"
	"strconv"

	"github.com/strata-cache/strata/internal/redis/resp"
)

const (
	// maxNodes is the largest number of servers in a topology. Redis Cluster is
	// designed for up to 1000.
	maxNodes = 4096
	// maxHost is the greatest length of a host name.
	maxHost = 255
)

var (
	errShape = errors.New("slots: topology: reply of a wrong shape")
	errRange = errors.New("slots: topology: bad range of slots")
	errNodes = errors.New("slots: topology: too many servers")
)

// ErrEmpty is returned for a topology in which no slot is served, such as the
// topology of servers that have just started.
var ErrEmpty = errors.New("slots: topology: no slot is served")

// Map is the assignment of slots to servers. It is immutable.
type Map struct {
	// Shards are the shards that serve slots.
	Shards []Shard
	// owner is the index of a slot's shard plus one.
	owner [Count]uint16
}

// Shard is a primary and its replicas, each as host:port.
type Shard struct {
	Primary  string
	Replicas []string
}

// Shard returns the index of the shard that serves a slot, or -1.
func (m *Map) Shard(slot int) int {
	if slot < 0 || slot >= Count {
		return -1
	}
	return int(m.owner[slot]) - 1
}

// Same reports whether the same primaries serve the same slots in m and in
// other, which may be nil.
func (m *Map) Same(other *Map) bool {
	if other == nil {
		return false
	}
	for slot := range Count {
		// Indexes differ from reply to reply, so that the addresses are compared.
		a, b := m.Shard(slot), other.Shard(slot)
		if (a < 0) != (b < 0) || a >= 0 && m.Shards[a].Primary != other.Shards[b].Primary {
			return false
		}
	}
	return true
}

// Asked is the way in which a server was asked for the topology.
type Asked struct {
	// Host is the host name by which the server was reached. It replaces host
	// names that the server does not know.
	Host string
	// TLS selects the ports for TLS.
	TLS bool
}

// ParseShards reads the reply to CLUSTER SHARDS.
func (a Asked) ParseShards(v resp.Value) (*Map, error) {
	if v.Kind() != resp.Array {
		return nil, errShape
	}
	b := builder{asked: a}
	for shard := range v.Elems() {
		var ranges, nodes resp.Value
		for name, e := range fields(shard) {
			switch name {
			case "slots":
				ranges = e
			case "nodes":
				nodes = e
			}
		}
		if err := b.shard(ranges, nodes); err != nil {
			return nil, err
		}
	}
	return b.done()
}

// ParseSlots reads the reply to CLUSTER SLOTS.
func (a Asked) ParseSlots(v resp.Value) (*Map, error) {
	if v.Kind() != resp.Array {
		return nil, errShape
	}
	b := builder{asked: a, byPrimary: map[string]int{}}
	for e := range v.Elems() {
		if err := b.slotRange(e); err != nil {
			return nil, err
		}
	}
	return b.done()
}

// builder builds a Map from a reply.
type builder struct {
	asked Asked
	m     Map
	// The number of servers so far, bounded by maxNodes.
	nodes     int
	byPrimary map[string]int // index of a primary's shard
}

func (b *builder) done() (*Map, error) {
	if len(b.m.Shards) == 0 {
		return nil, ErrEmpty
	}
	return &b.m, nil
}

// shard adds one element of CLUSTER SHARDS.
func (b *builder) shard(ranges, nodes resp.Value) error {
	if ranges.Kind() != resp.Array || nodes.Kind() != resp.Array || ranges.Len()%2 != 0 {
		return errShape
	}
	if ranges.Len() == 0 {
		return nil // a shard that serves no slot, or a failed primary
	}
	var s Shard
	best := 0
	for n := range nodes.Elems() {
		if b.nodes++; b.nodes > maxNodes {
			return errNodes
		}
		addr, role, healthy := b.node(n)
		switch {
		case addr == "":
		case role == "master":
			// Of two nodes that claim to be the primary, the healthy one has
			// taken over.
			rank := 1
			if healthy {
				rank = 2
			}
			if rank > best {
				s.Primary, best = addr, rank
			}
		case healthy:
			s.Replicas = append(s.Replicas, addr)
		}
	}
	if s.Primary == "" {
		return nil // no server can be asked for these slots
	}
	// Ranges come as a flat list of first and last slots; first is negative between two ranges.
	first := int64(-1)
	for e := range ranges.Elems() {
		if first < 0 {
			if first = e.Int(); e.Kind() != resp.Int || first < 0 {
				return errRange
			}
			continue
		}
		if e.Kind() != resp.Int || !b.own(len(b.m.Shards), first, e.Int()) {
			return errRange
		}
		first = -1
	}
	b.m.Shards = append(b.m.Shards, s)
	return nil
}

// node reads a node of CLUSTER SHARDS. The address is empty if the node has
// none.
func (b *builder) node(v resp.Value) (addr, role string, healthy bool) {
	var endpoint, ip resp.Value
	var port, tlsPort int64
	healthy = true
	for name, e := range fields(v) {
		switch name {
		case "endpoint":
			endpoint = e
		case "ip":
			ip = e
		case "port":
			port = e.Int()
		case "tls-port":
			tlsPort = e.Int()
		case "role":
			role = string(e.Bytes())
		case "health":
			healthy = string(e.Bytes()) != "fail" && string(e.Bytes()) != "failed"
		}
	}
	// A node that tells one port only listens on this one.
	if b.asked.TLS && tlsPort != 0 {
		port = tlsPort
	}
	return b.asked.member(endpoint, ip, port), role, healthy
}

// slotRange adds one element of CLUSTER SLOTS: the first and last slot, the
// primary, the replicas.
func (b *builder) slotRange(v resp.Value) error {
	if v.Kind() != resp.Array || v.Len() < 3 {
		return errShape
	}
	var bounds [2]int64
	var s Shard
	i := 0
	for e := range v.Elems() {
		switch {
		case i < 2:
			if e.Kind() != resp.Int {
				return errShape
			}
			bounds[i] = e.Int()
		case i == 2:
			s.Primary = b.member(e)
		default:
			if addr := b.member(e); addr != "" {
				s.Replicas = append(s.Replicas, addr)
			}
		}
		i++
	}
	if s.Primary == "" {
		return nil
	}
	// A primary with several ranges occurs once for each of them, and is one shard.
	shard, known := b.byPrimary[s.Primary]
	if !known {
		if b.nodes += 1 + len(s.Replicas); b.nodes > maxNodes {
			return errNodes
		}
		shard = len(b.m.Shards)
		b.byPrimary[s.Primary] = shard
		b.m.Shards = append(b.m.Shards, s)
	}
	if !b.own(shard, bounds[0], bounds[1]) {
		return errRange
	}
	return nil
}

// member returns the address of a node in CLUSTER SLOTS: host, port, ID and
// further fields.
func (b *builder) member(v resp.Value) string {
	var part [4]resp.Value
	i := 0
	for e := range v.Elems() {
		if i < len(part) {
			part[i] = e
		}
		i++
	}
	var ip resp.Value
	for name, e := range fields(part[3]) {
		if name == "ip" {
			ip = e
		}
	}
	return b.asked.member(part[0], ip, part[1].Int())
}

// member returns the address of a node of a topology. A node with the unknown
// host name "?" is reached by its IP address.
func (a Asked) member(endpoint, ip resp.Value, port int64) string {
	if string(endpoint.Bytes()) == "?" {
		endpoint = ip
	}
	return a.addr(string(endpoint.Bytes()), port)
}

// own assigns a range of slots to a shard, and reports false if the range is
// bad or a slot has an owner already. One owner per slot also bounds the work
// that a reply can cause.
func (b *builder) own(shard int, first, last int64) bool {
	if first < 0 || last < first || last >= Count {
		return false
	}
	for slot := first; slot <= last; slot++ {
		if b.m.owner[slot] != 0 {
			return false
		}
		b.m.owner[slot] = uint16(shard + 1)
	}
	return true
}

// addr returns host:port, or an empty string if the host or the port is
// invalid.
func (a Asked) addr(host string, port int64) string {
	if host == "" || host == "?" {
		host = a.Host
	}
	odd := func(c byte) bool { return c <= ' ' || c >= 0x7f }
	if port < 1 || port > 65535 || host == "" || len(host) > maxHost || slices.ContainsFunc([]byte(host), odd) {
		return ""
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10))
}

// fields yields the pairs of a map, or of an array of alternating names and
// values as in RESP2.
func fields(v resp.Value) func(yield func(string, resp.Value) bool) {
	return func(yield func(string, resp.Value) bool) {
		var name string
		i := 0
		for e := range v.Elems() {
			if i%2 == 0 {
				name = string(e.Bytes())
			} else if !yield(name, e) {
				return
			}
			i++
		}
	}
}
