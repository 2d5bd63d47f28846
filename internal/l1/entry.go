package l1

import (
	"math"
	"sync/atomic"
	"time"
)

// Forever is the time that never comes: an entry with Dead set to it lives
// until it is evicted or deleted.
const Forever int64 = math.MaxInt64

// Entry is one key with its value and lives. It is built by the caller, stored
// once, in one cache, and not written again by anybody; to change anything,
// store another. The exported fields may be read at any time.
type Entry[K comparable, V any] struct {
	// Soon is the time from which the reader of a hit has work to do, such as
	// starting a refresh. Before it a hit needs nothing else. A cache without
	// such work sets it to Dead.
	Soon int64
	// Dead is the time from which the entry is never served; Forever if none.
	Dead int64
	// Stamp is the layer's word of trust when the load was registered.
	Stamp uint64
	// Flags has the meaning the layer gives it.
	Flags uint32
	// use counts recent hits up to maxUse; written by readers.
	use atomic.Uint32

	Key   K
	Value V

	// Fresh is the time until which the value is fresh.
	Fresh int64
	// ID is the identity of the value in the remote tier; zero for none.
	ID uint64
	// Tags are the groups that the entry belongs to; nil for none.
	Tags *Tags

	// All below belongs to the shard; hash and weight are set before the entry
	// is published, the links are guarded by the shard's mutex.
	hash       uint64
	weight     int64
	prev, next *Entry[K, V]  // policy queue
	wnext      *Entry[K, V]  // wheel slot, singly linked
	wprev      **Entry[K, V] // the pointer that points here; nil when not in the wheel
}

// Tags are the groups that an entry belongs to.
type Tags struct {
	// Names is not changed.
	Names []string
	// Seen is the layer's word of trust in tags when they were judged last.
	Seen atomic.Uint64
}

// maxUse is where the use counter stops: two bits.
const maxUse = 3

// touch notes a hit for the policy. A lost update between two readers is
// harmless, so there is no read-modify-write, and a hot entry's line is not
// written at all.
func (e *Entry[K, V]) touch() {
	if u := e.use.Load(); u < maxUse {
		e.use.Store(u + 1)
	}
}

// Weight is the weight the entry was stored with.
func (e *Entry[K, V]) Weight() int64 { return e.weight }

// Reason says why an entry left the cache.
type Reason uint8

// Reasons for leaving.
const (
	// Evicted: to make room.
	Evicted Reason = iota + 1
	// Expired: its time was over.
	Expired
	// Replaced: another entry of the same key took its place.
	Replaced
	// Deleted: by a caller, one key or many.
	Deleted
	// Rejected: its key was set to something too heavy to be kept.
	Rejected
	// Cleared: everything went, by Clear or Close.
	Cleared
)

// String returns the reason as a lower-case word.
func (r Reason) String() string {
	switch r {
	case Evicted:
		return "evicted"
	case Expired:
		return "expired"
	case Replaced:
		return "replaced"
	case Deleted:
		return "deleted"
	case Rejected:
		return "rejected"
	case Cleared:
		return "cleared"
	}
	return "unknown"
}

// Removed is an entry that has left the cache.
type Removed[K comparable, V any] struct {
	Entry  *Entry[K, V]
	Reason Reason
}

// After is the time d after now. It stops at Forever instead of overflowing; a
// negative d counts as zero.
func After(now int64, d time.Duration) int64 {
	if d <= 0 {
		return now
	}
	if now > Forever-int64(d) {
		return Forever
	}
	return now + int64(d)
}
