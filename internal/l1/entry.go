package l1

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"
)

// Forever is later than every time. An entry with Forever as its deadline Dead
// lives until it is evicted or deleted.
const Forever int64 = math.MaxInt64

// head is what all entries have in common, whatever the types of their key and
// value. Tables, policy and wheel know entries by their heads, so their code is
// compiled once.
type head struct {
	// Dead is the time from which the entry is never served; Forever means no
	// deadline.
	Dead int64
	// state is, in its low bits, the number of recent hits up to maxUses, which
	// readers write, and above them the number of the entry's shard.
	state atomic.Uint32
	// node is the entry's number in the slab of its shard. It is set before the
	// entry is published.
	node uint32
}

// Entry is one key with its value and deadline. The caller makes it with
// [NewEntry], stores it once, in one cache, and never writes to it again; a
// change means storing another entry. The exported fields may be read at any
// time.
//
// With a key and a value of eight bytes an entry takes 32 bytes: half a cache
// line, and all that a hit reads after the table.
type Entry[K comparable, V any] struct {
	head // first, so that a pointer to it is a pointer to the entry

	Key   K
	Value V
}

// NewEntry returns an entry that is never served from the time dead on.
func NewEntry[K comparable, V any](key K, value V, dead int64) *Entry[K, V] {
	return &Entry[K, V]{head: head{Dead: dead}, Key: key, Value: value}
}

// entryOf returns the entry that begins with h; nil for nil.
func entryOf[K comparable, V any](h *head) *Entry[K, V] {
	return (*Entry[K, V])(unsafe.Pointer(h))
}

// headOf is the opposite of entryOf.
func headOf[K comparable, V any](e *Entry[K, V]) *head {
	return (*head)(unsafe.Pointer(e))
}

// maxUses is the largest number of uses. It is a mask too: uses are two bits.
const (
	maxUses  = 3
	usesBits = 2
)

// uses returns the number of recent hits.
func (h *head) uses() uint32 { return h.state.Load() & maxUses }

// setUses changes the number of hits. A hit at the same moment may be lost.
func (h *head) setUses(n uint32) { h.state.Store(h.state.Load()&^maxUses | n) }

// touch records a hit for the policy. A lost update between two readers is
// harmless, so touch does no atomic read-modify-write and never writes the
// cache line of an entry with a full counter.
func (h *head) touch() {
	if u := h.state.Load(); u&maxUses < maxUses {
		h.state.Store(u + 1)
	}
}

// shard returns the number of the entry's shard.
func (h *head) shard() int { return int(h.state.Load() >> usesBits) }

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

// removed is a Removed without the types of key and value.
type removed struct {
	head   *head
	reason Reason
}

// After returns the time d after now. The result is Forever instead of an
// overflow; a negative d counts as zero.
func After(now int64, d time.Duration) int64 {
	if d = max(d, 0); now > Forever-int64(d) {
		return Forever
	}
	return now + int64(d)
}
