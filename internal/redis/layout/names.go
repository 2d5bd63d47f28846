// Package layout is the form of the data that strata keeps in Redis or sends
// there: the names of keys, the fields of an entry, the messages on the bus, and
// the scripts that decide whether a value may be stored. Servers without scripts get
// transactions that do the same, and a [Holder] keeps the namespace state that the server had a
// moment ago. The package knows no connections.
//
// An entry is a hash, so that one command reads a value with its state, one
// drop removes the values of all types, and a life can be changed without
// sending the value again:
//
//	strata:{name:lane}=key    v<schema>  the sealed value
//	                          s<schema>  fresh until, left until (ms of the server's clock), id, namespace state
//	                          l<schema>  lease: token, until, length in ms
//	                          w<schema>  another instance was told that the lease is taken
//	                          e<schema>  id of a large value, ids that it had before it was extended
//	                          t          token of the last drop: token, until; 0 in front if the drop is still due
//	                          h          hold: until, length in ms
//	strata:{name:lane}lane    the lane version: count.nonce (hex); made by the first drop
//	strata:{name}word         the namespace state: epoch, drops, expiries, clock, authority
//	strata:{name}tags         the table of tags: floor, d:<tag>, e:<tag>
//
// The token of a lease is odd, the token of a drop even: each kind has a script
// that stores under it. The client writes the ends of leases and values. It knows
// the server's clock from the namespace state, and errs towards early ends; the
// server's clock decides whether something has ended. Leases and holds carry their
// length, so that they get no longer when the server's clock is set back.
//
// A lane is a slice of a cache's keys in which drops have an order. It lives in
// one slot of a cluster. Each drop of a key gives its lane another version.
//
// In a cluster one server has the slot of {name:lane} and another the slot of
// {name}. (An empty name, and a name that begins with a brace, has strata0:{0 in
// front of it, because empty braces do not keep keys together.)
//
// The namespace state is "epoch.drops.expiries"; in a cluster values carry
// "epoch@server.drops.expiries", with the server that granted the lease. A value
// that carries another epoch or number of drops is absent; a value with another
// number of expiries is stale. The epoch changes when the server may have lost
// something: its namespace state is gone, counts less than a client remembers, or
// was written by another authority. The authority is the run of a server and the
// history that it replicates.
//
// The clock counts drops of tags. The table of tags has the clocks of the last
// hard drop and of the last soft drop of each tag. Its floor is the clock at
// which the table was made: an unknown tag counts as dropped at the floor.
package layout

import (
	"strconv"

	"github.com/strata-cache/strata/remote"
)

// Invariant: a key has one name, one lane and one slot, which never change: they
// depend on the name of the cache and on the key only.

// Lanes is the number of lanes of a cache.
const Lanes = 1024

// Names are the names that one instance of one cache uses.
type Names struct {
	// Namespace and Tags are the keys of the namespace state and of the table
	// of tags. Channel is the channel of the bus.
	Namespace, Tags, Channel string
	// Schema is the part of field names for the value type. Value and State are the fields
	// of a value, Earlier is the field of its earlier ids, Lease and Awaited are the fields
	// of the lease on it.
	Schema, Value, State, Earlier, Lease, Awaited string

	// Ended is the message that a lease has ended, up to the key.
	Ended string

	lane  string
	heads [remote.Answered + 1]string // of messages, up to the lane
}

// NewNames returns the names for a space in a database of its server.
func NewNames(s remote.Space, db int) Names {
	schema := Hex(s.Schema)
	begin := "strata:{" + s.Name
	if s.Name == "" || s.Name[0] == '}' {
		// Empty braces would not keep keys together in a cluster.
		begin = "strata0:{0" + s.Name
	}
	n := Names{
		Namespace: begin + "}word",
		Tags:      begin + "}tags",
		Channel:   Channel(s.Name, db),
		Schema:    schema,
		Value:     "v" + schema,
		State:     "s" + schema,
		Earlier:   "e" + schema,
		Lease:     "l" + schema,
		Awaited:   "w" + schema,
		lane:      begin + ":",
	}
	for k := range n.heads {
		n.heads[k] = head(remote.Kind(k), Hex(s.Instance))
	}
	n.Ended = n.heads[remote.Ended] + "0 0.0 0.0 0 "
	return n
}

// Channel returns the pub/sub channel of a cache. Channels belong to a whole
// server, keys to one of its databases. So the channel names the database, unless
// it is 0. The braces keep it apart from other channels: the name of a cache has
// none.
func Channel(name string, db int) string {
	if db == 0 {
		return "strata:" + name
	}
	return "strata:{" + strconv.Itoa(db) + "}" + name
}

// Entry is the name of the hash that holds key.
func (n *Names) Entry(key string) string {
	return string(n.AppendEntry(make([]byte, 0, n.EntryLen(key)), key))
}

// AppendEntry appends the result of Entry.
func (n *Names) AppendEntry(dst []byte, key string) []byte {
	dst = append(dst, n.lane...)
	dst = strconv.AppendInt(dst, int64(LaneOf(key)), 10)
	dst = append(dst, "}="...)
	return append(dst, key...)
}

// EntryLen is the length of the result of Entry.
func (n *Names) EntryLen(key string) int {
	return len(n.lane) + digits(LaneOf(key)) + len("}=") + len(key)
}

func digits(lane uint16) int {
	d := 1
	for ; lane >= 10; lane /= 10 {
		d++
	}
	return d
}

// Lane is the key of the version of key's lane. It is in the slot of the entry.
func (n *Names) Lane(key string) string { return n.LaneAt(LaneOf(key)) }

// LaneAt is the key of the version of a lane.
func (n *Names) LaneAt(lane uint16) string {
	return string(n.AppendLane(make([]byte, 0, len(n.lane)+len("1023}lane")), lane))
}

// AppendLane appends the result of LaneAt.
func (n *Names) AppendLane(dst []byte, lane uint16) []byte {
	dst = strconv.AppendInt(append(dst, n.lane...), int64(lane), 10)
	return append(dst, "}lane"...)
}

// LaneOf is FNV-1a, by Fowler, Noll and Vo, over the lanes: all programs must
// agree on it.
func LaneOf(key string) uint16 {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return uint16(h % Lanes)
}

// Hex is the form of tokens, ids and schemas.
func Hex(n uint64) string { return strconv.FormatUint(n, 16) }
