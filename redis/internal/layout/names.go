// Package layout says what strata keeps in Redis and what it says there: the
// names of keys, the fields of an entry, the messages on the bus, and the
// scripts that decide what may be stored. It knows no connections.
//
// An entry is a hash, so that one command reads a value with its state, one
// drop removes the values of all types, and a life can be changed without
// sending the value again:
//
//	strata:{name:lane}=key    v<schema>  the sealed value
//	                          s<schema>  fresh until, left until (ms of the server's clock), id, word
//	                          l<schema>  lease: token, until
//	                          t          token of the last drop: token, until
//	                          h          hold: until
//	strata:{name:lane}lane    c          sequence of the lane's drops
//	strata:{name}word         epoch, count
//
// A lane is a slice of a cache's keys that has one sequence of drops, and that
// lives in one slot of a cluster. The word changes when everything is dropped
// at once: a value whose state has another word is absent.
package layout

import (
	"strconv"

	"github.com/strata-cache/strata/remote"
)

// Lanes is the number of lanes of a cache.
const Lanes = 1024

// Names are the names that one instance of one cache uses.
type Names struct {
	// Word is the key of the word, Channel the channel of the bus.
	Word, Channel string
	// Schema is the value type's part of field names; Value and State are the
	// fields of a value.
	Schema, Value, State string

	lane          string
	dropped, soft string // heads of messages
	all           string
}

// NewNames returns the names for a space.
func NewNames(s remote.Space) Names {
	schema, from := Hex(s.Schema), Hex(s.Instance)
	return Names{
		Word:    "strata:{" + s.Name + "}word",
		Channel: Channel(s.Name),
		Schema:  schema,
		Value:   "v" + schema,
		State:   "s" + schema,
		lane:    "strata:{" + s.Name + ":",
		dropped: head(remote.Dropped, from),
		soft:    head(remote.Expired, from),
		all:     head(remote.AllDropped, from) + "0 0 ",
	}
}

// Channel is the pub/sub channel of a cache.
func Channel(name string) string { return "strata:" + name }

// Entry is the name of the hash that holds key.
func (n *Names) Entry(key string) string {
	return string(n.AppendEntry(make([]byte, 0, n.EntryLen(key)), key))
}

// AppendEntry appends what Entry returns.
func (n *Names) AppendEntry(dst []byte, key string) []byte {
	dst = append(dst, n.lane...)
	dst = strconv.AppendInt(dst, int64(laneOf(key)), 10)
	dst = append(dst, "}="...)
	return append(dst, key...)
}

// EntryLen is the length of what Entry returns.
func (n *Names) EntryLen(key string) int {
	digits := 1
	for lane := laneOf(key); lane >= 10; lane /= 10 {
		digits++
	}
	return len(n.lane) + digits + len("}=") + len(key)
}

// Lane is the name of the hash that holds the sequence of key's lane, in the
// slot of the entry.
func (n *Names) Lane(key string) string {
	return n.lane + strconv.Itoa(laneOf(key)) + "}lane"
}

// laneOf is FNV-1a, by Fowler, Noll and Vo, over the lanes: all programs must
// agree on it.
func laneOf(key string) int {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return int(h % Lanes)
}

// Hex is how tokens, ids and schemas are written.
func Hex(n uint64) string { return strconv.FormatUint(n, 16) }
