package l1

import (
	"math"
	"sync/atomic"
	"time"
)

// Forever is later than every time. An entry with Forever as its deadline Dead
// lives until it is evicted or deleted.
const Forever int64 = math.MaxInt64

// Entry is one key with its value and lives. The caller builds it, stores it
// once, in one cache, and never writes to it again; a change means storing
// another entry. The exported fields may be read at any time.
type Entry[K comparable, V any] struct {
	// Dead is the time from which the entry is never served; Forever means no
	// deadline.
	Dead int64
	// use counts recent hits up to maxUse. Readers write it.
	use atomic.Uint32

	Key   K
	Value V

	// The fields below belong to the shard. hash and weight are set before the
	// entry is published; the shard's mutex guards the links.
	hash       uint64
	weight     int64
	prev, next *Entry[K, V]  // policy queue
	wnext      *Entry[K, V]  // wheel slot, singly linked
	wprev      **Entry[K, V] // the pointer that points here; nil when not in the wheel
}

// maxUse is the largest value of the use counter, which has two bits.
const maxUse = 3

// touch records a hit for the policy. A lost update between two readers is
// harmless, so touch does no atomic read-modify-write and never writes the
// cache line of an entry with a full counter.
func (e *Entry[K, V]) touch() {
	if u := e.use.Load(); u < maxUse {
		e.use.Store(u + 1)
	}
}

// Weight returns the weight with which the entry was stored.
func (e *Entry[K, V]) Weight() int64 { return e.weight }

// Reason is the cause of an entry's removal.
type Reason uint8

// Reasons for removal.
const (
	// Evicted: removed to make room.
	Evicted Reason = iota + 1
	// Expired: the entry was past its deadline.
	Expired
	// Replaced: another entry of the same key took its place.
	Replaced
	// Deleted: removed by a caller, alone or with others.
	Deleted
	// Rejected: its key was set to an entry that is too heavy to be kept.
	Rejected
	// Cleared: Clear or Close removed all entries.
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

// After returns the time d after now. The result is Forever instead of an
// overflow; a negative d counts as zero.
func After(now int64, d time.Duration) int64 {
	if d = max(d, 0); now > Forever-int64(d) {
		return Forever
	}
	return now + int64(d)
}
